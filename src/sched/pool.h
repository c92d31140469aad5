/* The structure of a pool. The public contract is <weft/pool.h>. */
#ifndef WEFT_SCHED_POOL_H
#define WEFT_SCHED_POOL_H

#include <errno.h>

#include <stdbool.h>
#include <stdint.h>

#include <weft/pool.h>

#include "base/assert.h"
#include "idle/idle.h"
#include "lock/lock.h"
#include "queue/global.h"
#include "task/ident.h"
#include "wait/waiter.h"
#include "worker/worker.h"

enum weft__pool_phase {
    WEFT__POOL_CREATED,
    WEFT__POOL_STARTED,
    WEFT__POOL_STOPPING, /* no spawns from outside; fibers run on */
    WEFT__POOL_STOPPED,
    WEFT__POOL_FORKED, /* copy of a pool in a forked child, which has none of its threads */
};

struct weft_pool {
    /* immutable after create */
    char *name;      /* owned copy */
    uint64_t serial; /* unique among all pools ever created, unlike the address */
    unsigned worker_count;
    bool caller;  /* worker 0 is the creating thread */
    bool compute; /* no I/O driver */
    enum weft_driver wanted;
    _Atomic(const struct weft__driver_kind *) driver; /* the driver in use; NULL: not used yet */
    _Atomic(const char *) driver_why;                 /* why this driver was chosen */
    uint8_t stack_class;
    bool fresh_fifo;
    unsigned ring_slots, fresh_slots;
    uint64_t max_fibers;
    int64_t spin_ns;
    bool yields_cpu;     /* one of more isolated pools than CPUs: a search gives up the CPU */
    unsigned tick_shift; /* of the timer wheels */
    int64_t hog_ns;      /* <= 0: not reported */
    bool deadlock_off;   /* fibers may be woken by sources that Weft does not know */
    struct weft__group_sched
        *group_sched; /* set if a dispatcher owns the pool, before its start; else
                                    NULL */
    pthread_t caller_thread;
    int host_fd;    /* eventfd of a caller in a host's loop, or -1 */
    int host_epoll; /* what the host waits for: host_fd and worker 0's driver; or -1 */

    /* any thread */
    alignas(WEFT__CACHE_LINE) struct weft__global global;
    alignas(WEFT__CACHE_LINE) struct weft__idle idle;
    alignas(WEFT__CACHE_LINE) _Atomic(int) phase;
    _Atomic(uint32_t) exiting;       /* threads leave their loops when they run out of work */
    _Atomic(uint32_t) drain_awaited; /* a stop waits for the drain: idle workers check for it */
    _Atomic(uint32_t) cancelling;    /* flags of task/ident.h that all fibers have from now on */
    /* Number of stalled workers with timers or I/O: other workers serve these at their ticks. */
    _Atomic(uint32_t) stalled_workers;
    alignas(WEFT__CACHE_LINE) _Atomic(uint64_t) entered; /* fibers spawned from outside */
    _Atomic(uint64_t) left;       /* fibers that ended or left without a worker counting it */
    _Atomic(uint64_t) refused;    /* those of them that were not admitted in the end */
    _Atomic(uint32_t) visitors;   /* foreign threads that are waking a fiber of this pool */
    _Atomic(uint32_t) timer_turn; /* selects the worker for the next timer from outside */
    _Atomic(uint64_t) admitted;   /* exact number of live fibers; only with max_fibers */

    /* under lock */
    struct weft__lock lock;
    struct weft__node *stoppers; /* waits for the drain */
    struct weft__waiter *runner; /* the caller's, while it waits as worker 0 in run or stop */

    struct weft__lock
        phase_lock;  /* held while the phase changes and threads are created or joined */
    weft_pool *next; /* in weft__pools, under its lock */

    struct weft__worker workers[];
};

/* All pools, from the end of create to the beginning of destroy. A pool in the list cannot be freed
 * while the lock is held. */
struct weft__pools {
    struct weft__lock lock;
    weft_pool *first;
    uint64_t made; /* pools created so far */
};
extern struct weft__pools weft__pools;

/* Under its ident lock: does the fiber belong to this pool, or did it when it ended? */
static inline bool weft__pool_owns(const weft_pool *pool, const struct weft__task *task,
                                   uint64_t ident)
{
    return ident & WEFT__IDENT_DONE ? task->was_home == pool->serial : task->home == pool;
}

/* A thread outside this pool makes one of its fibers ready and then touches the pool once more, to
 * wake a worker. By then the fiber may have ended and the pool may have been stopped, so destroy
 * waits for such visitors. When the visit begins, the fiber, which is not queued yet, keeps the
 * pool alive. */
static inline void weft__pool_visit(weft_pool *pool)
{
    atomic_fetch_add_explicit(&pool->visitors, 1, memory_order_relaxed);
}

static inline void weft__pool_visit_end(weft_pool *pool)
{
    atomic_fetch_sub_explicit(&pool->visitors, 1, memory_order_release); /* pairs: destroy */
}

/* Around a fork; the child has no pools, and its thread is not a worker. For pool/fork.c. */
void weft__pool_fork_prepare(void);
void weft__pool_fork_parent(void);
void weft__pool_fork_child(void);

/* Every call on a pool that is not on a hot path begins with this check. */
static inline void weft__pool_check_fork(const weft_pool *pool)
{
    WEFT__REQUIRE(atomic_load_explicit(&pool->phase, memory_order_relaxed) != WEFT__POOL_FORKED,
                  "pool %s was created before fork() and is used in the child: create a new one",
                  pool->name);
}

/* The public calls without the check for a dispatcher's pool, for which they return -EINVAL: such a
 * pool is started and stopped with its dispatcher. */
int weft__pool_start(weft_pool *pool);
int weft__pool_poll(weft_pool *pool);
int weft__pool_stop(weft_pool *pool, enum weft_stop_mode mode, int64_t deadline);

/* Number of live fibers: entered minus left, summed so that a result of 0 is always true once
 * spawns from outside are refused (the proof is at the function). */
uint64_t weft__pool_live(weft_pool *pool);

/* Links the joiner of a joinable fiber; the joiner serves as a worker while it waits. False: the
 * fiber has ended already, the node has its value, and the join right is used. */
bool weft__join_arm(weft_fiber fiber, struct weft__node *node);
/* Like weft__join_arm, for a fiber that may be gone or detached: false, and no join right was
 * used. */
bool weft__join_arm_known(weft_fiber fiber, struct weft__node *node);
/* A join that does not wait. False: the fiber has not ended. */
bool weft__join_try(weft_fiber fiber, void **value, int *status);
/* For a joiner that gives up: unlinks its node, unless the fiber has ended. */
void weft__join_unlink(weft_fiber fiber, struct weft__node *node);
/* Unlinks the node and gives the join right up. */
void weft__join_disarm(weft_fiber fiber, struct weft__node *node);
enum weft_fiber_state weft__fiber_state_of(enum weft__task_state state);

/* For a fiber that ends inside scoped migrations: goes back through all of them. */
void weft__migration_leave_all(struct weft__rare *rare);
/* Under the ident lock, for a fiber with a stack: will it migrate back to this pool? */
bool weft__migration_will_return_to(const struct weft__rare *rare, const weft_pool *pool);

/* The caller's thread is present: others may rely on it. */
void weft__pool_caller_enter(weft_pool *pool);
/* Between enter and leave: runs the calling thread as worker 0 until its waiter, armed with
 * weft__waiter_arm_worker, is fired. Returns the reason; WEFT__REASON_CANCEL: a deadlock, every
 * fiber waits for ever. */
enum weft__reason weft__pool_lend_thread(weft_pool *pool, struct weft__waiter *waiter);
/* Like weft__pool_lend_thread, with a deadline: WEFT__REASON_TIMEOUT. */
enum weft__reason weft__pool_serve(weft_pool *pool, struct weft__waiter *waiter, int64_t deadline);
/* The caller's thread leaves worker 0: its tasks and timers are offered to the other workers, and
 * threads that wait in stop are notified. */
void weft__pool_caller_leave(weft_pool *pool);
/* Opens the descriptor that a host waits for: wake-ups, and later the driver's events. */
int weft__pool_host_open(weft_pool *pool);
void weft__pool_host_close(const weft_pool *pool);
/* Adds the driver's events to the host's descriptor. */
int weft__pool_host_watch(weft_pool *pool, const struct weft__driver *driver);
/* Ends the time between two polls. */
void weft__pool_leave_host(weft_pool *pool);
/* Both with `phase_lock` held. -EAGAIN: no thread runs. */
int weft__pool_create_threads(weft_pool *pool);
void weft__pool_join_threads(weft_pool *pool);

/* For a worker that has run out of work and entered the idle word: wakes the threads that wait in
 * stop if the pool is drained or needs a caller that is absent. */
void weft__pool_check_drained(weft_pool *pool);

/* Cancels every fiber whose home is this pool or that will migrate back to it, now and from now
 * on. */
void weft__pool_cancel_all(weft_pool *pool, uint32_t flags);
/* Applies the pool's cancel flags to every fiber whose home is this pool or that will migrate back
 * to it and that does not have them yet. */
void weft__pool_cancel_walk(weft_pool *pool);

/* Admits n more fibers from a thread that is not a worker of the pool. -ESHUTDOWN, -EAGAIN. */
int weft__pool_admit_outside(weft_pool *pool, uint64_t n);
void weft__pool_unadmit_outside(weft_pool *pool, uint64_t n);

/* Admits n fibers spawned by a fiber of the pool: only max_fibers can refuse. */
static inline int weft__pool_admit(weft_pool *pool, uint64_t n)
{
    if (__builtin_expect(pool->max_fibers != 0, 0)) {
        /* A compare-and-swap rather than add and undo, which would refuse other spawns
         * meanwhile. */
        uint64_t live = atomic_load_explicit(&pool->admitted, memory_order_relaxed);
        do {
            if (live >= pool->max_fibers || n > pool->max_fibers - live) {
                return -EAGAIN;
            }
        } while (!atomic_compare_exchange_weak_explicit(
            &pool->admitted, &live, live + n, memory_order_relaxed, memory_order_relaxed));
    }
    return 0;
}

/* Admits the successor of a fiber that ends soon: it gets that fiber's place, so max_fibers cannot
 * refuse it. Until then the pool has one fiber too many. */
static inline void weft__pool_admit_successor(weft_pool *pool)
{
    if (__builtin_expect(pool->max_fibers != 0, 0)) {
        atomic_fetch_add_explicit(&pool->admitted, 1, memory_order_relaxed);
    }
}

static inline void weft__pool_release(weft_pool *pool, uint64_t n)
{
    if (__builtin_expect(pool->max_fibers != 0, 0)) {
        atomic_fetch_sub_explicit(&pool->admitted, n, memory_order_relaxed);
    }
}

/* The member of a pool set that the placement rule chooses next. */
weft_pool *weft__pool_set_next(weft_pool_set *pools);

#endif
