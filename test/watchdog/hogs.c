/* A fiber that occupies its worker for long (a hog) is reported, and the tasks queued on that
 * worker run elsewhere meanwhile. A hog in this test spins until the tasks it holds up have run: if
 * they were left to its own worker, the hog would never end. */
#include <unistd.h>

#include "backtrace/unwind.h"
#include "obs/reports.h"

#define TOO_LONG 30000000000 /* ns: when a hog gives up and the test fails */

static weft_pool *pool;
static atomic_int served;
static atomic_bool spinning;

static void spin_until_served(int n)
{
    int64_t began = weft_now();
    atomic_store(&spinning, true);
    while (atomic_load(&served) < n) {
        CHECK(weft_now() - began < TOO_LONG);
    }
}

static bool sleeps(unsigned worker)
{
    struct weft_worker_stats stats;
    CHECK_EQ(weft_worker_stats(pool, &stats, worker), 0);
    return stats.state == WEFT_WORKER_PARKED;
}

static uint64_t ticks(void)
{
    struct weft_watchdog_stats stats;
    weft_watchdog_stats(&stats);
    return stats.ticks;
}

static void open_pool(const struct weft_pool_opts *opts)
{
    reports_begin();
    atomic_store(&served, 0);
    atomic_store(&spinning, false);
    pool = pool_open(opts);
}

static void close_pool(void)
{
    pool_close(pool);
    weft_on_report(NULL, NULL);
}

static weft_fiber spawn_on(int worker, const char *name, weft_fn fn, void *arg)
{
    weft_fiber fiber;
    struct weft_fiber_opts opts = {.name = name, .bound = true, .worker = worker};
    CHECK_EQ(weft_pool_spawn(pool, &fiber, fn, arg, &opts), 0);
    return fiber;
}

static void join(weft_fiber fiber)
{
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
}

/* --- relief -------------------------------------------------------------------------- */

static _Atomic(weft_fiber) parked;

static void *park_then_serve(void *arg)
{
    atomic_store(&parked, weft_self());
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    CHECK_EQ(weft_worker_self(), 1);
    atomic_fetch_add(&served, 1);
    return arg;
}

/* Sets its deadline on worker 0 when worker 1 already sleeps and does not know of it. */
static void *sleep_then_serve(void *worker_1_sleeps)
{
    CHECK_EQ(weft_fiber_migrate(pool, WEFT_ANY_WORKER), 0);
    CHECK_EQ(weft_worker_self(), 0);
    while (worker_1_sleeps && !sleeps(1)) {
    }
    CHECK_EQ(weft_sleep(weft_after(1000000)), 0);
    /* If the thread lost the CPU for that long, the sleep ended before the hog began. */
    CHECK(weft_worker_self() == 1 || !atomic_load(&spinning));
    atomic_fetch_add(&served, 1);
    return NULL;
}

static void *wake_then_spin(void *arg)
{
    CHECK_EQ(weft_fiber_unpark(atomic_load(&parked)), 0); /* into the next slot of worker 0 */
    spin_until_served(2);
    return arg;
}

static void *begin_on_0(void *arg)
{
    weft_fiber fibers[2] = {spawn_on(0, "sleeper", sleep_then_serve, arg),
                            spawn_on(0, "hog", wake_then_spin, NULL)};
    join(fibers[0]);
    join(fibers[1]);
    return NULL;
}

TEST(sleeping_worker_takes_timers_and_next_slot_of_hog)
{
    open_pool(&(struct weft_pool_opts){.workers = 2});
    weft_fiber napper;
    CHECK_EQ(weft_pool_spawn(pool, &napper, park_then_serve, NULL, NULL), 0);
    await_state(napper, WEFT_FIBER_WAITING);
    join(spawn_on(0, "begin", begin_on_0, pool));
    join(napper);
    close_pool();
}

/* A wake into the next slot notifies no worker, and the watchdog began long ago to empty this
 * worker's queues. */
static void *wake_late_then_spin(void *arg)
{
    uint64_t end = ticks() + 10;
    while (ticks() < end) {
    }
    CHECK_EQ(weft_fiber_unpark(atomic_load(&parked)), 0);
    spin_until_served(1);
    return arg;
}

TEST(sleeping_worker_takes_fiber_woken_late_by_hog)
{
    open_pool(&(struct weft_pool_opts){.workers = 2});
    weft_fiber napper;
    CHECK_EQ(weft_pool_spawn(pool, &napper, park_then_serve, NULL, NULL), 0);
    await_state(napper, WEFT_FIBER_WAITING);
    join(spawn_on(0, "hog", wake_late_then_spin, NULL));
    join(napper);
    close_pool();
}

static atomic_bool enough;

static void *yield_on(void *arg)
{
    while (!atomic_load(&enough)) {
        weft_yield();
    }
    return arg;
}

TEST(busy_worker_takes_timers_and_next_slot_of_hog)
{
    open_pool(&(struct weft_pool_opts){.workers = 2});
    atomic_store(&enough, false);
    weft_fiber busy = spawn_on(1, "busy", yield_on, NULL), napper;
    CHECK_EQ(weft_pool_spawn(pool, &napper, park_then_serve, NULL, NULL), 0);
    await_state(napper, WEFT_FIBER_WAITING);
    join(spawn_on(0, "begin", begin_on_0, NULL));
    join(napper);
    atomic_store(&enough, true);
    join(busy);
    close_pool();
}

enum { CHILDREN = 500 };

static void *serve(void *arg)
{
    atomic_fetch_add(&served, 1);
    return arg;
}

static void *yield_then_serve(void *arg)
{
    weft_yield();
    return serve(arg);
}

static void *spawn_then_spin(void *arg)
{
    for (int i = 0; i < CHILDREN; i++) {
        CHECK_EQ(weft_spawn(NULL, i % 2 ? yield_then_serve : serve, NULL, NULL), 0);
        if (i == CHILDREN / 2) {
            weft_yield(); /* some of the tasks are in the ring afterwards */
        }
    }
    spin_until_served(CHILDREN);
    return arg;
}

TEST(busy_worker_takes_all_queued_fibers_of_hog)
{
    open_pool(&(struct weft_pool_opts){.workers = 2});
    atomic_store(&enough, false);
    weft_fiber busy = spawn_on(1, "busy", yield_on, NULL);
    join(spawn_on(0, "hog", spawn_then_spin, NULL));
    atomic_store(&enough, true);
    join(busy);
    close_pool();
}

/* --- reports ---------------------------------------------------------------------------- */

static void spin_until_reported(int n)
{
    while (reports_of(WEFT_REPORT_HOG) < n) {
    }
}

static void spin_for_ticks(uint64_t n)
{
    uint64_t end = ticks() + n;
    while (ticks() < end) {
    }
}

static void *be_reported_twice(void *arg)
{
    spin_until_reported(1);
    spin_for_ticks(5);
    CHECK_EQ(reports_of(WEFT_REPORT_HOG), 1);
    weft_yield(); /* whether another fiber exists or not */
    spin_until_reported(2);
    return arg;
}

TEST(hog_is_reported_once_per_episode)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        open_pool(&(struct weft_pool_opts){.workers = workers, .name = "sty", .hog_ns = 30000000});
        weft_fiber hog = spawn_on(0, "pig", be_reported_twice, NULL);
        join(hog);
        struct weft_worker_stats stats;
        CHECK_EQ(weft_worker_stats(pool, &stats, 0), 0);
        CHECK_EQ(stats.hogs, 2);
        char text[64], line[128];
        weft_fiber_format(hog, text, sizeof text);
        snprintf(line, sizeof line, "weft: hog: fiber %s pig keeps worker 0 of pool sty (thread ",
                 text);
        CHECK(strstr(reports_text[WEFT_REPORT_HOG], line));
        CHECK(strstr(reports_text[WEFT_REPORT_HOG], "  bound to that worker: 1;"));
        CHECK(!weft__unwind_works() || strstr(reports_text[WEFT_REPORT_HOG], "    at "));
        close_pool();
    }
}

static void *spin_unreported(void *arg)
{
    spin_for_ticks(10);
    return arg;
}

TEST(hog_reports_can_be_disabled_per_pool)
{
    open_pool(&(struct weft_pool_opts){.workers = 1, .hog_ns = -1});
    join(spawn_on(0, "hog", spin_unreported, NULL));
    CHECK_EQ(reports_of(WEFT_REPORT_HOG), 0);
    close_pool();
}

#define HOG_NS 200000000

/* The longest time between two marks of both fibers: there is one worker. */
static struct {
    int64_t last, longest;
} marks;

static void mark(void)
{
    int64_t now = weft_now(), took = now - marks.last;
    marks.longest = took > marks.longest ? took : marks.longest;
    marks.last = now;
}

/* A turn lasts one tick, unless other load on the machine makes it longer. */
static void *take_long_turns(void *arg)
{
    for (int i = 0; i < 20; i++) {
        mark();
        spin_for_ticks(1);
        mark();
        weft_yield();
    }
    return arg;
}

TEST(alternating_fibers_are_not_reported_as_hogs)
{
    open_pool(&(struct weft_pool_opts){.workers = 1, .hog_ns = HOG_NS});
    weft_fiber fibers[2];
    marks.last = weft_now();
    marks.longest = 0;
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_pool_spawn(pool, &fibers[i], take_long_turns, NULL, NULL), 0);
    }
    join(fibers[0]);
    join(fibers[1]);
    mark();
    CHECK(reports_of(WEFT_REPORT_HOG) == 0 || marks.longest > HOG_NS / 2);
    close_pool();
}

/* --- ticks -------------------------------------------------------------------------------- */

static void nap(long ms)
{
    usleep((useconds_t)ms * 1000);
}

static void *spin_until_tick(void *arg)
{
    spin_for_ticks(3);
    return arg;
}

TEST(idle_process_stops_watchdog_ticks_until_next_fiber)
{
    open_pool(&(struct weft_pool_opts){.workers = 2});
    for (int round = 0; round < 2; round++) {
        weft_fiber fiber;
        uint64_t before;
        CHECK_EQ(weft_pool_spawn(pool, &fiber, spin_until_tick, NULL, NULL), 0);
        join(fiber);
        int64_t began = weft_now();
        do { /* the last reports, however late they are */
            before = ticks();
            nap(200);
            CHECK(weft_now() - began < TOO_LONG);
        } while (ticks() != before);
    }
    close_pool();
}
