/* The demo. It runs as the first fiber of its own pool and prints what it measures. It reports
 * every resource that the machine refuses and continues with what there is. */
#include "demo.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/weft.h>

#include "demo_dispatcher.h"
#include "demo_dump.h"
#include "system_info.h"
#include "terminal.h"

enum {
    MILLION = 1000000,
    CHILDREN = 10,   /* of each node of the tree */
    BATCH = 4096,    /* fibers spawned, or woken, between two yields */
    STACK_KIB = 64,  /* of every fiber here */
    OVERHEAD = 1024, /* of a fiber besides the pages of its stack: control block and page tables */
};

static double seconds_since(int64_t start)
{
    return (double)(weft_now() - start) / 1e9;
}

static const char *guard_kind(void)
{
    struct weft_memory_stats memory;
    weft_memory_stats(&memory);
    return memory.guard;
}

/* --- the machine ------------------------------------------------------------------ */

static void show_machine(void)
{
    static const char *const means[][2] = {
        {"guard-install", "markers in the page table: no mapping is split"},
        {"mprotect", "an inaccessible mapping; two mappings for each stack"},
        {"canary", "64 bytes that must not change: checked when the stack is freed"},
    };
    char system[256];
    const char *guard = guard_kind();
    system_name(system, sizeof system);
    terminal_heading("1. This machine");
    terminal_fact("system", "%s", system);
    terminal_fact("CPUs", "%u usable, %u workers", weft_usable_cpus(),
                  weft_pool_workers(weft_pool_self()));
    terminal_fact("memory", "%s free", terminal_bytes(system_free_bytes()));
    for (size_t i = 0; i < sizeof means / sizeof *means; i++) {
        if (strcmp(guard, means[i][0]) == 0) {
            terminal_fact("guard", "%s: %s", guard, means[i][1]);
        }
    }
}

/* --- many parked fibers ------------------------------------------------------------- */

struct parked_fibers {
    weft_fiber *fibers;
    /* Unparked by the fiber that makes `parked` equal `awaited`, or `ended` equal `spawned`. */
    weft_fiber host;
    long wanted, spawned;
    atomic_long parked, awaited, ended;
};

/* The struct may be gone as soon as the last fiber has counted itself, so it is read before
 * that. */
static void *wait_for_wake(void *arg)
{
    struct parked_fibers *parked_fibers = arg;
    weft_fiber host = parked_fibers->host;
    if (atomic_fetch_add(&parked_fibers->parked, 1) + 1 == atomic_load(&parked_fibers->awaited)) {
        weft_fiber_unpark(host);
    }
    weft_fiber_park(WEFT_FOREVER);
    long last = parked_fibers->spawned;
    if (atomic_fetch_add_explicit(&parked_fibers->ended, 1, memory_order_acq_rel) + 1 == last) {
        weft_fiber_unpark(host);
    }
    return NULL;
}

/* As many as fit into a quarter of the free memory; two pages per stack if its guard is a canary in
 * the last page. */
static long fibers_that_fit(void)
{
    double free_bytes = system_free_bytes();
    double pages = strcmp(guard_kind(), "guard-install") == 0 ? 1 : 2;
    double each = pages * (double)sysconf(_SC_PAGESIZE) + OVERHEAD;
    double fit = free_bytes / 4 / each;
    if (free_bytes <= 0 || fit >= MILLION) {
        return MILLION;
    }
    return fit > 1 ? (long)fit : 1;
}

/* Returns 0, or the error that stopped it early. */
static int spawn_parked(struct parked_fibers *parked_fibers)
{
    struct weft_fiber_opts opts = {.detached = true};
    struct terminal_progress progress;
    int err = 0;
    terminal_progress_begin(&progress, "spawning", parked_fibers->wanted);
    while (!err && parked_fibers->spawned < parked_fibers->wanted) {
        long stop = parked_fibers->spawned + BATCH < parked_fibers->wanted
                        ? parked_fibers->spawned + BATCH
                        : parked_fibers->wanted;
        while (!err && parked_fibers->spawned < stop) {
            err = weft_spawn(&parked_fibers->fibers[parked_fibers->spawned], wait_for_wake,
                             parked_fibers, &opts);
            parked_fibers->spawned += err == 0;
        }
        atomic_store(&parked_fibers->awaited, parked_fibers->spawned);
        while (atomic_load(&parked_fibers->parked) < parked_fibers->spawned) {
            weft_fiber_park(WEFT_FOREVER);
        }
        terminal_progress_show(&progress, parked_fibers->spawned);
    }
    terminal_progress_end(&progress);
    return err;
}

static void wake_parked(struct parked_fibers *parked_fibers)
{
    struct terminal_progress progress;
    terminal_progress_begin(&progress, "waking", parked_fibers->spawned);
    for (long i = 0; i < parked_fibers->spawned; i++) {
        weft_fiber_unpark(parked_fibers->fibers[i]);
        if (i % BATCH == 0) {
            weft_yield();
            terminal_progress_show(&progress, atomic_load(&parked_fibers->ended));
        }
    }
    /* The fiber that ends last unparks this fiber; the deadline is for the progress line. */
    while (atomic_load_explicit(&parked_fibers->ended, memory_order_acquire) <
           parked_fibers->spawned) {
        weft_fiber_park(weft_after(20000000));
        terminal_progress_show(&progress, atomic_load(&parked_fibers->ended));
    }
    /* All may have ended before the first update. */
    terminal_progress_show(&progress, parked_fibers->spawned);
    terminal_progress_end(&progress);
}

static void show_parked_memory(const struct parked_fibers *parked_fibers, double before)
{
    struct weft_memory_stats memory;
    weft_memory_stats(&memory);
    double each = (system_resident_bytes() - before) / (double)parked_fibers->spawned;
    terminal_fact("memory", "%s bytes each: control block, and the used part of a stack of %d KiB",
                  terminal_number((uint64_t)(each > 0 ? each : 0)), STACK_KIB);
    terminal_fact("reserved", "%s of address space in %zu mappings, guard: %s",
                  terminal_bytes((double)memory.reserved_bytes), memory.mappings, memory.guard);
}

static void *trim(void *arg)
{
    weft_memory_trim();
    return arg;
}

/* Idle workers do the same by themselves, but keep some stacks. For a million stacks this takes so
 * long that a fiber should not do it: a thread for blocking calls does. */
static void show_trim(void)
{
    int64_t start = weft_now();
    if (weft_blocking_call(NULL, NULL, trim, NULL, WEFT_FOREVER) != 0) {
        weft_memory_trim();
    }
    terminal_fact("released", "to the kernel in %.2f s; %s remain", seconds_since(start),
                  terminal_bytes(system_resident_bytes()));
}

/* Allocates fewer handles if there is no memory for all. Returns false if there is none. */
static bool allocate_handles(struct parked_fibers *parked_fibers)
{
    size_t bytes;
    while (bytes = (size_t)parked_fibers->wanted * sizeof *parked_fibers->fibers,
           !(parked_fibers->fibers = malloc(bytes))) {
        parked_fibers->wanted /= 2;
        if (parked_fibers->wanted == 0) {
            return false;
        }
    }
    memset(parked_fibers->fibers, 0,
           bytes); /* resident from now on: not to be counted as the fibers' */
    return true;
}

/* Returns the number of fibers. */
static long show_parked(long wanted)
{
    struct parked_fibers parked_fibers = {.wanted = wanted, .host = weft_self()};
    terminal_heading("2. %s fibers, all parked at once", terminal_number((uint64_t)wanted));
    if (!allocate_handles(&parked_fibers)) {
        terminal_warn("no memory for their handles");
        return 0;
    }
    double before = system_resident_bytes();
    int64_t start = weft_now();
    int err = spawn_parked(&parked_fibers);
    double took = seconds_since(start);
    if (err) {
        terminal_warn("weft_spawn: %s", weft_strerror(err));
    }
    if (parked_fibers.spawned < wanted) {
        terminal_warn("continuing with %s", terminal_number((uint64_t)parked_fibers.spawned));
    }
    if (parked_fibers.spawned > 0) {
        double count = (double)parked_fibers.spawned;
        terminal_fact("parked", "%s fibers in %.2f s, %.2f us each",
                      terminal_number((uint64_t)parked_fibers.spawned), took, took * 1e6 / count);
        terminal_fact("reason",
                      "each fiber touches its own stack: a page that the kernel allocates");
        terminal_fact("",
                      "and clears. README's \"spawn a million\" end at once, on a few warm stacks");
        show_parked_memory(&parked_fibers, before);
        start = weft_now();
        wake_parked(&parked_fibers);
        took = seconds_since(start);
        terminal_fact("woken", "and ended in %.2f s, %.2f us each", took, took * 1e6 / count);
        show_trim();
    }
    free(parked_fibers.fibers);
    return parked_fibers.spawned;
}

/* --- skynet ------------------------------------------------------------------------- */

struct subtree {
    long first, leaves;
};

static _Atomic int spawn_error;
static atomic_long not_spawned;

/* If there is no memory for a child fiber, its parent does the work itself. */
static void *sum_up(void *arg)
{
    const struct subtree *tree = arg;
    if (tree->leaves == 1) {
        return (void *)tree->first;
    }
    struct subtree part[CHILDREN];
    weft_fiber child[CHILDREN];
    void *result[CHILDREN] = {0};
    long sum = 0;
    for (int i = 0; i < CHILDREN; i++) {
        part[i].leaves = tree->leaves / CHILDREN;
        part[i].first = tree->first + i * part[i].leaves;
        int err = weft_spawn(&child[i], sum_up, &part[i], NULL);
        if (err) {
            atomic_store(&spawn_error, err);
            atomic_fetch_add(&not_spawned, 1);
            child[i] = WEFT_NO_FIBER;
            result[i] = sum_up(&part[i]);
        }
    }
    for (int i = 0; i < CHILDREN; i++) {
        if (child[i] != WEFT_NO_FIBER) {
            weft_join(child[i], &result[i], WEFT_FOREVER);
        }
        sum += (long)result[i];
    }
    return (void *)sum;
}

/* Returns a million, or the largest power of ten up to `most`. */
static long tree_leaves(long most)
{
    long leaves = CHILDREN;
    while (leaves < MILLION && leaves <= most / CHILDREN) {
        leaves *= CHILDREN;
    }
    return leaves;
}

static int show_skynet(long leaves)
{
    struct subtree whole = {.leaves = leaves};
    long nodes = (leaves * CHILDREN - 1) / (CHILDREN - 1);
    long right = leaves * (leaves - 1) / 2;
    terminal_heading("3. Skynet: a tree of fibers, ten children each, %s leaves",
                     terminal_number((uint64_t)leaves));
    int64_t start = weft_now();
    long sum = (long)sum_up(&whole);
    double took = seconds_since(start);
    if (atomic_load(&spawn_error)) {
        terminal_warn("weft_spawn: %s; the parent did the work of %s children",
                      weft_strerror(atomic_load(&spawn_error)),
                      terminal_number((uint64_t)atomic_load(&not_spawned)));
    }
    if (sum != right) {
        terminal_warn("the sum of the leaves is %ld, not %ld", sum, right);
        return 1;
    }
    terminal_fact("sum", "%s, as expected", terminal_number((uint64_t)sum));
    terminal_fact("time", "%.1f ms for %s fibers: %.0f ns to spawn, run, end and join one",
                  took * 1e3, terminal_number((uint64_t)nodes), took * 1e9 / (double)nodes);
    return 0;
}

/* --- statistics of the workers --------------------------------------------------------- */

static void show_workers(void)
{
    weft_pool *pool = weft_pool_self();
    terminal_heading("4. Statistics of the workers");
    printf("  %-6s %14s %14s %14s %10s %10s %8s %8s\n", "worker", "turns", "spawned", "ended",
           "steals", "stolen", "parks", "wakes");
    for (unsigned i = 0; i < weft_pool_workers(pool); i++) {
        struct weft_worker_stats w;
        weft_worker_stats(pool, &w, i);
        printf("  %-6u", i);
        printf(" %14s", terminal_number(w.executed));
        printf(" %14s", terminal_number(w.spawned));
        printf(" %14s", terminal_number(w.finished));
        printf(" %10s", terminal_number(w.steals));
        printf(" %10s", terminal_number(w.stolen));
        printf(" %8s", terminal_number(w.parks));
        printf(" %8s\n", terminal_number(w.wakes));
    }
}

/* --- the dump -------------------------------------------------------------------------- */

static void *wait_for_nothing(void *arg)
{
    weft_fiber_park(WEFT_FOREVER);
    return arg;
}

static void *wait_for_fiber(void *arg)
{
    weft_join(*(weft_fiber *)arg, NULL, WEFT_FOREVER);
    return NULL;
}

static bool waits(weft_fiber fiber)
{
    enum weft_fiber_state state;
    return weft_fiber_state(fiber, &state) == 0 && state == WEFT_FIBER_WAITING;
}

/* A dump visits the slot of each fiber that ever existed, which may take long: not on a worker. It
 * begins when its caller waits, so that it shows the same each time. */
struct account {
    weft_pool *pool;
    weft_fiber caller;
};

static void *dump_pool(void *arg)
{
    const struct account *account = arg;
    while (!waits(account->caller)) {
        sched_yield();
    }
    weft_pool_dump(account->pool, stdout, 10);
    return NULL;
}

static int show_dump(void)
{
    weft_fiber sleeper, joiner;
    terminal_heading("5. A dump of the pool while two fibers wait");
    int err =
        weft_spawn(&sleeper, wait_for_nothing, NULL, &(struct weft_fiber_opts){.name = "sleeper"});
    if (err) {
        terminal_warn("weft_spawn: %s", weft_strerror(err));
        return 1;
    }
    err =
        weft_spawn(&joiner, wait_for_fiber, &sleeper, &(struct weft_fiber_opts){.name = "joiner"});
    while (!waits(sleeper) || (!err && !waits(joiner))) {
        weft_yield();
    }
    struct account account = {weft_pool_self(), weft_self()};
    if (weft_blocking_call(NULL, NULL, dump_pool, &account, WEFT_FOREVER) != 0) { /* no thread */
        weft_pool_dump(account.pool, stdout, 10);
    }
    weft_fiber_unpark(sleeper);
    if (err) {
        terminal_warn("weft_spawn: %s", weft_strerror(err));
        weft_join(sleeper, NULL, WEFT_FOREVER);
        return 1;
    }
    weft_join(joiner, NULL, WEFT_FOREVER);
    return 0;
}

/* --- a deadlock ---------------------------------------------------------------------------- */

/* In case no report comes (for example without /proc) a thread ends this part. The cycle report may
 * come late on a slow machine; the deadlock report comes soon after that, or not at all. */
struct deadlock_demo {
    weft_fiber first; /* set before it waits */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool noticed, over; /* under the lock */
};

static void await_locked(struct deadlock_demo *deadlock_demo, const bool *what, int seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += seconds;
    while (!*what && !deadlock_demo->over &&
           pthread_cond_timedwait(&deadlock_demo->changed, &deadlock_demo->lock, &until) == 0) {
    }
}

static void *end_deadlock_demo(void *arg)
{
    struct deadlock_demo *deadlock_demo = arg;
    /* Otherwise this thread could still wake a fiber, and there would be no deadlock. */
    weft_watchdog_ignore_thread(0);
    pthread_mutex_lock(&deadlock_demo->lock);
    await_locked(deadlock_demo, &deadlock_demo->noticed, 30);
    await_locked(deadlock_demo, &deadlock_demo->over, 5);
    if (!deadlock_demo->over) {
        weft_cancel(deadlock_demo->first);
    }
    pthread_mutex_unlock(&deadlock_demo->lock);
    return NULL;
}

struct pair {
    weft_fiber cook, waiter;
};

static void *wait_for_cook(void *arg)
{
    weft_join(((struct pair *)arg)->cook, NULL, WEFT_FOREVER);
    return NULL;
}

static void *wait_for_waiter(void *arg)
{
    weft_join(((struct pair *)arg)->waiter, NULL, WEFT_FOREVER);
    return NULL;
}

/* Both fibers start when this one waits: there is one worker. */
static void *serve_dinner(void *arg)
{
    struct deadlock_demo *deadlock_demo = arg;
    static struct pair pair;
    pthread_mutex_lock(&deadlock_demo->lock);
    deadlock_demo->first = weft_self();
    pthread_mutex_unlock(&deadlock_demo->lock);
    if (weft_spawn(&pair.cook, wait_for_waiter, &pair, &(struct weft_fiber_opts){.name = "cook"}) ||
        weft_spawn(&pair.waiter, wait_for_cook, &pair,
                   &(struct weft_fiber_opts){.name = "waiter"})) {
        return NULL;
    }
    weft_join(pair.waiter, NULL, WEFT_FOREVER);
    weft_cancel(pair.cook);
    return NULL;
}

static void print_report(enum weft_report_kind kind, const char *text, void *arg)
{
    struct deadlock_demo *deadlock_demo = arg;
    fputs(text, stdout);
    pthread_mutex_lock(&deadlock_demo->lock);
    deadlock_demo->noticed = deadlock_demo->noticed || kind == WEFT_REPORT_CYCLE;
    pthread_cond_signal(&deadlock_demo->changed);
    pthread_mutex_unlock(&deadlock_demo->lock);
}

static void show_deadlock(void)
{
    struct deadlock_demo deadlock_demo = {.lock = PTHREAD_MUTEX_INITIALIZER,
                                          .changed = PTHREAD_COND_INITIALIZER};
    pthread_t thread;
    terminal_heading("8. The cook waits for the waiter, and the waiter for the cook");
    fflush(stdout);
    if (pthread_create(&thread, NULL, end_deadlock_demo, &deadlock_demo) != 0) {
        terminal_warn("skipped: no thread to end it");
        return;
    }
    weft_on_report(print_report, &deadlock_demo);
    int err = weft_run(NULL, serve_dinner, &deadlock_demo, &(struct weft_pool_opts){.workers = 1},
                       WEFT_FOREVER);
    weft_on_report(NULL, NULL);
    pthread_mutex_lock(&deadlock_demo.lock);
    deadlock_demo.over = true;
    pthread_cond_signal(&deadlock_demo.changed);
    pthread_mutex_unlock(&deadlock_demo.lock);
    pthread_join(thread, NULL);
    if (err == -EDEADLK) {
        terminal_fact("weft_run", "returned -EDEADLK after cancelling the three fibers");
    } else {
        terminal_warn("weft_run: %s", err ? weft_strerror(err) : "the deadlock was not detected");
    }
}

/* --- all parts -------------------------------------------------------------------------- */

struct demo_parts {
    long fibers;
    int failed;
};

static void *demo_parts(void *arg)
{
    struct demo_parts *demo_parts = arg;
    show_machine();
    if (!demo_parts->fibers) {
        demo_parts->fibers = fibers_that_fit();
        if (demo_parts->fibers < MILLION) {
            terminal_fact("limit", "a quarter of that memory is enough for %s parked fibers",
                          terminal_number((uint64_t)demo_parts->fibers));
        }
    }
    long parked = show_parked(demo_parts->fibers);
    demo_parts->failed |= parked == 0;
    demo_parts->failed |= show_skynet(tree_leaves(parked));
    show_workers();
    demo_parts->failed |= show_dump();
    demo_parts->failed |= demo_dump(6);
    return NULL;
}

int demo(long fibers)
{
    unsigned cpus = weft_usable_cpus();
    struct demo_parts whole = {.fibers = fibers};
    struct weft_pool_opts opts = {
        .name = "demo",
        .workers = cpus > 1 ? cpus : 2, /* with two, one can steal */
        .hog_ns = 1000000000,           /* a million page faults keep a machine busy */
    };
    char title[64];
    terminal_open();
    snprintf(title, sizeof title, "Weft %s: a demo", weft_version());
    terminal_title(title);
    int err = weft_run(NULL, demo_parts, &whole, &opts, WEFT_FOREVER);
    if (err) {
        fprintf(stderr, "weft: cannot start a pool: %s\n", weft_strerror(err));
        return 1;
    }
    whole.failed |= demo_dispatcher(7, whole.fibers);
    show_deadlock();
    return whole.failed ? 1 : 0;
}
