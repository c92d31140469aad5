/* Derived futures (map, all, any), and callbacks.
 *
 * A derived future and its inputs are connected by a *group*, with one member per input.
 * References:
 *
 *   input --thens--> member --group--> derived future --group--> group
 *
 * until the input is decided.
 *
 * The group does not keep the inputs alive: an input that is dropped undecided reports failure to
 * its members. A member knows its input (`on`) under the derived future's lock, and the input's
 * end, which comes before its memory is freed, clears `on`; so while that lock is held and `on` is
 * set, the memory is valid, though possibly without a reference left.
 *
 * Lock order: the lock of a derived future may be held while those of its inputs are taken, never
 * the other way round.
 */
#include <errno.h>

#include "base/alloc.h"
#include "base/nonnull.h"
#include "future/future.h"

enum kind { MAP, ALL, ANY };

struct member {
    struct weft__continuation then; /* first: the continuation is the member */
    struct weft__future_group *group;
    weft_future *on; /* under the derived future's lock */
    size_t index;
};

struct weft__future_group {
    /* immutable */
    weft_future *to; /* the derived future, with a reference */
    enum kind kind;
    weft_future_convert convert;
    void *arg;
    size_t n;
    /* under the lock of `to` */
    size_t refs; /* one for each member that will be run, one for `to` */
    size_t left; /* members that were not run yet */
    bool decided;
    struct member members[];
};

/* Under the lock. True: the caller frees the group with group_free. */
static bool group_unref_locked(struct weft__future_group *group)
{
    return --group->refs == 0;
}

static void group_free(struct weft__future_group *group, struct weft__future_work *work)
{
    weft__future_unref(group->to, work);
    weft__free(group);
}

static void group_unref(struct weft__future_group *group, struct weft__future_work *work)
{
    weft__source_lock(&group->to->source);
    bool last = group_unref_locked(group);
    weft__source_unlock(&group->to->source);
    if (last) {
        group_free(group, work);
    }
}

/* Under the lock: records the result of a member. True: this member decides the derived future. */
static bool record_result_locked(struct weft__future_group *group, const struct member *member)
{
    if (group->decided) {
        return false;
    }
    bool last = --group->left == 0;
    if (group->kind == ALL && !member->then.err) {
        group->to->values[member->index] = member->then.value;
    }
    /* `all` is decided by a failure, `any` by a success. */
    group->decided = last || (group->kind == ALL) == (member->then.err != 0);
    return group->decided;
}

static void decide(struct weft__future_group *group, const struct member *member,
                   struct weft__future_work *work)
{
    int err = member->then.err, which = (int)member->index;
    void *value = member->then.value;
    if (group->kind == MAP) {
        which = -1;
        if (!err) {
            err = group->convert(group->arg, member->then.value, &value);
            WEFT__REQUIRE(err <= 0, "a conversion gave %d, which is not a negative errno", err);
        }
    } else if (group->kind == ALL && !err) {
        which = -1;
        value = group->to->values;
    }
    weft__future_decide(group->to, err, value, which, work);
}

static void member_run(struct weft__continuation *then, struct weft__future_work *work)
{
    struct member *member = (struct member *)(void *)then;
    struct weft__future_group *group = member->group;
    weft__source_lock(&group->to->source);
    member->on = NULL;
    bool decides = record_result_locked(group, member);
    weft__source_unlock(&group->to->source);
    if (decides) {
        decide(group, member, work);
    }
    group_unref(group, work);
}

/* The member's input, with a reference. NULL: it was dropped already, or its continuation will
 * run. */
static weft_future *ref_input(struct weft__future_group *group, struct member *member)
{
    weft__source_lock(&group->to->source);
    weft_future *on = member->on;
    member->on = NULL;
    if (on && !weft__future_try_ref(on)) {
        on = NULL;
    }
    weft__source_unlock(&group->to->source);
    return on;
}

void weft__future_group_leave(struct weft__future_group *group, struct weft__future_work *work)
{
    weft__source_lock(&group->to->source);
    group->decided = true; /* possibly not by one of its members */
    weft__source_unlock(&group->to->source);
    for (size_t i = 0; i < group->n; i++) {
        weft_future *on = ref_input(group, &group->members[i]);
        if (on) {
            if (weft__future_unlink(on, &group->members[i].then)) {
                group_unref(group, work);
            }
            weft__future_unref(on, work);
        }
    }
    group_unref(group, work);
}

/* Under the derived future's lock, so that no member runs before all are linked. */
static void link_members(struct weft__future_group *group, weft_future *const *futures,
                         struct weft__future_work *work)
{
    weft__source_lock(&group->to->source);
    for (size_t i = 0; i < group->n; i++) {
        struct member *member = &group->members[i];
        *member =
            (struct member){.then.run = member_run, .group = group, .on = futures[i], .index = i};
        weft__future_link(futures[i], &member->then, work);
    }
    weft__source_unlock(&group->to->source);
}

static void check_owners(weft_future *const *futures, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        WEFT__REQUIRE(futures[i]->source.owner == futures[0]->source.owner,
                      "a future was derived from futures of different owners");
    }
}

static int derive(weft_future *const *futures, size_t n, weft_future **out, enum kind kind,
                  weft_future_convert convert, void *arg)
{
    struct weft__future_work work = {0};
    check_owners(futures, n);
    weft_future *to = weft__future_new(NULL, kind == ALL ? n : 0);
    if (to && n) {
        to->source.owner = futures[0]->source.owner;
    }
    struct weft__future_group *group =
        to ? weft__alloc(sizeof *group + n * sizeof *group->members) : NULL;
    if (!group) {
        weft_future_unref(to);
        return -ENOMEM;
    }
    group->to = weft_future_ref(to);
    group->kind = kind;
    group->convert = convert;
    group->arg = arg;
    group->n = group->left = n;
    group->refs = n + 1;
    to->group = group;
    link_members(group, futures, &work);
    if (n == 0) {
        weft__future_decide(to, 0, to->values, -1, &work);
    }
    weft__future_work_run(&work);
    *out = to;
    return 0;
}

int weft_future_map(weft_future *future, weft_future **out, weft_future_convert fn, void *arg)
{
    WEFT__NONNULL(future);
    return derive(&future, 1, out, MAP, fn, arg);
}

int weft_future_all(weft_future **out, weft_future *const *futures, size_t n)
{
    return derive(futures, n, out, ALL, NULL, NULL);
}

int weft_future_any(weft_future **out, weft_future *const *futures, size_t n)
{
    return n ? derive(futures, n, out, ANY, NULL, NULL) : -EINVAL;
}

/* --- callbacks ------------------------------------------------------------------------- */

struct callback {
    struct weft__continuation then; /* first: the continuation is the callback */
    weft_future_fn fn;
    void *arg;
};

static void call_back(struct weft__continuation *then, struct weft__future_work *work)
{
    struct callback *callback = (struct callback *)(void *)then;
    weft_future_fn fn = callback->fn;
    void *arg = callback->arg, *value = then->value;
    int err = then->err;
    (void)work;
    weft__free(callback);
    fn(arg, err, value);
}

int weft_future_then(weft_future *future, weft_future_fn fn, void *arg)
{
    WEFT__NONNULL(future);
    struct callback *callback = weft__alloc(sizeof *callback);
    if (!callback) {
        return -ENOMEM;
    }
    struct weft__future_work work = {0};
    *callback = (struct callback){.then.run = call_back, .fn = fn, .arg = arg};
    weft__future_link(future, &callback->then, &work);
    weft__future_work_run(&work);
    return 0;
}
