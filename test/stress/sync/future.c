/* Futures completed by several threads at once, and futures derived from them. Waits have no time
 * limits, so that a lost wake-up is a stall; values are counted, and memory checkers detect the
 * rest.
 *
 * A normal run makes 3000 rounds.
 */
#include <errno.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "check.h"
#include "stress/watchdog.h"

#define WIDTH 4

static weft_pool *pools[2];
static atomic_long called, converted;

static uint32_t roll(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

struct round {
    weft_future *origin[WIDTH];
    weft_future *all, *any, *mapped;
    uint64_t seed;
    atomic_int first[WIDTH]; /* successful completions of each: exactly one */
    int values[WIDTH];
};

static void count(void *arg, int err, void *value)
{
    (void)arg, (void)err, (void)value;
    atomic_fetch_add(&called, 1);
}

static int convert(void *arg, void *value, void **out)
{
    (void)arg;
    *out = value;
    atomic_fetch_add(&converted, 1);
    return 0;
}

/* Tries to complete every future, then drops its references. */
static void *decides(void *arg)
{
    struct round *round = arg;
    uint64_t dice = __atomic_add_fetch(&round->seed, 7919, __ATOMIC_RELAXED);
    uint32_t shift = roll(&dice);
    for (uint32_t k = 0; k < WIDTH; k++) {
        uint32_t i = (k + shift) % WIDTH;
        int err = roll(&dice) % 4 == 0 ? weft_future_fail(round->origin[i], -EIO)
                                       : weft_future_complete(round->origin[i], &round->values[i]);
        CHECK(err == 0 || err == -EALREADY);
        if (err == 0) {
            CHECK_EQ(atomic_fetch_add(&round->first[i], 1), 0);
        }
        if (roll(&dice) % 4 == 0) {
            weft_yield();
        }
    }
    for (int i = 0; i < WIDTH; i++) {
        weft_future_unref(round->origin[i]);
    }
    return NULL;
}

/* Sometimes cancels a derived future; its waiter is notified. */
static void *gives_up(void *arg)
{
    struct round *round = arg;
    uint64_t dice = __atomic_add_fetch(&round->seed, 7919, __ATOMIC_RELAXED);
    if (roll(&dice) % 2) {
        weft_yield();
    }
    (void)weft_future_cancel(roll(&dice) % 2 ? round->all : round->any);
    return NULL;
}

static void *waits(void *arg)
{
    struct round *round = arg;
    void *value;
    CHECK_EQ(weft_future_wait(round->any, WEFT_FOREVER), 0);
    int err = weft_future_result(round->any, &value);
    CHECK(err == 0 || err == -EIO || err == -ECANCELED);
    CHECK(err || value == &round->values[weft_future_which(round->any)]);
    CHECK_EQ(weft_future_wait(round->all, WEFT_FOREVER), 0);
    err = weft_future_result(round->all, &value);
    CHECK(err == 0 || err == -EIO || err == -ECANCELED);
    for (int i = 0; i < WIDTH && !err; i++) {
        CHECK(((void **)value)[i] == &round->values[i]);
    }
    CHECK_EQ(weft_future_wait(round->mapped, WEFT_FOREVER), 0);
    return NULL;
}

static void round_run(uint64_t *dice)
{
    struct round round = {.seed = roll(dice)};
    weft_fiber fibers[8];
    int n = 0;
    for (int i = 0; i < WIDTH; i++) {
        CHECK_EQ(weft_future_create(&round.origin[i], NULL), 0);
        weft_future_ref(round.origin[i]); /* one for each completing thread */
    }
    weft_future_ref(round.origin[0]);
    CHECK_EQ(weft_pool_spawn(pools[0], &fibers[n++], decides, &round, NULL), 0);
    CHECK_EQ(weft_future_any(&round.any, round.origin, WIDTH), 0); /* while completions run */
    CHECK_EQ(weft_future_all(&round.all, round.origin, WIDTH), 0);
    CHECK_EQ(weft_future_map(round.origin[0], &round.mapped, convert, NULL), 0);
    CHECK_EQ(weft_pool_spawn(pools[1], &fibers[n++], decides, &round, NULL), 0);
    CHECK_EQ(weft_pool_spawn(pools[0], &fibers[n++], waits, &round, NULL), 0);
    CHECK_EQ(weft_pool_spawn(pools[1], &fibers[n++], waits, &round, NULL), 0);
    CHECK_EQ(weft_pool_spawn(pools[roll(dice) % 2], &fibers[n++], gives_up, &round, NULL), 0);
    CHECK_EQ(weft_future_then(round.origin[0], count, NULL), 0);
    waits(&round);
    while (n > 0) {
        CHECK_EQ(weft_join(fibers[--n], NULL, WEFT_FOREVER), 0);
    }
    weft_future_unref(round.origin[0]);
    weft_future_unref(round.any);
    weft_future_unref(round.all);
    weft_future_unref(round.mapped);
    for (int i = 0; i < WIDTH; i++) {
        CHECK_EQ(atomic_load(&round.first[i]), 1);
    }
    watchdog_progress();
}

TEST(concurrently_completed_futures_reach_every_waiter_once)
{
    uint64_t dice = check_seed();
    long n = check_scale(3000);
    watchdog_start("futures");
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_pool_create(&pools[i], &(struct weft_pool_opts){.workers = 2}), 0);
        CHECK_EQ(weft_pool_start(pools[i]), 0);
        watchdog_watch(pools[i]);
    }
    for (long i = 0; i < n; i++) {
        round_run(&dice);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_pool_stop(pools[i], WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
        watchdog_forget(pools[i]);
        weft_pool_destroy(pools[i]);
    }
    CHECK_EQ(atomic_load(&called), n);
    CHECK(atomic_load(&converted) <= n);
    printf("     %ld rounds, %ld conversions\n", n, atomic_load(&converted));
    watchdog_stop();
}

/* --- the oneshot: each question is on the stack of its asker ---------------------------------- */

static void *answers(void *arg)
{
    CHECK_EQ(weft_oneshot_notify(arg, arg), 0);
    return NULL;
}

static void *asks(void *arg)
{
    for (long i = 0; i < (long)(intptr_t)arg; i++) {
        weft_oneshot question = WEFT_ONESHOT_INIT;
        void *value;
        CHECK_EQ(weft_pool_submit(pools[i % 2], answers, &question), 0);
        CHECK_EQ(weft_oneshot_wait(&question, &value, WEFT_FOREVER), 0);
        CHECK(value == &question);
        memset(&question, 0xee, sizeof question); /* nothing accesses it any more */
        watchdog_progress();
    }
    return NULL;
}

TEST(every_oneshot_wait_is_answered_and_memory_is_reusable)
{
    weft_fiber fibers[8];
    watchdog_start("questions");
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_pool_create(&pools[i], &(struct weft_pool_opts){.workers = 2}), 0);
        CHECK_EQ(weft_pool_start(pools[i]), 0);
        watchdog_watch(pools[i]);
    }
    void *each = (void *)(intptr_t)check_scale(1500);
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(weft_pool_spawn(pools[i % 2], &fibers[i], asks, each, NULL), 0);
    }
    asks(each);
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_pool_stop(pools[i], WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
        watchdog_forget(pools[i]);
        weft_pool_destroy(pools[i]);
    }
    watchdog_stop();
}
