/* Trees of scopes under random cancels, interrupts, deadlines, failures and exits. Whatever happens
 * to a parent, its close returns when none of its children runs any more, and at the end no fiber
 * is left. Children wait without time limits wherever something is certain to end the wait: a lost
 * cancel, or a close that misses the last child, is a stall.
 *
 * A normal run uses 16,000 trees.
 */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "check.h"
#include "stress/watchdog.h"

#define DEPTH 3
#define US INT64_C(1000)

/* A scope and the data its children need; in the parent's frame. */
struct family {
    weft_scope scope;
    atomic_int running; /* children between their first line and their last */
    _Atomic(weft_fiber) somebody;
    bool will_end; /* it has a deadline, or will be cancelled: a child may wait for ever */
    int depth;
    _Atomic(uint64_t) seed;
};

static weft_pool *pools[2];
static atomic_long children, trees;

static uint32_t roll(uint64_t *state)
{
    *state = *state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(*state >> 33);
}

static int parent(struct family *around, uint64_t *dice, int depth);

/* One random action of a child; returns its result. */
static int act(struct family *family, uint64_t *dice)
{
    weft_fiber other = atomic_load(&family->somebody);
    switch (roll(dice) % 12) {
    case 0:
        return -EIO;
    case 1:
        return weft_sleep(weft_after(roll(dice) % 200 * US));
    case 2:
        return family->will_end ? weft_fiber_park(WEFT_FOREVER) : 0;
    case 3:
        weft_fiber_shield_enter();
        weft_sleep(weft_after(roll(dice) % 100 * US));
        weft_fiber_shield_leave();
        return weft_fiber_is_cancelled() ? -ECANCELED : 0;
    case 4:
        (void)weft_cancel(other); /* whichever fiber that is by now, or none */
        return 0;
    case 5:
        (void)weft_fiber_interrupt(other);
        return 0;
    case 6:
        weft_scope_cancel(&family->scope);
        return 0;
    case 7:
    case 8:
        return family->depth < DEPTH ? parent(family, dice, family->depth + 1) : 0;
    default:
        for (uint32_t n = roll(dice) % 4; n > 0; n--) {
            weft_yield();
        }
        return 0;
    }
}

static void stops_running(void *arg)
{
    atomic_fetch_sub(&((struct family *)arg)->running, 1);
    watchdog_progress();
}

static int child(void *arg)
{
    struct family *family = arg;
    struct weft_fiber_cleanup cleanup;
    uint64_t dice = atomic_fetch_add(&family->seed, 77);
    atomic_fetch_add(&family->running, 1);
    atomic_fetch_add(&children, 1);
    weft_fiber_cleanup_push(&cleanup, stops_running, family);
    atomic_store(&family->somebody, weft_self());
    roll(&dice);
    if (roll(&dice) % 4 == 0) { /* a child that spawns more, maybe while the scope closes */
        int err = weft_scope_spawn(&family->scope, NULL, child, family, NULL);
        CHECK(err == 0 || err == -ECANCELED || err == -ETIMEDOUT || err == -ESHUTDOWN);
    }
    int result = act(family, &dice);
    if (roll(&dice) % 4 == 0) {
        weft_fiber_exit((void *)(intptr_t)result);
    }
    weft_fiber_cleanup_pop(&cleanup, true);
    return result;
}

static void check_nobody_runs(void *arg)
{
    CHECK_EQ(atomic_load(&((struct family *)arg)->running), 0);
}

static int parent(struct family *around, uint64_t *dice, int depth)
{
    struct family family = {.depth = depth, .seed = roll(dice) ^ (uint64_t)roll(dice) << 32};
    struct weft_scope_opts opts = {.fail_fast = roll(dice) % 2};
    struct weft_fiber_cleanup cleanup;
    bool cancel = roll(dice) % 4 == 0;
    if (roll(dice) % 2) {
        opts.deadline = weft_after(roll(dice) % 400 * US);
    }
    if (roll(dice) % 4 == 0) {
        opts.pool = pools[roll(dice) % 2];
    }
    family.will_end = cancel || opts.deadline || (around && around->will_end);
    weft_fiber_cleanup_push(&cleanup, check_nobody_runs, &family); /* after the scope's own */
    CHECK_EQ(weft_scope_open(&family.scope, &opts), 0);
    for (uint32_t n = roll(dice) % 5; n > 0; n--) {
        int err = weft_scope_spawn(&family.scope, NULL, child, &family, NULL);
        CHECK(err == 0 || err == -ETIMEDOUT || err == -ECANCELED);
    }
    if (roll(dice) % 8 == 0) {
        weft_fiber_exit(NULL); /* with the scope open */
    }
    if (roll(dice) % 2) {
        weft_yield();
    }
    if (cancel) {
        weft_scope_cancel(&family.scope);
    }
    int result = weft_scope_close(&family.scope, WEFT_FOREVER);
    CHECK(result == 0 || result == -EIO || result == -ETIMEDOUT || result == -ECANCELED ||
          result == -EINTR);
    weft_fiber_cleanup_pop(&cleanup, true);
    return result;
}

static void *tree(void *arg)
{
    uint64_t dice = check_seed() + (uint64_t)(uintptr_t)arg * 7919;
    roll(&dice);
    atomic_fetch_add(&trees, 1);
    parent(NULL, &dice, 1);
    return NULL;
}

static weft_pool *pool_open(const char *name, unsigned workers)
{
    weft_pool *pool;
    struct weft_pool_opts opts = {
        .name = name, .workers = workers, .ring_slots = 4, .fresh_slots = 2};
    CHECK_EQ(weft_pool_create(&pool, &opts), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    watchdog_watch(pool);
    return pool;
}

static uint64_t live(const weft_pool *pool)
{
    struct weft_pool_stats stats;
    weft_pool_stats((weft_pool *)(uintptr_t)pool, &stats);
    return stats.live;
}

/* A joined fiber may still execute its last few instructions. */
static void check_none_left(void)
{
    for (int i = 0; i < 2; i++) {
        while (live(pools[i]) > 0) {
            sched_yield();
        }
        CHECK_EQ(weft_pool_stop(pools[i], WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
        watchdog_forget(pools[i]);
        weft_pool_destroy(pools[i]);
    }
}

/* Plain threads start trees, join them, and sometimes cancel them from outside. */
static void *grow(void *arg)
{
    enum { AT_ONCE = 8 };
    uintptr_t number = (uintptr_t)arg;
    uint64_t dice = check_seed() + number;
    for (long i = 0, n = check_scale(16000) / 2 / AT_ONCE + 1; i < n; i++) {
        weft_fiber fibers[AT_ONCE];
        for (int k = 0; k < AT_ONCE; k++) {
            number += 16;
            CHECK_EQ(
                weft_pool_spawn(pools[roll(&dice) % 2], &fibers[k], tree, (void *)number, NULL), 0);
        }
        for (int k = 0; k < AT_ONCE; k++) {
            if (roll(&dice) % 4 == 0) {
                (void)weft_cancel(fibers[k]);
            }
            CHECK_EQ(weft_join(fibers[k], NULL, WEFT_FOREVER), 0);
        }
    }
    return NULL;
}

TEST(random_scope_trees_leak_no_fiber)
{
    pthread_t threads[2];
    watchdog_start("scopes");
    pools[0] = pool_open("a", 2);
    pools[1] = pool_open("b", 3);
    for (uintptr_t i = 0; i < 2; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, grow, (void *)(i + 1)), 0);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    check_none_left();
    printf("     %ld trees, %ld children\n", atomic_load(&trees), atomic_load(&children));
    watchdog_stop();
}
