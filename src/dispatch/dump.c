/* The dump of a dispatcher and its groups, as text or JSON: a header for the groups, followed by
 * the dump of the fibers (obs/dump.h). */
#include <errno.h>
#include <inttypes.h>

#include "base/alloc.h"
#include "base/nonnull.h"
#include "base/objname.h"
#include "dispatch/dispatcher.h"
#include "obs/dump.h"
#include "obs/writer.h"

/* A copy of a group's state, taken under the dispatcher's lock: the group may be destroyed before
 * the copy is written. */
struct info {
    char name[64];
    struct weft_group_stats stats;
};

static void snapshot_group(const weft_group *group, struct info *info)
{
    weft__objname_truncate(info->name, sizeof info->name, group->name);
    weft_group_stats(group, &info->stats);
}

static size_t snapshot_groups(weft_dispatcher *d, struct info *info, size_t capacity)
{
    size_t n = 0;
    weft__lock(&d->lock);
    for (const weft_group *group = d->groups; group; group = group->next) {
        if (n < capacity) {
            snapshot_group(group, &info[n]);
        }
        n++;
    }
    weft__unlock(&d->lock);
    return n;
}

static void write_group(struct weft__writer *out, const struct info *info, bool json)
{
    const struct weft_group_stats *s = &info->stats;
    const char *state = weft_group_state_name(s->state);
    if (!json) {
        bool more =
            s->executing && s->state == WEFT_GROUP_STOPPING; /* the state alone does not say so */
        weft__writer_printf(out,
                            "  group %s: %s%s fibers=%" PRIu64 " daemons=%" PRIu64 " ready=%" PRIu64
                            " turns=%" PRIu64 " executed=%" PRIu64 "\n",
                            info->name, state, more ? ", executing" : "", s->fibers, s->daemons,
                            s->ready, s->turns, s->executed);
        return;
    }
    weft__writer_printf(out, "{\"name\":");
    weft__writer_json(out, info->name);
    weft__writer_printf(out,
                        ",\"state\":\"%s\",\"executing\":%s,\"fibers\":%" PRIu64
                        ",\"daemons\":%" PRIu64 ",\"ready\":%" PRIu64 ",\"turns\":%" PRIu64
                        ",\"executed\":%" PRIu64 "}",
                        state, s->executing ? "true" : "false", s->fibers, s->daemons, s->ready,
                        s->turns, s->executed);
}

static void write_head(struct weft__writer *out, weft_dispatcher *d, const struct info *info,
                       size_t n, bool json)
{
    struct weft_dispatcher_stats stats;
    weft_dispatcher_stats(d, &stats);
    if (json) {
        weft__writer_printf(out, "{\"weft_dispatcher\":1,\"name\":");
        weft__writer_json(out, weft_dispatcher_name(d));
        weft__writer_printf(out, ",\"rounds\":%" PRIu64 ",\"unfinished\":%u,\"groups\":[",
                            stats.rounds, stats.unfinished);
    } else {
        weft__writer_printf(out, "dispatcher %s: rounds=%" PRIu64 " groups=%u unfinished=%u\n",
                            weft_dispatcher_name(d), stats.rounds, stats.groups, stats.unfinished);
    }
    for (size_t i = 0; i < n; i++) {
        weft__writer_printf(out, "%s", json && i ? ",\n" : "");
        write_group(out, &info[i], json);
    }
    weft__writer_printf(out, json ? "],\"dump\":" : "\n");
}

/* Write the header, then the fibers. */
static int dump(weft_dispatcher *d, const struct info *info, size_t n, FILE *file,
                const struct weft_dump_opts *opts)
{
    int err = weft__dump_check(opts);
    struct weft__writer *out = err ? NULL : weft__alloc(sizeof *out);
    if (err) {
        return err;
    }
    if (!out) {
        return -ENOMEM;
    }
    out->file = file;
    out->fd = -1;
    bool json = opts->format == WEFT_DUMP_JSON;
    write_head(out, d, info, n, json);
    err = weft__writer_flush(out);
    err = err ? err : weft_dump(file, opts);
    if (!err && json) {
        weft__writer_printf(out, "}\n");
        err = weft__writer_flush(out);
    }
    weft__free(out);
    return err;
}

static struct weft_dump_opts options(const struct weft_dump_opts *opts, weft_dispatcher *d,
                                     weft_group *group)
{
    struct weft_dump_opts o = {0};
    if (opts) {
        o = *opts;
    }
    o.pool = d->pool;
    o.group = group;
    return o;
}

int weft_dispatcher_dump(weft_dispatcher *d, FILE *file, const struct weft_dump_opts *opts)
{
    WEFT__NONNULL_AS(d, "dispatcher");
    struct weft_dump_opts o = options(opts, d, NULL);
    size_t capacity = snapshot_groups(d, NULL, 0);
    struct info *info = weft__alloc((capacity + 1) * sizeof *info);
    if (!info) {
        return -ENOMEM;
    }
    size_t n = snapshot_groups(d, info, capacity); /* groups created since then are left out */
    int err = dump(d, info, n < capacity ? n : capacity, file, &o);
    weft__free(info);
    return err;
}

int weft_group_dump(weft_group *group, FILE *file, const struct weft_dump_opts *opts)
{
    WEFT__NONNULL(group);
    struct weft_dump_opts o = options(opts, group->dispatcher, group);
    struct info info;
    snapshot_group(group, &info);
    return dump(group->dispatcher, &info, 1, file, &o);
}
