/* Workers of two pools fall asleep and wake each other without end, while the watchdog checks all
 * the time: a running program is never reported as a deadlock, and a deadlocked one always is. */
#include <sched.h>

#include "obs/reports.h"
#include "wait/wake_source.h"
#include "watchdog/watchdog.h"

#define TICK_NS 20000

enum { PAIRS = 2 };

struct pair {
    weft_pool *pools[2];
    _Atomic(weft_fiber) sides[2];
    long rounds;
};

struct side {
    struct pair *pair;
    int which;
};

/* One side moves at a time: between the unpark and the other side's first step, all workers may be
 * asleep. */
static void *bounce(void *arg)
{
    const struct side *side = arg;
    struct pair *pair = side->pair;
    uint64_t seed = check_seed() + (uint64_t)side->which;
    atomic_store(&pair->sides[side->which], weft_self());
    while (!atomic_load(&pair->sides[1 - side->which])) {
        weft_yield();
    }
    for (long i = 0; i < pair->rounds; i++) {
        if (side->which == 0 || i > 0) {
            CHECK_EQ(weft_fiber_unpark(atomic_load(&pair->sides[1 - side->which])), 0);
        }
        CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
        if (dice(&seed) % 64 == 0) {
            CHECK_EQ(weft_sleep(weft_after(TICK_NS * 3)), 0);
        }
    }
    weft_fiber_unpark(atomic_load(&pair->sides[1 - side->which]));
    return NULL;
}

static void *bounce_all(void *arg)
{
    weft_pool *pools[2] = {weft_pool_self(), arg};
    struct pair pairs[PAIRS] = {0};
    struct side sides[PAIRS][2];
    weft_fiber fibers[PAIRS][2];
    for (int i = 0; i < PAIRS; i++) {
        pairs[i].rounds = check_scale(3000);
        for (int j = 0; j < 2; j++) {
            sides[i][j] = (struct side){&pairs[i], j};
            CHECK_EQ(weft_pool_spawn(pools[(i + j) % 2], &fibers[i][j], bounce, &sides[i][j], NULL),
                     0);
        }
    }
    for (int i = 0; i < PAIRS; i++) {
        for (int j = 0; j < 2; j++) {
            CHECK_EQ(weft_join(fibers[i][j], NULL, WEFT_FOREVER), 0);
        }
    }
    return NULL;
}

static void keep_going(void *workers)
{
    unsigned n = *(unsigned *)workers;
    ignore_other_threads();
    weft__watchdog_set_tick(TICK_NS);
    weft_pool *other = pool_open(&(struct weft_pool_opts){.workers = n});
    CHECK_EQ(
        weft_run(NULL, bounce_all, other, &(struct weft_pool_opts){.workers = n}, WEFT_FOREVER), 0);
    pool_close(other);
    struct weft_watchdog_stats stats;
    weft_watchdog_stats(&stats);
    CHECK_EQ(stats.deadlocks, 0);
    fprintf(stderr, "%" PRIu64 " ticks\n", stats.ticks);
}

TEST(progress_is_never_reported_as_deadlock)
{
    char said[CHECK_ERR];
    check_seed();
    for (unsigned workers = 1; workers <= 2; workers++) {
        int status = check_child(keep_going, &workers, said, sizeof said);
        printf("%s", said);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
}

static void *park(void *arg)
{
    return (void *)(intptr_t)weft_fiber_park(*(int64_t *)arg);
}

static void *park_after_others(void *arg)
{
    (void)arg;
    int64_t soon = weft_after(50000), never = WEFT_FOREVER;
    weft_fiber fibers[4];
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(weft_spawn(&fibers[i], park, i % 2 ? &soon : &never, NULL), 0);
    }
    weft_join(fibers[0], NULL, WEFT_FOREVER);
    return NULL;
}

static void come_to_rest(void *arg)
{
    (void)arg;
    ignore_other_threads();
    weft__watchdog_set_tick(TICK_NS);
    long rounds = check_scale(100);
    for (long i = 0; i < rounds; i++) {
        struct weft_pool_opts opts = {.workers = (unsigned)(i % 3) + 1};
        CHECK_EQ(weft_run(NULL, park_after_others, NULL, &opts, WEFT_FOREVER), -EDEADLK);
    }
}

TEST(deadlock_is_found_however_workers_fell_asleep)
{
    char said[CHECK_ERR];
    int status = check_child(come_to_rest, NULL, said, sizeof said);
    if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) {
        printf("%s\n", said);
    }
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}
