/* Every ready task runs after a bounded number of turns. There is one worker, the calling thread,
 * so that the order of turns is exact. */
/* labels: valgrind */
#include "pool/fixture.h"

/* The contract allows 61 further tasks, and then the promised task. */
enum { TICK = 61, SLACK = 4 };

/* The fiber that takes a turn counts it; all fibers run on one thread. */
struct bench {
    weft_pool *pool;
    long turns, began, ended;
    bool over;
};

static void *note_end(void *arg)
{
    struct bench *bench = arg;
    bench->ended = bench->turns;
    bench->over = true;
    return NULL;
}

static void *keep_yielding(void *arg)
{
    struct bench *bench = arg;
    while (!bench->over) {
        bench->turns++;
        weft_yield();
    }
    return NULL;
}

static void yield_for(struct bench *bench, long turns)
{
    for (long end = bench->turns + turns; bench->turns < end;) {
        bench->turns++;
        weft_yield();
    }
}

static void check_waited_at_most(const struct bench *bench, long turns)
{
    CHECK(bench->over);
    if (bench->ended - bench->began > turns) {
        check_fail(__FILE__, __LINE__, "waited for %ld turns", bench->ended - bench->began);
    }
}

/* --- outside submissions, next to fibers that never stop yielding ---------------------- */

static void *submit_by_batch(void *arg)
{
    struct bench *bench = arg;
    CHECK_EQ(weft_spawn(NULL, keep_yielding, bench, NULL), 0);
    CHECK_EQ(weft_spawn(NULL, keep_yielding, bench, NULL), 0);
    yield_for(bench, 200 + (long)(check_seed() % 100));
    struct weft_job job = {note_end, bench}; /* a batch goes to the global queue */
    bench->began = bench->turns;
    CHECK_EQ(weft_pool_submit_batch(weft_pool_self(), &job, 1), 0);
    return keep_yielding(bench);
}

TEST(global_queue_is_served_within_61_tasks)
{
    struct bench bench = {.turns = 0};
    run_in_fiber(1, submit_by_batch, &bench);
    check_waited_at_most(&bench, TICK + SLACK);
}

static void *submit_from_thread(void *arg)
{
    struct bench *bench = arg;
    CHECK_EQ(weft_pool_spawn(bench->pool, NULL, note_end, bench,
                             &(struct weft_fiber_opts){.bound = true, .worker = 0}),
             0);
    return NULL;
}

static void *submit_to_inbox(void *arg)
{
    struct bench *bench = arg;
    bench->pool = weft_pool_self();
    CHECK_EQ(weft_spawn(NULL, keep_yielding, bench, NULL), 0);
    CHECK_EQ(weft_spawn(NULL, keep_yielding, bench, NULL), 0);
    yield_for(bench, 200 + (long)(check_seed() % 100));
    thread_close(thread_open(submit_from_thread, bench)); /* no turn passes meanwhile */
    bench->began = bench->turns;
    return keep_yielding(bench);
}

TEST(inbox_is_served_within_61_tasks)
{
    struct bench bench = {.turns = 0};
    run_in_fiber(1, submit_to_inbox, &bench);
    check_waited_at_most(&bench, TICK + SLACK);
}

/* --- the oldest not-yet-started fiber, next to newer ones -------------------------------- */

static void *take_a_turn(void *arg)
{
    struct bench *bench = arg;
    bench->turns++;
    return NULL;
}

static void *spawn_and_join(void *arg)
{
    struct bench *bench = arg;
    CHECK_EQ(weft_spawn(NULL, note_end, bench, NULL), 0);
    while (!bench->over) {
        weft_fiber child; /* the newest: runs before the one above */
        CHECK_EQ(weft_spawn(&child, take_a_turn, bench, NULL), 0);
        CHECK_EQ(weft_join(child, NULL, WEFT_FOREVER), 0);
        bench->turns++;
        CHECK(bench->turns < 1000);
    }
    return NULL;
}

TEST(oldest_fresh_fiber_is_served_within_61_tasks)
{
    struct bench bench = {.turns = 0};
    run_in_fiber(1, spawn_and_join, &bench);
    CHECK(bench.ended > 2); /* otherwise the newest did not run first: nothing tested */
    check_waited_at_most(&bench, TICK + SLACK);
}

/* --- woken and yielded fibers, next to not-yet-started ones -------------------------------- */

/* Each fiber spawns the next and yields: there is always a not-yet-started fiber. */
static void *spawn_next_and_yield(void *arg)
{
    struct bench *bench = arg;
    bench->turns++;
    CHECK(bench->turns < 100000);
    if (!bench->over) {
        CHECK_EQ(weft_spawn(NULL, spawn_next_and_yield, bench, NULL), 0);
        weft_yield();
    }
    return NULL;
}

static void *yield_once_beside_a_chain(void *arg)
{
    struct bench *bench = arg;
    CHECK_EQ(weft_spawn(NULL, spawn_next_and_yield, bench, NULL), 0);
    bench->began = bench->turns;
    weft_yield();
    return note_end(bench);
}

TEST(fresh_fiber_chain_does_not_starve_yielded_fibers)
{
    struct bench bench = {.turns = 0};
    run_in_fiber(1, yield_once_beside_a_chain, &bench);
    check_waited_at_most(&bench, 2 * TICK + SLACK);
}

struct order {
    int seen[16], count;
};

struct numbered {
    struct order *order;
    int number;
};

static void *note_and_yield(void *arg)
{
    struct numbered *me = arg;
    me->order->seen[me->order->count++] = me->number;
    weft_yield();
    me->order->seen[me->order->count++] = me->number + 10;
    return NULL;
}

static void *yield_lets_fresh_start(void *arg)
{
    struct order *order = arg;
    struct numbered a = {order, 1}, b = {order, 2};
    CHECK_EQ(weft_spawn(NULL, note_and_yield, &a, NULL), 0);
    weft_yield(); /* starts a, which yields to the position after this fiber */
    order->seen[order->count++] = 0;
    CHECK_EQ(weft_spawn(NULL, note_and_yield, &b, NULL), 0);
    weft_yield(); /* starts b before a resumes; b and this fiber queue after a */
    order->seen[order->count++] = 0;
    weft_yield();
    return NULL;
}

TEST(yield_starts_fresh_fiber_and_requeues_at_ring_end)
{
    static const int want[] = {1, 0, 2, 11, 0, 12};
    struct order order = {.count = 0};
    run_in_fiber(1, yield_lets_fresh_start, &order);
    CHECK_EQ(order.count, 6);
    for (int i = 0; i < 6; i++) {
        CHECK_EQ(order.seen[i], want[i]);
    }
}

/* --- a pair of fibers that wake each other --------------------------------------------------- */

struct pair {
    weft_fiber ping, pong;
    long turns, last, worst, others;
    long limit;
    bool over;
};

static void *play_ping(void *arg)
{
    struct pair *pair = arg;
    while (pair->turns < pair->limit) {
        pair->turns++;
        CHECK_EQ(weft_fiber_unpark(pair->pong), 0);
        CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    }
    pair->over = true;
    weft_fiber_unpark(pair->pong);
    return NULL;
}

static void *play_pong(void *arg)
{
    struct pair *pair = arg;
    while (!pair->over) {
        pair->turns++;
        CHECK_EQ(weft_fiber_unpark(pair->ping), 0);
        CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    }
    return NULL;
}

static void note_turn(struct pair *pair)
{
    long waited = pair->turns - pair->last;
    pair->worst = waited > pair->worst ? waited : pair->worst;
    pair->last = pair->turns;
    pair->others++;
}

static void *third_yields(void *arg)
{
    struct pair *pair = arg;
    while (!pair->over) {
        note_turn(pair);
        weft_yield();
    }
    return NULL;
}

/* A new fiber each time: it ends after spawning its successor. */
static void *third_is_fresh(void *arg)
{
    struct pair *pair = arg;
    note_turn(pair);
    if (!pair->over) {
        CHECK_EQ(weft_spawn(NULL, third_is_fresh, pair, NULL), 0);
    }
    return NULL;
}

struct hot {
    struct pair pair;
    weft_fn third;
    bool bound;
};

static void *start_pair(void *arg)
{
    struct hot *hot = arg;
    struct pair *pair = &hot->pair;
    CHECK_EQ(weft_fiber_create(&pair->ping, play_ping, pair, NULL), 0);
    CHECK_EQ(weft_fiber_create(&pair->pong, play_pong, pair, NULL), 0);
    CHECK_EQ(weft_spawn(NULL, hot->third, pair,
                        &(struct weft_fiber_opts){.bound = hot->bound, .worker = 0}),
             0);
    CHECK_EQ(weft_fiber_submit(pair->ping, weft_pool_self(), WEFT_ANY_WORKER), 0);
    CHECK_EQ(weft_fiber_submit(pair->pong, weft_pool_self(), WEFT_ANY_WORKER), 0);
    CHECK_EQ(weft_join(pair->ping, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_join(pair->pong, NULL, WEFT_FOREVER), 0);
    return NULL;
}

static void check_third(weft_fn third, bool bound, long limit, long worst)
{
    struct hot hot = {.third = third, .bound = bound, .pair.limit = limit};
    run_in_fiber(1, start_pair, &hot);
    if (hot.pair.worst > worst || hot.pair.others < limit / worst / 2) {
        check_fail(__FILE__, __LINE__, "%ld turns of a third among %ld, once only after %ld",
                   hot.pair.others, hot.pair.turns, hot.pair.worst);
    }
}

TEST(hot_pair_does_not_starve_yielding_fiber)
{
    check_third(third_yields, false, (1 << 17) + 1000, 16);
}

TEST(hot_pair_does_not_starve_bound_fiber)
{
    check_third(third_yields, true, (1 << 17) + 1000, 16);
}

TEST(hot_pair_does_not_starve_fresh_fibers)
{
    check_third(third_is_fresh, false, 1 << 15, 16);
}

/* --- bound next to unbound fibers ------------------------------------------------------- */

struct lanes {
    long bound, unbound;
    bool over;
};

static void *count_bound(void *arg)
{
    struct lanes *lanes = arg;
    while (!lanes->over) {
        lanes->bound++;
        weft_yield();
    }
    return NULL;
}

static void *count_unbound(void *arg)
{
    struct lanes *lanes = arg;
    while (!lanes->over) {
        lanes->unbound++;
        weft_yield();
    }
    return NULL;
}

static void *run_lanes(void *arg)
{
    struct lanes *lanes = arg;
    struct weft_fiber_opts bound = {.bound = true, .worker = 0};
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_spawn(NULL, count_unbound, lanes, NULL), 0);
    }
    CHECK_EQ(weft_spawn(NULL, count_bound, lanes, &bound), 0);
    while (lanes->bound + lanes->unbound < 20000) {
        weft_yield();
    }
    lanes->over = true;
    return NULL;
}

TEST(bound_and_unbound_fibers_alternate)
{
    struct lanes lanes = {.over = false};
    run_in_fiber(1, run_lanes, &lanes);
    CHECK(lanes.bound * 3 > lanes.unbound); /* one bound fiber alone gets about half */
    CHECK(lanes.unbound * 3 > lanes.bound); /* ten together get about half, too */
}

/* --- deadlines and long turns ----------------------------------------------------------- */

struct clocked {
    int64_t deadline;
    long late; /* turns that other fibers took after the deadline had certainly passed */
    bool over;
};

static void *yield_and_watch(void *arg)
{
    struct clocked *clocked = arg;
    while (!clocked->over) {
        clocked->late += weft_now() > clocked->deadline + (1 << 17); /* two ticks of the wheel */
        weft_yield();
    }
    return NULL;
}

static void *park_among_yielders(void *arg)
{
    struct clocked *clocked = arg;
    clocked->deadline = INT64_MAX / 2;
    for (int i = 0; i < 1000; i++) {
        CHECK_EQ(weft_spawn(NULL, yield_and_watch, clocked, NULL), 0);
    }
    weft_yield();
    for (int i = 0; i < 5; i++) {
        clocked->late = 0;
        clocked->deadline = weft_after(1000000);
        CHECK_EQ(weft_fiber_park(clocked->deadline), -ETIMEDOUT);
        int64_t late_ns = weft_now() - clocked->deadline;
        long late = clocked->late;
        clocked->deadline = INT64_MAX / 2;
        CHECK(late_ns >= 0);
        CHECK(late <= TICK + SLACK);
        CHECK(late_ns < 60000000000); /* a bound that holds on a busy machine, too */
    }
    clocked->over = true;
    return NULL;
}

TEST(deadline_among_thousand_yielders_is_kept)
{
    struct clocked clocked = {.over = false};
    run_in_fiber(1, park_among_yielders, &clocked);
}

static void burn(int64_t ns)
{
    for (int64_t end = weft_now() + ns; weft_now() < end;) {
    }
}

static void *burn_and_yield(void *arg)
{
    struct bench *bench = arg;
    while (!bench->over) {
        bench->turns++;
        burn(250000);
        weft_yield();
    }
    return NULL;
}

static void *submit_among_long_turns(void *arg)
{
    struct bench *bench = arg;
    CHECK_EQ(weft_spawn(NULL, burn_and_yield, bench, NULL), 0);
    CHECK_EQ(weft_spawn(NULL, burn_and_yield, bench, NULL), 0);
    while (bench->turns < 2 * TICK) { /* lets the worker measure how long turns are */
        weft_yield();
    }
    struct weft_job job = {note_end, bench};
    bench->began = bench->turns;
    CHECK_EQ(weft_pool_submit_batch(weft_pool_self(), &job, 1), 0);
    while (!bench->over) {
        weft_yield();
    }
    return NULL;
}

TEST(long_turns_make_worker_check_queues_more_often)
{
    struct bench bench = {.turns = 0};
    run_in_fiber(1, submit_among_long_turns, &bench);
    check_waited_at_most(&bench, 6);
}
