/* Yield moves the fiber to the end of the ring, and a not-yet-started fiber may start first; a loop
 * of yields starves no fiber. With one worker the order is exact, and the tests check it
 * exactly. */
/* labels: valgrind */
#include "pool/fixture.h"

/* One worker, so one thread: plain variables. */
static char order[64];
static size_t noted;
static bool recording, over;
static int started;

static void note(char who)
{
    CHECK(noted < sizeof order - 1);
    order[noted++] = who;
    order[noted] = 0;
}

static void begin(void)
{
    noted = 0;
    order[0] = 0;
    recording = true;
}

static const char letters[] = "ABCF";

static weft_fiber spawn_letter(weft_fn fn, char c)
{
    weft_fiber fiber;
    CHECK_EQ(weft_spawn(&fiber, fn, (void *)(uintptr_t)strchr(letters, c), NULL), 0);
    return fiber;
}

static void join_all(const weft_fiber *fibers, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
}

static void *notes_once(void *arg)
{
    note(*(char *)arg);
    return NULL;
}

static void *notes_when_unparked(void *arg)
{
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    note(*(char *)arg);
    return NULL;
}

static void *notes_turns(void *arg)
{
    started++;
    while (!over) {
        weft_yield();
        if (recording) {
            note(*(char *)arg);
        }
    }
    return NULL;
}

/* A, B and C are in the ring, in some order. */
static void fill_ring(weft_fiber *fibers)
{
    started = 0;
    recording = over = false;
    for (int i = 0; i < 3; i++) {
        fibers[i] = spawn_letter(notes_turns, letters[i]);
    }
    while (started < 3) {
        weft_yield();
    }
}

static void *yields_behind_the_ring(void *arg)
{
    weft_fiber fibers[3];
    (void)arg;
    fill_ring(fibers);
    begin();
    for (int i = 0; i < 10; i++) {
        note('0');
        weft_yield();
    }
    recording = false;
    CHECK_EQ(noted, 40);
    for (char c = 'A'; c <= 'C'; c++) {
        CHECK(memchr(order, c, 4) != NULL);
    }
    for (int i = 4; i < 40; i++) {
        CHECK_EQ(order[i], order[i % 4]); /* first in, first out */
    }
    over = true;
    join_all(fibers, 3);
    return NULL;
}

TEST(yield_runs_all_others_in_ring_first)
{
    run_in_fiber(1, yields_behind_the_ring, NULL);
}

static void *lets_fresh_start(void *arg)
{
    weft_fiber fibers[4];
    char expected[8];
    (void)arg;
    fill_ring(fibers);
    for (int i = 0; i < 100; i++) { /* also when the worker's tick falls between */
        begin();
        note('0');
        weft_yield();
        CHECK_EQ(noted, 4);
        snprintf(expected, sizeof expected, "0F%.3s0", order + 1);
        begin();
        note('0');
        fibers[3] = spawn_letter(notes_once, 'F');
        weft_yield();
        note('0');
        recording = false;
        CHECK_STR(order, expected); /* F first, although the others were queued before it */
        CHECK_EQ(weft_join(fibers[3], NULL, 0), 0);
    }
    over = true;
    join_all(fibers, 3);
    return NULL;
}

TEST(yield_starts_fresh_fiber_first)
{
    run_in_fiber(1, lets_fresh_start, NULL);
}

static void *lets_woken_run(void *arg)
{
    weft_fiber woken[2];
    (void)arg;
    for (int i = 0; i < 2; i++) {
        woken[i] = spawn_letter(notes_when_unparked, letters[i]);
        await_state(woken[i], WEFT_FIBER_WAITING);
    }
    begin();
    CHECK_EQ(weft_fiber_unpark(woken[0]), 0);
    CHECK_EQ(weft_fiber_unpark(woken[1]), 0);
    weft_yield();
    note('0');
    CHECK_EQ(noted, 3);
    CHECK_EQ(order[2], '0');
    join_all(woken, 2);
    return NULL;
}

TEST(yield_runs_woken_fiber_before_returning)
{
    run_in_fiber(1, lets_woken_run, NULL);
}

static void *yields_alone(void *arg)
{
    (void)arg;
    for (int i = 0; i < 1000; i++) {
        weft_yield();
    }
    return NULL;
}

TEST(yield_without_other_fibers_returns)
{
    run_in_fiber(1, yields_alone, NULL);
    run_in_fiber(2, yields_alone, NULL);
    weft_yield(); /* on a plain thread yield gives up the CPU */
}

/* --- fairness ----------------------------------------------------------------------- */

#define FIBERS 20
#define ROUNDS 200

static int counts[FIBERS];

static void *counts_its_turns(void *arg)
{
    int *mine = arg;
    for (int i = 0; i < ROUNDS; i++) {
        (*mine)++;
        for (int k = 0; k < FIBERS; k++) {
            CHECK(counts[k] - *mine <= 1 && *mine - counts[k] <= 1);
        }
        weft_yield();
    }
    return NULL;
}

static void *starts_counters(void *arg)
{
    weft_fiber fibers[FIBERS];
    (void)arg;
    memset(counts, 0, sizeof counts);
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_fiber_create(&fibers[i], counts_its_turns, &counts[i], NULL), 0);
    }
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_fiber_submit(fibers[i], weft_pool_self(), 0), 0); /* bound: one FIFO */
    }
    join_all(fibers, FIBERS);
    return NULL;
}

TEST(yielding_fibers_alternate_exactly)
{
    run_in_fiber(1, starts_counters, NULL);
}

/* --- a loop of yields starves no fiber -------------------------------------------------- */

static atomic_int done;

static void *sets_done(void *arg)
{
    atomic_fetch_add(&done, 1);
    return arg;
}

static void *yields_until_done(void *arg)
{
    await_count(&done, (int)(intptr_t)arg);
    return NULL;
}

static void *waits_for_fresh(void *arg)
{
    weft_fiber fibers[2 * FIBERS];
    (void)arg;
    atomic_store(&done, 0);
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_spawn(&fibers[i], yields_until_done, (void *)FIBERS, NULL), 0);
        weft_yield();
    }
    for (int i = FIBERS; i < 2 * FIBERS; i++) {
        CHECK_EQ(weft_spawn(&fibers[i], sets_done, NULL, NULL), 0);
    }
    await_count(&done, FIBERS);
    join_all(fibers, 2 * FIBERS);
    return NULL;
}

TEST(yield_loop_lets_fresh_fibers_finish)
{
    run_in_fiber(1, waits_for_fresh, NULL);
}

static void *outside_submits(void *arg)
{
    CHECK_EQ(weft_pool_submit(arg, sets_done, NULL), 0);
    struct weft_fiber_opts opts = {.bound = true, .worker = 0};
    CHECK_EQ(weft_pool_spawn(arg, NULL, sets_done, NULL, &opts), 0);
    return NULL;
}

TEST(yield_loop_admits_submits_from_outside)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    weft_fiber fibers[3];
    atomic_store(&done, 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_pool_spawn(pool, &fibers[i], yields_until_done, (void *)2, NULL), 0);
    }
    for (int i = 0; i < 3; i++) {
        enum weft_fiber_state state;
        size_t size, used;
        do { /* each fiber is running */
            CHECK_EQ(weft_fiber_state(fibers[i], &state), 0);
            CHECK_EQ(weft_fiber_stack(fibers[i], &size, &used), 0);
        } while (size == 0);
    }
    thread_close(thread_open(outside_submits, pool));
    join_all(fibers, 3);
    pool_close(pool);
}

static void *sleeps_a_little(void *arg)
{
    CHECK_EQ(weft_fiber_park(weft_after(200000)), -ETIMEDOUT);
    atomic_fetch_add(&done, 1);
    return arg;
}

static void *waits_for_timer(void *arg)
{
    weft_fiber fiber;
    (void)arg;
    atomic_store(&done, 0);
    CHECK_EQ(weft_spawn(&fiber, sleeps_a_little, NULL, NULL), 0);
    await_count(&done, 1);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    return NULL;
}

TEST(yield_loop_lets_timers_fire)
{
    run_in_fiber(1, waits_for_timer, NULL);
}

struct pair {
    weft_fiber partner;
    _Atomic(bool) back;
};

/* Computes without a wait until the fiber that woke it has returned from its yield. */
static void *compute_until_back(void *arg)
{
    struct pair *pair = arg;
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    while (!pair->back) {
    }
    return NULL;
}

static void *wake_and_yield(void *arg)
{
    struct pair pair = {0};
    CHECK_EQ(weft_spawn(&pair.partner, compute_until_back, &pair, NULL), 0);
    await_state(pair.partner, WEFT_FIBER_WAITING);
    for (int settled = 0; settled < 100; settled++) {
        CHECK_EQ(weft_fiber_park(weft_after(100000)),
                 -ETIMEDOUT); /* the other worker falls asleep */
    }
    CHECK_EQ(weft_fiber_unpark(pair.partner), 0);
    weft_yield();
    pair.back = true;
    CHECK_EQ(weft_join(pair.partner, NULL, WEFT_FOREVER), 0);
    return arg;
}

TEST(fiber_yielding_to_computing_fiber_is_stolen_by_sleeper)
{
    run_in_fiber(2, wake_and_yield, NULL);
}
