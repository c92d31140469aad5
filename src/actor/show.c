/* All actors on one page, for people and for programs: hosts, and below each its actors as a tree of who has spawned whom. */
#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "actor/look.h"
#include "base/alloc.h"

#define NOBODY SIZE_MAX

struct leaf {
    struct weft_actor_info info;
    size_t parent, child, next; /* places in `leaves`; child: the first, next: of the same parent */
    unsigned depth;
};

struct page {
    FILE *out;
    bool json;
    size_t max;
    struct leaf *leaves; /* by PID */
    size_t count, room, cut;
    int err;
    bool any; /* a host was written */
};

static bool collect(const struct weft_actor_info *info, void *arg)
{
    struct page *page = arg;
    if (page->max && page->count == page->max) {
        page->cut++;
        return true;
    }
    if (page->count == page->room) {
        size_t room = page->room ? 2 * page->room : 64;
        struct leaf *more = weft__alloc_dirty(room * sizeof *more);
        if (!more) {
            page->err = -ENOMEM;
            return false;
        }
        if (page->count) {
            memcpy(more, page->leaves, page->count * sizeof *more);
        }
        weft__free(page->leaves);
        page->leaves = more;
        page->room = room;
    }
    page->leaves[page->count++] =
        (struct leaf){.info = *info, .parent = NOBODY, .child = NOBODY, .next = NOBODY};
    return true;
}

static int by_id(const void *a, const void *b)
{
    uint64_t left = ((const struct leaf *)a)->info.pid.id;
    uint64_t right = ((const struct leaf *)b)->info.pid.id;
    return left < right ? -1 : left > right;
}

/* Who is whose. Last to first, so that children are in order. One cannot be spawned by one that comes after it, so there is
 * no circle. */
static void plant(struct page *page)
{
    if (page->count) {
        qsort(page->leaves, page->count, sizeof *page->leaves, by_id);
    }
    for (size_t i = page->count; i-- > 0;) {
        struct leaf *leaf = &page->leaves[i], key = {.info.pid = leaf->info.parent};
        struct leaf *parent = leaf->info.parent.id ? bsearch(&key, page->leaves, page->count,
                                                             sizeof *page->leaves, by_id)
                                                   : NULL;
        if (parent) {
            leaf->parent = (size_t)(parent - page->leaves);
            leaf->next = parent->child;
            parent->child = i;
        }
    }
}

/* --- one actor ------------------------------------------------------------------------------- */

static void write_json_string(FILE *out, const char *text)
{
    if (!text) {
        fputs("null", out);
        return;
    }
    fputc('"', out);
    for (; *text; text++) {
        unsigned char c = (unsigned char)*text;
        if (c == '"' || c == '\\') {
            fprintf(out, "\\%c", c);
        } else if (c < 0x20 || c >= 0x7f) {
            fprintf(out, "\\u%04x", c);
        } else {
            fputc(c, out);
        }
    }
    fputc('"', out);
}

static void write_pid(struct page *page, const char *key, weft_pid pid)
{
    char text[64];
    weft_pid_text(pid, text, sizeof text);
    fprintf(page->out, weft_pid_is_none(pid) ? "\"%s\":null" : "\"%s\":\"%s\"", key, text);
}

static void write_json_actor(struct page *page, const struct weft_actor_info *info)
{
    FILE *out = page->out;
    fputs("{", out);
    write_pid(page, "pid", info->pid);
    fputs(",", out);
    write_pid(page, "parent", info->parent);
    fputs(",\"name\":", out);
    write_json_string(out, info->name[0] ? info->name : NULL);
    fputs(",\"kind\":", out);
    write_json_string(out, info->kind);
    fprintf(out, ",\"state\":\"%s\",\"fiber\":%s,\"mailbox\":%u,\"steps\":%" PRIu64 ",\"topic\":",
            weft_actor_state_name(info->state), info->fiber ? "true" : "false", info->mailbox,
            info->steps);
    write_json_string(out, info->topic);
    fprintf(out, ",\"age_ns\":%" PRId64 "}", info->age_ns);
}

static void write_text_actor(struct page *page, const struct leaf *leaf)
{
    const struct weft_actor_info *info = &leaf->info;
    char pid[64];
    weft_pid_text(info->pid, pid, sizeof pid);
    fprintf(page->out, "  %*s%s %s%s %s mailbox=%u steps=%" PRIu64 " age=%.3fs",
            (int)(2 * (leaf->depth < 32 ? leaf->depth : 32)), "", pid,
            info->kind ? info->kind : "-", info->fiber ? " (fiber)" : "",
            weft_actor_state_name(info->state), info->mailbox, info->steps,
            (double)info->age_ns / 1e9);
    if (info->name[0]) {
        fprintf(page->out, " name=%s", info->name);
    }
    if (info->topic) {
        fprintf(page->out, " last=%s", info->topic);
    }
    fputs("\n", page->out);
}

/* --- the page ------------------------------------------------------------------------------------ */

static void write_actor(struct page *page, const struct leaf *leaf, bool first)
{
    if (page->json) {
        fputs(first ? "\n" : ",\n", page->out);
        write_json_actor(page, &leaf->info);
    } else {
        write_text_actor(page, leaf);
    }
}

/* Parents before children, without recursion: chains may be long. */
static void write_tree(struct page *page, size_t root, bool *first)
{
    size_t at = root;
    unsigned depth = 0;
    for (;;) {
        struct leaf *leaf = &page->leaves[at];
        leaf->depth = depth;
        write_actor(page, leaf, *first);
        *first = false;
        if (leaf->child != NOBODY) {
            at = leaf->child;
            depth++;
            continue;
        }
        while (at != root && page->leaves[at].next == NOBODY) {
            at = page->leaves[at].parent;
            depth--;
        }
        if (at == root) {
            return;
        }
        at = page->leaves[at].next;
    }
}

static void write_head(struct page *page, weft_host *host)
{
    struct weft_host_stats s;
    FILE *out = page->out;
    weft_host_stats(host, &s);
    if (page->json) {
        fprintf(out, "%s\n{\"name\":", page->any ? "," : "");
        write_json_string(out, weft_host_name(host));
        fprintf(out,
                ",\"live\":%" PRIu64 ",\"spawned\":%" PRIu64 ",\"ended\":%" PRIu64
                ",\"dead_letters\":%" PRIu64 ",\"workers\":%u,\"executed\":%" PRIu64
                ",\"stolen\":%" PRIu64 ",\"ready\":%" PRIu64 ",\"cut\":%zu,\"actors\":[",
                s.live, s.spawned, s.ended, s.dead_letters, s.workers, s.executed, s.stolen,
                s.ready, page->cut);
    } else {
        fprintf(out,
                "host %s: %" PRIu64 " actors, %" PRIu64 " spawned, %" PRIu64 " ended, %" PRIu64
                " dead letters; %u workers, %" PRIu64 " turns, %" PRIu64 " stolen, %" PRIu64
                " ready\n",
                weft_host_name(host), s.live, s.spawned, s.ended, s.dead_letters, s.workers,
                s.executed, s.stolen, s.ready);
    }
}

static bool write_host(weft_host *host, void *arg)
{
    struct page *page = arg;
    bool first = true;
    page->count = page->cut = 0;
    weft_each_actor(host, collect, page);
    plant(page);
    write_head(page, host);
    for (size_t i = 0; i < page->count; i++) {
        if (page->leaves[i].parent == NOBODY) {
            write_tree(page, i, &first);
        }
    }
    if (page->json) {
        fputs("]}", page->out);
    } else if (page->cut) {
        fprintf(page->out, "  ... and %zu more\n", page->cut);
    }
    page->any = true;
    return page->err == 0;
}

int weft_actor_dump(FILE *out, weft_host *host, enum weft_dump_format format, size_t max)
{
    struct page page = {.out = out, .json = format == WEFT_DUMP_JSON, .max = max};
    if (format != WEFT_DUMP_TEXT && format != WEFT_DUMP_JSON) {
        return -EINVAL;
    }
    if (page.json) {
        fputs("{\"weft_actors\":1,\"hosts\":[", out);
    }
    if (host) {
        write_host(host, &page);
    } else {
        weft_each_host(write_host, &page);
    }
    if (page.json) {
        fputs("]}\n", out);
    } else if (!page.any) {
        fputs("no hosts\n", out);
    }
    weft__free(page.leaves);
    return page.err ? page.err : ferror(out) ? -EIO : 0;
}
