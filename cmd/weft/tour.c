/* The demo. It runs as the first fiber of its own pool and prints what it measures. It reports
 * every resource that the machine refuses and continues with what there is. */
#include "tour.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weft/weft.h>

#include "machine.h"
#include "rounds.h"
#include "screen.h"
#include "waiting.h"

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
        {"mprotect", "a mapping that cannot be touched; two mappings for each stack"},
        {"canary", "64 bytes that must not change: looked at when the stack is given back"},
    };
    char system[256];
    const char *guard = guard_kind();
    machine_system(system, sizeof system);
    screen_heading("1. This machine");
    screen_fact("system", "%s", system);
    screen_fact("CPUs", "%u usable, %u workers", weft_usable_cpus(),
                weft_pool_workers(weft_pool_self()));
    screen_fact("memory", "%s free", screen_bytes(machine_free_bytes()));
    for (size_t i = 0; i < sizeof means / sizeof *means; i++) {
        if (strcmp(guard, means[i][0]) == 0) {
            screen_fact("guard", "%s: %s", guard, means[i][1]);
        }
    }
}

/* --- many parked fibers ------------------------------------------------------------- */

struct crowd {
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
    struct crowd *crowd = arg;
    weft_fiber host = crowd->host;
    if (atomic_fetch_add(&crowd->parked, 1) + 1 == atomic_load(&crowd->awaited)) {
        weft_unpark(host);
    }
    weft_park(WEFT_FOREVER);
    long last = crowd->spawned;
    if (atomic_fetch_add_explicit(&crowd->ended, 1, memory_order_acq_rel) + 1 == last) {
        weft_unpark(host);
    }
    return NULL;
}

/* As many as fit into a quarter of the free memory; two pages per stack if its guard is a canary in
 * the last page. */
static long fibers_that_fit(void)
{
    double free_bytes = machine_free_bytes();
    double pages = strcmp(guard_kind(), "guard-install") == 0 ? 1 : 2;
    double each = pages * (double)sysconf(_SC_PAGESIZE) + OVERHEAD;
    double fit = free_bytes / 4 / each;
    if (free_bytes <= 0 || fit >= MILLION) {
        return MILLION;
    }
    return fit > 1 ? (long)fit : 1;
}

/* Returns 0, or the error that stopped it early. */
static int spawn_crowd(struct crowd *crowd)
{
    struct weft_fiber_opts opts = {.detached = true};
    struct screen_progress progress;
    int err = 0;
    screen_progress_begin(&progress, "spawning", crowd->wanted);
    while (!err && crowd->spawned < crowd->wanted) {
        long stop = crowd->spawned + BATCH < crowd->wanted ? crowd->spawned + BATCH : crowd->wanted;
        while (!err && crowd->spawned < stop) {
            err = weft_spawn(&crowd->fibers[crowd->spawned], wait_for_wake, crowd, &opts);
            crowd->spawned += err == 0;
        }
        atomic_store(&crowd->awaited, crowd->spawned);
        while (atomic_load(&crowd->parked) < crowd->spawned) {
            weft_park(WEFT_FOREVER);
        }
        screen_progress_show(&progress, crowd->spawned);
    }
    screen_progress_end(&progress);
    return err;
}

static void wake_crowd(struct crowd *crowd)
{
    struct screen_progress progress;
    screen_progress_begin(&progress, "waking", crowd->spawned);
    for (long i = 0; i < crowd->spawned; i++) {
        weft_unpark(crowd->fibers[i]);
        if (i % BATCH == 0) {
            weft_yield();
            screen_progress_show(&progress, atomic_load(&crowd->ended));
        }
    }
    /* The fiber that ends last unparks this fiber; the deadline is for the progress line. */
    while (atomic_load_explicit(&crowd->ended, memory_order_acquire) < crowd->spawned) {
        weft_park(weft_after(20000000));
        screen_progress_show(&progress, atomic_load(&crowd->ended));
    }
    /* All may have ended before the first update. */
    screen_progress_show(&progress, crowd->spawned);
    screen_progress_end(&progress);
}

static void show_crowd_memory(const struct crowd *crowd, double before)
{
    struct weft_memory_stats memory;
    weft_memory_stats(&memory);
    double each = (machine_resident_bytes() - before) / (double)crowd->spawned;
    screen_fact("memory", "%s bytes each: control block, and what was used of a stack of %d KiB",
                screen_number((uint64_t)(each > 0 ? each : 0)), STACK_KIB);
    screen_fact("reserved", "%s of address space in %zu mappings, guard: %s",
                screen_bytes((double)memory.reserved_bytes), memory.mappings, memory.guard);
}

static void *trim(void *arg)
{
    weft_trim();
    return arg;
}

/* Idle workers do the same by themselves, but keep some stacks. For a million stacks this takes so
 * long that a fiber should not do it: a thread for blocking calls does. */
static void show_trim(void)
{
    int64_t start = weft_now();
    if (weft_blocking_call(NULL, trim, NULL, NULL, WEFT_FOREVER) != 0) {
        weft_trim();
    }
    screen_fact("given back", "to the kernel in %.2f s; %s remain", seconds_since(start),
                screen_bytes(machine_resident_bytes()));
}

/* Allocates fewer handles if there is no memory for all. Returns false if there is none. */
static bool make_room(struct crowd *crowd)
{
    size_t bytes;
    while (bytes = (size_t)crowd->wanted * sizeof *crowd->fibers,
           !(crowd->fibers = malloc(bytes))) {
        crowd->wanted /= 2;
        if (crowd->wanted == 0) {
            return false;
        }
    }
    memset(crowd->fibers, 0, bytes); /* resident from now on: not to be counted as the fibers' */
    return true;
}

/* Returns the number of fibers. */
static long show_crowd(long wanted)
{
    struct crowd crowd = {.wanted = wanted, .host = weft_self()};
    screen_heading("2. %s fibers, all parked at once", screen_number((uint64_t)wanted));
    if (!make_room(&crowd)) {
        screen_warn("no memory for their handles");
        return 0;
    }
    double before = machine_resident_bytes();
    int64_t start = weft_now();
    int err = spawn_crowd(&crowd);
    double took = seconds_since(start);
    if (err) {
        screen_warn("weft_spawn: %s", weft_strerror(err));
    }
    if (crowd.spawned < wanted) {
        screen_warn("going on with %s", screen_number((uint64_t)crowd.spawned));
    }
    if (crowd.spawned > 0) {
        double count = (double)crowd.spawned;
        screen_fact("parked", "%s fibers in %.2f s, %.2f us each",
                    screen_number((uint64_t)crowd.spawned), took, took * 1e6 / count);
        screen_fact("why so long",
                    "each has touched a stack of its own: a page that the kernel makes");
        screen_fact("",
                    "and clears. README's \"spawn a million\" end at once, on a few warm stacks");
        show_crowd_memory(&crowd, before);
        start = weft_now();
        wake_crowd(&crowd);
        took = seconds_since(start);
        screen_fact("woken", "and ended in %.2f s, %.2f us each", took, took * 1e6 / count);
        show_trim();
    }
    free(crowd.fibers);
    return crowd.spawned;
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
    screen_heading("3. Skynet: a tree of fibers, ten children each, %s leaves",
                   screen_number((uint64_t)leaves));
    int64_t start = weft_now();
    long sum = (long)sum_up(&whole);
    double took = seconds_since(start);
    if (atomic_load(&spawn_error)) {
        screen_warn("weft_spawn: %s; %s times the parent did its child's work",
                    weft_strerror(atomic_load(&spawn_error)),
                    screen_number((uint64_t)atomic_load(&not_spawned)));
    }
    if (sum != right) {
        screen_warn("the sum of the leaves is %ld, and should be %ld", sum, right);
        return 1;
    }
    screen_fact("sum", "%s, as it should be", screen_number((uint64_t)sum));
    screen_fact("time", "%.1f ms for %s fibers: %.0f ns to spawn, run, end and join one",
                took * 1e3, screen_number((uint64_t)nodes), took * 1e9 / (double)nodes);
    return 0;
}

/* --- statistics of the workers --------------------------------------------------------- */

static void show_workers(void)
{
    weft_pool *pool = weft_pool_self();
    screen_heading("4. Who did it");
    printf("  %-6s %14s %14s %14s %10s %10s %8s %8s\n", "worker", "turns", "spawned", "ended",
           "steals", "stolen", "parks", "wakes");
    for (unsigned i = 0; i < weft_pool_workers(pool); i++) {
        struct weft_worker_stats w;
        weft_worker_stats(pool, i, &w);
        printf("  %-6u", i);
        printf(" %14s", screen_number(w.executed));
        printf(" %14s", screen_number(w.spawned));
        printf(" %14s", screen_number(w.finished));
        printf(" %10s", screen_number(w.steals));
        printf(" %10s", screen_number(w.stolen));
        printf(" %8s", screen_number(w.parks));
        printf(" %8s\n", screen_number(w.wakes));
    }
}

/* --- the dump -------------------------------------------------------------------------- */

static void *wait_for_nothing(void *arg)
{
    weft_park(WEFT_FOREVER);
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
    weft_fiber sleeper, friend;
    screen_heading("5. The scheduler's own account, while two fibers wait");
    int err =
        weft_spawn(&sleeper, wait_for_nothing, NULL, &(struct weft_fiber_opts){.name = "sleeper"});
    if (err) {
        screen_warn("weft_spawn: %s", weft_strerror(err));
        return 1;
    }
    err =
        weft_spawn(&friend, wait_for_fiber, &sleeper, &(struct weft_fiber_opts){.name = "friend"});
    while (!waits(sleeper) || (!err && !waits(friend))) {
        weft_yield();
    }
    struct account account = {weft_pool_self(), weft_self()};
    if (weft_blocking_call(NULL, dump_pool, &account, NULL, WEFT_FOREVER) != 0) { /* no thread */
        weft_pool_dump(account.pool, stdout, 10);
    }
    weft_unpark(sleeper);
    if (err) {
        screen_warn("weft_spawn: %s", weft_strerror(err));
        weft_join(sleeper, NULL, WEFT_FOREVER);
        return 1;
    }
    weft_join(friend, NULL, WEFT_FOREVER);
    return 0;
}

/* --- a deadlock ---------------------------------------------------------------------------- */

/* In case no report comes (for example without /proc) a thread ends this part. The cycle report may
 * come late on a slow machine; the deadlock report comes soon after that, or not at all. */
struct scene {
    weft_fiber first; /* set before it waits */
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool noticed, over; /* under the lock */
};

static void await_locked(struct scene *scene, const bool *what, int seconds)
{
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += seconds;
    while (!*what && !scene->over &&
           pthread_cond_timedwait(&scene->changed, &scene->lock, &until) == 0) {
    }
}

static void *end_scene(void *arg)
{
    struct scene *scene = arg;
    /* Otherwise this thread could still wake a fiber, and there would be no deadlock. */
    weft_harmless_thread(0);
    pthread_mutex_lock(&scene->lock);
    await_locked(scene, &scene->noticed, 30);
    await_locked(scene, &scene->over, 5);
    if (!scene->over) {
        weft_cancel(scene->first);
    }
    pthread_mutex_unlock(&scene->lock);
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
    struct scene *scene = arg;
    static struct pair pair;
    pthread_mutex_lock(&scene->lock);
    scene->first = weft_self();
    pthread_mutex_unlock(&scene->lock);
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
    struct scene *scene = arg;
    fputs(text, stdout);
    pthread_mutex_lock(&scene->lock);
    scene->noticed = scene->noticed || kind == WEFT_REPORT_CYCLE;
    pthread_cond_signal(&scene->changed);
    pthread_mutex_unlock(&scene->lock);
}

static void show_deadlock(void)
{
    struct scene scene = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER};
    pthread_t thread;
    screen_heading("8. The cook waits for the waiter, and the waiter for the cook");
    fflush(stdout);
    if (pthread_create(&thread, NULL, end_scene, &scene) != 0) {
        screen_warn("left out: no thread to end it");
        return;
    }
    weft_on_report(print_report, &scene);
    int err = weft_run(serve_dinner, &scene, NULL, &(struct weft_pool_opts){.workers = 1});
    weft_on_report(NULL, NULL);
    pthread_mutex_lock(&scene.lock);
    scene.over = true;
    pthread_cond_signal(&scene.changed);
    pthread_mutex_unlock(&scene.lock);
    pthread_join(thread, NULL);
    if (err == -EDEADLK) {
        screen_fact("weft_run", "returned -EDEADLK, and has ended the three");
    } else {
        screen_warn("weft_run: %s", err ? weft_strerror(err) : "nobody has noticed");
    }
}

/* --- all parts -------------------------------------------------------------------------- */

struct walk {
    long fibers;
    int failed;
};

static void *walk(void *arg)
{
    struct walk *walk = arg;
    show_machine();
    if (!walk->fibers) {
        walk->fibers = fibers_that_fit();
        if (walk->fibers < MILLION) {
            screen_fact("room", "a quarter of that memory is enough for %s parked fibers",
                        screen_number((uint64_t)walk->fibers));
        }
    }
    long parked = show_crowd(walk->fibers);
    walk->failed |= parked == 0;
    walk->failed |= show_skynet(tree_leaves(parked));
    show_workers();
    walk->failed |= show_dump();
    walk->failed |= show_waiting(6);
    return NULL;
}

int tour(long fibers)
{
    unsigned cpus = weft_usable_cpus();
    struct walk whole = {.fibers = fibers};
    struct weft_pool_opts opts = {
        .name = "tour",
        .workers = cpus > 1 ? cpus : 2, /* with two, one can steal */
        .hog_ns = 1000000000,           /* a million page faults keep a machine busy */
    };
    char title[64];
    screen_open();
    snprintf(title, sizeof title, "Weft %s: a tour", weft_version());
    screen_title(title);
    int err = weft_run(walk, &whole, NULL, &opts);
    if (err) {
        fprintf(stderr, "weft: cannot start a pool: %s\n", weft_strerror(err));
        return 1;
    }
    whole.failed |= show_rounds(7, whole.fibers);
    show_deadlock();
    return whole.failed ? 1 : 0;
}
