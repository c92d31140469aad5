/* How many tasks a worker takes from the global queue at once: 16 at a tick, so that its local
 * tasks continue; when idle its fair share, up to 256. There is one worker on the calling thread
 * and a stopped clock, so that a tick comes after 61 turns and the order of all turns is exact. */
/* labels: valgrind */
#include "pool/fixture.h"
#include "virtual_clock.h"

enum { TICK = 61, AT_TICK = 16, WHEN_IDLE = 256 };

struct watch {
    weft_pool *pool;
    long turns;       /* of all fibers */
    size_t length;    /* of the global queue at the last check */
    size_t took[64];  /* how many were taken, for each time the queue became shorter */
    long at_turn[64]; /* and in which turn */
    int n;
    bool over;
};

static struct watch watch;

/* Called in every turn of every fiber: between two turns a worker takes from the queue at most
 * once. */
static void look(void)
{
    struct weft_pool_stats stats;
    weft_pool_stats(watch.pool, &stats);
    watch.turns++;
    if (stats.global < watch.length) {
        CHECK(watch.n < 64);
        watch.took[watch.n] = watch.length - stats.global;
        watch.at_turn[watch.n++] = watch.turns;
        watch.length = stats.global;
    }
}

static void *look_once(void *arg)
{
    look();
    return arg;
}

static weft_pool *open_watched(unsigned workers)
{
    struct weft_pool_opts opts = {.workers = workers, .caller = true, .hog_ns = -1};
    virtual_clock_stop(1);
    watch = (struct watch){.turns = 0};
    CHECK_EQ(weft_pool_create(&watch.pool, &opts), 0);
    CHECK_EQ(weft_pool_start(watch.pool), 0);
    return watch.pool;
}

static void close_watched(weft_pool *pool)
{
    virtual_clock_go();
    pool_close(pool);
}

static void submit(weft_pool *pool, size_t n)
{
    struct weft_job jobs[1024];
    CHECK(n <= 1024);
    for (size_t i = 0; i < n; i++) {
        jobs[i] = (struct weft_job){look_once, NULL};
    }
    CHECK_EQ(weft_pool_submit_batch(pool, jobs, n), 0);
    watch.length += n;
}

/* Whenever all taken tasks have run, the worker takes an idle worker's share; at ticks it takes 16.
 * Returns how often the worker was idle. */
static int check_takes(size_t length, unsigned workers)
{
    size_t taken = 0;
    int idle = 0;
    for (int i = 0; i < watch.n; i++) {
        size_t share = (length - taken) / workers + 1, wanted = AT_TICK;
        if (watch.at_turn[i] == (long)taken + 1) {
            wanted = share < WHEN_IDLE ? share : WHEN_IDLE;
            idle++;
        }
        CHECK_EQ(watch.took[i], wanted < length - taken ? wanted : length - taken);
        taken += watch.took[i];
    }
    CHECK_EQ(taken, length);
    return idle;
}

static void *yield_until_over(void *arg)
{
    while (!watch.over) {
        look();
        weft_yield();
    }
    return arg;
}

static void *submit_while_others_yield(void *arg)
{
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_spawn(NULL, yield_until_over, NULL, NULL), 0);
    }
    for (int i = 0; i < 3 * TICK; i++) { /* any position between two ticks would do */
        look();
        weft_yield();
    }
    submit(watch.pool, 100);
    watch.turns = 0;
    while (watch.length > 0) {
        look();
        weft_yield();
    }
    watch.over = true;
    return arg;
}

TEST(tick_takes_16_from_global_queue)
{
    weft_pool *pool = open_watched(1);
    CHECK_EQ(weft_pool_submit(pool, submit_while_others_yield, NULL), 0);
    CHECK(weft_pool_poll(pool) > 0);
    CHECK(watch.over);
    CHECK_EQ(watch.n, 7);
    for (int i = 0; i < 7; i++) {
        CHECK_EQ(watch.took[i], i < 6 ? AT_TICK : 100 - 6 * AT_TICK);
        if (i > 0) {
            CHECK_EQ(watch.at_turn[i] - watch.at_turn[i - 1], TICK + 1); /* 61 others, and this */
        }
    }
    close_watched(pool);
}

TEST(idle_worker_takes_256_from_global_queue)
{
    weft_pool *pool = open_watched(1);
    CHECK(weft_pool_poll(pool) >= 0); /* consumes the tick that is due from the beginning */
    submit(pool, 1000);
    CHECK(weft_pool_poll(pool) >= 1000);
    CHECK_EQ(check_takes(1000, 1), 3);
    close_watched(pool);
}

static atomic_int held, go;

static void *hold_worker(void *arg)
{
    atomic_fetch_add(&held, 1);
    while (!atomic_load(&go)) {
        sched_yield();
    }
    return arg;
}

/* The other workers are busy, and will take their shares later. */
TEST(idle_worker_takes_fair_share_of_global_queue)
{
    weft_pool *pool = open_watched(4);
    for (int i = 1; i < 4; i++) {
        CHECK_EQ(weft_pool_spawn(
                     pool, NULL, hold_worker, NULL,
                     &(struct weft_fiber_opts){.bound = true, .worker = i, .detached = true}),
                 0);
    }
    while (atomic_load(&held) < 3) {
        sched_yield();
    }
    CHECK(weft_pool_poll(pool) >= 0);
    submit(pool, 100);
    CHECK(weft_pool_poll(pool) >= 0);
    CHECK(check_takes(100, 4) > 3);
    atomic_store(&go, 1);
    close_watched(pool);
}
