/* Park and unpark: an early unpark is kept as a permit, two unparks count once, a stale one is
 * refused, none is lost. */
/* labels: valgrind */
#include "base/assert.h"
#include "fiber/fibers.h"

/* --- permits ------------------------------------------------------------------ */

static void *unparks_itself(void *arg)
{
    weft_fiber self = weft_self();
    (void)arg;
    CHECK_EQ(weft_fiber_unpark(self), 0);
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    CHECK_EQ(weft_fiber_unpark(self), 0);
    CHECK_EQ(weft_fiber_unpark(self), 0);
    CHECK_EQ(weft_fiber_unpark(self), 0);
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    CHECK_EQ(weft_fiber_park(weft_after(1000)), -ETIMEDOUT); /* three unparks counted once */
    return NULL;
}

TEST(early_unpark_is_kept_and_two_count_once)
{
    run_in_fiber(1, unparks_itself, NULL);
    run_in_fiber(2, unparks_itself, NULL);
}

static void *unparks_before_the_first_run(void *arg)
{
    weft_fiber fiber = spawn(parks, (void *)1), created;
    void *result;
    (void)arg;
    CHECK_EQ(weft_fiber_unpark(fiber), 0); /* the fiber has not even started */
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);

    CHECK_EQ(weft_fiber_create(&created, parks, NULL, NULL), 0);
    CHECK_EQ(weft_fiber_unpark(created), 0); /* the fiber belongs to no pool yet */
    CHECK_EQ(weft_fiber_submit(created, weft_pool_self(), WEFT_ANY_WORKER), 0);
    CHECK_EQ(weft_join(created, &result, WEFT_FOREVER), 0);
    return NULL;
}

TEST(fiber_can_be_unparked_before_first_run)
{
    run_in_fiber(1, unparks_before_the_first_run, NULL);
    run_in_fiber(2, unparks_before_the_first_run, NULL);
}

static void *counts_parks(void *arg)
{
    atomic_int *parked = arg;
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    atomic_fetch_add(parked, 1);
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    atomic_fetch_add(parked, 1);
    return NULL;
}

static void *unparks_twice_while_it_waits(void *arg)
{
    atomic_int parked = 0;
    weft_fiber fiber = spawn(counts_parks, &parked);
    (void)arg;
    await_state(fiber, WEFT_FIBER_WAITING);
    /* The first unpark ends the wait; the second arrives before the fiber ran, and is for its next
     * park. */
    CHECK_EQ(weft_fiber_unpark(fiber), 0);
    CHECK_EQ(weft_fiber_unpark(fiber), 0);
    CHECK_EQ(weft_fiber_unpark(fiber), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&parked), 2);
    return NULL;
}

TEST(unpark_of_awake_fiber_counts_for_next_park)
{
    run_in_fiber(1, unparks_twice_while_it_waits, NULL);
}

/* --- refused ------------------------------------------------------------------- */

static void *unparks_the_dead(void *arg)
{
    weft_fiber fiber = spawn(parks, NULL);
    (void)arg;
    CHECK_EQ(weft_fiber_unpark(fiber), 0);
    await_state(fiber, WEFT_FIBER_DONE);
    CHECK_EQ(weft_fiber_unpark(fiber), -ESRCH); /* ended, its result not yet collected */
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_fiber_unpark(fiber), -ESRCH);
    CHECK_EQ(weft_fiber_unpark(WEFT_NO_FIBER), -ESRCH);

    /* The next fiber in the same slot has no permit from that. */
    weft_fiber next = spawn(parks, NULL);
    CHECK_EQ(weft_fiber_unpark(fiber), -ESRCH);
    await_state(next, WEFT_FIBER_WAITING);
    CHECK_EQ(weft_fiber_unpark(next), 0);
    CHECK_EQ(weft_join(next, NULL, WEFT_FOREVER), 0);
    return NULL;
}

TEST(unpark_of_ended_fiber_is_rejected)
{
    run_in_fiber(1, unparks_the_dead, NULL);
}

static void *ends_with_a_permit(void *arg)
{
    CHECK_EQ(weft_fiber_unpark(weft_self()), 0);
    return arg;
}

static void *has_no_permit(void *arg)
{
    CHECK_EQ(weft_fiber_park(weft_after(1000)), -ETIMEDOUT);
    return arg;
}

static void *recycles_a_permit(void *arg)
{
    (void)arg;
    for (int i = 0; i < 20; i++) {
        weft_fiber one = spawn(ends_with_a_permit, NULL);
        CHECK_EQ(weft_join(one, NULL, WEFT_FOREVER), 0);
        weft_fiber two = spawn(has_no_permit, NULL);
        CHECK_EQ((uint32_t)one, (uint32_t)two); /* the same slot */
        CHECK_EQ(weft_join(two, NULL, WEFT_FOREVER), 0);
    }
    return NULL;
}

TEST(unpark_permit_ends_with_its_fiber)
{
    run_in_fiber(1, recycles_a_permit, NULL);
}

TEST(plain_thread_cannot_park)
{
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), -ENXIO);
    CHECK_EQ(weft_fiber_park(0), -ENXIO);
}

/* --- deadlines -------------------------------------------------------------------- */

static void *parks_with_deadlines(void *arg)
{
    /* A deadline before the start of the program is a bug in debug builds. */
    const int64_t past[] = {0, weft_now() - 1, WEFT_DEBUG ? 0 : -1, WEFT_DEBUG ? 0 : INT64_MIN};
    (void)arg;
    for (size_t i = 0; i < 4; i++) {
        CHECK_EQ(weft_fiber_park(past[i]), -ETIMEDOUT);
        CHECK_EQ(weft_fiber_unpark(weft_self()), 0);
        CHECK_EQ(weft_fiber_park(past[i]), 0); /* a permit takes precedence over a deadline */
    }
    for (int64_t ns = 1; ns <= 2000000; ns = ns * 10 + 7) {
        int64_t deadline = weft_after(ns);
        CHECK_EQ(weft_fiber_park(deadline), -ETIMEDOUT);
        CHECK(weft_now() >= deadline);
    }
    return NULL;
}

TEST(park_times_out_and_never_early)
{
    run_in_fiber(1, parks_with_deadlines, NULL);
    run_in_fiber(2, parks_with_deadlines, NULL);
}

#define SLEEPERS 100

static void *sleeps_its_time(void *arg)
{
    int64_t deadline = weft_after((intptr_t)arg * 10000);
    CHECK_EQ(weft_fiber_park(deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    return NULL;
}

static void *sleeps_by_many(void *arg)
{
    weft_fiber fibers[SLEEPERS];
    (void)arg;
    for (intptr_t i = 0; i < SLEEPERS; i++) {
        fibers[i] = spawn(sleeps_its_time, (void *)(i * 37 % SLEEPERS));
    }
    for (int i = 0; i < SLEEPERS; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    return NULL;
}

TEST(many_park_deadlines_are_kept_concurrently)
{
    run_in_fiber(1, sleeps_by_many, NULL);
    run_in_fiber(2, sleeps_by_many, NULL);
}

TEST(park_deadline_arithmetic_does_not_wrap)
{
    CHECK_EQ(weft_after(INT64_MAX), WEFT_FOREVER);
    CHECK_EQ(weft_after(INT64_MAX - 1), WEFT_FOREVER);
    int64_t now = weft_now();
    CHECK(weft_after(-5) >= now);
    CHECK(weft_after(-5) <= weft_now());
    CHECK(weft_after(1000) >= now + 1000);
    CHECK(weft_now() >= now);
}

/* --- waits that an unpark does not end -------------------------------------------------- */

static void *joins_undisturbed(void *arg)
{
    CHECK_EQ(weft_join(*(weft_fiber *)arg, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0); /* the permit was kept through the join */
    CHECK_EQ(weft_fiber_park(weft_after(1000)), -ETIMEDOUT);
    return NULL;
}

static void *unparks_a_joiner(void *arg)
{
    weft_fiber fiber = spawn(parks, NULL), joiner = spawn(joins_undisturbed, &fiber);
    (void)arg;
    await_state(joiner, WEFT_FIBER_WAITING);
    for (int i = 0; i < 100; i++) {
        enum weft_fiber_state state;
        CHECK_EQ(weft_fiber_unpark(joiner), 0);
        weft_yield();
        CHECK_EQ(weft_fiber_state(joiner, &state), 0);
        CHECK_EQ(state, WEFT_FIBER_WAITING);
    }
    CHECK_EQ(weft_fiber_unpark(fiber), 0);
    CHECK_EQ(weft_join(joiner, NULL, WEFT_FOREVER), 0);
    return NULL;
}

TEST(unpark_does_not_end_join)
{
    run_in_fiber(1, unparks_a_joiner, NULL);
    run_in_fiber(2, unparks_a_joiner, NULL);
}

/* --- from plain threads ------------------------------------------------------------------- */

struct ball {
    _Atomic(weft_fiber) fiber;
    _Atomic(uint64_t) served, returned;
    uint64_t rounds;
};

static void *returns_the_ball(void *arg)
{
    struct ball *ball = arg;
    for (uint64_t i = 1; i <= ball->rounds; i++) {
        while (atomic_load(&ball->served) < i) {
            CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
        }
        atomic_store(&ball->returned, i);
    }
    return NULL;
}

TEST(plain_thread_unparks_fiber_each_time)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    struct ball ball = {.rounds = (uint64_t)check_scale(3000) + 50};
    weft_fiber fiber;
    CHECK_EQ(weft_pool_spawn(pool, &fiber, returns_the_ball, &ball, NULL), 0);
    for (uint64_t i = 1; i <= ball.rounds; i++) {
        atomic_store(&ball.served, i);
        CHECK_EQ(weft_fiber_unpark(fiber), 0);
        while (atomic_load(&ball.returned) < i) {
            weft_yield();
        }
    }
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    pool_close(pool);
}

/* --- hand-offs lose no wake-up ---------------------------------------------------------------- */

struct pair {
    _Atomic(weft_fiber) player[2];
    _Atomic(uint64_t) turn;
    uint64_t rounds;
    bool deadlines;
    uint64_t random[2];
};

static void play(struct pair *pair, unsigned me)
{
    weft_fiber other;
    while ((other = atomic_load(&pair->player[1 - me])) == WEFT_NO_FIBER) {
        weft_yield();
    }
    for (uint64_t i = me; i < pair->rounds; i += 2) {
        while (atomic_load(&pair->turn) != i) {
            int64_t deadline = WEFT_FOREVER;
            if (pair->deadlines && dice(&pair->random[me]) % 2) {
                deadline = weft_after(dice(&pair->random[me]) % 20000);
            }
            int err = weft_fiber_park(deadline);
            CHECK(err == 0 || (err == -ETIMEDOUT && deadline != WEFT_FOREVER));
        }
        atomic_store(&pair->turn, i + 1);
        int err = weft_fiber_unpark(other);
        CHECK(err == 0 || (err == -ESRCH && i + 3 >= pair->rounds)); /* that was its last turn */
    }
}

static void *plays_first(void *arg)
{
    play(arg, 0);
    return NULL;
}

static void *plays_second(void *arg)
{
    play(arg, 1);
    return NULL;
}

#define PAIRS 3

static void *starts_pairs(void *arg)
{
    static struct pair pairs[PAIRS];
    weft_fiber fibers[2 * PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        pairs[i] =
            (struct pair){.rounds = (uint64_t)check_scale(6000) + 100,
                          .deadlines = arg != NULL,
                          .random = {check_seed() + (uint64_t)i, check_seed() - (uint64_t)i}};
        fibers[2 * i] = spawn(plays_first, &pairs[i]);
        fibers[2 * i + 1] = spawn(plays_second, &pairs[i]);
        atomic_store(&pairs[i].player[0], fibers[2 * i]);
        atomic_store(&pairs[i].player[1], fibers[2 * i + 1]);
    }
    for (int i = 0; i < 2 * PAIRS; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    for (int i = 0; i < PAIRS; i++) {
        CHECK_EQ(atomic_load(&pairs[i].turn), pairs[i].rounds);
    }
    return NULL;
}

TEST(no_park_unpark_handoff_is_lost)
{
    run_in_fiber(1, starts_pairs, NULL);
    run_in_fiber(2, starts_pairs, NULL);
    run_in_fiber(4, starts_pairs, NULL);
}

TEST(no_park_unpark_handoff_is_lost_among_deadlines)
{
    run_in_fiber(1, starts_pairs, (void *)1);
    run_in_fiber(3, starts_pairs, (void *)1);
}

/* Each permit lets one park through, however many threads unpark. */
struct tally {
    weft_fiber fiber;
    atomic_int given, taken, givers;
};

#define GIVERS 3

static void *takes_permits(void *arg)
{
    struct tally *tally = arg;
    bool all;
    do {
        all = atomic_load(&tally->givers) == GIVERS; /* then all given permits are there */
        int err = weft_fiber_park(all ? 0 : weft_after(100000));
        CHECK(err == 0 || err == -ETIMEDOUT);
        atomic_fetch_add(&tally->taken, err == 0);
    } while (!all);
    return NULL;
}

static void *gives_permits(void *arg)
{
    struct tally *tally = arg;
    for (long i = 0, n = check_scale(3000) + 50; i < n; i++) {
        atomic_fetch_add(&tally->given, 1);
        CHECK_EQ(weft_fiber_unpark(tally->fiber), 0);
        if (i % 16 == 0) {
            weft_yield();
        }
    }
    atomic_fetch_add(&tally->givers, 1);
    return NULL;
}

TEST(park_never_returns_without_own_permit)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    struct tally tally = {.fiber = WEFT_NO_FIBER};
    pthread_t threads[GIVERS];
    CHECK_EQ(weft_fiber_create(&tally.fiber, takes_permits, &tally, NULL), 0);
    CHECK_EQ(weft_fiber_share(tally.fiber), 0); /* so that the handle outlives the fiber */
    CHECK_EQ(weft_fiber_submit(tally.fiber, pool, WEFT_ANY_WORKER), 0);
    for (int i = 0; i < GIVERS; i++) {
        threads[i] = thread_open(gives_permits, &tally);
    }
    for (int i = 0; i < GIVERS; i++) {
        thread_close(threads[i]);
    }
    CHECK_EQ(weft_join(tally.fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_fiber_detach(tally.fiber), 0);
    CHECK(atomic_load(&tally.taken) <= atomic_load(&tally.given));
    CHECK(atomic_load(&tally.taken) > 0);
    pool_close(pool);
}
