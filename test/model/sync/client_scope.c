/* Clients of sync/scope.c: the end of children against close, cancels, deadlines and failures. The
 * scope is freed as soon as close has returned, so that a later access is detected.
 *
 * T0 is the parent; T1 and T2 are children once they were spawned, or threads that cancel. */
#include <errno.h>
#include <setjmp.h>

#define FIBERS 3
#include "fiber/cancel.h"
#include "model/fibers.h"
#include "sched/fiber_local.h"
#include "sync/event.h"
#include "sync/scope.h"
#include "task/spawn.h"

static weft_scope *scope;
static union {
    struct weft__event event;
    weft_event storage;
} never; /* an event that is never set */
static int published[FIBERS], result;

/* ---- children ---- */

static struct {
    _Atomic(uint32_t) spawned;
    struct weft__parent *parent;
    weft_fn fn;
    void *arg;
    jmp_buf end;
} births[FIBERS];
static int born;

int weft__spawn(weft_pool *pool, weft_fiber *out, const struct weft__spawn_request *request)
{
    (void)pool, (void)out;
    int i = ++born;
    births[i].parent = request->parent;
    births[i].fn = request->fn;
    births[i].arg = request->arg;
    atomic_store_explicit(&births[i].spawned, 1, memory_order_release);
    weft__futex_wake(&births[i].spawned, FIBERS);
    return 0;
}

/* Too late for a child: its thread need not wait. */
static void is_not_born(int i)
{
    atomic_store_explicit(&births[i].spawned, 1, memory_order_release);
    weft__futex_wake(&births[i].spawned, FIBERS);
}

static void await_spawned(int i)
{
    while (atomic_load_explicit(&births[i].spawned, memory_order_acquire) == 0) {
        weft__futex_wait(&births[i].spawned, 0, INT64_MAX);
    }
}

static void live_as_child(int i)
{
    await_spawned(i);
    if (births[i].parent && !setjmp(births[i].end)) {
        births[i].parent->run(births[i].parent, births[i].fn, births[i].arg);
    }
}

/* As in the product: cleanups, then the joiners under the ident lock. */
void weft_fiber_exit(void *value)
{
    int i = x_thread();
    uint64_t ident;
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__task_rare(&tasks[i])->result = value;
    weft__local_run_cleanups(weft__task_rare(&tasks[i]));
    X_ASSERT(weft__ident_lock(&tasks[i], GENERATION, 0, &ident));
    X_ASSERT(tasks[i].joiners && !tasks[i].joiners->next);
    (void)!weft__node_fire(tasks[i].joiners, value, 0, &ready);
    weft__ident_retire(&tasks[i]);
    weft__place_all(&ready, WEFT__FRONT);
    longjmp(births[i].end, 1);
}

/* ---- what else scope.c needs ---- */

int64_t weft_now(void)
{
    return TWIN_NOW;
}

bool weft__migration_will_return_to(const struct weft__rare *rare, const weft_pool *pool)
{
    (void)rare, (void)pool;
    return false;
}

static void setup(void)
{
    fibers_setup();
    memset(births, 0, sizeof births);
    memset(&never, 0, sizeof never);
    memset(published, 0, sizeof published);
    weft_event_init(&never.storage, NULL);
    born = 0;
    result = 1;
    scope = x_alloc(sizeof(struct weft__scope), true);
    x_name(scope, sizeof(struct weft__scope), "scope");
    x_name(births, sizeof births, "births");
    x_name(published, sizeof published, "published");
}

static void rest(void)
{
    fibers_rest();
    X_ASSERT(!never.event.source.waiters.first);
}

static void open_it(int64_t deadline, bool fail_fast)
{
    const struct weft_scope_opts opts = {.deadline = deadline, .fail_fast = fail_fast};
    X_ASSERT(weft_scope_open(scope, &opts) == 0);
}

static int close_it(void)
{
    int err = weft_scope_close(scope, WEFT_FOREVER);
    for (int i = 1; i <= born; i++) {
        X_ASSERT(published[i] == 1); /* plain: everything that a child did happened before */
    }
    const struct weft__scope *s = (const struct weft__scope *)(const void *)scope;
    X_ASSERT(!s->running.first &&
             !s->cancelled_children.first); /* the records are gone with their stacks */
    x_free(scope);
    return err;
}

static int works(void *arg)
{
    published[x_thread()] = 1;
    return (int)(intptr_t)arg;
}

static int waits(void *arg)
{
    (void)arg;
    int err = weft_event_wait(&never.storage, WEFT_FOREVER);
    X_ASSERT(err == -ECANCELED);
    published[x_thread()] = 1;
    return err;
}

static void spawn(int (*fn)(void *), int gives)
{
    X_ASSERT(weft_scope_spawn(scope, NULL, fn, (void *)(intptr_t)gives, NULL) == 0);
}

/* ---- the clients ---- */

static void close_against_end(int i)
{
    if (i == 0) {
        open_it(0, false);
        spawn(works, -EIO);
        X_ASSERT(close_it() == -EIO);
    } else {
        live_as_child(i);
    }
}

static void cancel_against_start(int i)
{
    if (i == 0) {
        open_it(0, false);
        spawn(waits, 0);
        weft_scope_cancel(scope);
        X_ASSERT(close_it() == 0);
    } else {
        live_as_child(i);
    }
}

static void two_children(int i)
{
    if (i == 0) {
        open_it(0, false);
        spawn(works, 0);
        spawn(works, 0);
        X_ASSERT(close_it() == 0);
    } else {
        live_as_child(i);
    }
}

static void failure_cancels(int i)
{
    if (i == 0) {
        open_it(0, true);
        spawn(works, -EIO);
        if (weft_scope_spawn(scope, NULL, waits, NULL, NULL) != 0) {
            is_not_born(2);
        }
        X_ASSERT(close_it() == -EIO);
    } else {
        live_as_child(i);
    }
}

static void parent_is_cancelled(int i)
{
    if (i == 0) {
        open_it(0, false);
        spawn(waits, 0);
        X_ASSERT(close_it() == -ECANCELED);
    } else if (i == 1) {
        live_as_child(i);
    } else {
        X_ASSERT(weft_cancel(HANDLE(0)) == 0);
    }
}

static void parent_is_aborted(int i)
{
    if (i == 0) {
        weft_fiber_shield_enter();
        open_it(0, false);
        spawn(waits, 0);
        X_ASSERT(close_it() == -ECANCELED);
        weft_fiber_shield_leave();
    } else if (i == 1) {
        live_as_child(i);
    } else {
        X_ASSERT(weft__cancel(HANDLE(0), WEFT__IDENT_CANCEL | WEFT__IDENT_ABORT, NULL) == 0);
    }
}

static void deadline_against_start(int i)
{
    if (i == 0) {
        open_it(LATER, false);
        spawn(waits, 0);
        X_ASSERT(close_it() == -ETIMEDOUT);
    } else if (i == 1) {
        live_as_child(i);
    } else {
        await_spawned(1);
        fibers_expire(0);
    }
}

/* The child ends by itself; the timer fires at any moment, or too late. */
static void deadline_against_end(int i)
{
    if (i == 0) {
        open_it(LATER, false);
        if (weft_scope_spawn(scope, NULL, works, NULL, NULL) != 0) {
            is_not_born(1);
        }
        result = close_it();
        X_ASSERT(result == 0 || result == -ETIMEDOUT);
    } else if (i == 1) {
        live_as_child(i);
    } else {
        fibers_expire(0);
    }
}

/* --- the parent is a stackless task, on a plain thread ---------- */

static struct weft__waiter parent;
static _Atomic(uint32_t) told;

static void is_told(struct weft__waiter *waiter)
{
    X_ASSERT(waiter == &parent);
    X_ASSERT(atomic_exchange_explicit(&told, 1, memory_order_release) == 0);
    weft__futex_wake(&told, 1);
}

static bool body_waits(void)
{
    struct weft__scope *s = weft__scope_of(scope);
    struct weft__node node;
    enum weft__reason reason = WEFT__REASON_NONE;
    atomic_store_explicit(&told, 0, memory_order_relaxed);
    weft__waiter_arm_notify(&parent, is_told);
    weft__node_init(&node, &parent, 0);
    if (weft__scope_arm(s, &node)) {
        while (atomic_load_explicit(&told, memory_order_acquire) == 0) {
            weft__futex_wait(&told, 0, INT64_MAX);
        }
        reason = weft__waiter_reason(&parent);
    } else {
        X_ASSERT(weft__waiter_disarm(&parent) == WEFT__REASON_NONE);
    }
    return weft__scope_finish(s, &node, reason, &result);
}

static void body_closes(int i)
{
    if (i == FIBERS) {
        static char pool;
        const struct weft_scope_opts opts = {.pool = (weft_pool *)(void *)&pool};
        X_ASSERT(weft_scope_open(scope, &opts) == 0);
        spawn(works, 0);
        spawn(works, -EIO);
        X_ASSERT(body_waits() && result == -EIO);
        X_ASSERT(published[1] == 1 && published[2] == 1);
        x_free(scope);
    } else if (i > 0) {
        live_as_child(i);
    }
}

static const struct x_client clients[] = {
    X_CLIENT("close_against_end", 2, setup, close_against_end, rest, .preemptions = 3, .stale = 1),
    X_CLIENT("cancel_against_start", 2, setup, cancel_against_start, rest, .preemptions = 2,
             .stale = 1),
    X_CLIENT("two_children", 3, setup, two_children, rest, .preemptions = 1, .stale = 1),
    X_CLIENT("body_closes", FIBERS + 1, setup, body_closes, rest, .preemptions = 1, .stale = 1),
    X_CLIENT("parent_is_cancelled", 3, setup, parent_is_cancelled, rest, .preemptions = 1,
             .stale = 1),
    X_CLIENT("parent_is_aborted", 3, setup, parent_is_aborted, rest, .preemptions = 1, .stale = 1),
    X_CLIENT("failure_cancels", 3, setup, failure_cancels, rest, .preemptions = 1, .stale = 1),
    X_CLIENT("deadline_against_end", 3, setup, deadline_against_end, rest, .preemptions = 1,
             .stale = 1),
    X_CLIENT("deadline_against_start", 3, setup, deadline_against_start, rest, .preemptions = 1,
             .stale = 1),
};

X_MAIN(clients)
