/* The life cycle of a pool: create, start, admit, destroy. Stopping is in stop.c, the caller as
 * worker 0 in caller.c.
 */
#include "sched/pool.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/cpu.h"
#include "base/error.h"
#include "base/nonnull.h"
#include "base/objname.h"
#include "base/thread.h"
#include "fiber/hook_binding.h"
#include "sched/fault.h"
#include "task/fork.h"
#include "watchdog/watchdog.h"

#define MAX_TICK_NS 1000000000
#define DEFAULT_SLOTS 4096u
#define DEFAULT_SPIN_NS 5000

struct weft__pools weft__pools;

/* The last step of create. False: this thread, which is to be worker 0, is the caller of another
 * pool already, inside its loop or not. */
static bool pools_add(weft_pool *pool)
{
    weft__lock(&weft__pools.lock);
    const weft_pool *other = pool->caller ? weft__pools.first : NULL;
    while (other && !(other->caller && pthread_equal(other->caller_thread, pthread_self()))) {
        other = other->next;
    }
    if (!other) {
        pool->serial = ++weft__pools.made;
        pool->next = weft__pools.first;
        weft__pools.first = pool;
    }
    weft__unlock(&weft__pools.lock);
    return !other;
}

static void pools_remove(weft_pool *pool)
{
    weft__lock(&weft__pools.lock);
    weft_pool **at = &weft__pools.first;
    while (*at != pool) {
        at = &(*at)->next;
    }
    *at = pool->next;
    for (unsigned i = 0; i < pool->worker_count; i++) {
        weft__worker_retire_io_count(&pool->workers[i]);
    }
    weft__unlock(&weft__pools.lock);
}

void weft__pool_fork_prepare(void)
{
    weft__lock(&weft__pools.lock);
}

void weft__pool_fork_parent(void)
{
    weft__unlock(&weft__pools.lock);
}

void weft__pool_fork_child(void)
{
    for (weft_pool *pool = weft__pools.first; pool; pool = pool->next) {
        atomic_store_explicit(&pool->phase, WEFT__POOL_FORKED, memory_order_relaxed);
        for (unsigned i = 0; i < pool->worker_count; i++) {
            const struct weft__driver *driver =
                atomic_load_explicit(&pool->workers[i].driver, memory_order_relaxed);
            if (driver) {
                weft__driver_fork_child(driver);
                atomic_store_explicit(&pool->workers[i].sleeper.parker.wake_fd, -1,
                                      memory_order_relaxed); /* the number belongs to another file
                                                                from now on */
            }
        }
    }
    weft__fd_fork_child();
    atomic_store_explicit(&weft__driver_threadless_waits, 0,
                          memory_order_relaxed); /* no thread waits
                                                                              here */
    weft__pools.first = NULL;
    weft__unlock(&weft__pools.lock);
}

/* --- create ---------------------------------------------------------------- */

static bool power_of_two(unsigned n, unsigned least, unsigned most)
{
    return n >= least && n <= most && (n & (n - 1)) == 0;
}

static int check_cpus(const struct weft_pool_opts *opts)
{
    cpu_set_t allowed;
    if (opts->cpu_count && !opts->cpus) {
        return weft__refuse(-EINVAL, "cpus: must be given with cpu_count");
    }
    if (opts->cpu_count && sched_getaffinity(0, sizeof allowed, &allowed) != 0) {
        return -errno;
    }
    for (size_t i = 0; i < opts->cpu_count; i++) {
        int cpu = opts->cpus[i];
        if (cpu < 0 || cpu >= CPU_SETSIZE || !CPU_ISSET(cpu, &allowed)) {
            return weft__refuse(-EINVAL, "cpus: has a CPU that this process may not use");
        }
    }
    return 0;
}

/* The reason why an option is invalid, or NULL. */
static const char *invalid_option(const struct weft_pool_opts *opts)
{
    if (opts->timer_tick_ns < 0 || opts->timer_tick_ns > MAX_TICK_NS) {
        return "timer_tick_ns: must be from 0 to one second";
    }
    if (opts->workers > WEFT_MAX_WORKERS) {
        return "workers: must be at most 1024";
    }
    if (!power_of_two(opts->ring_slots, 4, 65536)) {
        return "ring_slots: must be a power of two from 4 to 65536";
    }
    if (!power_of_two(opts->fresh_slots, 2, 1u << 20)) {
        return "fresh_slots: must be a power of two from 2 to 1048576";
    }
    if (opts->fresh_order != WEFT_FRESH_LIFO && opts->fresh_order != WEFT_FRESH_FIFO) {
        return "fresh_order: must be one of enum weft_fresh_order";
    }
    return NULL;
}

/* Fills in the defaults and checks the rest; *stack_class is the class of stack_bytes. */
static int check_opts(struct weft_pool_opts *opts, int *stack_class)
{
    opts->name = opts->name ? opts->name : "weft";
    opts->workers = opts->workers ? opts->workers : weft__cpu_usable();
    opts->ring_slots = opts->ring_slots ? opts->ring_slots : DEFAULT_SLOTS;
    opts->fresh_slots = opts->fresh_slots ? opts->fresh_slots : DEFAULT_SLOTS;
    opts->stack_bytes = opts->stack_bytes ? opts->stack_bytes : WEFT__STACK_DEFAULT;
    opts->spin_ns = opts->spin_ns ? opts->spin_ns : DEFAULT_SPIN_NS;
    opts->hog_ns = opts->hog_ns ? opts->hog_ns : WEFT__HOG_NS;
    if (opts->spin_ns < 0 || weft__cpu_usable() == 1) {
        opts->spin_ns = 0; /* on one CPU, spinning keeps the thread we wait for from running */
    }
    *stack_class = weft__stack_class(opts->stack_bytes);
    opts->timer_tick_ns = opts->timer_tick_ns ? opts->timer_tick_ns : 1 << WEFT__WHEEL_TICK_SHIFT;
    const char *invalid =
        *stack_class < 0 ? "stack_bytes: must be at most 64 MiB" : invalid_option(opts);
    if (invalid) {
        return weft__refuse(-EINVAL, invalid);
    }
    return check_cpus(opts);
}

/* The exponent of the next power of two. */
static unsigned tick_shift(int64_t tick_ns)
{
    return tick_ns > 1 ? 64 - (unsigned)__builtin_clzll((uint64_t)tick_ns - 1) : 0;
}

static int workers_init(weft_pool *pool, const struct weft_pool_opts *opts)
{
    for (unsigned i = 0; i < pool->worker_count; i++) {
        int err = weft__worker_init(&pool->workers[i], pool, (int)i);
        if (err) {
            while (i-- > 0) {
                weft__worker_deinit(&pool->workers[i]);
            }
            return err;
        }
        if (opts->cpu_count) {
            pool->workers[i].cpu = opts->cpus[i % opts->cpu_count];
        }
    }
    return 0;
}

static void workers_deinit(weft_pool *pool)
{
    for (unsigned i = 0; i < pool->worker_count; i++) {
        weft__worker_deinit(&pool->workers[i]);
    }
}

/* Zeroed, except for the slots of the wheels (time/wheel.h). */
static weft_pool *pool_alloc(unsigned workers)
{
    weft_pool *pool = weft__alloc_dirty(sizeof *pool + workers * sizeof pool->workers[0]);
    if (pool) {
        memset(pool, 0, sizeof *pool);
        for (unsigned i = 0; i < workers; i++) {
            memset(&pool->workers[i], 0, offsetof(struct weft__worker, wheel.slots));
        }
    }
    return pool;
}

int weft_pool_create(weft_pool **out, const struct weft_pool_opts *options)
{
    struct weft_pool_opts opts = {0};
    int stack_class;
    if (options) {
        opts = *options;
    }
    int err = check_opts(&opts, &stack_class);
    err = err ? err : weft__driver_check(opts.driver);
    if (err) {
        return err;
    }
    if (opts.caller && weft__worker_self()) {
        return -EBUSY;
    }
    weft__fork_install();
    weft__hooked_check_library();
    weft_pool *pool = pool_alloc(opts.workers);
    if (!pool) {
        return -ENOMEM;
    }
    pool->name = weft__objname_copy(opts.name);
    if (!pool->name) {
        err = -ENOMEM;
        goto free_pool;
    }
    pool->worker_count = opts.workers;
    pool->caller = opts.caller;
    pool->compute = opts.compute;
    pool->stack_class = (uint8_t)stack_class;
    pool->fresh_fifo = opts.fresh_order == WEFT_FRESH_FIFO;
    pool->ring_slots = opts.ring_slots;
    pool->fresh_slots = opts.fresh_slots;
    pool->max_fibers = opts.max_fibers;
    pool->spin_ns = opts.spin_ns;
    pool->tick_shift = tick_shift(opts.timer_tick_ns);
    pool->hog_ns = opts.hog_ns;
    pool->deadlock_off = opts.deadlock_off;
    pool->caller_thread = pthread_self();
    pool->host_fd = pool->host_epoll = -1;
    pool->wanted = opts.driver;
    weft__global_init(&pool->global);
    weft__idle_init(&pool->idle);
    err = weft__global_reserve(&pool->global, opts.ring_slots);
    if (err) {
        goto free_name;
    }
    if (opts.caller) {
        err = weft__pool_host_open(pool);
        if (err) {
            goto free_global;
        }
    }
    err = workers_init(pool, &opts);
    if (err) {
        goto close_fd;
    }
    if (!pools_add(pool)) {
        err = -EBUSY;
        goto deinit_workers;
    }
    weft__fault_install();
    weft__watchdog_start();
    *out = pool;
    return 0;

deinit_workers:
    workers_deinit(pool);
close_fd:
    weft__pool_host_close(pool);
free_global:
    weft__global_deinit(&pool->global);
free_name:
    weft__free(pool->name);
free_pool:
    weft__free(pool);
    return err;
}

/* Has the fiber ended in this pool with unused join rights? */
static bool is_unjoined(struct weft__task *task, const weft_pool *pool)
{
    uint64_t ident = task ? atomic_load_explicit(&task->ident, memory_order_relaxed) : 0;
    if (!(ident & WEFT__IDENT_LIVE) || !(ident & WEFT__IDENT_DONE) ||
        !weft__ident_lock(task, weft__ident_generation(ident), 0, &ident)) {
        return false;
    }
    bool found = (ident & WEFT__IDENT_DONE) && weft__pool_owns(pool, task, ident) &&
                 weft__ident_rights(ident) > 0;
    weft__ident_unlock(task, ident);
    return found;
}

/* Their control blocks are kept until they are joined. */
static void report_unjoined(const weft_pool *pool)
{
    uint64_t most = 0, count = 0;
    weft_fiber first = WEFT_NO_FIBER;
    for (unsigned i = 0; i < pool->worker_count; i++) {
        most += atomic_load_explicit(&pool->workers[i].counters.unjoined, memory_order_relaxed);
    }
    uint32_t slots = most ? weft__slab_slots() : 0;
    for (uint32_t slot = 1; slot <= slots; slot++) {
        struct weft__task *task = weft__slab_find(slot);
        if (is_unjoined(task, pool)) {
            first = count++ == 0 ? weft__task_handle(task) : first;
        }
    }
    if (count) {
        weft__report_unjoined(pool->name, count, first);
    }
}

void weft_pool_destroy(weft_pool *pool)
{
    if (!pool) {
        return;
    }
    weft__pool_check_fork(pool);
    WEFT__REQUIRE(!pool->group_sched,
                  "pool %s belongs to a dispatcher: destroy the dispatcher instead", pool->name);
    int phase = atomic_load_explicit(&pool->phase, memory_order_acquire);
    WEFT__REQUIRE(phase == WEFT__POOL_CREATED || phase == WEFT__POOL_STOPPED,
                  "pool %s is destroyed before it was stopped: call weft_pool_stop first",
                  pool->name);
    WEFT__REQUIRE(weft__pool_live(pool) == 0, "pool %s is destroyed with fibers in it", pool->name);
    for (unsigned i = 0; i < pool->worker_count; i++) {
        WEFT__REQUIRE(weft__wheel_is_empty(&pool->workers[i].wheel),
                      "pool %s is destroyed with timers in it", pool->name);
    }
    while (atomic_load_explicit(&pool->visitors,
                                memory_order_acquire)) { /* pairs: weft__pool_visit_end */
        sched_yield(); /* another thread needs a few more instructions there, but may be
                          preempted */
    }
    report_unjoined(pool);
    pools_remove(pool);
    weft__watchdog_stop();
    workers_deinit(pool);
    weft__pool_host_close(pool);
    weft__global_deinit(&pool->global);
    weft__free(pool->name);
    weft__free(pool);
}

/* --- start --------------------------------------------------------------------- */

void weft__worker_thread_lost(void *arg)
{
    const struct weft__worker *w = arg;
    const struct weft__task *task = weft__running(w);
    const char *name = task ? weft__task_name(task) : "";
    char who[32] = "a callback";
    if (task) {
        weft_fiber_format(weft__task_handle(task), who, sizeof who);
    }
    weft__panic(
        __FILE__, __LINE__,
        "%s%s%s%s has ended its thread, worker %d of pool %s, by pthread_exit or a cancel that "
        "it had enabled: fibers that wait for this worker would never continue; %s",
        task ? "fiber " : "", who, name[0] ? " " : "", name, (int)w->index, w->pool->name,
        task ? "end a fiber by returning from its function, or by weft_fiber_exit"
             : "return from the callback");
}

static void loop(void *arg)
{
    weft__worker_loop(arg, NULL);
}

static void *thread_main(void *arg)
{
    struct weft__worker *w = arg;
    /* The kernel would add 50 us to every sleep in order to merge wake-ups; the wheel's tick has
     * merged them already. */
    prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL);
    weft__worker_enter_thread(w);
    weft__thread_guard(loop, w, weft__worker_thread_lost);
    weft__worker_leave_thread(w, WEFT_WORKER_ABSENT);
    return NULL;
}

static int thread_create(struct weft__worker *w)
{
    pthread_attr_t attr;
    pthread_attr_init(&attr);
    if (w->cpu >= 0) {
        cpu_set_t set;
        CPU_ZERO(&set);
        CPU_SET(w->cpu, &set);
        pthread_attr_setaffinity_np(&attr, sizeof set, &set);
    }
    w->has_thread = true; /* before the thread exists: the thread reads it */
    int err = weft__thread_create(&w->thread, &attr, thread_main, w);
    pthread_attr_destroy(&attr);
    if (err) {
        w->has_thread = false;
        return err;
    }
    weft__thread_set_name(w->thread, w->pool->name, (unsigned)w->index);
    return 0;
}

void weft__pool_join_threads(weft_pool *pool)
{
    atomic_store_explicit(&pool->exiting, 1, memory_order_seq_cst); /* pairs: sleep_once */
    for (unsigned i = 0; i < pool->worker_count; i++) {
        struct weft__worker *w = &pool->workers[i];
        if (w->has_thread) {
            weft__parker_wake(&w->sleeper.parker);
        }
    }
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before); /* must not be left half done */
    for (unsigned i = 0; i < pool->worker_count; i++) {
        struct weft__worker *w = &pool->workers[i];
        if (w->has_thread) {
            pthread_join(w->thread, NULL);
        }
    }
    pthread_setcancelstate(before, NULL);
    for (unsigned i = 0; i < pool->worker_count; i++) { /* only now: other workers may have been
                                                           using it */
        struct weft__worker *w = &pool->workers[i];
        if (w->has_thread) {
            weft__worker_close_driver(w);
            w->has_thread = false;
        }
    }
    atomic_store_explicit(&pool->exiting, 0, memory_order_relaxed);
}

int weft__pool_create_threads(weft_pool *pool)
{
    int err = 0;
    for (unsigned i = pool->caller ? 1 : 0; i < pool->worker_count && !err; i++) {
        err = thread_create(&pool->workers[i]);
    }
    if (err) {
        weft__pool_join_threads(pool);
    }
    return err;
}

int weft_pool_start(weft_pool *pool)
{
    WEFT__NONNULL(pool);
    return pool->group_sched ? -EINVAL : weft__pool_start(pool);
}

int weft__pool_start(weft_pool *pool)
{
    weft__pool_check_fork(pool);
    weft__lock(&pool->phase_lock);
    int phase = atomic_load_explicit(&pool->phase, memory_order_acquire);
    int err = phase == WEFT__POOL_STOPPING ? -EBUSY : 0;
    if (phase == WEFT__POOL_CREATED || phase == WEFT__POOL_STOPPED) {
        atomic_store_explicit(&pool->cancelling, 0, memory_order_relaxed);
        err = weft__pool_create_threads(pool);
        if (!err) {
            atomic_store_explicit(&pool->phase, WEFT__POOL_STARTED, memory_order_seq_cst);
        }
    }
    weft__unlock(&pool->phase_lock);
    return err;
}

/* --- admission -------------------------------------------------------------------- */

int weft__pool_admit_outside(weft_pool *pool, uint64_t n)
{
    int err = weft__pool_admit(pool, n);
    if (err) {
        return err;
    }
    /* Count first, then read the phase; stop sets the phase first, then counts: no fiber slips
     * through between the two. */
    atomic_fetch_add_explicit(&pool->entered, n, memory_order_seq_cst);
    int phase = atomic_load_explicit(&pool->phase, memory_order_seq_cst);
    if (phase >= WEFT__POOL_STOPPING) {
        weft__pool_check_fork(pool);
        weft__pool_unadmit_outside(pool, n);
        return -ESHUTDOWN;
    }
    return 0;
}

void weft__pool_unadmit_outside(weft_pool *pool, uint64_t n)
{
    weft__pool_release(pool, n);
    atomic_fetch_add_explicit(&pool->refused, n, memory_order_relaxed);
    atomic_fetch_add_explicit(&pool->left, n, memory_order_seq_cst);
    if (atomic_load_explicit(&pool->drain_awaited, memory_order_seq_cst)) {
        weft__pool_check_drained(pool); /* a stop may have counted it */
    }
}

/* All `left` counters are read before all `entered` counters. Let t be the moment in between. A
 * fiber that was read as left had left by t and had entered before that; a fiber that had entered
 * by t is read as entered. So entered_read >= entered(t) >= left(t) >= left_read, and if the two
 * sums are equal, no fiber was live at t. Once spawns from outside are refused, only live fibers
 * create fibers, so zero stays zero. */
uint64_t weft__pool_live(weft_pool *pool)
{
    uint64_t left = atomic_load_explicit(&pool->left, memory_order_seq_cst);
    for (unsigned i = 0; i < pool->worker_count; i++) {
        struct weft__counters *c = &pool->workers[i].counters;
        left += atomic_load_explicit(&c->finished, memory_order_acquire);
        left += atomic_load_explicit(&c->departed, memory_order_acquire);
    }
    uint64_t entered = atomic_load_explicit(&pool->entered, memory_order_seq_cst);
    for (unsigned i = 0; i < pool->worker_count; i++) {
        struct weft__counters *c = &pool->workers[i].counters;
        entered += atomic_load_explicit(&c->spawned, memory_order_acquire);
    }
    return entered - left;
}

/* --- queries -------------------------------------------------------------------------------- */

weft_pool *weft_pool_self(void)
{
    struct weft__worker *w = weft__worker_self();
    return w && weft__running(w) ? w->pool : NULL;
}

int weft_worker_self(void)
{
    struct weft__worker *w = weft__worker_self();
    return w && weft__running(w) ? w->index : -1;
}

const char *weft_pool_name(const weft_pool *pool)
{
    WEFT__NONNULL(pool);
    return pool->name;
}

unsigned weft_pool_workers(const weft_pool *pool)
{
    WEFT__NONNULL(pool);
    return pool->worker_count;
}

unsigned weft_usable_cpus(void)
{
    return weft__cpu_usable();
}
