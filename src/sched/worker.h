/* A worker: one thread's share of a pool, and the switch between the fibers that run there.
 *
 * Order in which a worker takes work (pick):
 *   1. next: a task woken by the running one; at most 3 in a row while anything else is ready;
 *   2. pinned and ring in turn: woken and yielded tasks, first in first out;
 *   3. fresh: tasks that never ran, newest first (or oldest, by option).
 * A yield takes one fresh task before all that, so that `while (!done) yield();` cannot starve what
 * it waits for; if that one yields too, the ring comes next, or a chain of fresh tasks that yield
 * would starve it. Every 61 turns, and about every 200 us of run time, the worker goes through its
 * base context first: timers, inbox, a batch from the global queue, its oldest fresh task. A tick
 * at which none of these has anything is done where the fiber is.
 *
 * A fiber that blocks picks its successor and switches to it directly. What must happen after the
 * switch, when the old stack is no longer in use, is a closed list (enum weft__post), done by
 * whoever is resumed. On a fiber's stack only queues and state words are touched; everything else
 * (timers, stealing, system calls, idling) runs on the worker's base context, which is the thread's
 * own stack.
 */
#ifndef WEFT_SCHED_WORKER_H
#define WEFT_SCHED_WORKER_H

#include <pthread.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/stats.h>

#include "base/atomic.h"
#include "base/link.h"
#include "base/rand.h"
#include "base/small.h"
#include "buf/home.h"
#include "fiber/context.h"
#include "fiber/exceptions.h"
#include "fiber/sanitizer.h"
#include "fiber/stack.h"
#include "io/driver.h"
#include "queue/fresh.h"
#include "queue/inbox.h"
#include "queue/ring.h"
#include "sched/deadline.h"
#include "sched/gauge.h"
#include "sched/idle.h"
#include "sched/show.h"
#include "sched/slab.h"
#include "sched/task.h"
#include "sched/trace.h"
#include "sched/watchdog.h"
#include "time/wheel.h"

#define WEFT__TICK_TURNS 61
#define WEFT__TICK_NS 200000
#define WEFT__NEXT_STREAK 3

/* What is still to be done for the context that was left. */
enum weft__post {
    WEFT__POST_NONE,
    WEFT__POST_YIELD, /* queue it again */
    WEFT__POST_PARK,  /* publish that it waits, or queue it if it was fired meanwhile */
    WEFT__POST_HOP,   /* queue it at its new home */
    WEFT__POST_END,   /* recycle its stack */
};

/* What its driver does, where a call looks first. */
enum weft__drives {
    WEFT__DRIVES_NOTHING, /* there is none yet */
    WEFT__DRIVES_READINESS,
    WEFT__DRIVES_OPERATIONS,
};

/* What a thread that spawns keeps at hand: control blocks and stack credits. */
struct weft__spawner {
    struct weft__slab_cache blocks;
    uint16_t credits[WEFT__STACK_CLASSES];
};

/* Counters: written by their worker alone, read by anybody. */
struct weft__counters {
    _Atomic(uint64_t) executed, spawned, finished, arrived, departed, steals, stolen, parks, wakes,
        overflows, stacks;
    _Atomic(uint64_t) unjoined; /* fibers that had rights to join left when they ended */
};

/* The calling thread's, if it is a plain one. For sched/fork.c. */
void weft__spawner_fork_child(void);
/* Gives everything back. */
void weft__spawner_flush(struct weft__spawner *spawner);
/* Gives the stack credits back: before a long rest, or others could miss them for ever. */
void weft__spawner_give_credits(struct weft__spawner *spawner);

static inline void weft__count(_Atomic(uint64_t) *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

struct weft__rounds;

struct weft__worker {
    /* Owner only, but for the atomics: what every switch touches, in two cache lines. */
    _Atomic(struct weft__task *) current; /* written by the owner; NULL on the base context */
    _Atomic(int) plain;                   /* turns for which only the ring need be looked at */
    _Atomic(int) turns_left;              /* until the next tick, besides those */
    uint8_t streak;                       /* tasks from `next` in a row */
    bool pinned_turn;                     /* the next of {pinned, ring} is pinned */
    bool fresh_last;                      /* the last pick was a yield's fresh task */
    uint8_t post;                         /* enum weft__post */
    bool fresh_fifo;                      /* a copy of the pool's */
    uint8_t drives;                       /* enum weft__drives */
    struct weft__task *post_task;
    int *errno_at; /* this thread's errno: its address must not be cached across a switch */
    struct weft__chain pinned;
    int16_t index;
    _Atomic(uint8_t) tracing; /* flags of sched/trace.h; written by any thread */
    uint8_t post_class;
    struct weft__stack *post_stack; /* with POST_END: the stack, and its class */
    const void *way_back; /* of the fiber that waited last: see weft__context_return. A hint */
    struct weft__task *handoff; /* picked on a fiber's stack, to be started from the base context */
    weft_pool *pool;
    struct weft__show *show; /* NULL: none was needed yet */
    const void *owner; /* what objects with an owner compare theirs with: its pool, or the group
                          that runs */
    const void **near; /* by slot of the ring: what the one there looks at first, or NULL. A hint */
    /* And a wait for I/O, in a third. */
    /* Place in the ring up to which stacks were looked up in the page tables. */
    uint64_t translated;
    _Atomic(struct weft__driver *) driver; /* NULL: no I/O yet; others only look */
    int64_t now;                           /* read at each tick and park */
    _Atomic(struct weft__task *) body; /* the one whose step runs, or NULL; written by the owner */
    struct weft__rounds *rounds;       /* a dispatcher's; else NULL */
    _Atomic(uint32_t) slice_left; /* with it: of the group whose turn it is; the watchdog looks */
    /* If the body is an actor, the trace of what its step handles: actor/trace.h. */
    uint32_t handles;
    uint32_t pass_left; /* and how many messages it may send on to this one: actor/gate.h */
    uint64_t pass_to;

    /* Any thread. */
    alignas(WEFT__CACHE_LINE) _Atomic(struct weft__task *) next;
    struct weft__ring ring;
    struct weft__fresh fresh;
    alignas(WEFT__CACHE_LINE) struct weft__inbox inbox;
    struct weft__sleeper sleeper;
    _Atomic(int) state; /* enum weft_worker_state */
    _Atomic(int) tid;
    _Atomic(uint64_t) bound; /* live fibers that are bound here */

    /* Owner only. */
    alignas(WEFT__CACHE_LINE) struct weft__context base;
    struct weft__context dead; /* where an ending fiber is saved to, for nobody */
    struct weft__san base_san;
    struct weft__asan asan;
    struct weft__exceptions *exceptions_at; /* this thread's, as errno_at; NULL: no C++ here */
    void *dead_san;  /* the checker's record of a fiber that ended on the stack it left */
    int64_t offered; /* the nearest timer that the others were told of */
    unsigned dense;  /* parks in a row that a timer ended soon */
    uint32_t fired;  /* timers since the last sleep */
    bool io_last;    /* the last look at the driver found something, */
    bool io_at_hand; /* and at once: there is more by now, as it seems */
    int64_t spin_ns; /* how long the next search may spin: adapts to what spinning brought */
    struct weft__fp_env thread_fp; /* what the thread had before it became a worker */
    int counted_from; /* turns_left + plain when `executed` was last brought up to date */
    /* The loop ends when this is not 0; NULL: with the pool's threads. */
    const _Atomic(uint32_t) *until;
    bool took_few;          /* the last look into the global queue found little */
    uint32_t cancel_walked; /* how it has seen that the pool cancels its fibers */
    int tick_turns;         /* turns between ticks: 61, or fewer when turns are long */
    struct weft__rand rand;
    struct weft__spawner spawner;
    struct weft__stack_cache stacks;
    struct weft__home *bufs; /* its small buffers */
    struct weft__small small;
    struct weft__gauge gauge;
    struct weft__deadlines deadlines;

    /* Written by the owner, read by any thread. */
    alignas(WEFT__CACHE_LINE) struct weft__counters counters;
    struct weft__io_counters io;
    struct weft__trace trace;

    struct weft__vigil vigil; /* the watchdog's */

    /* Immutable after start. */
    int cpu; /* -1: not pinned */
    bool has_thread;
    pthread_t thread;

    /* Under its own lock. Last: its slots are not cleared, and what of them is not used is not
     * there. */
    struct weft__wheel wheel;
};

/* Turns are counted by the worker alone; the watchdog looks. */
static inline int weft__turns(const _Atomic(int) *turns)
{
    return atomic_load_explicit(turns, memory_order_relaxed);
}

static inline void weft__turns_set(_Atomic(int) *turns, int n)
{
    atomic_store_explicit(turns, n, memory_order_relaxed);
}

/* Puts a task (or nothing) into the next slot and returns what was there. A thief may do the same:
 * release and acquire. The only worker of a pool has none. */
static inline struct weft__task *weft__worker_swap_next(struct weft__worker *w,
                                                        struct weft__task *task)
{
    if (w->ring.alone) {
        struct weft__task *before = atomic_load_explicit(&w->next, memory_order_relaxed);
        atomic_store_explicit(&w->next, task, memory_order_relaxed);
        return before;
    }
    return atomic_exchange_explicit(&w->next, task, memory_order_acq_rel); /* pairs: steal_from */
}

static inline void weft__worker_set_state(struct weft__worker *w, enum weft_worker_state state)
{
    atomic_store_explicit(&w->state, state, memory_order_relaxed);
}

/* What events does somebody want to hear of? */
static inline void weft__gauge_look(struct weft__worker *w)
{
    uint64_t mask = weft__perf_mask();
    if (__builtin_expect(mask != w->gauge.seen, 0)) {
        weft__gauge_follow(w, mask);
    }
}

/* Does somebody listen to what happens here? */
static inline unsigned weft__tracing(const struct weft__worker *w)
{
    return atomic_load_explicit(&w->tracing, memory_order_relaxed) & (WEFT__TRACING_ORDER - 1u);
}

/* Or to what runs here. */
static inline bool weft__watched(const struct weft__worker *w)
{
    return atomic_load_explicit(&w->tracing, memory_order_relaxed) != 0;
}

/* The fiber that runs on this worker; NULL: none. */
static inline struct weft__task *weft__current(const struct weft__worker *w)
{
    return atomic_load_explicit(&w->current, memory_order_relaxed);
}

/* The same, or the body whose step runs. */
static inline struct weft__task *weft__running(const struct weft__worker *w)
{
    struct weft__task *task = weft__current(w);
    return task ? task : atomic_load_explicit(&w->body, memory_order_relaxed);
}

struct weft__wait_kind;
struct weft__scope;

/* A lock that a fiber holds: its place in the list of them. */
struct weft__held {
    struct weft__held *below;
    void (*forsake)(struct weft__task *task, struct weft__held *held); /* the fiber has ended */
};

/* For a fiber that ends: tells every lock that it still holds. */
static inline void weft__held_forsake(struct weft__task *task)
{
    while (__builtin_expect(task->held != NULL, 0)) {
        struct weft__held *held = task->held;
        task->held = held->below;
        held->forsake(task, held);
    }
}

/* A wait that was ended, by name: the object may be gone since. */
struct weft__ended {
    const struct weft__wait_kind *kind; /* NULL: none was */
    uint64_t on;
    unsigned others;
    char name[32];
};

/* The rarely used parts of a running fiber, at the top of its stack. */
struct weft__rare {
    struct weft_cleanup *cleanups;
    uint32_t locals_used; /* bit per key; the values are valid only there */
    struct weft__fp_env fp;
    struct weft__ended ended; /* the wait that was last ended by a cancel or an interrupt */
    void *locals[16];
    void *result;          /* for cleanups: what the fiber ends with */
    struct weft_hop *hops; /* the scoped hops it is in, innermost first; under the ident lock */
    /* Where it goes after a park that ends by WEFT__REASON_MOVED: written under the ident lock by
     * who ends that park so, before. */
    weft_pool *told_pool;
    int told_worker;
    struct weft__scope *scope; /* the innermost that it has open, else the one whose child it is */
    const char *scope_name;    /* of one that it has opened: known also when its frame is gone */
};

static inline struct weft__rare *weft__task_rare(const struct weft__task *task)
{
    return (struct weft__rare *)(void *)(task->stack->top - sizeof(struct weft__rare));
}

/* The calling thread's worker, or NULL. Not kept across a switch. noinline is not enough: gcc and
 * clang infer that the function is pure and fold two calls around a switch into one; the asm stops
 * them. */
struct weft__worker *weft__worker_self(void);
void weft__worker_set_self(struct weft__worker *worker);
/* Its small blocks; NULL: this is no worker's thread. */
static inline struct weft__small *weft__small_here(void)
{
    struct weft__worker *w = weft__worker_self();
    return w ? &w->small : NULL;
}

/* The same, as a part of its caller: for the entrance of a call, a function that is not inlined,
 * that asks but once, and that suspends only in what it calls. */
#ifdef WEFT_EXPLORE
#define weft__worker_at_entrance weft__worker_self
#else
extern _Thread_local struct weft__worker *weft__worker_own
    __attribute__((tls_model("initial-exec")));
static inline __attribute__((always_inline)) struct weft__worker *weft__worker_at_entrance(void)
{
    return weft__worker_own;
}
#endif

/* --- the switch (switch.h) ------------------------------------------------ */

/* Picks the next task of this worker, on any stack. NULL: go to the base context. */
struct weft__task *weft__worker_pick(struct weft__worker *w);
/* The oldest that has not run yet; NULL: none. */
struct weft__task *weft__worker_take_oldest(struct weft__worker *w);

/* Suspends the running fiber, which has armed a wait or published its new home, and goes on with
 * another. Returns when it is resumed, maybe on another thread: nothing of the old worker may be
 * used after. The new one. */
struct weft__worker *weft__worker_suspend(struct weft__worker *w, enum weft__post post);

/* Ends the running fiber, whose control block is given up already; never returns. */
void weft__worker_end_fiber(struct weft__worker *w, struct weft__stack *stack, unsigned stack_class)
    __attribute__((noreturn));

/* From the base context: runs the task, and whatever it switches to, until somebody comes back
 * here. A body's step, if it is one. */
void weft__worker_run(struct weft__worker *w, struct weft__task *task);
/* Queues a task that was running here behind the others. `yielded`: of its own will, and not
 * because its wait was over before it began. */
void weft__worker_requeue(struct weft__worker *w, struct weft__task *task, bool yielded);

/* Something was put into the next slot, the fresh queue or the bound FIFO: the next pick goes by
 * the rules. */
static inline void weft__worker_look_up(struct weft__worker *w)
{
    int plain = weft__turns(&w->plain);
    if (plain) {
        weft__turns_set(&w->turns_left, weft__turns(&w->turns_left) + plain);
        weft__turns_set(&w->plain, 0);
    }
}

/* Takes from the victim's queues (steal.c): a task to run, others to our own. NULL: nothing.
 * `last`: even what it was about to run next. */
struct weft__task *weft__worker_steal(struct weft__worker *w, struct weft__worker *victim,
                                      bool last);

/* A fiber that did not ask for fp_env has left the floating-point control words as they were; else
 * a caller's bug. Debug builds ask at every switch and at the end. */
void weft__worker_check_fp(const struct weft__task *task);

/* Brings `executed` up to date: a turn for every pick since. */
static inline void weft__worker_count_turns(struct weft__worker *w)
{
    int left = weft__turns(&w->turns_left) + weft__turns(&w->plain);
    weft__count(&w->counters.executed, (uint64_t)(w->counted_from - left));
    w->counted_from = left;
}

/* --- where a ready task goes ------------------------------------------------ */

/* Queues a task that has become READY at its home, and wakes a worker for it if need be. Any
 * thread. In a dispatcher it goes behind what is ready; `front`: before it, and 0, so that a call
 * that ends with it can jump there. */
void weft__place(struct weft__task *task);
int weft__place_front(struct weft__task *task);
void weft__place_many(struct weft__chain *tasks);
void weft__place_many_front(struct weft__chain *tasks);
/* What a source has fired, mostly nobody or one; empties the chain. In a dispatcher, to the
 * front. */
static inline void weft__place_chain(struct weft__chain *tasks)
{
    struct weft__link *first = tasks->head;
    if (first && !first->next) {
        weft__chain_init(tasks);
        weft__place_front(weft__task_of(first));
    } else if (first) {
        weft__place_many_front(tasks);
    }
}
/* Queues a FRESH task: from a fiber of its home pool, with that fiber's worker; else w is NULL. */
void weft__place_fresh(struct weft__worker *w, struct weft__task *task);
/* To the end of this worker's own ring, without waking anybody; overflows into the global queue. */
void weft__place_local(struct weft__worker *w, struct weft__task *task, memory_order order);

/* --- the loop ----------------------------------------------------------------- */

int weft__worker_init(struct weft__worker *w, weft_pool *pool, int index);
void weft__worker_deinit(struct weft__worker *w);

/* The worker's I/O driver, opened by its first use, on the worker's thread. NULL: *err says why;
 * -EOPNOTSUPP: the pool is for computing. */
struct weft__driver *weft__worker_open_driver(struct weft__worker *w, int *err)
    __attribute__((noinline)); /* asks for errno, which no function that switches may */
static inline struct weft__driver *weft__worker_driver(struct weft__worker *w, int *err)
{
    struct weft__driver *driver = atomic_load_explicit(&w->driver, memory_order_relaxed);
    return __builtin_expect(driver != NULL, 1) ? driver : weft__worker_open_driver(w, err);
}
/* The same if there is one; of no worker there is none. */
static inline struct weft__driver *weft__worker_peek_driver(const struct weft__worker *w)
{
    return w ? atomic_load_explicit(&w->driver, memory_order_relaxed) : NULL;
}
/* When the thread leaves for good: nothing waits in it any more. */
void weft__worker_close_driver(struct weft__worker *w);
/* Waits that began on this worker may have ended elsewhere, and others the other way round. Of all
 * that were ever counted the sum counts: what a worker has in it stays when it goes. */
void weft__worker_leave_count(struct weft__worker *w);
/* A caller that leaves: nothing waits in its driver any more, calls go on with the drivers of
 * others. */
void weft__worker_evict_io(struct weft__worker *w);
/* Looks for I/O that is ready, without waiting, on the base context. */
void weft__worker_poll(struct weft__worker *w);
/* What the last wait of the driver, which was entered, has brought; leaves the driver. */
void weft__worker_dispatch(struct weft__worker *w, struct weft__driver *driver);
/* In the stead of a worker that is held up. What io_uring has for it stays there: the ring is its
 * own thread's. */
void weft__worker_serve_io(struct weft__worker *w, const struct weft__worker *other);

/* The calling thread becomes this worker until leave_thread. */
void weft__worker_enter_thread(struct weft__worker *w);
void weft__worker_leave_thread(struct weft__worker *w, enum weft_worker_state state);

/* Runs tasks until *until is not 0 (looked at whenever the worker is on its base context) or, if
 * `until` is NULL, until the pool's threads are told to exit. */
void weft__worker_loop(struct weft__worker *w, const _Atomic(uint32_t) *until);
/* The thread of this worker (a void pointer, for weft__thread_guard) ends in the middle of what it
 * runs: says who has done that, and ends the program. */
void weft__worker_lost(void *arg) __attribute__((noreturn, cold));
/* After the thread left the pool to others: what it alone could reach is made reachable. */
void weft__worker_hand_over(struct weft__worker *w);
/* Tells the others of timers that this worker may not be there to fire: whoever parks from now on
 * has them in its deadline (weft__worker_nearest_timer), so one that wakes up and parks again is
 * enough. */
void weft__worker_offer_timers(struct weft__worker *w);
/* What a round of a dispatcher begins with: the clock, timers, I/O if it is time to look. */
void weft__worker_begin_round(struct weft__worker *w);
bool weft__worker_told_to_leave(const struct weft__worker *w);
/* Runs what is ready without ever parking; returns the number of turns. */
uint64_t weft__worker_drain(struct weft__worker *w);

/* For a fiber's stack when a tick is due: if there is nothing to serve, the tick is done, without
 * the way through the base context. */
bool weft__worker_tick_is_quiet(struct weft__worker *w);
/* At ticks, and after entering the idle word (a full barrier, so that either this sees the flag or
 * the walk that began with setting it sees all that this worker has made): cancels what a stop has
 * missed. */
void weft__worker_look_cancelling(struct weft__worker *w);

/* --- sleep (rest.c) ------------------------------------------------------------- */

/* Sleep step 2 of sched/idle.h: is there anything this worker could take? */
bool weft__worker_anything_left(const struct weft__worker *w);
/* When this worker has to look again by itself; INT64_MAX: never. That is the nearest timer it
 * answers for: its own, and those of workers that are not asleep by themselves (busy, absent or in
 * a host's loop), which may come too late to them. */
int64_t weft__worker_nearest_timer(const struct weft__worker *w);
/* Sleeps until there may be work, until *until is not 0, or until `rested`. `searching`: it is the
 * pool's searcher. True: now it is. */
bool weft__worker_rest(struct weft__worker *w, bool searching, const _Atomic(uint32_t) *until,
                       int64_t rested);

#endif
