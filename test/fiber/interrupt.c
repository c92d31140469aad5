/* An interrupt ends one wait with -EINTR: the current wait, or the next call that has to wait. It
 * stays pending until then. */
/* labels: valgrind */
#include "fiber/fibers.h"

static weft_event event;
static weft_fiber never; /* a fiber that ends when the test tells it to */

/* --- every kind of wait -------------------------------------------------------------------- */

static int wait_park(int64_t deadline)
{
    return weft_fiber_park(deadline);
}

static int wait_sleep(int64_t deadline)
{
    return weft_sleep(deadline);
}

static int wait_join(int64_t deadline)
{
    return weft_join(never, NULL, deadline);
}

static int wait_event(int64_t deadline)
{
    return weft_event_wait(&event, deadline);
}

struct kind {
    const char *what;
    int (*wait)(int64_t deadline);
    int timed_out;
    const char *name;
};

static const struct kind kinds[] = {
    {"park", wait_park, -ETIMEDOUT, ""},
    {"sleep", wait_sleep, 0, ""},
    {"join", wait_join, -ETIMEDOUT, "never"},
    {"event", wait_event, -ETIMEDOUT, "an event with a name that is cu"},
};
#define KINDS (sizeof kinds / sizeof *kinds)

static int64_t far_away(bool timed)
{
    return timed ? weft_after(INT64_C(3600000000000)) : WEFT_FOREVER;
}

/* The object of the interrupted wait can be queried until the next interrupt. */
static void check_ended(const struct kind *kind)
{
    struct weft_fiber_ended_wait ended;
    CHECK_EQ(weft_fiber_ended_wait(&ended), 0);
    CHECK_STR(ended.what, kind->what);
    CHECK(ended.fiber == (kind->wait == wait_join ? never : WEFT_NO_FIBER));
    CHECK(ended.object == (kind->wait == wait_event ? &event : NULL));
    CHECK_STR(ended.name, kind->name);
    CHECK_EQ(ended.others, 0);
}

static void *waits_in_each_way(void *arg)
{
    atomic_int *waits = arg;
    struct weft_fiber_ended_wait ended;
    CHECK_EQ(weft_fiber_ended_wait(&ended), -ENOENT);
    for (size_t i = 0; i < 2 * KINDS; i++) {
        const struct kind *kind = &kinds[i / 2];
        atomic_fetch_add(waits, 1);
        CHECK_EQ(kind->wait(far_away(i % 2)), -EINTR);
        CHECK(!weft_fiber_is_interrupted()); /* delivered, and no longer pending */
        CHECK_EQ(kind->wait(weft_after(1000)), kind->timed_out);
        check_ended(kind); /* a timeout does not count */
    }
    return NULL;
}

static void *interrupts_in_each_way(void *arg)
{
    atomic_int waits = 0;
    CHECK_EQ(weft_spawn(&never, parks, NULL, &(struct weft_fiber_opts){.name = "never"}), 0);
    weft_fiber fiber = spawn(waits_in_each_way, &waits);
    for (int i = 1; i <= (int)(2 * KINDS); i++) {
        await_count(&waits, i);
        await_state(fiber, WEFT_FIBER_WAITING);
        CHECK_EQ(weft_fiber_interrupt(fiber), 0);
    }
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_fiber_interrupt(fiber), -ESRCH);
    CHECK_EQ(weft_fiber_unpark(never), 0);
    CHECK_EQ(weft_join(never, NULL, WEFT_FOREVER), 0);
    return arg;
}

TEST(interrupt_ends_every_kind_of_wait_once)
{
    weft_event_init(&event,
                    &(struct weft_sync_opts){.name = "an event with a name that is cut off"});
    run_in_fiber(1, interrupts_in_each_way, NULL);
    weft_event_deinit(&event);
}

/* --- pending until a wait delivers it --------------------------------------------------------- */

static void *interrupted_before(void *arg)
{
    never = spawn(parks, NULL);
    for (size_t i = 0; i < KINDS; i++) {
        CHECK_EQ(weft_fiber_interrupt(weft_self()), 0);
        CHECK_EQ(weft_fiber_interrupt(weft_self()), 0); /* two undelivered interrupts count once */
        CHECK(weft_fiber_is_interrupted());
        weft_yield(); /* no wait */
        CHECK(weft_fiber_is_interrupted());
        CHECK_EQ(kinds[i].wait(WEFT_FOREVER), -EINTR);
        CHECK(!weft_fiber_is_interrupted());
        CHECK_EQ(kinds[i].wait(weft_after(1000)), kinds[i].timed_out);
    }
    CHECK_EQ(weft_fiber_unpark(never), 0);
    CHECK_EQ(weft_join(never, NULL, WEFT_FOREVER), 0);
    return arg;
}

TEST(interrupt_before_wait_ends_next_wait)
{
    weft_event_init(&event, NULL);
    run_in_fiber(1, interrupted_before, NULL);
    run_in_fiber(2, interrupted_before, NULL);
    weft_event_deinit(&event);
}

static void *needs_not_wait(void *arg)
{
    weft_fiber done = spawn(nothing, NULL);
    await_state(done, WEFT_FIBER_DONE);
    weft_event_set(&event);
    CHECK_EQ(weft_fiber_interrupt(weft_self()), 0);
    CHECK_EQ(weft_join(done, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_event_wait(&event, WEFT_FOREVER), 0);
    CHECK_EQ(weft_fiber_unpark(weft_self()), 0);
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    CHECK(weft_fiber_is_interrupted()); /* none of these calls waited */
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), -EINTR);
    weft_event_reset(&event);
    return arg;
}

TEST(interrupt_stays_pending_across_call_that_does_not_wait)
{
    weft_event_init(&event, NULL);
    run_in_fiber(1, needs_not_wait, NULL);
    weft_event_deinit(&event);
}

static void *takes_it_back(void *arg)
{
    CHECK(!weft_fiber_clear_interrupt());
    CHECK_EQ(weft_fiber_interrupt(weft_self()), 0);
    CHECK(weft_fiber_clear_interrupt());
    CHECK(!weft_fiber_clear_interrupt());
    CHECK(!weft_fiber_is_interrupted());
    CHECK_EQ(weft_fiber_park(weft_after(1000)), -ETIMEDOUT);
    return arg;
}

TEST(clear_interrupt_drops_pending_interrupt)
{
    CHECK(!weft_fiber_is_interrupted());
    CHECK(!weft_fiber_clear_interrupt()); /* a plain thread has no interrupt state */
    run_in_fiber(1, takes_it_back, NULL);
}

static void *runs_interrupted(void *arg)
{
    CHECK(weft_fiber_is_interrupted());
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), -EINTR);
    return arg;
}

static void *is_not_interrupted(void *arg)
{
    CHECK(!weft_fiber_is_interrupted());
    return arg;
}

static void *recycles_slots(void *arg)
{
    weft_fiber created;
    for (int i = 0; i < 20; i++) {
        weft_fiber fiber = spawn(runs_interrupted, NULL); /* one worker: it has not started */
        CHECK_EQ(weft_fiber_interrupt(fiber), 0);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(weft_fiber_create(&created, nothing, NULL, NULL), 0);
        CHECK_EQ(weft_fiber_interrupt(created), 0);
        CHECK_EQ(weft_fiber_submit(created, weft_pool_self(), WEFT_ANY_WORKER), 0);
        CHECK_EQ(weft_join(created, NULL, WEFT_FOREVER), 0);
        fiber = spawn(is_not_interrupted, NULL);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    }
    return arg;
}

TEST(interrupt_reaches_unstarted_fiber_and_ends_with_its_fiber)
{
    run_in_fiber(1, recycles_slots, NULL);
}

/* --- together with a cancel ------------------------------------------------------------------- */

static void *cancel_and_interrupt(void *arg)
{
    CHECK_EQ(weft_fiber_interrupt(weft_self()), 0);
    CHECK_EQ(weft_cancel(weft_self()), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_fiber_park(WEFT_FOREVER), -ECANCELED); /* the cancel takes precedence */
    }
    CHECK(weft_fiber_is_interrupted()); /* the interrupt has not been delivered */
    return arg;
}

TEST(cancel_takes_precedence_over_interrupt)
{
    run_in_fiber(1, cancel_and_interrupt, NULL);
}

/* --- races ------------------------------------------------------------------------------------ */

/* Each of the `n` interrupts that are not coalesced ends one wait; the last one sets the event. */
static void *counts_interrupts(void *arg)
{
    _Atomic(long) *delivered = arg;
    int err;
    while ((err = weft_event_wait(&event, WEFT_FOREVER)) == -EINTR) {
        atomic_fetch_add(delivered, 1);
    }
    CHECK_EQ(err, 0);
    return (void *)(intptr_t)weft_fiber_clear_interrupt();
}

static void *sends_interrupts(void *arg)
{
    weft_fiber fiber = *(weft_fiber *)arg;
    for (long i = 0, n = check_scale(2000); i < n; i++) {
        CHECK_EQ(weft_fiber_interrupt(fiber), 0);
    }
    return NULL;
}

TEST(concurrent_interrupts_are_delivered_and_never_doubled)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    _Atomic(long) delivered = 0;
    weft_fiber fiber;
    void *left;
    weft_event_init(&event, NULL);
    CHECK_EQ(weft_pool_spawn(pool, &fiber, counts_interrupts, &delivered, NULL), 0);
    pthread_t one = thread_open(sends_interrupts, &fiber);
    sends_interrupts(&fiber);
    thread_close(one);
    weft_event_set(&event);
    CHECK_EQ(weft_join(fiber, &left, WEFT_FOREVER), 0);
    long sum = atomic_load(&delivered) + (long)(intptr_t)left;
    CHECK(sum >= 1 && sum <= 2 * check_scale(2000));
    pool_close(pool);
    weft_event_deinit(&event);
}

/* One at a time, none is lost: the next interrupt is sent after the previous one was seen. */
static void *answers_interrupts(void *arg)
{
    atomic_int *seen = arg;
    for (;;) {
        int err = weft_fiber_park(WEFT_FOREVER);
        if (err == 0) {
            return NULL;
        }
        CHECK_EQ(err, -EINTR);
        atomic_fetch_add(seen, 1);
    }
}

TEST(sequential_interrupts_are_never_lost)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    atomic_int seen = 0;
    weft_fiber fiber;
    CHECK_EQ(weft_pool_spawn(pool, &fiber, answers_interrupts, &seen, NULL), 0);
    for (int i = 1, n = (int)check_scale(1000); i <= n; i++) {
        CHECK_EQ(weft_fiber_interrupt(fiber), 0);
        await_count(&seen, i);
    }
    CHECK_EQ(weft_fiber_unpark(fiber), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    pool_close(pool);
}
