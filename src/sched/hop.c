/* Hopping: the running fiber changes its home, leaves its worker, and is queued at the new one.
 *
 * Who counts the fiber: the pool it is in, once; and for every scoped hop that is away from the
 * pool it began in (`held`), that pool too, so that its stop waits. A scope that began with a move
 * inside one pool is not held; if the fiber then leaves that pool for good, the pool's count
 * becomes the scope's. In the same way the worker a fiber was bound to goes on counting it as
 * bound.
 */
#include <errno.h>

#include <weft/hop.h>

#include "base/assert.h"
#include "base/lock.h"
#include "base/need.h"
#include "sched/fork.h"
#include "sched/handle.h"
#include "sched/ident.h"
#include "sched/pool.h"
#include "sched/worker.h"

static void count_bound(weft_pool *pool, int worker, int n)
{
    if (worker >= 0) {
        atomic_fetch_add_explicit(&pool->workers[worker].bound, (uint64_t)n, memory_order_relaxed);
    }
}

/* The new home, and the scopes that are open from now on. Dumps and cancels read them. */
static void set_home(struct weft__task *self, weft_pool *pool, int pin, struct weft_hop *hops)
{
    uint64_t ident;
    bool live = weft__ident_lock(self, weft__task_handle(self) >> 32, 0, &ident);
    WEFT__ASSERT(live);
    self->home = pool;
    self->pin = (int16_t)pin;
    weft__task_rare(self)->hops = hops;
    weft__ident_unlock(self, ident);
}

/* The old pool no longer counts the fiber, after it has been counted at the new one. */
static void count_departure(struct weft__worker *w)
{
    atomic_store_explicit(&w->counters.departed,
                          atomic_load_explicit(&w->counters.departed, memory_order_relaxed) + 1,
                          memory_order_release); /* pairs: weft__pool_live */
    weft__pool_release(w->pool, 1);
}

/* The innermost scope that will end in the pool the fiber is about to leave, and that this pool
 * does not count yet. */
static struct weft_hop *scope_to_hold(struct weft_hop *hop, const weft_pool *pool)
{
    while (hop && (hop->from != pool || hop->held)) {
        hop = hop->outer;
    }
    return hop;
}

static bool is_there(const struct weft__worker *w, const weft_pool *pool, int worker)
{
    return w->pool == pool && (worker == WEFT_ANY_WORKER || worker == w->index);
}

/* The calling fiber, if there is such a worker to go to. */
static int check_target(struct weft__worker *w, const weft_pool *pool, int worker, const char *call)
{
    if (!w || !weft__current(w)) {
        weft__fork_check_fiber(call);
        return -ENXIO;
    }
    if (w->pool != pool && (w->rounds || pool->rounds)) {
        return -EPERM; /* a group's fiber stays on its thread, and nobody comes by himself */
    }
    if (w->rounds && worker == WEFT_ANY_WORKER) {
        return -EALREADY; /* there is no other */
    }
    return worker < WEFT_ANY_WORKER || worker >= (int)pool->worker_count ? -EINVAL : 0;
}

/* The calling fiber, which the pool counts already if it is another one. */
static void move(struct weft__worker *w, weft_pool *pool, int worker)
{
    struct weft__task *self = weft__current(w);
    struct weft_hop *hops = weft__task_rare(self)->hops;
    if (w->pool != pool) {
        struct weft_hop *scope = scope_to_hold(hops, w->pool);
        if (scope) {
            scope->held = true;
        } else {
            count_departure(w);
        }
    }
    bool moves = !is_there(w, pool, worker);
    if (self->home != pool || self->pin != worker) {
        count_bound(self->home, self->pin, -1);
        count_bound(pool, worker, 1);
        set_home(self, pool, worker, hops);
    }
    if (moves) {
        weft__worker_suspend(w, WEFT__POST_HOP);
    }
}

int weft_switch_to(weft_pool *pool, int worker)
{
    WEFT__NEED(pool);
    struct weft__worker *w = weft__worker_self();
    int err = check_target(w, pool, worker, "weft_switch_to");
    if (!err && w->pool != pool) {
        err = weft__pool_admit_outside(pool, 1);
    }
    if (!err) {
        move(w, pool, worker);
    }
    return err == -EALREADY ? 0 : err;
}

/* --- one that is parked -------------------------------------------------------------------------
 *
 * Another thread cannot take a parked fiber out of its pool: its deadline may lie in a wheel there,
 * and its departure is counted by a worker. So the fiber is told where to go, counted there, and
 * woken where it is; the end of its park moves it before weft_park returns. Who tells holds the
 * ident lock: one tells at a time, and the fiber reads what it was told before it can park again.
 */

void weft__hop_as_told(void)
{
    struct weft__worker *w = weft__worker_self();
    const struct weft__rare *rare = weft__task_rare(weft__current(w));
    move(w, rare->told_pool, rare->told_worker);
}

/* Under the ident lock: may this fiber be sent there? 0, -EPERM, -EBUSY: it is not parked. */
static int check_parked_locked(const struct weft__task *task, const weft_pool *pool,
                               uint64_t *ticket)
{
    unsigned kind;
    if (weft__task_is_body(task) || (task->flags & WEFT__TASK_GROUPED) || pool->rounds) {
        return -EPERM;
    }
    return weft__task_ticket(task, ticket, &kind) &&
                   (kind & ~WEFT__WAIT_SHIELDED) == WEFT__WAIT_PARK
               ? 0
               : -EBUSY;
}

/* Where it is, if it is parked there. */
static int find_parked(weft_fiber fiber, const weft_pool *pool, weft_pool **home)
{
    uint64_t ident, ticket;
    struct weft__task *task = weft__handle_lock_running(fiber, 0, &ident);
    if (!task) {
        return -ESRCH;
    }
    int err = check_parked_locked(task, pool, &ticket);
    *home = task->home;
    weft__ident_unlock(task, ident);
    return err;
}

/* -EAGAIN: it has gone elsewhere, to park there. */
static int send_parked(weft_fiber fiber, const weft_pool *home, weft_pool *pool, int worker)
{
    uint64_t ident, ticket;
    enum weft__fire fire = WEFT__FIRE_LOST;
    struct weft__task *task = weft__handle_lock_running(fiber, 0, &ident);
    if (!task) {
        return -ESRCH;
    }
    int err = check_parked_locked(task, pool, &ticket);
    if (!err && task->home != home) {
        err = -EAGAIN;
    }
    if (!err) {
        weft__task_rare(task)->told_pool = pool;
        weft__task_rare(task)->told_worker = worker;
        fire = weft__task_fire(task, ticket, WEFT__REASON_MOVED);
        err = fire == WEFT__FIRE_LOST ? -EBUSY : 0;
    }
    weft__ident_unlock(task, ident);
    if (fire == WEFT__FIRE_ENQUEUE) {
        weft__place(task);
    }
    return err;
}

int weft_unpark_on(weft_fiber fiber, weft_pool *pool, int worker)
{
    weft__pool_check_fork(pool);
    if (worker < WEFT_ANY_WORKER || worker >= (int)pool->worker_count) {
        return -EINVAL;
    }
    for (;;) {
        weft_pool *home;
        int err = find_parked(fiber, pool, &home);
        if (!err && home != pool) {
            err = weft__pool_admit_outside(pool, 1);
        }
        if (err) {
            return err;
        }
        err = send_parked(fiber, home, pool, worker);
        if (err && home != pool) {
            weft__pool_unadmit_outside(pool, 1);
        }
        if (err != -EAGAIN) {
            return err;
        }
    }
}

int weft_hop_enter(struct weft_hop *hop, weft_pool *pool, int worker)
{
    struct weft__worker *w = weft__worker_self();
    int err = check_target(w, pool, worker, "weft_hop_enter");
    if (err && err != -EALREADY) {
        return err;
    }
    struct weft__task *self = weft__current(w);
    if (w->pool == pool && (worker == WEFT_ANY_WORKER || worker == self->pin)) {
        hop->from = NULL; /* nothing to undo */
        return 0;
    }
    *hop = (struct weft_hop){
        .from = w->pool,
        .from_worker = self->pin,
        .outer = weft__task_rare(self)->hops,
        .held = w->pool != pool,
    };
    if (hop->held) {
        err = weft__pool_admit_outside(pool, 1);
        if (err) {
            return err;
        }
    }
    bool moves = !is_there(w, pool, worker);
    count_bound(pool, worker, 1);
    set_home(self, pool, worker, hop);
    if (moves) {
        weft__worker_suspend(w, WEFT__POST_HOP);
    }
    return 0;
}

void weft_hop_leave(struct weft_hop *hop)
{
    struct weft__worker *w = weft__worker_self();
    struct weft__task *self = w ? weft__current(w) : NULL;
    if (!self) {
        weft__fork_check_fiber("weft_hop_leave");
        WEFT__REQUIRE(false, "weft_hop_leave was called outside of a fiber");
    }
    if (!hop->from) {
        return;
    }
    WEFT__REQUIRE(weft__task_rare(self)->hops == hop,
                  "weft_hop_leave: not the innermost hop of this fiber");
    if (hop->held) {
        count_departure(w); /* where it goes has counted it all the time */
    }
    bool moves = !is_there(w, hop->from, hop->from_worker);
    count_bound(self->home, self->pin, -1);
    set_home(self, hop->from, hop->from_worker, hop->outer);
    if (moves) {
        weft__worker_suspend(w, WEFT__POST_HOP);
    }
}

void weft__hop_leave_all(struct weft__rare *rare)
{
    while (rare->hops) {
        weft_hop_leave(rare->hops);
    }
}

bool weft__hop_returns_to(const struct weft__rare *rare, const weft_pool *pool)
{
    const struct weft_hop *hop = rare->hops;
    while (hop && hop->from != pool) {
        hop = hop->outer;
    }
    return hop != NULL;
}

/* What a fiber does for another one, which waits for its end. */
struct errand {
    weft_fn fn;
    void *arg;
    struct weft__lock lock;
    bool over;        /* under the lock: interrupts are the caller's again, */
    bool interrupted; /* and so is one that no wait of the function has delivered */
};

static void end_errand(void *arg)
{
    struct errand *errand = arg;
    weft__lock(&errand->lock);
    errand->over = true;
    errand->interrupted = weft_clear_interrupt() || errand->interrupted;
    weft__unlock(&errand->lock);
}

static void *run_errand(void *arg)
{
    struct errand *errand = arg;
    struct weft_cleanup end;
    weft_cleanup_push(&end, end_errand, errand);
    void *value = errand->fn(errand->arg);
    weft_cleanup_pop(&end, true);
    return value;
}

static void interrupt_errand(struct errand *errand, weft_fiber fiber)
{
    weft__lock(&errand->lock);
    if (errand->over) {
        errand->interrupted = true;
    } else {
        weft_interrupt(fiber);
    }
    weft__unlock(&errand->lock);
}

/* A fiber's. A cancel or an interrupt of the one who waits is the function's, as if that ran here;
 * then there is nothing left but its end. */
static int join_errand(struct errand *errand, weft_fiber fiber, void **result)
{
    int err = weft_join(fiber, result, WEFT_FOREVER);
    while (err == -EINTR) {
        interrupt_errand(errand, fiber);
        err = weft_join(fiber, result, WEFT_FOREVER);
    }
    if (err == -ECANCELED) {
        weft_cancel(fiber);
        weft_shield_enter();
        while ((err = weft_join(fiber, result, WEFT_FOREVER)) == -ECANCELED) {
            weft_yield(); /* an abort, which no shield keeps away */
        }
        weft_shield_leave();
    }
    if (errand->interrupted) {
        weft_interrupt(weft_self());
    }
    return err;
}

/* For one who cannot go there itself: a fiber does. Whatever comes, its end is waited for: it may
 * use the caller's stack. */
static int call_by_fiber(weft_pool *pool, int worker, weft_fn fn, void *arg, void **result,
                         bool in_fiber)
{
    struct weft_fiber_opts opts = {.bound = worker != WEFT_ANY_WORKER, .worker = worker};
    struct errand errand = {.fn = fn, .arg = arg};
    weft_fiber fiber;
    int err = in_fiber ? weft_pool_spawn(pool, &fiber, run_errand, &errand, &opts)
                       : weft_pool_spawn(pool, &fiber, fn, arg, &opts);
    if (err) {
        return err;
    }
    return in_fiber ? join_errand(&errand, fiber, result) : weft_join(fiber, result, WEFT_FOREVER);
}

int weft_call_on(weft_pool *pool, int worker, weft_fn fn, void *arg, void **result)
{
    WEFT__NEED(pool);
    struct weft__worker *w = weft__worker_self();
    if (!w || !weft__current(w) || (w->rounds && w->pool != pool)) {
        return call_by_fiber(pool, worker, fn, arg, result, w && weft__current(w));
    }
    struct weft_hop hop;
    int err = weft_hop_enter(&hop, pool, worker);
    if (err) {
        return err;
    }
    void *value = fn(arg);
    weft_hop_leave(&hop);
    if (result) {
        *result = value;
    }
    return 0;
}
