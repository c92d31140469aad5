#include "worker/worker.h"

#include <errno.h>
#include <limits.h>
#include <sched.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/cpu.h"
#include "idle/awake_count.h"
#include "sched/fault.h"
#include "sched/group_deadline.h"
#include "sched/group_scheduler.h"
#include "sched/pool.h"
#include "sched/timer.h"
#include "task/ident.h"
#include "worker/reclaim.h"

#define SEARCH_YIELDS 16       /* of the CPU per search: others run, and one may submit a task */
#define GLOBAL_BATCH 16u       /* tasks taken from the global queue at a tick */
#define GLOBAL_MAX_BATCH 256u  /* tasks taken by a worker that has no other work */
#define TIMER_BATCH 256u       /* timers fired before other work gets a turn, */
#define TIMER_SLICE_NS 200000  /* unless firing takes longer than this */
#define PREFETCH 32u           /* tasks whose stacks are prefetched after a batch of timers */
#define FRAME_LINES 12u        /* cache lines from the stack pointer on */
#define KEEP_WARM_STACKS 1024u /* per size class: what a worker leaves warm before a long sleep, */
#define LONG_IDLE_NS 50000000  /* which is one that has lasted this long already */
#define TRIM_SLICE 32u
#define TRIM_BATCHES 4u  /* batches of small blocks */
#define TIGHT_PROBES 4   /* searches without a pause in between */
#define SEARCH_PAUSES 16 /* between two probes after that */
#define SMALL_BATCH 16u  /* tasks from the global queue: after fewer, back off for */
#define BATCH_PAUSES 24  /* about 600 ns, or a yield */
#define MIN_SPIN_NS 500
#define SEARCH_POLL_NS 20000  /* a worker that searches for long polls for I/O this often */
#define POLL_NS WEFT__TICK_NS /* a busy worker polls for I/O this often */
#define POLLED_ROUNDS 64u     /* rounds of a dispatcher in a host's loop, per poll */

/* Where the indices of the queues start. In a build that widens races (WEFT_CHAOS), shortly before
 * they wrap, so that every test passes the wrap. */
#ifdef WEFT_CHAOS
#define FIRST_INDEX (UINT64_MAX - 100)
#else
#define FIRST_INDEX 0
#endif

/* --- life cycle ------------------------------------------------------------- */

int weft__worker_init(struct weft__worker *w, weft_pool *pool, int index)
{
    w->pool = pool;
    w->owner = pool;
    w->index = (int16_t)index;
    w->cpu = -1;
    w->tick_turns = WEFT__TICK_TURNS;
    atomic_init(&w->turns_left, WEFT__TICK_TURNS);
    w->now = weft__clock_ns();
    w->spin_ns = pool->spin_ns;
    w->offered = INT64_MAX;
    w->fresh_fifo = pool->fresh_fifo;
    weft__chain_init(&w->pinned);
    weft__rand_seed(&w->rand, (uint64_t)index + 1);
    weft__inbox_init(&w->inbox);
    weft__parker_init(&w->sleeper.parker);
    weft__wheel_init(&w->wheel, w->now, pool->tick_shift);
    int err = weft__ring_init(&w->ring, pool->ring_slots, FIRST_INDEX);
    if (err) {
        return err;
    }
    w->prefetch_hint = weft__alloc(pool->ring_slots * sizeof *w->prefetch_hint);
    if (!w->prefetch_hint) {
        err = -ENOMEM;
        goto deinit_ring;
    }
    err = weft__fresh_init(&w->fresh, pool->fresh_slots, FIRST_INDEX);
    if (err) {
        goto free_hints;
    }
    err = weft__buf_cache_open(&w->bufs);
    if (err) {
        goto deinit_fresh;
    }
    w->ring.no_thieves = w->fresh.no_thieves = pool->worker_count == 1;
    return 0;

deinit_fresh:
    weft__fresh_deinit(&w->fresh);
free_hints:
    weft__free(w->prefetch_hint);
deinit_ring:
    weft__ring_deinit(&w->ring);
    return err;
}

void weft__worker_deinit(struct weft__worker *w)
{
    weft__worker_close_driver(w);
    weft__worker_retire_io_count(w); /* counts of waits that the close has ended */
    int wake_fd = atomic_load_explicit(&w->sleeper.parker.wake_fd, memory_order_relaxed);
    if (wake_fd >= 0) {
        close(wake_fd);
    }
    weft__stack_cache_deinit(&w->stacks);
    weft__deadlines_return(&w->deadlines, UINT32_MAX);
    weft__spawner_flush(&w->spawner);
    weft__buf_cache_close(w->bufs);
    weft__small_flush(&w->small);
    weft__small_shared_flush();
    weft__free(w->prefetch_hint);
    weft__ring_deinit(&w->ring);
    weft__fresh_deinit(&w->fresh);
}

static uint64_t running_fiber(void)
{
    struct weft__worker *w = weft__worker_self();
    struct weft__task *task = w ? weft__current(w) : NULL;
    return task ? weft__task_handle(task) : 0;
}

void weft__worker_enter_thread(struct weft__worker *w)
{
    w->errno_at = &errno;
    w->exceptions_at = weft__exceptions_at();
    weft__san_thread(&w->base_san);
    weft__asan_enter_thread(&w->asan);
    weft__fault_enter_thread();
    atomic_store_explicit(&w->tid, (int)syscall(SYS_gettid), memory_order_relaxed);
    weft__worker_set_state(w, WEFT_WORKER_RUNNING);
    /* A thread inherits the FP environment of its creator, and a caller may have set a rounding
     * mode. */
    w->thread_fp = weft__fp_get();
    weft__fp_set(weft__fp_default());
    w->cancel_walked = 0; /* flags of an earlier stop */
    weft__worker_set_self(w);
    weft__buf_set_thread(w->bufs, running_fiber);
    weft__awake_count_inc(&weft__awake_count);
}

void weft__worker_leave_thread(struct weft__worker *w, enum weft_worker_state state)
{
    weft__awake_count_dec(&weft__awake_count);
    weft__worker_set_self(NULL);
    weft__buf_set_thread(NULL, NULL);
    weft__reader_slot_close(w->reader_slot);
    w->reader_slot = NULL;
    weft__fp_set(w->thread_fp);
    weft__spawner_give_credits(&w->spawner);
    weft__asan_leave_thread(&w->asan);
    weft__fault_leave_thread();
    atomic_store_explicit(&w->tid, 0, memory_order_relaxed);
    /* seq_cst: the caller then checks whether other threads must be notified. pairs:
     * needs_absent_caller, nearest_timer */
    atomic_store_explicit(&w->state, state, memory_order_seq_cst);
}

/* --- sources of work ------------------------------------------------------------- */

static void drain_inbox(struct weft__worker *w)
{
    struct weft__link *item = weft__inbox_drain_local(&w->inbox);
    while (item) {
        struct weft__link *next = item->next;
        weft__chain_push(&w->pinned, item);
        weft__worker_end_fast_turns(w);
        item = next;
    }
}

/* Takes up to max tasks from the global queue: returns one to run now and moves the others to the
 * ring. */
static struct weft__task *take_global(struct weft__worker *w, uint64_t max)
{
    struct weft__link *batch[GLOBAL_MAX_BATCH];
    w->took_few = false;
    uint64_t n =
        weft__global_take(&w->pool->global, max < GLOBAL_MAX_BATCH ? max : GLOBAL_MAX_BATCH, batch);
    if (!n) {
        return NULL;
    }
    w->took_few = n < SMALL_BATCH;
    for (uint64_t i = 1; i < n; i++) {
        /* Both lines of the task are in another CPU's cache: load them while other tasks run. */
        __builtin_prefetch(batch[i], 1);
        __builtin_prefetch((const char *)batch[i] + WEFT__CACHE_LINE, 1);
        weft__place_local(w, weft__task_of(batch[i]), memory_order_release);
    }
    return weft__task_of(batch[0]);
}

/* Leave the submitters alone briefly before the next probe. Where isolated pools outnumber the
 * CPUs, another pool or the submitter needs this CPU: a pause would waste it, while after a yield
 * this worker finds everything that was submitted during its time off the CPU. */
static void back_off(const weft_pool *pool, int pauses)
{
    if (pool->yields_cpu) {
        sched_yield();
        return;
    }
    for (int i = 0; i < pauses; i++) {
        weft__cpu_pause();
    }
}

/* A fair share of the global queue, for a worker that has no other work. */
static uint64_t global_share(const struct weft__worker *w)
{
    uint64_t length = weft__global_length(&w->pool->global);
    uint64_t share = length ? length / w->pool->worker_count + 1 : 0;
    uint64_t room = w->pool->ring_slots / 2;
    return share < room ? share : room;
}

/* Tasks that slept are cold: their frames are loaded while the first of them run. */
static void prefetch_stacks(const struct weft__chain *ready)
{
    const struct weft__link *link = ready->head;
    for (unsigned i = 0; link && i < PREFETCH; i++, link = link->next) {
        const struct weft__task *task = (const struct weft__task *)(const void *)link;
        const char *sp = task->ctx.sp; /* for a stackless task its own memory: just as useful */
        for (unsigned line = 0; line < FRAME_LINES; line++) {
            __builtin_prefetch(sp + (size_t)line * WEFT__CACHE_LINE, 1);
        }
    }
}

/* Fires a slice of the timers that are due: waits whose deadline has passed are queued; callbacks
 * are called, each without the lock. */
static void fire_timers(struct weft__worker *w, struct weft__wheel *wheel)
{
    if (weft__wheel_next(wheel) > w->now) {
        return;
    }
    struct weft__firing firing = {.run = {.worker = w}};
    weft__chain_init(&firing.ready);
    int64_t until = w->now + TIMER_SLICE_NS;
    size_t left = TIMER_BATCH;
    do {
        firing.run.user_timer = NULL;
        size_t fired = weft__wheel_advance(wheel, w->now, left, &firing);
        left -= fired;
        w->fired += (uint32_t)fired;
        weft__group_deadline_fire(wheel, &firing);
        prefetch_stacks(&firing.ready);
        weft__place_all(&firing.ready, WEFT__BACK);
        if (!firing.run.user_timer) {
            break;
        }
        w->now = weft__user_timer_run(&firing, w->now);
    } while (left > 0 && w->now < until);
}

/* --- on behalf of other workers --------------------------------------------- */

static bool has_stalled_workers(const weft_pool *pool)
{
    return __builtin_expect(atomic_load_explicit(&pool->stalled_workers, memory_order_relaxed) != 0,
                            0);
}

/* Serves timers and I/O that other workers would serve too late. */
static void serve_others(struct weft__worker *w)
{
    for (unsigned i = 0; i < w->pool->worker_count; i++) {
        struct weft__worker *other = &w->pool->workers[i];
        fire_timers(w, &other->wheel);
        if (other != w) {
            weft__worker_serve_io(w, other);
        }
    }
}

static bool poll_due(const struct weft__worker *w)
{
    const struct weft__driver *driver = weft__worker_peek_driver(w);
    return driver && w->now - driver->last_poll >= POLL_NS;
}

/* --- more sources of work ------------------------------------------------------- */

/* Sets the number of turns until the next tick: 61, or as many as fit into 200 us at the speed of
 * the last tick. Reading the clock at every turn would cost more than the turn. */
static void update_tick_turns(struct weft__worker *w)
{
    int64_t now = weft__clock_ns();
    int64_t took = now - w->now;
    w->now = now;
    if (took > WEFT__TICK_NS) {
        int64_t fit = w->tick_turns * (int64_t)WEFT__TICK_NS / took;
        w->tick_turns = fit > 1 ? (int)fit : 1;
    } else if (w->tick_turns < WEFT__TICK_TURNS) {
        w->tick_turns = w->tick_turns * 2 < WEFT__TICK_TURNS ? w->tick_turns * 2 : WEFT__TICK_TURNS;
    }
    weft__turns_set(&w->turns_left, w->tick_turns);
    weft__turns_set(&w->fast_turns, 0);
    weft__worker_metrics_check_mask(w);
}

void weft__worker_check_cancelling(struct weft__worker *w)
{
    uint32_t cancelling = atomic_load_explicit(&w->pool->cancelling, memory_order_seq_cst);
    if (cancelling != w->cancel_walked) {
        w->cancel_walked = cancelling;
        if (cancelling) {
            weft__pool_cancel_walk(w->pool); /* fibers that this worker created before it saw the
                                                flag */
        }
    }
}

static bool should_exit(const struct weft__worker *w, const _Atomic(uint32_t) *until)
{
    return until ? atomic_load_explicit(until, memory_order_acquire) != 0
                 : atomic_load_explicit(&w->pool->exiting, memory_order_acquire) != 0;
}

bool weft__worker_try_quiet_tick(struct weft__worker *w)
{
    weft_pool *pool = w->pool;
    if (weft__wheel_next(&w->wheel) != INT64_MAX || !weft__inbox_is_empty(&w->inbox) ||
        weft__global_length(&pool->global) || weft__fresh_length(&w->fresh) || w->pinned.head ||
        atomic_load_explicit(&pool->cancelling, memory_order_relaxed) != w->cancel_walked ||
        atomic_load_explicit(&pool->stalled_workers, memory_order_relaxed) ||
        weft__worker_metrics_is_due(&w->metrics, w->now) || should_exit(w, w->until) ||
        poll_due(w)) {
        return false;
    }
    weft__worker_count_turns(w);
    update_tick_turns(w);
    w->counted_from = weft__turns(&w->turns_left);
    return true;
}

/* Serves the sources that the order of pick would starve: timers, inbox, global queue, the oldest
 * not-yet-started task. Returns a task to run now, or NULL. */
static struct weft__task *tick(struct weft__worker *w)
{
    update_tick_turns(w);
    weft__worker_check_cancelling(w);
    weft__deadlines_balance(&w->deadlines);
    fire_timers(w, &w->wheel);
    if (poll_due(w)) {
        weft__worker_poll(w);
    }
    if (has_stalled_workers(w->pool)) {
        serve_others(w);
    }
    weft__buf_cache_tick(w->bufs);
    if (__builtin_expect(weft__worker_metrics_is_due(&w->metrics, w->now), 0)) {
        weft__worker_metrics_report(w);
    }
    drain_inbox(w);
    w->pinned_turn = true;
    struct weft__task *now = take_global(w, GLOBAL_BATCH);
    struct weft__task *fresh = weft__worker_take_oldest(w);
    if (now && fresh) {
        weft__place(fresh,
                    WEFT__BACK); /* into the next slot: it runs next, and can still be stolen */
    } else if (fresh) {
        now = fresh;
    }
    /* Yielded tasks were queued without waking a worker: offer them now. */
    if (weft__ring_length(&w->ring) > 0) {
        weft__idle_notify(&w->pool->idle);
    }
    return now;
}

void weft__worker_begin_round(struct weft__worker *w)
{
    w->now = weft__clock_ns();
    weft__worker_metrics_check_mask(w);
    weft__worker_check_cancelling(w);
    weft__deadlines_balance(&w->deadlines);
    fire_timers(w, &w->wheel);
    if (poll_due(w)) {
        weft__worker_poll(w);
    }
    weft__buf_cache_tick(w->bufs);
    if (__builtin_expect(weft__worker_metrics_is_due(&w->metrics, w->now), 0)) {
        weft__worker_metrics_report(w);
    }
}

bool weft__worker_should_exit(const struct weft__worker *w)
{
    return should_exit(w, w->until);
}

/* Finds work without looking at other workers. */
static struct weft__task *find_local_work(struct weft__worker *w)
{
    struct weft__task *task = w->handoff;
    if (task) {
        w->handoff = NULL;
        return task;
    }
    if (weft__turns(&w->turns_left) + weft__turns(&w->fast_turns) <= 0 && (task = tick(w))) {
        return task;
    }
    if ((task = weft__worker_pick(w))) {
        return task;
    }
    drain_inbox(w);
    if (w->pinned.head) {
        return weft__task_of(weft__chain_pop(&w->pinned));
    }
    /* A worker that is faster than the submitters would take each task as soon as it is submitted,
     * and all of them would contend for the same two cache lines for every task. After a small
     * batch the worker backs off so that more tasks accumulate. */
    if (w->took_few) {
        back_off(w->pool, BATCH_PAUSES);
    }
    uint64_t share = global_share(w);
    w->took_few = false;
    if (share && (task = take_global(w, share))) {
        return task;
    }
    if (weft__wheel_next(&w->wheel) != INT64_MAX) {
        w->now = weft__clock_ns();
        fire_timers(w, &w->wheel);
        return weft__worker_pick(w);
    }
    return NULL;
}

static struct weft__task *steal(struct weft__worker *w, bool last)
{
    unsigned count = w->pool->worker_count;
    unsigned first = weft__rand_next(&w->rand) % count;
    for (unsigned i = 0; i < count; i++) {
        struct weft__worker *victim = &w->pool->workers[(first + i) % count];
        struct weft__task *task = victim == w ? NULL : weft__worker_steal(w, victim, last);
        if (task) {
            return task;
        }
        if (victim != w && weft__wheel_next(&victim->wheel) <= w->now) {
            fire_timers(w, &victim->wheel); /* its owner is busy */
            if ((task = weft__worker_pick(w))) {
                return task;
            }
        }
        if (victim != w && has_stalled_workers(w->pool)) {
            weft__worker_serve_io(w, victim);
            if ((task = weft__worker_pick(w))) {
                return task;
            }
        }
    }
    return NULL;
}

/* --- idling ------------------------------------------------------------------------- */

/* Searches as the pool's only searcher: a few tight probes, then probes with pauses, for as long as
 * that has been successful. The pauses keep the searcher from taking each task right after its
 * submit: both threads would then wait for the same cache lines, and a stream of submits becomes
 * three times slower. A worker whose pauses are yields still counts as searching meanwhile, so that
 * submits need not wake it. */
static struct weft__task *search(struct weft__worker *w, const _Atomic(uint32_t) *until)
{
    int64_t began = w->now = weft__clock_ns(), polled = began;
    /* A worker that serves descriptors learns of more work through the driver's wait. */
    int64_t spin_ns = w->io_found ? 0 : w->spin_ns;
    int tight = w->pool->worker_count > 1 ? TIGHT_PROBES : 0; /* a single worker has no victims */
    int least = w->pool->yields_cpu ? SEARCH_YIELDS : tight;
    for (int probe = 0;; probe++) {
        bool last = probe >= least && w->now - began >= spin_ns;
        struct weft__task *task = find_local_work(w);
        if (!task) {
            task = steal(w, last);
        }
        if (task) {
            if (probe >= tight && w->spin_ns < w->pool->spin_ns) {
                w->spin_ns = w->pool->spin_ns;
            }
            return task;
        }
        if (last || should_exit(w, until)) {
            break;
        }
        if (__builtin_expect(w->now - polled >= SEARCH_POLL_NS, 0)) {
            polled = w->now;
            weft__worker_poll(w);
        }
        if (probe >= tight) {
            back_off(w->pool, SEARCH_PAUSES);
            w->now = weft__clock_ns();
        }
    }
    if (w->spin_ns / 2 >= MIN_SPIN_NS) {
        w->spin_ns /= 2;
    }
    return NULL;
}

/* Memory that a burst has left and that a long sleep need not keep: stacks and small blocks. */
static bool has_spare_memory(void)
{
    return weft__stack_warm() > KEEP_WARM_STACKS || weft__small_shared_has_spare();
}

/* Gives back a slice of it. True: something was given back, and there may be more. */
static bool release_spare_memory(void)
{
    return weft__small_shared_trim(TRIM_BATCHES) + weft__stack_trim(KEEP_WARM_STACKS, TRIM_SLICE) >
           0;
}

/* Under load the next requests have usually arrived when a server has answered the last ones: the
 * worker polls for them without going to sleep and without notifying anyone of that. It does so as
 * long as each poll finds events. */
static bool poll_expected_io(struct weft__worker *w)
{
    if (w->io_expected) {
        weft__worker_poll(w);
        w->io_expected = w->io_found;
    }
    return w->io_expected;
}

/* With nothing to run since *idle_since (INT64_MAX: until now): gives back memory, a slice at a
 * time. A program with bursts of work needs its stacks again soon: they are trimmed only after a
 * long idle time. True: check for work before the next slice, because submits do not wake a worker
 * that is not asleep. False: the worker may sleep until *wake_by. */
static bool release_memory(struct weft__worker *w, int64_t *idle_since, int64_t *wake_by)
{
    *idle_since = *idle_since == INT64_MAX ? w->now : *idle_since;
    bool warm = has_spare_memory();
    if (warm && w->now - *idle_since >= LONG_IDLE_NS && release_spare_memory()) {
        return true;
    }
    if (weft__buf_cache_shrink(w->bufs, TRIM_SLICE)) {
        return true;
    }
    int64_t reclaim_at = weft__reclaim_at(w);
    if (w->now >= reclaim_at) {
        weft__reclaim(w);
        return true;
    }
    *wake_by = warm ? *idle_since + LONG_IDLE_NS : INT64_MAX;
    *wake_by = reclaim_at < *wake_by ? reclaim_at : *wake_by;
    return false;
}

/* A pool's worker, with nothing to run: searches, if no other worker does. */
static struct weft__task *try_search(struct weft__worker *w, const _Atomic(uint32_t) *until,
                                     bool *searching)
{
    *searching = *searching || weft__idle_try_search(&w->pool->idle);
    if (!*searching) {
        return NULL;
    }
    weft__worker_set_state(w, WEFT_WORKER_SEARCHING);
    struct weft__task *task = search(w, until);
    weft__worker_set_state(w, WEFT_WORKER_RUNNING);
    return task;
}

/* Finds the next task of a pool, waiting as long as necessary. NULL: the worker has to leave its
 * loop. */
static struct weft__task *find_work(struct weft__worker *w, const _Atomic(uint32_t) *until)
{
    bool searching = false;
    int64_t idle_since = INT64_MAX, wake_by;
    for (;;) {
        struct weft__task *task = find_local_work(w);
        if (!task && !should_exit(w, until)) {
            if (poll_expected_io(w)) {
                continue;
            }
            task = try_search(w, until, &searching);
        }
        if (task || should_exit(w, until)) {
            if (searching) {
                weft__idle_end_search(&w->pool->idle);
            }
            return task;
        }
        if (!release_memory(w, &idle_since, &wake_by)) {
            searching = weft__worker_sleep(w, searching, until, wake_by);
        }
    }
}

/* --- rounds of a dispatcher --------------------------------------------------------- */

/* Runs rounds until nothing is ready. Returns whether any task ran. */
static bool run_rounds(struct weft__worker *w)
{
    uint64_t before = atomic_load_explicit(&w->counters.executed, memory_order_relaxed);
    weft__group_sched_run(w->group_sched, UINT_MAX);
    return atomic_load_explicit(&w->counters.executed, memory_order_relaxed) != before;
}

/* Runs a dispatcher's tasks until the worker has to leave its loop. When no task is ready, all
 * sources have been checked, so there is nothing to search. */
static void run_dispatcher(struct weft__worker *w, const _Atomic(uint32_t) *until)
{
    bool searching = false; /* a thread that woke this worker may have made it the searcher */
    int64_t idle_since = INT64_MAX, wake_by, max_poll_ns = w->group_sched->max_poll_ns;
    for (;;) {
        if (run_rounds(w)) {
            idle_since = INT64_MAX;
        }
        if (should_exit(w, until)) {
            break;
        }
        if (poll_expected_io(w) || release_memory(w, &idle_since, &wake_by)) {
            continue;
        }
        if (max_poll_ns) {
            int64_t again = weft__clock_add(w->now, max_poll_ns);
            wake_by = again < wake_by ? again : wake_by;
        }
        searching = weft__worker_sleep(w, searching, until, wake_by);
    }
    if (searching) {
        weft__idle_end_search(&w->pool->idle);
    }
}

/* --- the loop ----------------------------------------------------------------------- */

/* The thread enters and leaves the loop. */
static void metrics_begin(struct weft__worker *w)
{
    weft__worker_metrics_check_mask(w);
    if (__builtin_expect(w->metrics.seen != 0, 0)) {
        weft__worker_metrics_after_sleep(w, false);
    }
}

static void metrics_end(struct weft__worker *w)
{
    if (__builtin_expect(w->metrics.seen != 0, 0)) {
        weft__worker_metrics_before_sleep(w);
    }
}

static void run_tasks(struct weft__worker *w, const _Atomic(uint32_t) *until)
{
    struct weft__task *task;
    while ((task = find_work(w, until))) {
        weft__worker_run(w, task);
        if (until && should_exit(w, until)) {
            break;
        }
    }
}

void weft__worker_loop(struct weft__worker *w, const _Atomic(uint32_t) *until)
{
    w->until = until;
    metrics_begin(w);
    if (!(until && should_exit(w, until))) {
        if (w->group_sched) {
            run_dispatcher(w, until);
        } else {
            run_tasks(w, until);
        }
    }
    w->until = NULL;
    metrics_end(w);
}

/* A thread that stops being a worker leaves its work where the other workers find it. */
void weft__worker_hand_over(struct weft__worker *w)
{
    struct weft__chain rest;
    weft__chain_init(&rest);
    if (w->handoff) {
        /* A bound task stays until the thread returns: no other worker may run it. */
        weft__chain_push(w->handoff->pin >= 0 ? &w->pinned : &rest, &w->handoff->link);
        w->handoff = NULL;
    }
    struct weft__task *next = weft__worker_swap_next(w, NULL);
    if (next) {
        weft__chain_push(&rest, &next->link);
    }
    if (rest.count) {
        weft__global_push_chain(&w->pool->global, &rest);
    }
    if (weft__worker_has_work(w)) {
        weft__idle_notify(&w->pool->idle);
    }
    weft__worker_announce_timers(w);
}

void weft__worker_announce_timers(struct weft__worker *w)
{
    int64_t next =
        weft__wheel_next_ordered(&w->wheel); /* pairs: sched/timer.c, notify_home_worker */
    if (next != w->offered) {
        w->offered = next;
        if (next != INT64_MAX) {
            weft__idle_notify(&w->pool->idle);
        }
    }
}

/* Fibers that yield for ever do not keep the host's thread: what is ready after POLLED_ROUNDS
 * rounds waits for the next poll. */
static void drain_rounds(struct weft__worker *w)
{
    unsigned left = POLLED_ROUNDS;
    do {
        uint64_t before = atomic_load_explicit(&w->group_sched->gone, memory_order_relaxed);
        weft__group_sched_run(w->group_sched, left);
        left -=
            (unsigned)(atomic_load_explicit(&w->group_sched->gone, memory_order_relaxed) - before);
        weft__worker_poll(w); /* also submits the pending operations */
    } while (left > 0 && weft__group_sched_is_busy(w->group_sched));
}

static void drain_tasks(struct weft__worker *w)
{
    struct weft__task *task;
    while ((task = find_local_work(w)) || (task = steal(w, true))) {
        weft__worker_run(w, task);
        if (weft__worker_peek_driver(w) && weft__ring_length(&w->ring) == 0) {
            weft__worker_poll(w); /* also submits the pending operations */
        }
    }
}

uint64_t weft__worker_run_ready(struct weft__worker *w)
{
    uint64_t before = atomic_load_explicit(&w->counters.executed, memory_order_relaxed);
    w->now = weft__clock_ns();
    metrics_begin(w);
    weft__worker_poll(w);
    if (w->group_sched) {
        drain_rounds(w);
    } else {
        drain_tasks(w);
    }
    metrics_end(w);
    weft__buf_cache_shrink(w->bufs, TRIM_SLICE);
    return atomic_load_explicit(&w->counters.executed, memory_order_relaxed) - before;
}
