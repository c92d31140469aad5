/* Migration: the running fiber changes its home pool, leaves its worker, and is queued at the new
 * pool or worker.
 *
 * Accounting: the pool that the fiber is in counts it once. In addition, for every scoped
 * migration away from its pool (`held`), that pool counts the fiber too, so that its stop waits. A
 * scope that began with a move inside one pool is not held; if the fiber then leaves that pool for
 * good, the pool's count becomes the scope's. In the same way the worker to which the fiber was
 * bound keeps counting it as bound. */
#include <errno.h>

#include <weft/fiber.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/nonnull.h"
#include "lock/lock.h"
#include "sched/pool.h"
#include "task/fork.h"
#include "task/handle.h"
#include "task/ident.h"
#include "worker/worker.h"

static void count_bound(weft_pool *pool, int worker, int n)
{
    if (worker >= 0) {
        atomic_fetch_add_explicit(&pool->workers[worker].bound, (uint64_t)n, memory_order_relaxed);
    }
}

/* Sets the new home and the list of open scopes. Dumps and cancels read both. */
static void set_home(struct weft__task *self, weft_pool *pool, int pin,
                     struct weft_migration *migrations)
{
    uint64_t ident;
    bool live = weft__ident_lock(self, weft__task_handle(self) >> 32, 0, &ident);
    WEFT__ASSERT(live);
    self->home = pool;
    self->pin = (int16_t)pin;
    weft__task_rare(self)->migrations = migrations;
    weft__ident_unlock(self, ident);
}

/* Stops counting the fiber in the old pool, after the new pool has counted it. */
static void count_departure(struct weft__worker *w)
{
    atomic_store_explicit(&w->counters.departed,
                          atomic_load_explicit(&w->counters.departed, memory_order_relaxed) + 1,
                          memory_order_release); /* pairs: weft__pool_live */
    weft__pool_release(w->pool, 1);
}

/* The innermost scope that will end in the pool that the fiber is about to leave, and that this
 * pool does not count yet. */
static struct weft_migration *scope_to_hold(struct weft_migration *migration, const weft_pool *pool)
{
    while (migration && (migration->from != pool || migration->held)) {
        migration = migration->outer;
    }
    return migration;
}

static bool is_there(const struct weft__worker *w, const weft_pool *pool, int worker)
{
    return w->pool == pool && (worker == WEFT_ANY_WORKER || worker == w->index);
}

/* Checks that the caller is a fiber and that the target worker exists. */
static int check_target(struct weft__worker *w, const weft_pool *pool, int worker, const char *call)
{
    if (!w || !weft__current(w)) {
        weft__fork_check_fiber(call);
        return -ENXIO;
    }
    if (w->pool != pool && (w->group_sched || pool->group_sched)) {
        return -EPERM; /* a group's fiber stays on its thread, and no other fiber may enter a
                        * dispatcher's pool */
    }
    if (w->group_sched && worker == WEFT_ANY_WORKER) {
        return -EALREADY; /* the only worker: nothing to do */
    }
    return worker < WEFT_ANY_WORKER || worker >= (int)pool->worker_count ? -EINVAL : 0;
}

/* Moves the calling fiber. If `pool` is another pool, it has counted the fiber already. */
static void move(struct weft__worker *w, weft_pool *pool, int worker)
{
    struct weft__task *self = weft__current(w);
    struct weft_migration *migrations = weft__task_rare(self)->migrations;
    if (w->pool != pool) {
        struct weft_migration *scope = scope_to_hold(migrations, w->pool);
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
        set_home(self, pool, worker, migrations);
    }
    if (moves) {
        weft__worker_suspend(w, WEFT__POST_MIGRATE);
    }
}

int weft_fiber_migrate(weft_pool *pool, int worker)
{
    WEFT__NONNULL(pool);
    struct weft__worker *w = weft__worker_self();
    int err = check_target(w, pool, worker, "weft_fiber_migrate");
    if (!err && w->pool != pool) {
        err = weft__pool_admit_outside(pool, 1);
    }
    if (!err) {
        move(w, pool, worker);
    }
    return err == -EALREADY ? 0 : err;
}

/* --- migrating a parked fiber --------------------------------------------------------------------
 *
 * Another thread cannot take a parked fiber out of its pool: its deadline may be in a wheel there,
 * and a worker there counts its departure. So the other thread records the destination, counts the
 * fiber there, and wakes the fiber where it is; the end of its park moves it before
 * weft_fiber_park returns. The other thread holds the ident lock: only one thread records at a
 * time, and the fiber reads the destination before it can park again. */

void weft__migrate_to_target(void)
{
    struct weft__worker *w = weft__worker_self();
    const struct weft__rare *rare = weft__task_rare(weft__current(w));
    move(w, rare->target_pool, rare->target_worker);
}

/* Under the ident lock: may this fiber be sent there? Returns 0; -EPERM; -EBUSY if it is not
 * parked. */
static int check_parked_locked(const struct weft__task *task, const weft_pool *pool,
                               uint64_t *ticket)
{
    unsigned kind;
    if (weft__task_is_stackless(task) || (task->flags & WEFT__TASK_GROUPED) || pool->group_sched) {
        return -EPERM;
    }
    return weft__task_ticket(task, ticket, &kind) &&
                   (kind & ~WEFT__WAIT_SHIELDED) == WEFT__WAIT_PARK
               ? 0
               : -EBUSY;
}

/* Finds the pool of a fiber that is parked. */
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

/* Returns -EAGAIN if the fiber has moved to another pool and parked there. */
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
        weft__task_rare(task)->target_pool = pool;
        weft__task_rare(task)->target_worker = worker;
        fire = weft__task_fire(task, ticket, WEFT__REASON_MIGRATE);
        err = fire == WEFT__FIRE_LOST ? -EBUSY : 0;
    }
    weft__ident_unlock(task, ident);
    if (fire == WEFT__FIRE_ENQUEUE) {
        weft__place(task, WEFT__BACK);
    }
    return err;
}

int weft_fiber_unpark_on(weft_fiber fiber, weft_pool *pool, int worker)
{
    WEFT__NONNULL(pool);
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

int weft_migration_enter(struct weft_migration *migration, weft_pool *pool, int worker)
{
    WEFT__NONNULL(migration);
    WEFT__NONNULL(pool);
    struct weft__worker *w = weft__worker_self();
    int err = check_target(w, pool, worker, "weft_migration_enter");
    if (err && err != -EALREADY) {
        return err;
    }
    struct weft__task *self = weft__current(w);
    if (w->pool == pool && (worker == WEFT_ANY_WORKER || worker == self->pin)) {
        migration->from = NULL; /* nothing to undo */
        return 0;
    }
    *migration = (struct weft_migration){
        .from = w->pool,
        .from_worker = self->pin,
        .outer = weft__task_rare(self)->migrations,
        .held = w->pool != pool,
    };
    if (migration->held) {
        err = weft__pool_admit_outside(pool, 1);
        if (err) {
            return err;
        }
    }
    bool moves = !is_there(w, pool, worker);
    count_bound(pool, worker, 1);
    set_home(self, pool, worker, migration);
    if (moves) {
        weft__worker_suspend(w, WEFT__POST_MIGRATE);
    }
    return 0;
}

void weft_migration_leave(struct weft_migration *migration)
{
    struct weft__worker *w = weft__worker_self();
    struct weft__task *self = w ? weft__current(w) : NULL;
    if (!self) {
        weft__fork_check_fiber("weft_migration_leave");
        WEFT__REQUIRE(false, "weft_migration_leave was called outside of a fiber");
    }
    if (!migration->from) {
        return;
    }
    WEFT__REQUIRE(weft__task_rare(self)->migrations == migration,
                  "weft_migration_leave: not the innermost migration scope of this fiber");
    if (migration->held) {
        count_departure(w); /* the destination has counted the fiber all the time */
    }
    bool moves = !is_there(w, migration->from, migration->from_worker);
    count_bound(self->home, self->pin, -1);
    set_home(self, migration->from, migration->from_worker, migration->outer);
    if (moves) {
        weft__worker_suspend(w, WEFT__POST_MIGRATE);
    }
}

void weft__migration_leave_all(struct weft__rare *rare)
{
    while (rare->migrations) {
        weft_migration_leave(rare->migrations);
    }
}

bool weft__migration_will_return_to(const struct weft__rare *rare, const weft_pool *pool)
{
    const struct weft_migration *migration = rare->migrations;
    while (migration && migration->from != pool) {
        migration = migration->outer;
    }
    return migration != NULL;
}

/* A call that a new fiber makes for a caller that cannot migrate itself. The function may use the
 * caller's stack, so the caller waits for its end once it has started. A caller that gives up
 * before that leaves the record to the fiber, which then does not call the function. */
struct remote_call {
    weft_fn fn;
    void *arg;
    struct weft__lock lock;
    /* under the lock */
    bool started, abandoned; /* at most one of them */
    bool over;               /* interrupts go to the caller again, */
    bool interrupted;        /* and so does one that no wait of the function delivered */
};

static void end_remote_call(void *arg)
{
    struct remote_call *remote_call = arg;
    weft__lock(&remote_call->lock);
    remote_call->over = true;
    remote_call->interrupted = weft_fiber_clear_interrupt() || remote_call->interrupted;
    weft__unlock(&remote_call->lock);
}

static void *run_remote_call(void *arg)
{
    struct remote_call *remote_call = arg;
    struct weft_fiber_cleanup end;
    weft__lock(&remote_call->lock);
    bool abandoned = remote_call->abandoned;
    remote_call->started = !abandoned;
    weft__unlock(&remote_call->lock);
    if (abandoned) {
        weft__free(remote_call);
        return NULL;
    }
    weft_fiber_cleanup_push(&end, end_remote_call, remote_call);
    void *value = remote_call->fn(remote_call->arg);
    weft_fiber_cleanup_pop(&end, true);
    return value;
}

static void interrupt_remote_call(struct remote_call *remote_call, weft_fiber fiber)
{
    weft__lock(&remote_call->lock);
    if (remote_call->over) {
        remote_call->interrupted = true;
    } else {
        weft_fiber_interrupt(fiber);
    }
    weft__unlock(&remote_call->lock);
}

/* True: the function has not started and never will; the record belongs to the fiber now. */
static bool abandon_remote_call(struct remote_call *remote_call, weft_fiber fiber)
{
    weft__lock(&remote_call->lock);
    bool abandoned = remote_call->abandoned = !remote_call->started;
    weft__unlock(&remote_call->lock);
    if (abandoned) {
        weft_fiber_detach(fiber);
    }
    return abandoned;
}

/* A cancel or an interrupt of a waiting fiber is forwarded to the function, as if the function ran
 * here; after a cancel the fiber only waits for the end. False: the call was abandoned. */
static bool join_remote_call(struct remote_call *remote_call, weft_fiber fiber, void **result,
                             int64_t deadline, int *err)
{
    bool cancelled = false, abandoned = false;
    for (;;) {
        *err = weft_join(fiber, result, deadline);
        if (*err == -EINTR) {
            interrupt_remote_call(remote_call, fiber);
        } else if (*err == -ECANCELED && !cancelled) {
            cancelled = true;
            weft_cancel(fiber);
            weft_fiber_shield_enter();
        } else if (*err == -ECANCELED) {
            weft_yield(); /* an abort, which a shield does not defer */
        } else if (*err == -ETIMEDOUT || *err == -EDEADLK) {
            abandoned = abandon_remote_call(remote_call, fiber);
            if (abandoned) {
                break;
            }
            deadline = WEFT_FOREVER;
        } else {
            break;
        }
    }
    if (cancelled) {
        weft_fiber_shield_leave();
    }
    return !abandoned;
}

static int call_by_fiber(weft_pool *pool, void **result, int worker, weft_fn fn, void *arg,
                         int64_t deadline)
{
    struct weft_fiber_opts opts = {.bound = worker != WEFT_ANY_WORKER, .worker = worker};
    struct remote_call *remote_call = weft__alloc(sizeof *remote_call);
    weft_fiber fiber;
    if (!remote_call) {
        return -ENOMEM;
    }
    remote_call->fn = fn;
    remote_call->arg = arg;
    int err = fn ? weft_pool_spawn(pool, &fiber, run_remote_call, remote_call, &opts) : -EINVAL;
    if (err) {
        weft__free(remote_call);
        return err;
    }
    if (join_remote_call(remote_call, fiber, result, deadline, &err)) {
        if (remote_call->interrupted) {
            weft_fiber_interrupt(weft_self());
        }
        weft__free(remote_call);
    }
    return err;
}

int weft_pool_call(weft_pool *pool, void **result, int worker, weft_fn fn, void *arg,
                   int64_t deadline)
{
    WEFT__NONNULL(pool);
    struct weft__worker *w = weft__worker_self();
    if (!w || !weft__current(w) || (w->group_sched && w->pool != pool)) {
        return call_by_fiber(pool, result, worker, fn, arg, deadline);
    }
    struct weft_migration migration;
    int err = weft_migration_enter(&migration, pool, worker);
    if (err) {
        return err;
    }
    if (deadline != WEFT_FOREVER && weft_now() >= deadline) {
        weft_migration_leave(&migration);
        return -ETIMEDOUT;
    }
    void *value = fn(arg);
    weft_migration_leave(&migration);
    if (result) {
        *result = value;
    }
    return 0;
}
