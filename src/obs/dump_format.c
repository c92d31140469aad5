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

static void text_actor(struct weft__writer *out, const struct weft__task_info *actor)
{
    const struct weft__supervisor_info *supervisor_info = &actor->supervisor_info;
    const struct weft__child_info *child_info = &actor->child_info;
    weft__writer_printf(out, " actor=%s %s mailbox=%u steps=%" PRIu64, actor->kind, actor->state,
                        actor->mailbox, actor->steps);
    if (supervisor_info->strategy) {
        weft__writer_printf(
            out,
            " supervisor=%s strategy=%s children=%" PRIu32 " down=%" PRIu32 " restarts=%" PRIu64,
            supervisor_info->name[0] ? supervisor_info->name : "-", supervisor_info->strategy,
            supervisor_info->children, supervisor_info->down, supervisor_info->restarts);
    }
    if (child_info->of) {
        char id[32];
        weft_fiber_format(child_info->of, id, sizeof id);
        weft__writer_printf(out, " child=%s of=%s restarts=%" PRIu64,
                            child_info->name[0] ? child_info->name : "-", id, child_info->restarts);
    }
}

static void text_fiber(struct weft__writer *out, const struct weft__fiber_snapshot *snap)
{
    char id[32];
    weft_fiber_format(snap->fiber, id, sizeof id);
    weft__writer_printf(out, "  %s %s", id, snap->name[0] ? snap->name : "-");
    if (snap->unreadable) {
        weft__writer_printf(out, "\n");
        return;
    }
    weft__writer_printf(out, " pool=%s", snap->pool[0] ? snap->pool : "-");
    if (snap->group[0]) {
        weft__writer_printf(out, " group=%s%s", snap->group, snap->daemon ? " daemon" : "");
    }
    weft__writer_printf(out, " age=%.3fs", (double)snap->age_ns / 1e9);
    if (snap->worker >= 0) {
        weft__writer_printf(out, " worker=%d%s", snap->worker, snap->bound >= 0 ? " bound" : "");
    }
    if (snap->since_ns >= 0) {
        weft__writer_printf(out, " since=%.3fs", (double)snap->since_ns / 1e9);
    }
    if (snap->on_fiber && snap->on) {
        weft_fiber_format(snap->on, id, sizeof id);
        weft__writer_printf(out, " on=%s %s", id, snap->label[0] ? snap->label : "-");
    } else if (snap->on_descriptor) {
        weft__writer_printf(out, " on=%s", snap->label);
    } else if (snap->on) {
        weft__writer_printf(out, " on=0x%" PRIx64 " %s", snap->on,
                            snap->label[0] ? snap->label : "-");
    }
    if (snap->others) {
        weft__writer_printf(out, " and %u other%s", snap->others, snap->others > 1 ? "s" : "");
    }
    if (snap->holder && !snap->on_fiber) {
        weft_fiber_format(snap->holder, id, sizeof id);
        weft__writer_printf(out, " held-by=%s %s", id,
                            snap->holder_name[0] ? snap->holder_name : "-");
    }
    if (snap->actor.kind) {
        text_actor(out, &snap->actor);
    }
    weft__writer_printf(out, "\n");
}

static void text_frame(struct weft__dump *dump, const struct weft__fold_group *group, int i)
{
    if (!group->describe) {
        weft__writer_printf(&dump->out, "    at %s\n",
                            weft__dump_symbol(dump, group->pcs[i], i > 0));
        return;
    }
    struct weft__stackless_frame at = group->describe(&group->pcs[i]);
    weft__writer_printf(&dump->out, "    in %s", at.frame);
    if (at.step) {
        weft__writer_printf(&dump->out, ", then %s (%s:%u)", at.step, at.file, at.line);
    }
    weft__writer_printf(&dump->out, "\n");
}

/* The number of pointers per frame. */
static int step_of(const struct weft__fold_group *group)
{
    return group->describe ? 2 : 1;
}

static void text_group(struct weft__dump *dump, const struct weft__fold_group *group,
                       unsigned state)
{
    struct weft__writer *out = &dump->out;
    weft__writer_printf(out, "\n%zu fiber%s %s%s%s\n", group->count, group->count == 1 ? "" : "s",
                        state_name(state), group->waits ? ": " : "",
                        group->waits ? group->waits : "");
    for (const struct weft__fold_member *one = group->first; one; one = one->next) {
        text_fiber(out, &one->snap);
    }
    if (group->count > group->shown) {
        weft__writer_printf(out, "  ... and %zu more\n", group->count - group->shown);
    }
    for (int i = 0; i < group->frames; i += step_of(group)) {
        text_frame(dump, group, i);
    }
    if (group->no_frames) {
        weft__writer_printf(out, "    no backtrace: %s\n", group->no_frames);
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
    struct weft__writer *out = &dump->out;
    const struct weft__fold *fold = &dump->fold;
    const weft_pool *pool = dump->opts.pool;
    weft__writer_printf(out, "weft dump of %s%s: %zu fibers", pool ? "pool " : "all pools",
                        pool ? pool->name : "", dump->seen);
    for (unsigned i = 0; i < WEFT__FOLD_STATES; i++) {
        if (fold->fibers[order[i]]) {
            weft__writer_printf(out, ", %zu %s", fold->fibers[order[i]], state_name(order[i]));
        }
    }
    weft__writer_printf(out, ", %zu stacks\n", fold->groups);
    const struct weft__driver_kind *driver = driver_of(pool);
    if (driver) {
        weft__writer_printf(out, "driver: %s (%s)\n", driver->name, driver_why(pool));
    }
    if (dump->cut) {
        weft__writer_printf(out, "cut: %zu more fibers were not inspected\n", dump->cut);
    }
    if (fold->lost) {
        weft__writer_printf(out, "cut: %zu fibers are not shown, for lack of memory\n", fold->lost);
    }
    if (!weft__unwind_works()) {
        weft__writer_printf(out, "no backtraces: built without libunwind\n");
    } else if (dump->no_sampling) {
        weft__writer_printf(out, "no backtraces of running fibers: %s\n", dump->no_sampling);
    }
    for (unsigned i = 0; i < WEFT__FOLD_STATES; i++) {
        for (struct weft__fold_group *g = fold->first[order[i]]; g; g = g->next) {
            text_group(dump, g, order[i]);
        }
    }
}

/* --- JSON ------------------------------------------------------------------------------------- */

static void json_string(struct weft__writer *out, const char *key, const char *value)
{
    weft__writer_printf(out, "\"%s\":", key);
    if (value) {
        weft__writer_json(out, value);
    } else {
        weft__writer_printf(out, "null");
    }
}

static void json_number(struct weft__writer *out, const char *key, int64_t value)
{
    if (value >= 0) {
        weft__writer_printf(out, ",\"%s\":%" PRId64, key, value);
    } else {
        weft__writer_printf(out, ",\"%s\":null", key);
    }
}

static void json_fiber_name(struct weft__writer *out, const char *key, weft_fiber fiber,
                            const char *name)
{
    char id[32];
    weft_fiber_format(fiber, id, sizeof id);
    weft__writer_printf(out, ",\"%s\":{", key);
    json_string(out, "id", id);
    weft__writer_printf(out, ",");
    json_string(out, "name", name);
    weft__writer_printf(out, "}");
}

static void json_actor(struct weft__writer *out, const struct weft__task_info *actor)
{
    const struct weft__supervisor_info *supervisor_info = &actor->supervisor_info;
    const struct weft__child_info *child_info = &actor->child_info;
    weft__writer_printf(out, ",\"actor\":{");
    json_string(out, "kind", actor->kind);
    weft__writer_printf(out, ",");
    json_string(out, "state", actor->state);
    weft__writer_printf(out, ",\"mailbox\":%u,\"steps\":%" PRIu64 ",", actor->mailbox,
                        actor->steps);
    json_string(out, "topic", actor->topic);
    if (supervisor_info->strategy) {
        weft__writer_printf(out, ",\"supervisor\":{");
        json_string(out, "name", supervisor_info->name[0] ? supervisor_info->name : NULL);
        weft__writer_printf(out,
                            ",\"strategy\":\"%s\",\"children\":%" PRIu32 ",\"down\":%" PRIu32
                            ",\"restarts\":%" PRIu64 "}",
                            supervisor_info->strategy, supervisor_info->children,
                            supervisor_info->down, supervisor_info->restarts);
    }
    if (child_info->of) {
        char id[32];
        weft_fiber_format(child_info->of, id, sizeof id);
        weft__writer_printf(out, ",\"child\":{");
        json_string(out, "name", child_info->name[0] ? child_info->name : NULL);
        weft__writer_printf(out, ",\"of\":\"%s\",\"state\":\"%s\",\"restarts\":%" PRIu64 "}", id,
                            child_info->state, child_info->restarts);
    }
    weft__writer_printf(out, "}");
}

static void json_fiber(struct weft__writer *out, const struct weft__fiber_snapshot *snap)
{
    char id[32];
    weft_fiber_format(snap->fiber, id, sizeof id);
    weft__writer_printf(out, "{");
    json_string(out, "id", id);
    weft__writer_printf(out, ",");
    json_string(out, "name", snap->name);
    weft__writer_printf(out, ",");
    json_string(out, "pool", snap->pool[0] ? snap->pool : NULL);
    if (snap->group[0]) {
        weft__writer_printf(out, ",");
        json_string(out, "group", snap->group);
        weft__writer_printf(out, ",\"daemon\":%s", snap->daemon ? "true" : "false");
    }
    json_number(out, "age_ns", snap->age_ns);
    json_number(out, "worker", snap->worker);
    json_number(out, "bound", snap->bound);
    json_number(out, "since_ns", snap->since_ns);
    if (snap->on_fiber && snap->on) {
        json_fiber_name(out, "on_fiber", snap->on, snap->label);
    } else if (snap->on_descriptor) {
        json_number(out, "on_descriptor", (int64_t)snap->on);
    } else if (snap->on) {
        weft__writer_printf(out, ",\"on\":{\"address\":\"0x%" PRIx64 "\",", snap->on);
        json_string(out, "name", snap->label[0] ? snap->label : NULL);
        weft__writer_printf(out, "}");
    }
    if (snap->others) {
        json_number(out, "others", snap->others);
    }
    if (snap->holder) {
        json_fiber_name(out, "holder", snap->holder, snap->holder_name);
    }
    if (snap->actor.kind) {
        json_actor(out, &snap->actor);
    }
    weft__writer_printf(out, "}");
}

static void json_frame(struct weft__dump *dump, const struct weft__fold_group *group, int i)
{
    struct weft__writer *out = &dump->out;
    if (!group->describe) {
        weft__writer_printf(out, "{\"pc\":\"0x%" PRIxPTR "\",", (uintptr_t)group->pcs[i]);
        json_string(out, "symbol", weft__dump_symbol(dump, group->pcs[i], i > 0));
        weft__writer_printf(out, "}");
        return;
    }
    struct weft__stackless_frame at = group->describe(&group->pcs[i]);
    weft__writer_printf(out, "{");
    json_string(out, "frame", at.frame);
    weft__writer_printf(out, ",");
    json_string(out, "step", at.step);
    weft__writer_printf(out, ",");
    json_string(out, "file", at.file);
    json_number(out, "line", at.step ? (int64_t)at.line : -1);
    weft__writer_printf(out, "}");
}

static void json_group(struct weft__dump *dump, const struct weft__fold_group *group,
                       unsigned state)
{
    struct weft__writer *out = &dump->out;
    weft__writer_printf(out, "{\"count\":%zu,", group->count);
    json_string(out, "state", state_name(state));
    weft__writer_printf(out, ",");
    json_string(out, "waits", group->waits);
    weft__writer_printf(out, ",\"fibers\":[");
    for (const struct weft__fold_member *one = group->first; one; one = one->next) {
        json_fiber(out, &one->snap);
        weft__writer_printf(out, "%s", one->next ? ",\n" : "");
    }
    weft__writer_printf(out, "],\"frames\":[");
    for (int i = 0; i < group->frames; i += step_of(group)) {
        weft__writer_printf(out, "%s", i ? "," : "");
        json_frame(dump, group, i);
    }
    weft__writer_printf(out, "],");
    json_string(out, "no_frames", group->no_frames);
    weft__writer_printf(out, "}");
}

void weft__dump_json(struct weft__dump *dump)
{
    struct weft__writer *out = &dump->out;
    const struct weft__fold *fold = &dump->fold;
    weft__writer_printf(out, "{\"weft_dump\":1,");
    json_string(out, "pool", dump->opts.pool ? dump->opts.pool->name : NULL);
    const struct weft__driver_kind *driver = driver_of(dump->opts.pool);
    if (driver) {
        weft__writer_printf(out, ",");
        json_string(out, "driver", driver->name);
        weft__writer_printf(out, ",");
        json_string(out, "driver_why", driver_why(dump->opts.pool));
    }
    weft__writer_printf(out, ",\"fibers\":%zu,\"cut\":%zu,\"lost\":%zu,\"states\":{", dump->seen,
                        dump->cut, fold->lost);
    for (unsigned i = 0; i < WEFT__FOLD_STATES; i++) {
        weft__writer_printf(out, "%s\"%s\":%zu", i ? "," : "", state_name(order[i]),
                            fold->fibers[order[i]]);
    }
    weft__writer_printf(out, "},\"backtraces\":%s,", weft__unwind_works() ? "true" : "false");
    json_string(out, "no_sampling", dump->no_sampling);
    weft__writer_printf(out, ",\"stacks\":[");
    bool first = true;
    for (unsigned i = 0; i < WEFT__FOLD_STATES; i++) {
        for (struct weft__fold_group *g = fold->first[order[i]]; g; g = g->next) {
            weft__writer_printf(out, "%s\n", first ? "" : ",");
            json_group(dump, g, order[i]);
            first = false;
        }
    }
    weft__writer_printf(out, "]}\n");
}
