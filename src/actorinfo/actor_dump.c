/* Dump of all actors as text or JSON: each host, and below it its actors as a tree of parents and
 * children, with supervisors and supervised children marked, and absent children listed. */
#include <errno.h>
#include <inttypes.h>

#include <weft/inspect.h>

#include "actor/actor.h"
#include "actorinfo/snapshot.h"

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

static void write_pid(struct weft__snapshot *snapshot, const char *key, weft_pid pid)
{
    char text[64];
    weft_pid_format(pid, text, sizeof text);
    fprintf(snapshot->out, weft_pid_is_none(pid) ? "\"%s\":null" : "\"%s\":\"%s\"", key, text);
}

static const char *name_or(const char *name, const char *other)
{
    return name[0] ? name : other;
}

static void write_json_child(FILE *out, const struct weft__child_info *child_info)
{
    fputs("\"name\":", out);
    write_json_string(out, name_or(child_info->name, NULL));
    fprintf(out, ",\"state\":\"%s\",\"restarts\":%" PRIu64, child_info->state,
            child_info->restarts);
}

static void write_json_supervisor(struct weft__snapshot *snapshot,
                                  const struct weft__snapshot_supervisor *sup)
{
    FILE *out = snapshot->out;
    const struct weft__supervisor_info *info = &sup->info;
    fputs(",\"supervisor\":{\"name\":", out);
    write_json_string(out, name_or(info->name, NULL));
    fprintf(out,
            ",\"strategy\":\"%s\",\"children\":%" PRIu32 ",\"down\":%" PRIu32
            ",\"restarts\":%" PRIu64 ",\"absent\":[",
            info->strategy, info->children, info->down, info->restarts);
    for (size_t i = 0; i < sup->absents; i++) {
        const struct weft__snapshot_absent *absent =
            weft__snapshot_absent_at(snapshot, sup->absent + i);
        fputs(i == 0 ? "{" : ",{", out);
        write_json_child(out, &absent->child_info);
        fprintf(out, ",\"error\":%d}", absent->error);
    }
    fputs("]}", out);
}

static void write_json_actor(struct weft__snapshot *snapshot,
                             const struct weft__snapshot_actor *entry)
{
    FILE *out = snapshot->out;
    const struct weft_actor_info *info = &entry->info;
    fputs("{", out);
    write_pid(snapshot, "pid", info->pid);
    fputs(",", out);
    write_pid(snapshot, "parent", info->parent);
    fputs(",\"name\":", out);
    write_json_string(out, info->name[0] ? info->name : NULL);
    fputs(",\"kind\":", out);
    write_json_string(out, info->kind);
    fprintf(out, ",\"state\":\"%s\",\"fiber\":%s,\"mailbox\":%u,\"steps\":%" PRIu64 ",\"topic\":",
            weft_actor_state_name(info->state), info->fiber ? "true" : "false", info->mailbox,
            info->steps);
    write_json_string(out, info->topic);
    fprintf(out, ",\"age_ns\":%" PRId64, info->age_ns);
    if (entry->sup != WEFT__SNAPSHOT_NONE) {
        write_json_supervisor(snapshot, weft__snapshot_supervisor_at(snapshot, entry->sup));
    }
    if (entry->child_info.of) {
        fputs(",\"child\":{", out);
        write_json_child(out, &entry->child_info);
        fputs("}", out);
    }
    fputs("}", out);
}

static int indent(unsigned depth)
{
    return (int)(2 * (depth < 32 ? depth : 32));
}

static void write_text_supervisor(struct weft__snapshot *snapshot,
                                  const struct weft__snapshot_supervisor *sup)
{
    const struct weft__supervisor_info *info = &sup->info;
    fprintf(snapshot->out,
            " supervisor=%s strategy=%s children=%" PRIu32 " down=%" PRIu32 " restarts=%" PRIu64,
            name_or(info->name, "-"), info->strategy, info->children, info->down, info->restarts);
}

static void write_absent_children(struct weft__snapshot *snapshot,
                                  const struct weft__snapshot_supervisor *sup, unsigned depth)
{
    for (size_t i = 0; i < sup->absents; i++) {
        const struct weft__snapshot_absent *absent =
            weft__snapshot_absent_at(snapshot, sup->absent + i);
        fprintf(snapshot->out, "  %*s- child=%s %s restarts=%" PRIu64 " error=%d\n", indent(depth),
                "", name_or(absent->child_info.name, "-"), absent->child_info.state,
                absent->child_info.restarts, absent->error);
    }
}

static void write_text_actor(struct weft__snapshot *snapshot,
                             const struct weft__snapshot_actor *entry)
{
    const struct weft_actor_info *info = &entry->info;
    const struct weft__snapshot_supervisor *sup =
        entry->sup != WEFT__SNAPSHOT_NONE ? weft__snapshot_supervisor_at(snapshot, entry->sup)
                                          : NULL;
    char pid[64];
    weft_pid_format(info->pid, pid, sizeof pid);
    fprintf(snapshot->out, "  %*s%s %s%s %s mailbox=%u steps=%" PRIu64 " age=%.3fs",
            indent(entry->depth), "", pid, info->kind ? info->kind : "-",
            info->fiber ? " (fiber)" : "", weft_actor_state_name(info->state), info->mailbox,
            info->steps, (double)info->age_ns / 1e9);
    if (info->name[0]) {
        fprintf(snapshot->out, " name=%s", info->name);
    }
    if (info->topic) {
        fprintf(snapshot->out, " last=%s", info->topic);
    }
    if (sup) {
        write_text_supervisor(snapshot, sup);
    }
    if (entry->child_info.of) {
        fprintf(snapshot->out, " child=%s %s restarts=%" PRIu64,
                name_or(entry->child_info.name, "-"), entry->child_info.state,
                entry->child_info.restarts);
    }
    fputs("\n", snapshot->out);
    if (sup) {
        write_absent_children(snapshot, sup, entry->depth + 1);
    }
}

/* --- tree and hosts --------------------------------------------------------------------------- */

static void write_actor(struct weft__snapshot *snapshot, const struct weft__snapshot_actor *entry,
                        bool first)
{
    if (snapshot->json) {
        fputs(first ? "\n" : ",\n", snapshot->out);
        write_json_actor(snapshot, entry);
    } else {
        write_text_actor(snapshot, entry);
    }
}

/* Writes parents before children, without recursion because chains may be long. */
static void write_tree(struct weft__snapshot *snapshot, size_t root, bool *first)
{
    size_t at = root;
    unsigned depth = 0;
    for (;;) {
        struct weft__snapshot_actor *entry = weft__snapshot_actor_at(snapshot, at);
        entry->depth = depth;
        write_actor(snapshot, entry, *first);
        *first = false;
        if (entry->child != WEFT__SNAPSHOT_NONE) {
            at = entry->child;
            depth++;
            continue;
        }
        while (at != root && weft__snapshot_actor_at(snapshot, at)->next == WEFT__SNAPSHOT_NONE) {
            at = weft__snapshot_actor_at(snapshot, at)->parent;
            depth--;
        }
        if (at == root) {
            return;
        }
        at = weft__snapshot_actor_at(snapshot, at)->next;
    }
}

static void write_text_workers(FILE *out, weft_host *host)
{
    struct weft_worker_stats s;
    for (unsigned i = 0; weft_worker_stats(host->pool, &s, i) == 0; i++) {
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
    for (unsigned i = 0; weft_worker_stats(host->pool, &s, i) == 0; i++) {
        fprintf(out,
                "%s{\"executed\":%" PRIu64 ",\"stolen\":%" PRIu64
                ",\"ring\":%zu,\"fresh\":%zu,\"inbox\":%zu}",
                i ? "," : "", s.executed, s.stolen, s.ring, s.fresh, s.inbox);
    }
    fputs("]", out);
}

static void write_host_header(struct weft__snapshot *snapshot, weft_host *host)
{
    struct weft_host_stats s;
    FILE *out = snapshot->out;
    weft_host_stats(host, &s);
    if (snapshot->json) {
        fprintf(out, "%s\n{\"name\":", snapshot->any ? "," : "");
        write_json_string(out, weft_host_name(host));
        fprintf(out,
                ",\"live\":%" PRIu64 ",\"spawned\":%" PRIu64 ",\"ended\":%" PRIu64
                ",\"dead_letters\":%" PRIu64 ",\"workers\":%u,\"executed\":%" PRIu64
                ",\"stolen\":%" PRIu64 ",\"ready\":%" PRIu64 ",\"cut\":%zu,",
                s.live, s.spawned, s.ended, s.dead_letters, s.workers, s.executed, s.stolen,
                s.ready, snapshot->cut);
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
    struct weft__snapshot *snapshot = arg;
    bool first = true;
    weft__snapshot_fill(snapshot, host);
    write_host_header(snapshot, host);
    for (size_t i = 0; i < snapshot->actors.count; i++) {
        if (weft__snapshot_actor_at(snapshot, i)->parent == WEFT__SNAPSHOT_NONE) {
            write_tree(snapshot, i, &first);
        }
    }
    if (snapshot->json) {
        fputs("]}", snapshot->out);
    } else if (snapshot->cut) {
        fprintf(snapshot->out, "  ... and %zu more\n", snapshot->cut);
    }
    snapshot->any = true;
    return snapshot->err == 0;
}

int weft_actor_dump(weft_host *host, FILE *out, enum weft_dump_format format, size_t max)
{
    struct weft__snapshot snapshot = {.out = out, .json = format == WEFT_DUMP_JSON, .max = max};
    if (format != WEFT_DUMP_TEXT && format != WEFT_DUMP_JSON) {
        return -EINVAL;
    }
    if (snapshot.json) {
        fputs("{\"weft_actors\":1,\"hosts\":[", out);
    }
    if (host) {
        write_host(host, &snapshot);
    } else {
        weft_host_each(write_host, &snapshot);
    }
    if (snapshot.json) {
        fputs("]}\n", out);
    } else if (!snapshot.any) {
        fputs("no hosts\n", out);
    }
    weft__snapshot_free(&snapshot);
    return snapshot.err ? snapshot.err : ferror(out) ? -EIO : 0;
}
