/* The dump of a dispatcher and its groups, as text or JSON: a header for the groups, followed by
 * the dump of the fibers (obs/dump.h). */
#include <errno.h>
#include <inttypes.h>

#include "base/alloc.h"
#include "base/need.h"
#include "base/text.h"
#include "dispatch/dispatcher.h"
#include "obs/dump.h"
#include "obs/out.h"

/* A copy of a group's state, taken under the dispatcher's lock: the group may be destroyed before
 * the copy is written. */
struct seen {
    char name[64];
    struct weft_group_stats stats;
};

static void look(const weft_group *group, struct seen *seen)
{
    weft__text_cut(seen->name, sizeof seen->name, group->name);
    weft_group_stats(group, &seen->stats);
}

static size_t look_at_all(weft_dispatcher *d, struct seen *seen, size_t room)
{
    size_t n = 0;
    weft__lock(&d->lock);
    for (const weft_group *group = d->groups; group; group = group->next) {
        if (n < room) {
            look(group, &seen[n]);
        }
        n++;
    }
    weft__unlock(&d->lock);
    return n;
}

static void write_group(struct weft__out *out, const struct seen *seen, bool json)
{
    const struct weft_group_stats *s = &seen->stats;
    const char *state = weft_group_state_name(s->state);
    if (!json) {
        bool more =
            s->executing && s->state == WEFT_GROUP_STOPPING; /* the state alone does not say so */
        weft__out(out,
                  "  group %s: %s%s fibers=%" PRIu64 " daemons=%" PRIu64 " ready=%" PRIu64
                  " turns=%" PRIu64 " executed=%" PRIu64 "\n",
                  seen->name, state, more ? ", executing" : "", s->fibers, s->daemons, s->ready,
                  s->turns, s->executed);
        return;
    }
    weft__out(out, "{\"name\":");
    weft__out_json(out, seen->name);
    weft__out(out,
              ",\"state\":\"%s\",\"executing\":%s,\"fibers\":%" PRIu64 ",\"daemons\":%" PRIu64
              ",\"ready\":%" PRIu64 ",\"turns\":%" PRIu64 ",\"executed\":%" PRIu64 "}",
              state, s->executing ? "true" : "false", s->fibers, s->daemons, s->ready, s->turns,
              s->executed);
}

static void write_head(struct weft__out *out, weft_dispatcher *d, const struct seen *seen, size_t n,
                       bool json)
{
    struct weft_dispatcher_stats stats;
    weft_dispatcher_stats(d, &stats);
    if (json) {
        weft__out(out, "{\"weft_dispatcher\":1,\"name\":");
        weft__out_json(out, weft_dispatcher_name(d));
        weft__out(out, ",\"rounds\":%" PRIu64 ",\"unfinished\":%u,\"groups\":[", stats.rounds,
                  stats.unfinished);
    } else {
        weft__out(out, "dispatcher %s: rounds=%" PRIu64 " groups=%u unfinished=%u\n",
                  weft_dispatcher_name(d), stats.rounds, stats.groups, stats.unfinished);
    }
    for (size_t i = 0; i < n; i++) {
        weft__out(out, "%s", json && i ? ",\n" : "");
        write_group(out, &seen[i], json);
    }
    weft__out(out, json ? "],\"dump\":" : "\n");
}

/* Write the header, then the fibers. */
static int dump(weft_dispatcher *d, const struct seen *seen, size_t n, FILE *file,
                const struct weft_dump_opts *opts)
{
    int err = weft__dump_check(opts);
    struct weft__out *out = err ? NULL : weft__alloc(sizeof *out);
    if (err) {
        return err;
    }
    if (!out) {
        return -ENOMEM;
    }
    out->file = file;
    out->fd = -1;
    bool json = opts->format == WEFT_DUMP_JSON;
    write_head(out, d, seen, n, json);
    err = weft__out_flush(out);
    err = err ? err : weft_dump(file, opts);
    if (!err && json) {
        weft__out(out, "}\n");
        err = weft__out_flush(out);
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
    WEFT__NEED_AS(d, "dispatcher");
    struct weft_dump_opts o = options(opts, d, NULL);
    size_t room = look_at_all(d, NULL, 0);
    struct seen *seen = weft__alloc((room + 1) * sizeof *seen);
    if (!seen) {
        return -ENOMEM;
    }
    size_t n = look_at_all(d, seen, room); /* groups created since then are left out */
    int err = dump(d, seen, n < room ? n : room, file, &o);
    weft__free(seen);
    return err;
}

int weft_group_dump(weft_group *group, FILE *file, const struct weft_dump_opts *opts)
{
    WEFT__NEED(group);
    struct weft_dump_opts o = options(opts, group->dispatcher, group);
    struct seen seen;
    look(group, &seen);
    return dump(group->dispatcher, &seen, 1, file, &o);
}
