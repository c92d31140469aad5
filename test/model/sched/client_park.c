/* Clients of fiber/park.c, wait/waiter.c and task/ident.h, with task/task.h and the timer wheel
 * under them: park against unpark, cancel and deadlines, by handle.
 *
 * T0 is a worker that runs one fiber and nothing else: a suspended fiber sleeps until it is placed.
 * The others are plain threads that know the fiber's handle. */
#include <errno.h>
#include <string.h>

#include "lock/lock.h"
#include "model/explore.h"
#include "model/twins.h"
#include "task/handle.h"
#include "wait/waiter.h"
#include "worker/worker.h"

enum { PLACED };

#define GENERATION 3
#define SLOT 1
#define HANDLE ((weft_fiber)GENERATION << 32 | SLOT)
#define LATER (TWIN_NOW + ((int64_t)1 << WEFT__WHEEL_TICK_SHIFT))

static struct weft__task task;
static struct weft__worker worker;
static struct weft__stack stack;
static char stack_bytes[1024] __attribute__((aligned(64)));
static _Atomic(uint32_t) placed;
static int published, results[2];
static bool is_plain; /* T0 is no worker */

static const struct weft__wait_kind test_kind = {.name = "test"};

/* ---- the worker around the fiber ---- */

struct weft__worker *weft__worker_self(void)
{
    return x_thread() == 0 && !is_plain ? &worker : NULL;
}

weft_fiber weft_self(void)
{
    return x_thread() == 0 && !is_plain ? HANDLE : WEFT_NO_FIBER;
}

struct weft__task *weft__slab_find(uint32_t slot)
{
    return slot == SLOT ? &task : NULL;
}

struct weft__worker *weft__worker_suspend(struct weft__worker *w, enum weft__post post)
{
    X_ASSERT(w == &worker && post == WEFT__POST_PARK);
    if (weft__waiter_settle(&task)) {
        while (atomic_load_explicit(&placed, memory_order_acquire) == 0) {
            weft__futex_wait(&placed, 0, INT64_MAX);
        }
        atomic_store_explicit(&placed, 0, memory_order_relaxed);
    }
    X_ASSERT(!weft__task_run(&task));
    return w;
}

/* No thread places it elsewhere here. */
void weft__migrate_to_target(void)
{
    X_ASSERT(!"moved");
}

int weft__place(struct weft__task *which, enum weft__queue_end end)
{
    (void)end;
    X_ASSERT(which == &task);
    x_count(PLACED);
    X_ASSERT(atomic_exchange_explicit(&placed, 1, memory_order_release) == 0);
    weft__futex_wake(&placed, 1);
    return 0;
}

/* ---- set-up ---- */

static void setup(void)
{
    memset(stack_bytes, 0, sizeof stack_bytes);
    stack = (struct weft__stack){.top = stack_bytes + sizeof stack_bytes};
    task = (struct weft__task){.pin = -1, .slot = SLOT, .stack = &stack};
    atomic_init(&task.state, WEFT__TASK_RUNNING);
    atomic_init(&task.ident, (uint64_t)GENERATION << 32 | WEFT__IDENT_LIVE);
    atomic_init(&placed, 0);
    worker.current = &task;
    is_plain = false;
    weft__wheel_init(&worker.wheel, TWIN_NOW, WEFT__WHEEL_TICK_SHIFT);
    published = 0;
    results[0] = results[1] = 1;
    x_name(&task, sizeof task, "task");
    x_name(&worker, sizeof worker, "worker");
    x_name(&placed, sizeof placed, "placed");
    x_name(&published, sizeof published, "published");
}

static bool permit_left(void)
{
    return weft__ident_flags(&task) & WEFT__IDENT_PERMIT;
}

static void rests(void)
{
    X_ASSERT(weft__task_state(&task) == WEFT__TASK_RUNNING);
    X_ASSERT(!(weft__ident_flags(&task) & WEFT__IDENT_LOCK));
    X_ASSERT(placed == 0);
}

static void no_permit_left(void)
{
    rests();
    X_ASSERT(!permit_left());
}

/* ---- unpark ---- */

static void park_against_unpark(int i)
{
    if (i == 0) {
        X_ASSERT(weft_fiber_park(WEFT_FOREVER) == 0);
        X_ASSERT(published == 1);
    } else {
        published = 1;
        X_ASSERT(weft_fiber_unpark(HANDLE) == 0);
    }
}

/* One unpark ends one park: the second park, which only polls, finds none. */
static void one_unpark_one_park(int i)
{
    if (i == 0) {
        X_ASSERT(weft_fiber_park(WEFT_FOREVER) == 0);
        X_ASSERT(weft_fiber_park(TWIN_NOW) == -ETIMEDOUT);
    } else {
        X_ASSERT(weft_fiber_unpark(HANDLE) == 0);
    }
}

/* Two unparks, of which the second may come late: park returns once, at most one permit is left. */
static void two_unparks(int i)
{
    if (i == 0) {
        X_ASSERT(weft_fiber_park(WEFT_FOREVER) == 0);
    } else {
        X_ASSERT(weft_fiber_unpark(HANDLE) == 0);
    }
}

static void poll_for_unpark(int i)
{
    if (i == 0) {
        results[0] = weft_fiber_park(TWIN_NOW);
    } else {
        X_ASSERT(weft_fiber_unpark(HANDLE) == 0);
    }
}

/* Timed out: the unpark is kept for the next park. */
static void kept_or_used(void)
{
    rests();
    X_ASSERT(results[0] == 0 || results[0] == -ETIMEDOUT);
    X_ASSERT(permit_left() == (results[0] != 0));
}

/* ---- deadlines ---- */

static void fire_timers(void)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__wheel_advance(&worker.wheel, LATER + (1 << WEFT__WHEEL_TICK_SHIFT), 16, &ready);
    if (weft__chain_pop(&ready)) {
        weft__place(&task, WEFT__BACK);
    }
}

/* The stack of a finished wait is reused: a thread that still reads its node races. */
static __attribute__((noinline)) void reuse_stack(void)
{
    char bytes[512];
    memset(bytes, 1, sizeof bytes);
    x_plain(bytes, sizeof bytes, true);
}

static void deadline_against_unpark(int i)
{
    if (i == 0) {
        results[0] = weft_fiber_park(LATER);
        reuse_stack();
    } else if (i == 1) {
        X_ASSERT(weft_fiber_unpark(HANDLE) == 0);
    } else {
        fire_timers();
    }
}

/* ---- cancel ---- */

static void park_against_cancel(int i)
{
    if (i == 0) {
        X_ASSERT(weft_fiber_park(WEFT_FOREVER) == -ECANCELED);
        X_ASSERT(weft_fiber_is_cancelled());
        X_ASSERT(weft_fiber_park(WEFT_FOREVER) == -ECANCELED); /* until it ends */
    } else {
        X_ASSERT(weft_cancel(HANDLE) == 0);
    }
}

static void cancel_against_unpark(int i)
{
    if (i == 0) {
        results[0] = weft_fiber_park(WEFT_FOREVER);
    } else if (i == 1) {
        X_ASSERT(weft_fiber_unpark(HANDLE) == 0);
    } else {
        X_ASSERT(weft_cancel(HANDLE) == 0);
    }
}

static void unparked_or_cancelled(void)
{
    rests();
    X_ASSERT(results[0] == 0 || results[0] == -ECANCELED);
    X_ASSERT(permit_left() == (results[0] != 0));
}

/* An unpark does not end a wait for another event; a cancel does. */
static void unpark_of_another_wait(int i)
{
    if (i == 0) {
        struct weft__waiter waiter;
        weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT);
        X_ASSERT(weft__waiter_park(&waiter, WEFT_FOREVER, &test_kind, 0) == WEFT__REASON_CANCEL);
    } else if (i == 1) {
        X_ASSERT(weft_fiber_unpark(HANDLE) == 0);
    } else {
        X_ASSERT(weft_cancel(HANDLE) == 0);
    }
}

static void permit_is_left(void)
{
    rests();
    X_ASSERT(permit_left());
}

/* ---- the end of a fiber ---- */

/* A late thread is refused; a thread in time is done before the slot is released. */
static void unpark_against_end(int i)
{
    uint64_t ident;
    if (i == 0) {
        X_ASSERT(weft__ident_lock(&task, GENERATION, 0, &ident));
        published = 1; /* of the fiber, under its lock */
        weft__ident_retire(&task);
    } else {
        int err = weft_fiber_unpark(HANDLE);
        X_ASSERT(err == 0 || err == -ESRCH);
        if (err == 0) {
            X_ASSERT(weft_fiber_unpark(HANDLE + ((weft_fiber)1 << 32)) == -ESRCH);
        }
    }
}

static void next_generation(void)
{
    X_ASSERT(task.ident == (uint64_t)(GENERATION + 1) << 32);
}

/* Operations under the ident lock exclude each other. */
static void ident_lock_excludes(int i)
{
    (void)i;
    uint64_t ident;
    X_ASSERT(weft__ident_lock(&task, GENERATION, 0, &ident));
    published++;
    weft__ident_unlock(&task, ident);
}

static void published_twice(void)
{
    X_ASSERT(published == 2);
}

/* ---- plain threads as waiters ---- */

static struct weft__waiter plain;
static struct weft__node node;
static struct weft__lock source; /* guards `linked` */
static bool linked;

static void setup_node(void)
{
    setup();
    atomic_init(&source.word, 0);
    is_plain = true;
    weft__waiter_arm(&plain, WEFT__WAIT_OBJECT);
    weft__node_init(&node, &plain, 0);
    linked = true;
}

static void thread_waits(int i)
{
    if (i == 0) {
        enum weft__reason reason = weft__waiter_park(&plain, LATER, &test_kind, 0);
        if (reason == WEFT__REASON_DONE) {
            X_ASSERT(node.value == &published);
        } else {
            X_ASSERT(reason == WEFT__REASON_TIMEOUT);
        }
        weft__lock(&source);
        X_ASSERT(!linked || reason == WEFT__REASON_TIMEOUT); /* the thread that fires unlinks */
        linked = false;
        weft__unlock(&source);
        node.value = NULL; /* no thread touches it any more */
    } else {
        struct weft__chain ready;
        weft__chain_init(&ready);
        weft__lock(&source);
        if (linked) {
            linked = false;
            (void)!weft__node_fire(&node, &published, 0, &ready);
        }
        weft__unlock(&source);
        X_ASSERT(!ready.head);
    }
}

static void thread_waits_for_ever(int i)
{
    if (i == 0) {
        X_ASSERT(weft__waiter_park(&plain, WEFT_FOREVER, &test_kind, 0) == WEFT__REASON_DONE);
        X_ASSERT(node.value == &published);
    } else {
        struct weft__chain ready;
        weft__chain_init(&ready);
        X_ASSERT(weft__node_fire(&node, &published, 0, &ready) && !ready.head);
    }
}

static const struct x_client clients[] = {
    X_CLIENT("park_against_unpark", 2, setup, park_against_unpark, no_permit_left, .spurious = 1),
    X_CLIENT("one_unpark_one_park", 2, setup, one_unpark_one_park, no_permit_left),
    X_CLIENT("two_unparks", 3, setup, two_unparks, rests),
    X_CLIENT("poll_for_unpark", 2, setup, poll_for_unpark, kept_or_used),
    X_CLIENT("park_against_cancel", 2, setup, park_against_cancel, NULL),
    X_CLIENT("cancel_against_unpark", 3, setup, cancel_against_unpark, unparked_or_cancelled),
    X_CLIENT("unpark_of_another_wait", 3, setup, unpark_of_another_wait, permit_is_left),
    X_CLIENT("unpark_against_end", 2, setup, unpark_against_end, next_generation),
    X_CLIENT("ident_lock_excludes", 2, setup, ident_lock_excludes, published_twice, .spurious = 1),
    X_CLIENT("thread_waits", 2, setup_node, thread_waits, NULL),
    X_CLIENT("thread_waits_for_ever", 2, setup_node, thread_waits_for_ever, NULL, .spurious = 1),
    X_CLIENT("deadline_against_unpark", 3, setup, deadline_against_unpark, kept_or_used,
             .preemptions = 2),
};

X_MAIN(clients)
