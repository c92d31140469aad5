/* A pool's own structure. The public contract is <weft/pool.h>. */
#ifndef WEFT_SCHED_POOL_H
#define WEFT_SCHED_POOL_H

#include <errno.h>

#include <stdbool.h>
#include <stdint.h>

#include <weft/pool.h>

#include "base/assert.h"
#include "base/lock.h"
#include "queue/global.h"
#include "sched/ident.h"
#include "sched/idle.h"
#include "sched/waiter.h"
#include "sched/worker.h"

enum weft__pool_phase {
    WEFT__POOL_CREATED,
    WEFT__POOL_STARTED,
    WEFT__POOL_STOPPING, /* no submits from outside; fibers run on */
    WEFT__POOL_STOPPED,
    WEFT__POOL_FORKED, /* the copy of a pool in a forked child, where its threads are not */
};

struct weft_pool {
    /* immutable after create */
    char *name;      /* its own copy */
    uint64_t serial; /* no other pool has it, before or after, as it may have the address */
    unsigned worker_count;
    bool caller;  /* worker 0 is the creating thread */
    bool compute; /* no I/O driver */
    enum weft_driver wanted;
    _Atomic(const struct weft__driver_kind *) driver; /* what runs; NULL: not used yet */
    _Atomic(const char *) driver_why;                 /* how it came to that */
    uint8_t stack_class;
    bool fresh_fifo;
    unsigned ring_slots, fresh_slots;
    uint64_t max_fibers;
    int64_t spin_ns;
    bool yields; /* one of more isolated pools than there are CPUs: a search yields the CPU */
    unsigned tick_shift;         /* of the wheels */
    int64_t hog_ns;              /* <= 0: not reported */
    bool deadlock_off;           /* fibers here may be woken by what nobody sees */
    struct weft__rounds *rounds; /* a dispatcher's pool; else NULL. Set before it is started */
    pthread_t caller_thread;
    int host_fd;    /* eventfd of a caller in a host's loop, or -1 */
    int host_epoll; /* what the host waits for: that, and the driver of worker 0; or -1 */

    /* any thread */
    alignas(WEFT__CACHE_LINE) struct weft__global global;
    alignas(WEFT__CACHE_LINE) struct weft__idle idle;
    alignas(WEFT__CACHE_LINE) _Atomic(int) phase;
    _Atomic(uint32_t) exiting;    /* threads leave their loops when they are out of work */
    _Atomic(uint32_t) watched;    /* somebody waits in stop for the drain: idle workers look */
    _Atomic(uint32_t) cancelling; /* flags of sched/ident.h with which fibers are born and live */
    /* Workers that are held up with timers or I/O: others serve these at their ticks. */
    _Atomic(uint32_t) hogged;
    alignas(WEFT__CACHE_LINE) _Atomic(uint64_t) entered; /* fibers that came from outside */
    _Atomic(uint64_t) left;       /* fibers that ended or left outside of a worker's counting */
    _Atomic(uint64_t) refused;    /* ... because they were not admitted in the end */
    _Atomic(uint32_t) visitors;   /* threads of others that are making something ready here */
    _Atomic(uint32_t) timer_turn; /* where the next timer from outside belongs */
    _Atomic(uint64_t) admitted;   /* live fibers, exact; only with max_fibers */

    /* under lock */
    struct weft__lock lock;
    struct weft__node *stoppers; /* who waits for the drain */
    struct weft__waiter *runner; /* the caller's, while it waits as worker 0 in run or stop */

    struct weft__lock joining; /* phases change, threads begin and end one at a time */
    weft_pool *next;           /* in weft__pools, under its lock */

    struct weft__worker workers[];
};

/* All that there are, from the end of create to the beginning of destroy. One that is looked at
 * under the lock cannot go meanwhile. */
struct weft__pools {
    struct weft__lock lock;
    weft_pool *first;
    uint64_t made; /* so far */
};
extern struct weft__pools weft__pools;

/* Under its ident lock: is the fiber of this pool, or was it when it ended? */
static inline bool weft__pool_has(const weft_pool *pool, const struct weft__task *task,
                                  uint64_t ident)
{
    return ident & WEFT__IDENT_DONE ? task->was_home == pool->serial : task->home == pool;
}

/* A thread that is not of this pool makes one of its fibers ready and touches the pool once more,
 * to wake a worker. By then the fiber may have ended and the pool been stopped: destroy waits for
 * such visitors. The fiber, which is not yet queued, keeps the pool alive when the visit begins. */
static inline void weft__pool_visit(weft_pool *pool)
{
    atomic_fetch_add_explicit(&pool->visitors, 1, memory_order_relaxed);
}

static inline void weft__pool_visit_end(weft_pool *pool)
{
    atomic_fetch_sub_explicit(&pool->visitors, 1, memory_order_release); /* pairs: destroy */
}

/* Around a fork; the child has no pools, and no thread of it is a worker. For sched/fork.c. */
void weft__pool_fork_prepare(void);
void weft__pool_fork_parent(void);
void weft__pool_fork_child(void);

/* Every call that is given a pool and is not on a hot path begins with this. */
static inline void weft__pool_check_fork(const weft_pool *pool)
{
    WEFT__REQUIRE(atomic_load_explicit(&pool->phase, memory_order_relaxed) != WEFT__POOL_FORKED,
                  "pool %s was made before fork() and is used in the child: make a new one",
                  pool->name);
}

/* The public calls for a dispatcher, to whose pool they answer -EINVAL: it is started and stopped
 * with its dispatcher. */
int weft__pool_start(weft_pool *pool);
int weft__pool_poll(weft_pool *pool);
int weft__pool_stop(weft_pool *pool, enum weft_stop_mode mode, int64_t deadline);

/* Live fibers: entered minus left, summed so that 0 is never a wrong answer once submits from
 * outside are refused (the proof is at the function). */
uint64_t weft__pool_live(weft_pool *pool);

/* Links a joinable fiber's joiner that serves as a worker meanwhile. False: the fiber has ended
 * already, the value is there and the right used. */
bool weft__join_arm(weft_fiber fiber, struct weft__node *node);
/* The same for one that may be gone, or detached: false, and nothing was taken. */
bool weft__join_arm_known(weft_fiber fiber, struct weft__node *node);
/* A join that does not wait. False: the fiber has not ended. */
bool weft__join_try(weft_fiber fiber, void **value, int *status);
/* A joiner that gives up takes its node out, unless the fiber has ended. */
void weft__join_leave(weft_fiber fiber, struct weft__node *node);
/* Takes it back, with the right to join. */
void weft__join_disarm(weft_fiber fiber, struct weft__node *node);
enum weft_fiber_state weft__fiber_state_of(enum weft__task_state state);

/* For a fiber that ends inside scoped hops: goes back through all of them. */
void weft__hop_leave_all(struct weft__rare *rare);
/* Under the ident lock, of a fiber with a stack: will it come back to this pool? */
bool weft__hop_returns_to(const struct weft__rare *rare, const weft_pool *pool);

/* The caller's thread is there: others may rely on it. */
void weft__pool_caller_enters(weft_pool *pool);
/* In between: it is worker 0 until its waiter, armed by weft__waiter_arm_worker, is fired. The
 * reason; WEFT__REASON_CANCEL: that can never be, every fiber waits for ever. */
enum weft__reason weft__pool_lend_thread(weft_pool *pool, struct weft__waiter *waiter);
/* The same with a deadline: WEFT__REASON_TIMEOUT. */
enum weft__reason weft__pool_serve(weft_pool *pool, struct weft__waiter *waiter, int64_t deadline);
/* Nobody looks after worker 0 any more: what it leaves behind is told to those who could take it,
 * and to those who wait for it in stop. */
void weft__pool_caller_leaves(weft_pool *pool);
/* What a host waits for: wakes, and later the driver's events. */
int weft__pool_host_open(weft_pool *pool);
void weft__pool_host_close(const weft_pool *pool);
/* The host's descriptor shows the driver's events as well. */
int weft__pool_host_watch(weft_pool *pool, const struct weft__driver *driver);
/* Ends the time between two polls. */
void weft__pool_leave_host(weft_pool *pool);
/* Both with `joining` held. -EAGAIN: none of them runs. */
int weft__pool_create_threads(weft_pool *pool);
void weft__pool_join_threads(weft_pool *pool);

/* For a worker that has run out of work and entered the idle word: wakes whoever waits in stop, if
 * the pool is drained or cannot go on without a caller that is absent. */
void weft__pool_look_drained(weft_pool *pool);

/* Cancels every fiber whose home is this pool, or who will come back to it, now and from now on. */
void weft__pool_cancel_all(weft_pool *pool, uint32_t flags);
/* Every fiber whose home is this pool, or who will come back to it, and that was not yet. */
void weft__pool_cancel_walk(weft_pool *pool);

/* Takes a place for one more fiber from a thread that is not a worker of the pool.
 * -ESHUTDOWN, -EAGAIN. */
int weft__pool_admit_outside(weft_pool *pool, uint64_t n);
void weft__pool_unadmit_outside(weft_pool *pool, uint64_t n);

/* The same for a fiber of the pool: only max_fibers can refuse. */
static inline int weft__pool_admit(weft_pool *pool, uint64_t n)
{
    if (__builtin_expect(pool->max_fibers != 0, 0)) {
        /* Not added first and taken back later: meanwhile others would be refused for nothing. */
        uint64_t live = atomic_load_explicit(&pool->admitted, memory_order_relaxed);
        do {
            if (n > pool->max_fibers - live) {
                return -EAGAIN;
            }
        } while (!atomic_compare_exchange_weak_explicit(
            &pool->admitted, &live, live + n, memory_order_relaxed, memory_order_relaxed));
    }
    return 0;
}

static inline void weft__pool_release(weft_pool *pool, uint64_t n)
{
    if (__builtin_expect(pool->max_fibers != 0, 0)) {
        atomic_fetch_sub_explicit(&pool->admitted, n, memory_order_relaxed);
    }
}

#endif
