/* Dump of all actors as text or JSON: each host, and below it its actors as a tree of parents and
 * children, with supervisors and supervised children marked, and absent children listed. */
#include <errno.h>
#include <inttypes.h>

#include <weft/stats.h>

#include "actor/actor.h"
#include "actor/page.h"

/* --- one actor -------------------------------------------------------------------------------- */

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

static void write_pid(struct weft__page *page, const char *key, weft_pid pid)
{
    char text[64];
    weft_pid_text(pid, text, sizeof text);
    fprintf(page->out, weft_pid_is_none(pid) ? "\"%s\":null" : "\"%s\":\"%s\"", key, text);
}

static const char *name_or(const char *name, const char *other)
{
    return name[0] ? name : other;
}

static void write_json_seat(FILE *out, const struct weft__seat *seat)
{
    fputs("\"name\":", out);
    write_json_string(out, name_or(seat->name, NULL));
    fprintf(out, ",\"state\":\"%s\",\"restarts\":%" PRIu64, seat->state, seat->restarts);
}

static void write_json_branch(struct weft__page *page, const struct weft__branch *branch)
{
    FILE *out = page->out;
    const struct weft__team *is = &branch->is;
    fputs(",\"supervisor\":{\"name\":", out);
    write_json_string(out, name_or(is->name, NULL));
    fprintf(out,
            ",\"strategy\":\"%s\",\"children\":%" PRIu32 ",\"down\":%" PRIu32
            ",\"restarts\":%" PRIu64 ",\"absent\":[",
            is->strategy, is->children, is->down, is->restarts);
    for (size_t i = 0; i < branch->absents; i++) {
        const struct weft__absent *absent = weft__absent_at(page, branch->absent + i);
        fputs(i == 0 ? "{" : ",{", out);
        write_json_seat(out, &absent->seat);
        fprintf(out, ",\"error\":%d}", absent->error);
    }
    fputs("]}", out);
}

static void write_json_actor(struct weft__page *page, const struct weft__leaf *leaf)
{
    FILE *out = page->out;
    const struct weft_actor_info *info = &leaf->info;
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
    fprintf(out, ",\"age_ns\":%" PRId64, info->age_ns);
    if (leaf->branch != WEFT__NOBODY) {
        write_json_branch(page, weft__branch_at(page, leaf->branch));
    }
    if (leaf->seat.of) {
        fputs(",\"child\":{", out);
        write_json_seat(out, &leaf->seat);
        fputs("}", out);
    }
    fputs("}", out);
}

static int indent(unsigned depth)
{
    return (int)(2 * (depth < 32 ? depth : 32));
}

static void write_text_branch(struct weft__page *page, const struct weft__branch *branch)
{
    const struct weft__team *is = &branch->is;
    fprintf(page->out,
            " supervisor=%s strategy=%s children=%" PRIu32 " down=%" PRIu32 " restarts=%" PRIu64,
            name_or(is->name, "-"), is->strategy, is->children, is->down, is->restarts);
}

static void write_absents(struct weft__page *page, const struct weft__branch *branch,
                          unsigned depth)
{
    for (size_t i = 0; i < branch->absents; i++) {
        const struct weft__absent *absent = weft__absent_at(page, branch->absent + i);
        fprintf(page->out, "  %*s- child=%s %s restarts=%" PRIu64 " error=%d\n", indent(depth), "",
                name_or(absent->seat.name, "-"), absent->seat.state, absent->seat.restarts,
                absent->error);
    }
}

static void write_text_actor(struct weft__page *page, const struct weft__leaf *leaf)
{
    const struct weft_actor_info *info = &leaf->info;
    const struct weft__branch *branch =
        leaf->branch != WEFT__NOBODY ? weft__branch_at(page, leaf->branch) : NULL;
    char pid[64];
    weft_pid_text(info->pid, pid, sizeof pid);
    fprintf(page->out, "  %*s%s %s%s %s mailbox=%u steps=%" PRIu64 " age=%.3fs",
            indent(leaf->depth), "", pid, info->kind ? info->kind : "-",
            info->fiber ? " (fiber)" : "", weft_actor_state_name(info->state), info->mailbox,
            info->steps, (double)info->age_ns / 1e9);
    if (info->name[0]) {
        fprintf(page->out, " name=%s", info->name);
    }
    if (info->topic) {
        fprintf(page->out, " last=%s", info->topic);
    }
    if (branch) {
        write_text_branch(page, branch);
    }
    if (leaf->seat.of) {
        fprintf(page->out, " child=%s %s restarts=%" PRIu64, name_or(leaf->seat.name, "-"),
                leaf->seat.state, leaf->seat.restarts);
    }
    fputs("\n", page->out);
    if (branch) {
        write_absents(page, branch, leaf->depth + 1);
    }
}

/* --- tree and hosts --------------------------------------------------------------------------- */

static void write_actor(struct weft__page *page, const struct weft__leaf *leaf, bool first)
{
    if (page->json) {
        fputs(first ? "\n" : ",\n", page->out);
        write_json_actor(page, leaf);
    } else {
        write_text_actor(page, leaf);
    }
}

/* Writes parents before children, without recursion because chains may be long. */
static void write_tree(struct weft__page *page, size_t root, bool *first)
{
    size_t at = root;
    unsigned depth = 0;
    for (;;) {
        struct weft__leaf *leaf = weft__leaf_at(page, at);
        leaf->depth = depth;
        write_actor(page, leaf, *first);
        *first = false;
        if (leaf->child != WEFT__NOBODY) {
            at = leaf->child;
            depth++;
            continue;
        }
        while (at != root && weft__leaf_at(page, at)->next == WEFT__NOBODY) {
            at = weft__leaf_at(page, at)->parent;
            depth--;
        }
        if (at == root) {
            return;
        }
        at = weft__leaf_at(page, at)->next;
    }
}

static void write_text_workers(FILE *out, weft_host *host)
{
    struct weft_worker_stats s;
    for (unsigned i = 0; weft_worker_stats(host->pool, i, &s) == 0; i++) {
        fprintf(out,
                "  worker %u: %" PRIu64 " turns, %" PRIu64
                " stolen, ring=%zu fresh=%zu inbox=%zu\n",
                i, s.executed, s.stolen, s.ring, s.fresh, s.inbox);
    }
}

static void write_json_workers(FILE *out, weft_host *host)
{
    struct weft_worker_stats s;
    fputs("\"queues\":[", out);
    for (unsigned i = 0; weft_worker_stats(host->pool, i, &s) == 0; i++) {
        fprintf(out,
                "%s{\"executed\":%" PRIu64 ",\"stolen\":%" PRIu64
                ",\"ring\":%zu,\"fresh\":%zu,\"inbox\":%zu}",
                i ? "," : "", s.executed, s.stolen, s.ring, s.fresh, s.inbox);
    }
    fputs("]", out);
}

static void write_head(struct weft__page *page, weft_host *host)
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
                ",\"stolen\":%" PRIu64 ",\"ready\":%" PRIu64 ",\"cut\":%zu,",
                s.live, s.spawned, s.ended, s.dead_letters, s.workers, s.executed, s.stolen,
                s.ready, page->cut);
        write_json_workers(out, host);
        fputs(",\"actors\":[", out);
    } else {
        fprintf(out,
                "host %s: %" PRIu64 " actors, %" PRIu64 " spawned, %" PRIu64 " ended, %" PRIu64
                " dead letters; %u workers, %" PRIu64 " turns, %" PRIu64 " stolen, %" PRIu64
                " ready\n",
                weft_host_name(host), s.live, s.spawned, s.ended, s.dead_letters, s.workers,
                s.executed, s.stolen, s.ready);
        write_text_workers(out, host);
    }
}

static bool write_host(weft_host *host, void *arg)
{
    struct weft__page *page = arg;
    bool first = true;
    weft__page_fill(page, host);
    write_head(page, host);
    for (size_t i = 0; i < page->leaves.count; i++) {
        if (weft__leaf_at(page, i)->parent == WEFT__NOBODY) {
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
    struct weft__page page = {.out = out, .json = format == WEFT_DUMP_JSON, .max = max};
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
    weft__page_free(&page);
    return page.err ? page.err : ferror(out) ? -EIO : 0;
}
