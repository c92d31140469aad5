#include "future/future.h"

#include <errno.h>
#include <string.h>

#include "base/alloc.h"
#include "base/nonnull.h"

static const struct weft__wait_kind future_kind = {.name = "future", .label = weft__source_label};

/* --- references --------------------------------------------------------------------- */

struct weft__future *weft__future_new(const struct weft_sync_opts *opts, size_t n)
{
    struct weft__future *future = weft__alloc(sizeof *future + n * sizeof *future->values);
    if (future) {
        weft__source_init(&future->source, opts);
        atomic_init(&future->refs, 1);
        future->which = -1;
    }
    return future;
}

int weft_future_create(weft_future **out, const struct weft_sync_opts *opts)
{
    weft_future *future = weft__future_new(opts, 0);
    if (!future) {
        return -ENOMEM;
    }
    *out = future;
    return 0;
}

/* Returns the old value. A future with an owner is counted without an atomic read-modify-write. */
static uint32_t refs_add(weft_future *future, uint32_t n)
{
    if (future->source.owner) {
        weft__source_check_owner(&future->source);
        uint32_t refs = atomic_load_explicit(&future->refs, memory_order_relaxed);
        atomic_store_explicit(&future->refs, refs + n, memory_order_relaxed);
        return refs;
    }
    /* The caller that drops the last reference sees what the others did before they dropped theirs.
     * pairs: itself */
    return atomic_fetch_add_explicit(&future->refs, n, memory_order_acq_rel);
}

weft_future *weft_future_ref(weft_future *future)
{
    WEFT__NONNULL(future);
    uint32_t before = refs_add(future, 1);
    WEFT__REQUIRE(before > 0, "weft_future_ref of a future that is gone");
    return future;
}

bool weft__future_try_ref(weft_future *future)
{
    uint32_t refs = atomic_load_explicit(&future->refs, memory_order_relaxed);
    do {
        if (refs == 0) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&future->refs, &refs, refs + 1,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

void weft__future_unref(weft_future *future, struct weft__future_work *work)
{
    uint32_t before = refs_add(future, -1u);
    WEFT__REQUIRE(before > 0, "weft_future_unref without a reference");
    if (before > 1) {
        return;
    }
    weft__source_deinit(&future->source, "future");
    weft__future_decide(future, -EPIPE, NULL, -1, work);
    future->garbage = work->garbage; /* freed later: weft__future_group_leave may still access it */
    work->garbage = future;
}

void weft_future_unref(weft_future *future)
{
    if (future) {
        struct weft__future_work work = {0};
        weft__future_unref(future, &work);
        weft__future_work_run(&work);
    }
}

/* --- deciding ------------------------------------------------------------------------- */

static void push(struct weft__continuations *list, struct weft__continuation *then)
{
    then->next = NULL;
    then->prev = list->last;
    *(list->last ? &list->last->next : &list->first) = then;
    list->last = then;
}

static void unlink_then(struct weft__continuations *list, struct weft__continuation *then)
{
    *(then->prev ? &then->prev->next : &list->first) = then->next;
    *(then->next ? &then->next->prev : &list->last) = then->prev;
}

/* From now on `then` is accessed only by the thread that processes the work list. */
static void give_result(const weft_future *future, struct weft__continuation *then,
                        struct weft__future_work *work)
{
    then->err = future->err;
    then->value = future->value;
    push(&work->continuations, then);
}

bool weft__future_decide(weft_future *future, int err, void *value, int which,
                         struct weft__future_work *work)
{
    struct weft__chain ready;
    struct weft__continuation *then;
    weft__chain_init(&ready);
    weft__source_lock(&future->source);
    if (atomic_load_explicit(&future->state, memory_order_relaxed) != WEFT__FUTURE_PENDING) {
        weft__source_unlock(&future->source);
        return false;
    }
    future->err = err;
    future->value = value;
    future->which = which;
    atomic_store_explicit(&future->state, err ? WEFT__FUTURE_FAILED : WEFT__FUTURE_COMPLETED,
                          memory_order_release); /* pairs: state_of */
    weft__source_fire_all(&future->source.waiters, 0, &ready);
    while ((then = future->continuations.first)) {
        unlink_then(&future->continuations, then);
        then->linked = false;
        give_result(future, then, work);
    }
    struct weft__future_group *group = future->group;
    future->group = NULL;
    weft__source_unlock(&future->source);
    weft__place_all(&ready, WEFT__FRONT);
    if (group) {
        weft__future_group_leave(group, work);
    }
    return true;
}

void weft__future_link(weft_future *future, struct weft__continuation *then,
                       struct weft__future_work *work)
{
    weft__source_lock(&future->source);
    if (atomic_load_explicit(&future->state, memory_order_relaxed) != WEFT__FUTURE_PENDING) {
        give_result(future, then, work);
    } else {
        push(&future->continuations, then);
        then->linked = true;
    }
    weft__source_unlock(&future->source);
}

bool weft__future_unlink(weft_future *future, struct weft__continuation *then)
{
    weft__source_lock(&future->source);
    bool linked = then->linked;
    if (linked) {
        unlink_then(&future->continuations, then);
        then->linked = false;
    }
    weft__source_unlock(&future->source);
    return linked;
}

void weft__future_work_run(struct weft__future_work *work)
{
    struct weft__continuation *then;
    weft_future *garbage;
    while ((then = work->continuations.first)) {
        unlink_then(&work->continuations, then);
        then->run(then, work);
    }
    while ((garbage = work->garbage)) {
        work->garbage = garbage->garbage;
        weft__free(garbage);
    }
}

static int decide(weft_future *future, int err, void *value)
{
    struct weft__future_work work = {0};
    bool first = weft__future_decide(future, err, value, -1, &work);
    weft__future_work_run(&work);
    return first ? 0 : -EALREADY;
}

int weft_future_complete(weft_future *future, void *value)
{
    WEFT__NONNULL(future);
    return decide(future, 0, value);
}

int weft_future_fail(weft_future *future, int err)
{
    WEFT__NONNULL(future);
    WEFT__REQUIRE(err < 0, "weft_future_fail: %d is not a negative errno", err);
    return decide(future, err, NULL);
}

int weft_future_cancel(weft_future *future)
{
    WEFT__NONNULL(future);
    return decide(future, -ECANCELED, NULL);
}

/* --- results and waiting ------------------------------------------------------------------ */

static enum weft__future_state state_of(const weft_future *future)
{
    return (enum weft__future_state)atomic_load_explicit(
        &future->state, memory_order_acquire); /* pairs: weft__future_decide */
}

bool weft_future_is_done(const weft_future *future)
{
    WEFT__NONNULL(future);
    return state_of(future) != WEFT__FUTURE_PENDING;
}

int weft_future_result(const weft_future *future, void **value)
{
    WEFT__NONNULL(future);
    switch (state_of(future)) {
    case WEFT__FUTURE_PENDING:
        return -EINPROGRESS;
    case WEFT__FUTURE_FAILED:
        return future->err;
    case WEFT__FUTURE_COMPLETED:
        break;
    }
    if (value) {
        *value = future->value;
    }
    return 0;
}

int weft_future_which(const weft_future *future)
{
    WEFT__NONNULL(future);
    return state_of(future) == WEFT__FUTURE_PENDING ? -1 : future->which;
}

int weft_future_wait(weft_future *future, int64_t deadline)
{
    WEFT__NONNULL(future);
    if (weft_future_is_done(future)) {
        return 0;
    }
    weft__source_lock(&future->source);
    if (weft_future_is_done(future)) {
        weft__source_unlock(&future->source);
        return 0;
    }
    struct weft__node node;
    weft__node_init(&node, NULL, 0);
    return weft__source_wait_locked(&future->source, &future->source.waiters, &node, deadline,
                                    &future_kind);
}

int weft_future_get(weft_future *future, void **value, int64_t deadline)
{
    WEFT__NONNULL(future);
    int err = weft_future_wait(future, deadline);
    return err ? err : weft_future_result(future, value);
}

bool weft__future_arm(weft_future *future, struct weft__node *node)
{
    weft__source_lock(&future->source);
    bool wait = !weft_future_is_done(future);
    if (wait) {
        weft__waitlist_push(&future->source.waiters, node);
    }
    weft__source_unlock(&future->source);
    return wait;
}

void weft__future_finish(weft_future *future, struct weft__node *node)
{
    weft__source_leave(&future->source, &future->source.waiters, node);
}
