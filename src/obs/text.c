/* The two formats of a dump: text for people and JSON for programs. docs/dump.md documents each
 * line and member. */
#include <inttypes.h>

#include "obs/dump.h"
#include "sched/pool.h"

/* In the order of interest to a reader. */
static const unsigned order[WEFT__FOLD_STATES] = {WEFT_FIBER_RUNNING, WEFT_FIBER_WAITING,
                                                  WEFT_FIBER_READY,   WEFT_FIBER_CREATED,
                                                  WEFT_FIBER_DONE,    WEFT__FOLD_STATES - 1};

static const char *state_name(unsigned state)
{
    return state < WEFT__FOLD_STATES - 1 ? weft_fiber_state_name((enum weft_fiber_state)state)
                                         : "unreadable";
}

/* --- text ---------------------------------------------------------------------------------- */

static void text_actor(struct weft__out *out, const struct weft__face *actor)
{
    const struct weft__team *team = &actor->team;
    const struct weft__seat *seat = &actor->seat;
    weft__out(out, " actor=%s %s mailbox=%u steps=%" PRIu64, actor->kind, actor->state,
              actor->mailbox, actor->steps);
    if (team->strategy) {
        weft__out(out,
                  " supervisor=%s strategy=%s children=%" PRIu32 " down=%" PRIu32
                  " restarts=%" PRIu64,
                  team->name[0] ? team->name : "-", team->strategy, team->children, team->down,
                  team->restarts);
    }
    if (seat->of) {
        char id[32];
        weft_fiber_text(seat->of, id, sizeof id);
        weft__out(out, " child=%s of=%s restarts=%" PRIu64, seat->name[0] ? seat->name : "-", id,
                  seat->restarts);
    }
}

static void text_fiber(struct weft__out *out, const struct weft__view *view)
{
    char id[32];
    weft_fiber_text(view->fiber, id, sizeof id);
    weft__out(out, "  %s %s", id, view->name[0] ? view->name : "-");
    if (view->unreadable) {
        weft__out(out, "\n");
        return;
    }
    weft__out(out, " pool=%s", view->pool[0] ? view->pool : "-");
    if (view->group[0]) {
        weft__out(out, " group=%s%s", view->group, view->daemon ? " daemon" : "");
    }
    weft__out(out, " age=%.3fs", (double)view->age_ns / 1e9);
    if (view->worker >= 0) {
        weft__out(out, " worker=%d%s", view->worker, view->bound >= 0 ? " bound" : "");
    }
    if (view->since_ns >= 0) {
        weft__out(out, " since=%.3fs", (double)view->since_ns / 1e9);
    }
    if (view->on_fiber && view->on) {
        weft_fiber_text(view->on, id, sizeof id);
        weft__out(out, " on=%s %s", id, view->label[0] ? view->label : "-");
    } else if (view->on_descriptor) {
        weft__out(out, " on=%s", view->label);
    } else if (view->on) {
        weft__out(out, " on=0x%" PRIx64 " %s", view->on, view->label[0] ? view->label : "-");
    }
    if (view->others) {
        weft__out(out, " and %u other%s", view->others, view->others > 1 ? "s" : "");
    }
    if (view->holder && !view->on_fiber) {
        weft_fiber_text(view->holder, id, sizeof id);
        weft__out(out, " held-by=%s %s", id, view->holder_name[0] ? view->holder_name : "-");
    }
    if (view->actor.kind) {
        text_actor(out, &view->actor);
    }
    weft__out(out, "\n");
}

static void text_frame(struct weft__dump *dump, const struct weft__fold_group *group, int i)
{
    if (!group->describe) {
        weft__out(&dump->out, "    at %s\n", weft__dump_symbol(dump, group->pcs[i], i > 0));
        return;
    }
    struct weft__body_frame at = group->describe(&group->pcs[i]);
    weft__out(&dump->out, "    in %s", at.frame);
    if (at.step) {
        weft__out(&dump->out, ", then %s (%s:%u)", at.step, at.file, at.line);
    }
    weft__out(&dump->out, "\n");
}

/* The number of pointers per frame. */
static int step_of(const struct weft__fold_group *group)
{
    return group->describe ? 2 : 1;
}

static void text_group(struct weft__dump *dump, const struct weft__fold_group *group,
                       unsigned state)
{
    struct weft__out *out = &dump->out;
    weft__out(out, "\n%zu fiber%s %s%s%s\n", group->count, group->count == 1 ? "" : "s",
              state_name(state), group->waits ? ": " : "", group->waits ? group->waits : "");
    for (const struct weft__folded *one = group->first; one; one = one->next) {
        text_fiber(out, &one->view);
    }
    if (group->count > group->shown) {
        weft__out(out, "  ... and %zu more\n", group->count - group->shown);
    }
    for (int i = 0; i < group->frames; i += step_of(group)) {
        text_frame(dump, group, i);
    }
    if (group->no_frames) {
        weft__out(out, "    no backtrace: %s\n", group->no_frames);
    }
}

/* The driver of the pool, if the pool has done I/O. */
static const struct weft__driver_kind *driver_of(const weft_pool *pool)
{
    return pool ? atomic_load_explicit(&pool->driver, memory_order_acquire) : NULL;
}

static const char *driver_why(const weft_pool *pool)
{
    return atomic_load_explicit(&pool->driver_why, memory_order_relaxed);
}

void weft__dump_text(struct weft__dump *dump)
{
    struct weft__out *out = &dump->out;
    const struct weft__fold *fold = &dump->fold;
    const weft_pool *pool = dump->opts.pool;
    weft__out(out, "weft dump of %s%s: %zu fibers", pool ? "pool " : "all pools",
              pool ? pool->name : "", dump->seen);
    for (unsigned i = 0; i < WEFT__FOLD_STATES; i++) {
        if (fold->fibers[order[i]]) {
            weft__out(out, ", %zu %s", fold->fibers[order[i]], state_name(order[i]));
        }
    }
    weft__out(out, ", %zu stacks\n", fold->groups);
    const struct weft__driver_kind *driver = driver_of(pool);
    if (driver) {
        weft__out(out, "driver: %s (%s)\n", driver->name, driver_why(pool));
    }
    if (dump->cut) {
        weft__out(out, "cut: %zu more fibers were not looked at\n", dump->cut);
    }
    if (fold->lost) {
        weft__out(out, "cut: %zu fibers are not shown, for lack of memory\n", fold->lost);
    }
    if (!weft__unwind_works()) {
        weft__out(out, "no backtraces: built without libunwind\n");
    } else if (dump->no_sampling) {
        weft__out(out, "no backtraces of running fibers: %s\n", dump->no_sampling);
    }
    for (unsigned i = 0; i < WEFT__FOLD_STATES; i++) {
        for (struct weft__fold_group *g = fold->first[order[i]]; g; g = g->next) {
            text_group(dump, g, order[i]);
        }
    }
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void json_string(struct weft__out *out, const char *key, const char *value)
{
    weft__out(out, "\"%s\":", key);
    if (value) {
        weft__out_json(out, value);
    } else {
        weft__out(out, "null");
    }
}

static void json_number(struct weft__out *out, const char *key, int64_t value)
{
    if (value >= 0) {
        weft__out(out, ",\"%s\":%" PRId64, key, value);
    } else {
        weft__out(out, ",\"%s\":null", key);
    }
}

static void json_fiber_name(struct weft__out *out, const char *key, weft_fiber fiber,
                            const char *name)
{
    char id[32];
    weft_fiber_text(fiber, id, sizeof id);
    weft__out(out, ",\"%s\":{", key);
    json_string(out, "id", id);
    weft__out(out, ",");
    json_string(out, "name", name);
    weft__out(out, "}");
}

static void json_actor(struct weft__out *out, const struct weft__face *actor)
{
    const struct weft__team *team = &actor->team;
    const struct weft__seat *seat = &actor->seat;
    weft__out(out, ",\"actor\":{");
    json_string(out, "kind", actor->kind);
    weft__out(out, ",");
    json_string(out, "state", actor->state);
    weft__out(out, ",\"mailbox\":%u,\"steps\":%" PRIu64 ",", actor->mailbox, actor->steps);
    json_string(out, "topic", actor->topic);
    if (team->strategy) {
        weft__out(out, ",\"supervisor\":{");
        json_string(out, "name", team->name[0] ? team->name : NULL);
        weft__out(out,
                  ",\"strategy\":\"%s\",\"children\":%" PRIu32 ",\"down\":%" PRIu32
                  ",\"restarts\":%" PRIu64 "}",
                  team->strategy, team->children, team->down, team->restarts);
    }
    if (seat->of) {
        char id[32];
        weft_fiber_text(seat->of, id, sizeof id);
        weft__out(out, ",\"child\":{");
        json_string(out, "name", seat->name[0] ? seat->name : NULL);
        weft__out(out, ",\"of\":\"%s\",\"state\":\"%s\",\"restarts\":%" PRIu64 "}", id, seat->state,
                  seat->restarts);
    }
    weft__out(out, "}");
}

static void json_fiber(struct weft__out *out, const struct weft__view *view)
{
    char id[32];
    weft_fiber_text(view->fiber, id, sizeof id);
    weft__out(out, "{");
    json_string(out, "id", id);
    weft__out(out, ",");
    json_string(out, "name", view->name);
    weft__out(out, ",");
    json_string(out, "pool", view->pool[0] ? view->pool : NULL);
    if (view->group[0]) {
        weft__out(out, ",");
        json_string(out, "group", view->group);
        weft__out(out, ",\"daemon\":%s", view->daemon ? "true" : "false");
    }
    json_number(out, "age_ns", view->age_ns);
    json_number(out, "worker", view->worker);
    json_number(out, "bound", view->bound);
    json_number(out, "since_ns", view->since_ns);
    if (view->on_fiber && view->on) {
        json_fiber_name(out, "on_fiber", view->on, view->label);
    } else if (view->on_descriptor) {
        json_number(out, "on_descriptor", (int64_t)view->on);
    } else if (view->on) {
        weft__out(out, ",\"on\":{\"address\":\"0x%" PRIx64 "\",", view->on);
        json_string(out, "name", view->label[0] ? view->label : NULL);
        weft__out(out, "}");
    }
    if (view->others) {
        json_number(out, "others", view->others);
    }
    if (view->holder) {
        json_fiber_name(out, "holder", view->holder, view->holder_name);
    }
    if (view->actor.kind) {
        json_actor(out, &view->actor);
    }
    weft__out(out, "}");
}

static void json_frame(struct weft__dump *dump, const struct weft__fold_group *group, int i)
{
    struct weft__out *out = &dump->out;
    if (!group->describe) {
        weft__out(out, "{\"pc\":\"0x%" PRIxPTR "\",", (uintptr_t)group->pcs[i]);
        json_string(out, "symbol", weft__dump_symbol(dump, group->pcs[i], i > 0));
        weft__out(out, "}");
        return;
    }
    struct weft__body_frame at = group->describe(&group->pcs[i]);
    weft__out(out, "{");
    json_string(out, "frame", at.frame);
    weft__out(out, ",");
    json_string(out, "step", at.step);
    weft__out(out, ",");
    json_string(out, "file", at.file);
    json_number(out, "line", at.step ? (int64_t)at.line : -1);
    weft__out(out, "}");
}

static void json_group(struct weft__dump *dump, const struct weft__fold_group *group,
                       unsigned state)
{
    struct weft__out *out = &dump->out;
    weft__out(out, "{\"count\":%zu,", group->count);
    json_string(out, "state", state_name(state));
    weft__out(out, ",");
    json_string(out, "waits", group->waits);
    weft__out(out, ",\"fibers\":[");
    for (const struct weft__folded *one = group->first; one; one = one->next) {
        json_fiber(out, &one->view);
        weft__out(out, "%s", one->next ? ",\n" : "");
    }
    weft__out(out, "],\"frames\":[");
    for (int i = 0; i < group->frames; i += step_of(group)) {
        weft__out(out, "%s", i ? "," : "");
        json_frame(dump, group, i);
    }
    weft__out(out, "],");
    json_string(out, "no_frames", group->no_frames);
    weft__out(out, "}");
}

void weft__dump_json(struct weft__dump *dump)
{
    struct weft__out *out = &dump->out;
    const struct weft__fold *fold = &dump->fold;
    weft__out(out, "{\"weft_dump\":1,");
    json_string(out, "pool", dump->opts.pool ? dump->opts.pool->name : NULL);
    const struct weft__driver_kind *driver = driver_of(dump->opts.pool);
    if (driver) {
        weft__out(out, ",");
        json_string(out, "driver", driver->name);
        weft__out(out, ",");
        json_string(out, "driver_why", driver_why(dump->opts.pool));
    }
    weft__out(out, ",\"fibers\":%zu,\"cut\":%zu,\"lost\":%zu,\"states\":{", dump->seen, dump->cut,
              fold->lost);
    for (unsigned i = 0; i < WEFT__FOLD_STATES; i++) {
        weft__out(out, "%s\"%s\":%zu", i ? "," : "", state_name(order[i]), fold->fibers[order[i]]);
    }
    weft__out(out, "},\"backtraces\":%s,", weft__unwind_works() ? "true" : "false");
    json_string(out, "no_sampling", dump->no_sampling);
    weft__out(out, ",\"stacks\":[");
    bool first = true;
    for (unsigned i = 0; i < WEFT__FOLD_STATES; i++) {
        for (struct weft__fold_group *g = fold->first[order[i]]; g; g = g->next) {
            weft__out(out, "%s\n", first ? "" : ",");
            json_group(dump, g, order[i]);
            first = false;
        }
    }
    weft__out(out, "]}\n");
}
