/* A worker: one thread of a pool with its queues, and the switch between the fibers that run there.
 *
 * Order in which a worker takes work (weft__worker_pick):
 *   1. next: a task woken by the running one; at most 3 in a row while anything else is ready;
 *   2. pinned and ring alternately: woken and yielded tasks, first in first out;
 *   3. fresh: tasks that have not run yet, newest first (or oldest first, by option).
 * A yield first takes one not-yet-started task, before all of the above, so that `while (!done)
 * yield();` cannot starve the task it waits for. If that task yields too, the ring comes next;
 * otherwise a chain of new tasks that yield would starve the ring. Every 61 turns, and about every
 * 200 us of run time, the worker runs a tick on its base context: timers, inbox, a batch from the
 * global queue, its oldest not-yet-started task. If none of these has anything, the tick is done on
 * the stack of the running fiber.
 *
 * A fiber that blocks picks its successor and switches to it directly. The work that has to follow
 * the switch, when the old stack is no longer in use, is one of a closed list (enum weft__post);
 * the context that is resumed does it. On a fiber's stack only queues and state words are touched;
 * everything else (timers, stealing, system calls, idling) runs on the worker's base context, which
 * is the thread's own stack.
 */
#ifndef WEFT_WORKER_WORKER_H
#define WEFT_WORKER_WORKER_H

#include <pthread.h>
#include <stdalign.h>
#include <stdbool.h>
#include <stdint.h>

#include <weft/inspect.h>

#include "base/atomic.h"
#include "base/link.h"
#include "base/rand.h"
#include "buf/worker_cache.h"
#include "context/context.h"
#include "context/exceptions.h"
#include "context/sanitizer.h"
#include "context/stack.h"
#include "idle/idle.h"
#include "io/driver.h"
#include "queue/fresh.h"
#include "queue/inbox.h"
#include "queue/ring.h"
#include "task/deadline.h"
#include "task/slab.h"
#include "task/task.h"
#include "time/wheel.h"
#include "worker/reader_slot.h"
#include "worker/small_alloc.h"
#include "worker/trace.h"
#include "worker/watch_state.h"
#include "worker/worker_metrics.h"

#define WEFT__TICK_TURNS 61
#define WEFT__TICK_NS 200000
#define WEFT__NEXT_STREAK 3

/* What the resumed context still has to do for the context that was left. */
enum weft__post {
    WEFT__POST_NONE,
    WEFT__POST_YIELD,   /* queue the task again */
    WEFT__POST_PARK,    /* publish that the task waits, or queue it if it was fired meanwhile */
    WEFT__POST_MIGRATE, /* queue the task at its new home */
    WEFT__POST_END,     /* recycle the stack */
};

/* What the worker's driver offers; I/O calls check this first. */
enum weft__io_mode {
    WEFT__IO_MODE_NONE, /* no driver has been opened yet */
    WEFT__IO_MODE_READINESS,
    WEFT__IO_MODE_COMPLETION,
};

/* What a spawning thread keeps in reserve: control blocks and stack credits. */
struct weft__spawner {
    struct weft__slab_cache blocks;
    uint16_t credits[WEFT__STACK_CLASSES];
};

/* Counters: written by their worker only, read by any thread. */
struct weft__counters {
    _Atomic(uint64_t) executed, spawned, finished, arrived, departed, steals, stolen, parks, wakes,
        overflows, stacks;
    _Atomic(uint64_t) unjoined; /* fibers that still had join rights when they ended */
};

/* Resets the calling thread's spawner, unless it is a worker. For pool/fork.c. */
void weft__spawner_fork_child(void);
/* Gives back all control blocks and credits. */
void weft__spawner_flush(struct weft__spawner *spawner);
/* Gives back the stack credits: before a long sleep, because other threads might need them. */
void weft__spawner_give_credits(struct weft__spawner *spawner);

static inline void weft__count(_Atomic(uint64_t) *counter, uint64_t n)
{
    atomic_store_explicit(counter, atomic_load_explicit(counter, memory_order_relaxed) + n,
                          memory_order_relaxed);
}

struct weft__group_sched;

#define WEFT__STEP_STATE_BYTES 16

struct weft__worker {
    /* Owner only, except for the atomics: what every switch touches, in two cache lines. */
    _Atomic(struct weft__task *) current; /* written by the owner; NULL on the base context */
    _Atomic(int) fast_turns;              /* turns for which only the ring has to be checked */
    _Atomic(int) turns_left;              /* turns until the next tick, in addition to those */
    uint8_t streak;                       /* consecutive tasks taken from `next` */
    bool pinned_turn;                     /* of {pinned, ring}, pinned is next */
    bool fresh_last;                      /* the last pick was a yield's not-yet-started task */
    uint8_t post;                         /* enum weft__post */
    bool fresh_fifo;                      /* copy of the pool's field */
    uint8_t io_mode;                      /* enum weft__io_mode */
    struct weft__task *post_task;
    int *errno_at; /* address of this thread's errno: compilers must not cache it across a switch */
    struct weft__chain pinned;
    int16_t index;
    _Atomic(uint8_t) tracing; /* flags of worker/trace.h; written by any thread */
    uint8_t post_class;
    struct weft__stack *post_stack; /* for POST_END: the stack and its class */
    const void
        *return_hint; /* return hint of the fiber that waited last: see weft__context_return */
    struct weft__task *handoff; /* picked on a fiber's stack, to be started from the base context */
    weft_pool *pool;
    struct weft__reader_slot *reader_slot; /* NULL: not needed so far */
    const void *owner; /* what objects with an owner compare their owner with: the pool, or the
                          running group */
    const void *
        *prefetch_hint; /* prefetch hints by ring slot: what the task there reads first, or NULL */
    /* A wait for I/O also touches a third cache line. */
    /* Ring index up to which the stacks' page table entries have been loaded. */
    uint64_t translated;
    _Atomic(struct weft__driver *) driver; /* NULL: no I/O yet; other threads only read it */
    int64_t now;                           /* time read at each tick and park */
    _Atomic(struct weft__task *)
        stackless; /* stackless task whose step runs, or NULL; owner writes */
    struct weft__group_sched
        *group_sched;             /* set if the worker belongs to a dispatcher; else NULL */
    _Atomic(uint32_t) slice_left; /* of the dispatcher's running group; the watchdog reads it */
    /* For the step of the stackless task; its kind defines the content, zero at first. */
    alignas(uint64_t) unsigned char step_state[WEFT__STEP_STATE_BYTES];

    /* Any thread. */
    alignas(WEFT__CACHE_LINE) _Atomic(struct weft__task *) next;
    struct weft__ring ring;
    struct weft__fresh fresh;
    alignas(WEFT__CACHE_LINE) struct weft__inbox inbox;
    struct weft__sleeper sleeper;
    _Atomic(int) state; /* enum weft_worker_state */
    _Atomic(int) tid;
    _Atomic(uint64_t) bound; /* live fibers that are bound to this worker */

    /* Owner only. */
    alignas(WEFT__CACHE_LINE) struct weft__context base;
    struct weft__context discarded; /* an ending fiber's context is saved here and never read */
    struct weft__san base_san;
    struct weft__asan asan;
    struct weft__exceptions *exceptions_at; /* this thread's, like errno_at; NULL: no C++ runtime */
    void *ended_san;  /* sanitizer record of a fiber that has ended, on the stack that was left */
    int64_t offered;  /* the nearest timer that other workers were notified of */
    unsigned dense;   /* consecutive parks that a timer ended soon */
    uint32_t fired;   /* timers fired since the last sleep */
    bool io_found;    /* the last poll of the driver found events, */
    bool io_expected; /* and without delay: there are probably more by now */
    int64_t spin_ns;  /* how long the next search may spin: adapts to the success of earlier ones */
    struct weft__fp_env thread_fp; /* FP environment of the thread before it became a worker */
    int counted_from;              /* turns_left + plain when `executed` was last updated */
    /* The loop ends when this is not 0; NULL: when the pool's threads exit. */
    const _Atomic(uint32_t) *until;
    bool took_few;          /* the last batch from the global queue was small */
    uint32_t cancel_walked; /* the pool's cancel flags that this worker has acted upon */
    int tick_turns;         /* turns between ticks: 61, or fewer when turns are long */
    struct weft__rand rand;
    struct weft__spawner spawner;
    struct weft__stack_cache stacks;
    struct weft__buf_cache *bufs; /* the worker's buffer cache */
    struct weft__small_cache small;
    struct weft__worker_metrics metrics;
    struct weft__deadlines deadlines;

    /* Written by the owner, read by any thread. */
    alignas(WEFT__CACHE_LINE) struct weft__counters counters;
    struct weft__io_counters io;
    struct weft__trace trace;

    struct weft__watch_state watch_state; /* the watchdog's */

    /* Immutable after start. */
    int cpu; /* -1: not pinned */
    bool has_thread;
    pthread_t thread;

    /* Under its own lock. Last, because its slots are not zeroed: slots that are never used take no
     * memory. */
    struct weft__wheel wheel;
};

/* Only the worker counts turns; the watchdog reads them. */
static inline int weft__turns(const _Atomic(int) *turns)
{
    return atomic_load_explicit(turns, memory_order_relaxed);
}

static inline void weft__turns_set(_Atomic(int) *turns, int n)
{
    atomic_store_explicit(turns, n, memory_order_relaxed);
}

/* Puts a task (or NULL) into the next slot and returns the previous content. A thief may do the
 * same, hence release and acquire. The only worker of a pool has no thieves. */
static inline struct weft__task *weft__worker_swap_next(struct weft__worker *w,
                                                        struct weft__task *task)
{
    if (w->ring.no_thieves) {
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

/* Follows a change of the set of performance events that are being measured. */
static inline void weft__worker_metrics_check_mask(struct weft__worker *w)
{
    uint64_t mask = weft__perf_mask();
    if (__builtin_expect(mask != w->metrics.seen, 0)) {
        weft__worker_metrics_set_mask(w, mask);
    }
}

/* Which kinds of trace events are recorded on this worker? */
static inline unsigned weft__worker_trace_flags(const struct weft__worker *w)
{
    return atomic_load_explicit(&w->tracing, memory_order_relaxed) & (WEFT__TRACING_ORDER - 1u);
}

/* Is anything on this worker traced, including the tasks that run here? */
static inline bool weft__worker_is_traced(const struct weft__worker *w)
{
    return atomic_load_explicit(&w->tracing, memory_order_relaxed) != 0;
}

/* The fiber that runs on this worker; NULL: none. */
static inline struct weft__task *weft__current(const struct weft__worker *w)
{
    return atomic_load_explicit(&w->current, memory_order_relaxed);
}

/* The running fiber, or else the stackless task whose step runs; NULL: neither. */
static inline struct weft__task *weft__running(const struct weft__worker *w)
{
    struct weft__task *task = weft__current(w);
    return task ? task : atomic_load_explicit(&w->stackless, memory_order_relaxed);
}

struct weft__wait_kind;
struct weft__scope;

/* A lock that a fiber holds: a node in the fiber's list of held locks. */
struct weft__held {
    struct weft__held *below;
    void (*abandon)(struct weft__task *task, struct weft__held *held); /* the fiber has ended
                                                                          without unlocking */
};

/* For a fiber that ends: notifies every lock that it still holds. */
static inline void weft__held_abandon(struct weft__task *task)
{
    while (__builtin_expect(task->held != NULL, 0)) {
        struct weft__held *held = task->held;
        task->held = held->below;
        held->abandon(task, held);
    }
}

/* A wait that was ended early, by name, because the object may no longer exist. */
struct weft__ended {
    const struct weft__wait_kind *kind; /* NULL: no wait was ended */
    uint64_t on;
    unsigned others;
    char name[32];
};

/* The rarely used parts of a running fiber, at the top of its stack. */
struct weft__rare {
    struct weft_fiber_cleanup *cleanups;
    uint32_t locals_used; /* one bit per key; only values whose bit is set are valid */
    struct weft__fp_env fp;
    struct weft__ended ended; /* the last wait that a cancel or an interrupt ended */
    void *locals[16];
    void *result; /* for cleanups: the fiber's result */
    struct weft_migration
        *migrations; /* open scoped migrations, innermost first; under the ident lock */
    /* Where the fiber migrates after a park that ends with WEFT__REASON_MIGRATE: written under the
     * ident lock, before the park is ended, by the thread that ends it. */
    weft_pool *target_pool;
    int target_worker;
    struct weft__scope *scope; /* the innermost scope that the fiber has open, else the scope whose
                                  child it is */
    const char *scope_name;    /* name of a scope that the fiber has opened: valid also after its
                                  frame is gone */
};

static inline struct weft__rare *weft__task_rare(const struct weft__task *task)
{
    return (struct weft__rare *)(void *)(task->stack->top - sizeof(struct weft__rare));
}

/* The calling thread's worker, or NULL. Must not be kept across a switch. noinline is not enough:
 * gcc and clang infer that the function is pure and fold two calls around a switch into one; the
 * asm prevents that. */
struct weft__worker *weft__worker_self(void);
void weft__worker_set_self(struct weft__worker *worker);
/* The calling worker's cache of small blocks; NULL: the thread is not a worker. */
static inline struct weft__small_cache *weft__small_self(void)
{
    struct weft__worker *w = weft__worker_self();
    return w ? &w->small : NULL;
}

/* Inline form of weft__worker_self, for the entry of a public call and for weft__place: a function
 * that is not inlined, that reads the worker only once, and that suspends only in functions it
 * calls. */
#ifdef WEFT_EXPLORE
#define weft__worker_self_inline weft__worker_self
#else
extern _Thread_local struct weft__worker *weft__worker_tls
    __attribute__((tls_model("initial-exec")));
static inline __attribute__((always_inline)) struct weft__worker *weft__worker_self_inline(void)
{
    return weft__worker_tls;
}
#endif

/* --- the switch (switch.h) ------------------------------------------------ */

/* Picks the next task of this worker, on any stack. NULL: switch to the base context. */
struct weft__task *weft__worker_pick(struct weft__worker *w);
/* Takes the oldest not-yet-started task; NULL: none. */
struct weft__task *weft__worker_take_oldest(struct weft__worker *w);

/* Suspends the running fiber, which has armed a wait or published its new home, and switches to
 * another. Returns when the fiber is resumed, perhaps on another thread: nothing of the old worker
 * may be used afterwards. Returns the new worker. */
struct weft__worker *weft__worker_suspend(struct weft__worker *w, enum weft__post post);

/* Ends the running fiber, whose control block has been given up already; never returns. */
void weft__worker_end_fiber(struct weft__worker *w, struct weft__stack *stack, unsigned stack_class)
    __attribute__((noreturn));

/* From the base context: runs the task and every task it switches to, until one switches back here.
 * For a stackless task: runs one step. */
void weft__worker_run(struct weft__worker *w, struct weft__task *task);
/* Queues a task that was running here after all others. `yielded`: the task yielded; otherwise its
 * wait was over before it began. */
void weft__worker_requeue(struct weft__worker *w, struct weft__task *task, bool yielded);

/* A task was put into the next slot, the fresh queue or the pinned list: the next pick has to check
 * all sources. */
static inline void weft__worker_end_fast_turns(struct weft__worker *w)
{
    int fast_turns = weft__turns(&w->fast_turns);
    if (fast_turns) {
        weft__turns_set(&w->turns_left, weft__turns(&w->turns_left) + fast_turns);
        weft__turns_set(&w->fast_turns, 0);
    }
}

/* Steals from the victim's queues (steal.c): returns a task to run and moves others to our own
 * queues. NULL: nothing found. `last`: takes even the task that the victim was about to run
 * next. */
struct weft__task *weft__worker_steal(struct weft__worker *w, struct weft__worker *victim,
                                      bool last);

/* Checks that a fiber without fp_env has not changed the floating-point control words; changing
 * them is a caller's bug. Debug builds check at every switch and at the end. */
void weft__worker_check_fp(const struct weft__task *task);

/* Updates `executed`: one turn for every pick since the last update. */
static inline void weft__worker_count_turns(struct weft__worker *w)
{
    int left = weft__turns(&w->turns_left) + weft__turns(&w->fast_turns);
    weft__count(&w->counters.executed, (uint64_t)(w->counted_from - left));
    w->counted_from = left;
}

/* --- where a ready task is queued ------------------------------------------- */

/* Queues a task that has become READY at its home, and wakes a worker for it if necessary. Any
 * thread. Returns 0, so that a call can end with a tail call of it. */
int weft__place(struct weft__task *task, enum weft__queue_end end);
/* The case of weft__place_all that is not inlined: several tasks. */
void weft__place_many(struct weft__chain *tasks, enum weft__queue_end end);
/* Queues what was fired, mostly no task or one; empties the chain. */
static inline void weft__place_all(struct weft__chain *tasks, enum weft__queue_end end)
{
    struct weft__link *first = tasks->head;
    if (first && !first->next) {
        weft__chain_init(tasks);
        weft__place(weft__task_of(first), end);
    } else if (first) {
        weft__place_many(tasks, end);
    }
}
/* Queues a FRESH task. w: the worker of the spawning fiber if it belongs to the task's home pool;
 * else NULL. A dispatcher's worker starts its tasks by weft__group_sched_start instead. */
void weft__place_fresh(struct weft__worker *w, struct weft__task *task);
/* Appends to this worker's own ring without waking another worker; overflows into the global
 * queue. */
void weft__place_local(struct weft__worker *w, struct weft__task *task, memory_order order);

/* --- the loop ----------------------------------------------------------------- */

int weft__worker_init(struct weft__worker *w, weft_pool *pool, int index);
void weft__worker_deinit(struct weft__worker *w);

/* The worker's I/O driver, opened on first use, on the worker's thread. NULL: *err says why;
 * -EOPNOTSUPP: a compute pool. */
struct weft__driver *weft__worker_open_driver(struct weft__worker *w, int *err)
    __attribute__((noinline)); /* uses errno, which a function that switches must not */
static inline struct weft__driver *weft__worker_driver(struct weft__worker *w, int *err)
{
    struct weft__driver *driver = atomic_load_explicit(&w->driver, memory_order_relaxed);
    return __builtin_expect(driver != NULL, 1) ? driver : weft__worker_open_driver(w, err);
}
/* The driver if there is one; NULL also without a worker. */
static inline struct weft__driver *weft__worker_peek_driver(const struct weft__worker *w)
{
    return w ? atomic_load_explicit(&w->driver, memory_order_relaxed) : NULL;
}
/* When the thread leaves for good: no wait is left in the driver. */
void weft__worker_close_driver(struct weft__worker *w);
/* Moves the worker's count of I/O waits to the process-wide count. Waits that began on this worker
 * may have ended on another and vice versa, so only the sum over all workers is meaningful, and the
 * part of a worker must stay in it after the worker is gone. */
void weft__worker_retire_io_count(struct weft__worker *w);
/* For a caller that leaves: ends all waits in its driver; the calls continue with the drivers of
 * other workers. */
void weft__worker_evict_io(struct weft__worker *w);
/* Polls for ready I/O without waiting, on the base context. */
void weft__worker_poll(struct weft__worker *w);
/* Dispatches the events of the driver's last wait and leaves the driver, which the caller has
 * entered. */
void weft__worker_dispatch(struct weft__worker *w, struct weft__driver *driver);
/* Serves the I/O of a worker that is held up. io_uring's completions stay with their worker: only
 * its own thread may use the ring. */
void weft__worker_serve_io(struct weft__worker *w, const struct weft__worker *other);

/* The calling thread becomes this worker until leave_thread. */
void weft__worker_enter_thread(struct weft__worker *w);
void weft__worker_leave_thread(struct weft__worker *w, enum weft_worker_state state);

/* Runs tasks until *until is not 0 (checked whenever the worker is on its base context) or, if
 * `until` is NULL, until the pool's threads are asked to exit. */
void weft__worker_loop(struct weft__worker *w, const _Atomic(uint32_t) *until);
/* The thread of this worker (a void pointer, for weft__thread_guard) ended in the middle of running
 * a task or callback: reports which one, and ends the program. */
void weft__worker_thread_lost(void *arg) __attribute__((noreturn, cold));
/* After the thread has left the pool: moves the tasks that only it could reach to queues that other
 * workers reach. */
void weft__worker_hand_over(struct weft__worker *w);
/* Notifies the other workers of timers that this worker may not be present to fire. Every worker
 * that parks from now on includes them in its deadline (weft__worker_nearest_timer), so one worker
 * that wakes up and parks again is enough. */
void weft__worker_announce_timers(struct weft__worker *w);
/* The start of a dispatcher's round: reads the clock, fires timers, and polls for I/O if that is
 * due. */
void weft__worker_begin_round(struct weft__worker *w);
bool weft__worker_should_exit(const struct weft__worker *w);
/* Runs what is ready without ever parking; returns the number of turns. */
uint64_t weft__worker_run_ready(struct weft__worker *w);

/* On a fiber's stack when a tick is due: if no source has work, performs the tick here, without a
 * switch to the base context, and returns true. */
bool weft__worker_try_quiet_tick(struct weft__worker *w);
/* Cancels the fibers that a stop has missed. Called at ticks and after entering the idle word,
 * which is a full barrier: either this call sees the flag, or the walk that begins after setting
 * the flag sees every fiber that this worker has created. */
void weft__worker_check_cancelling(struct weft__worker *w);

/* --- sleep (worker_sleep.c) ------------------------------------------------------------- */

/* Sleep step 2 of idle/idle.h: is there anything this worker could run? */
bool weft__worker_has_work(const struct weft__worker *w);
/* When this worker has to wake up by itself; INT64_MAX: never. This is the nearest timer that the
 * worker is responsible for: its own, and those of workers that are not asleep by themselves (busy,
 * absent or in a host's loop) and that might fire them too late. */
int64_t weft__worker_nearest_timer(const struct weft__worker *w);
/* Sleeps until there may be work, until *until is not 0, or until `wake_by`. `searching`: this
 * worker is the pool's searcher. Returns whether it is the searcher now. */
bool weft__worker_sleep(struct weft__worker *w, bool searching, const _Atomic(uint32_t) *until,
                        int64_t wake_by);

#endif
