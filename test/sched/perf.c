/* Perf events: who is told, of what, and when nobody is told any more. */
#include <weft/perf.h>

#include "sched/fixture.h"

#define MS INT64_C(1000000)

static atomic_ulong told[WEFT_PERF_TYPES], counts[WEFT_PERF_TYPES], costs[WEFT_PERF_TYPES];
static atomic_ulong sums[WEFT_PERF_TYPES];
static _Atomic(uint64_t) wanted; /* bit per type */

static bool accepts(unsigned type, void *arg)
{
    CHECK(arg == &wanted);
    return atomic_load(&wanted) >> type & 1;
}

static void on_event(unsigned type, int64_t cost_ns, uint64_t count, uint64_t sum, void *arg)
{
    CHECK(arg == &wanted);
    CHECK(atomic_load(&wanted) >> type & 1);
    CHECK(cost_ns >= 0);
    atomic_fetch_add(&told[type], 1);
    atomic_fetch_add(&costs[type], (unsigned long)cost_ns);
    atomic_fetch_add(&counts[type], count);
    atomic_fetch_add(&sums[type], sum);
}

static const struct weft_perf perf = {.accept = accepts, .on_event = on_event, .arg = &wanted};

static void begin(uint64_t types)
{
    for (unsigned i = 0; i < WEFT_PERF_TYPES; i++) {
        atomic_store(&told[i], 0);
        atomic_store(&counts[i], 0);
        atomic_store(&costs[i], 0);
        atomic_store(&sums[i], 0);
    }
    atomic_store(&wanted, types);
    CHECK_EQ(weft_perf_install(&perf), 0);
}

static void end(void)
{
    CHECK_EQ(weft_perf_remove(&perf), 0);
    atomic_store(&wanted, 0); /* on_event would complain from now on */
}

#define BIT(type) (UINT64_C(1) << (type))

/* --- callbacks -------------------------------------------------------------------- */

TEST(one_callback_at_a_time)
{
    struct weft_perf other = perf, none = {0};
    CHECK_EQ(weft_perf_install(&none), -EINVAL);
    begin(0);
    CHECK_EQ(weft_perf_install(&other), -EBUSY);
    CHECK_EQ(weft_perf_remove(&other), -ENOENT);
    end();
    CHECK_EQ(weft_perf_remove(&perf), -ENOENT);
    CHECK_EQ(weft_perf_install(&other), 0);
    CHECK_EQ(weft_perf_remove(&other), 0);
}

TEST(spans_of_accepted_types_are_told_and_others_are_not)
{
    int a = weft_perf_register("encode"), b = weft_perf_register("decode");
    CHECK(a >= WEFT_PERF_USER && b > a);
    CHECK_EQ(weft_perf_register("encode"), a);
    CHECK_STR(weft_perf_name((unsigned)a), "encode");
    CHECK_EQ(weft_perf_begin((unsigned)a), 0); /* nobody is there */
    begin(BIT(a));
    int64_t began = weft_perf_begin((unsigned)a);
    CHECK(began > 0);
    CHECK_EQ(weft_perf_begin((unsigned)b), 0);
    weft_perf_end((unsigned)a, began, 3, 1000);
    weft_perf_end((unsigned)b, 0, 1, 1);
    weft_perf_end((unsigned)b, INT64_MIN, 1, 1); /* no time at which something began */
    weft_perf_event((unsigned)a, 77, 1, 10);
    weft_perf_event((unsigned)b, 77, 1, 10);
    weft_perf_event(1000, 1, 1, 1);
    end();
    weft_perf_end((unsigned)a, began, 1, 1); /* too late */
    CHECK_EQ(told[a], 2);
    CHECK_EQ(counts[a], 4);
    CHECK_EQ(sums[a], 1010);
    CHECK(costs[a] >= 77);
    CHECK_EQ(told[b], 0);
}

TEST(a_type_that_is_registered_later_is_asked_for)
{
    begin(UINT64_MAX);
    int late = weft_perf_register("late");
    CHECK(late > 0);
    weft_perf_event((unsigned)late, 5, 1, 0);
    end();
    CHECK_EQ(told[late], 1);
}

TEST(names_are_checked_and_types_run_out)
{
    char name[24];
    CHECK_EQ(weft_perf_register(NULL), -EINVAL);
    CHECK_EQ(weft_perf_register(""), -EINVAL);
    CHECK_EQ(weft_perf_register("two words"), -EINVAL);
    CHECK_EQ(weft_perf_register("a-name-of-24-characters-"), -EINVAL);
    CHECK_EQ(weft_perf_register("work"), WEFT_PERF_WORK);
    CHECK(!weft_perf_name(WEFT_PERF_ACQUIRE + 1));
    int last = 0;
    for (int i = 0; last >= 0; i++) {
        snprintf(name, sizeof name, "fill-%d", i);
        last = weft_perf_register(name);
        CHECK(i <= WEFT_PERF_TYPES);
    }
    CHECK_EQ(last, -ENOSPC);
    CHECK(weft_perf_name(WEFT_PERF_TYPES - 1));
    CHECK(!weft_perf_name(WEFT_PERF_TYPES));
    CHECK_EQ(weft_perf_register("encode") >= 0, 1); /* an old one is still found */
}

/* --- what the runtime tells ---------------------------------------------------------- */

static void *sleep_a_little(void *arg)
{
    CHECK_EQ(weft_sleep(2 * MS), 0);
    return arg;
}

/* On a loaded machine a worker may be so late that it need not sleep at all. */
static void *sleep_until_told(void *arg)
{
    while (atomic_load(&told[WEFT_PERF_POLL]) == 0) {
        sleep_a_little(NULL);
    }
    return arg;
}

TEST(sleeps_of_workers_and_work_between_them)
{
    begin(BIT(WEFT_PERF_POLL) | BIT(WEFT_PERF_WORK));
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    CHECK_EQ(weft_call_on(pool, 0, sleep_until_told, NULL, NULL), 0);
    pool_close(pool);
    end();
    CHECK(costs[WEFT_PERF_POLL] > 0);
    CHECK_EQ(counts[WEFT_PERF_POLL], told[WEFT_PERF_POLL]);
    CHECK(told[WEFT_PERF_WORK] >= 1);
    CHECK(counts[WEFT_PERF_WORK] >= 1);
    CHECK_EQ(told[WEFT_PERF_QUEUE], 0);
    CHECK_EQ(told[WEFT_PERF_ACQUIRE], 0);
}

static void *yield_for_long(void *arg)
{
    while (atomic_load(&told[WEFT_PERF_WORK]) < 2) { /* though it never sleeps */
        weft_yield();
    }
    return arg;
}

static void *two_yield_for_long(void *arg)
{
    weft_fiber other;
    CHECK_EQ(weft_spawn(&other, yield_for_long, NULL, NULL), 0);
    yield_for_long(NULL);
    CHECK_EQ(weft_join(other, NULL, WEFT_FOREVER), 0);
    return arg;
}

TEST(work_without_an_end_is_told_in_pieces)
{
    begin(BIT(WEFT_PERF_WORK));
    run_in_fiber(1, two_yield_for_long, NULL);
    end();
    CHECK(costs[WEFT_PERF_WORK] >= 20 * (unsigned long)MS);
    CHECK(counts[WEFT_PERF_WORK] > 2);
}

static void *empty(void *arg)
{
    return arg;
}

#define FIBERS 40

static void *spawn_and_spend(void *arg)
{
    weft_fiber fibers[FIBERS];
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_spawn(&fibers[i], empty, NULL, NULL), 0);
    }
    int64_t until = weft_after(MS);
    while (weft_now() < until) {
    }
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    return arg;
}

TEST(how_long_fibers_were_ready)
{
    begin(BIT(WEFT_PERF_QUEUE));
    run_in_fiber(1, spawn_and_spend, NULL);
    end();
    CHECK(told[WEFT_PERF_QUEUE] >= FIBERS / 2); /* sampled */
    CHECK(costs[WEFT_PERF_QUEUE] >= FIBERS / 4 * (unsigned long)MS);
}

TEST(how_long_fibers_from_outside_were_ready)
{
    begin(BIT(WEFT_PERF_QUEUE));
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_pool_spawn(pool, NULL, empty, NULL, NULL), 0);
    }
    pool_close(pool);
    end();
    CHECK(told[WEFT_PERF_QUEUE] >= 1);
    CHECK(told[WEFT_PERF_QUEUE] <= FIBERS);
}

TEST(waits_of_fibers_and_threads)
{
    weft_event event;
    for (int tries = 1;;
         tries++) { /* if it comes late to its wait, that is shorter or none at all */
        begin(BIT(WEFT_PERF_ACQUIRE));
        run_in_fiber(1, sleep_a_little, NULL);
        CHECK(told[WEFT_PERF_ACQUIRE] <= 1);
        if (told[WEFT_PERF_ACQUIRE] == 1 && costs[WEFT_PERF_ACQUIRE] >= 2 * (unsigned long)MS) {
            break;
        }
        CHECK(tries < 1000);
        end();
    }
    weft_event_init(&event, NULL);
    do { /* it need not wait if it comes too late to it */
        CHECK_EQ(weft_event_wait(&event, weft_after(MS)), -ETIMEDOUT);
    } while (told[WEFT_PERF_ACQUIRE] == 1);
    CHECK_EQ(told[WEFT_PERF_ACQUIRE], 2);
    weft_event_set(&event);
    CHECK_EQ(weft_event_wait(&event, WEFT_FOREVER), 0); /* at once: no wait */
    CHECK_EQ(told[WEFT_PERF_ACQUIRE], 2);
    end();
}

/* --- against removal -------------------------------------------------------------------- */

static void *do_a_bit_of_all(void *arg)
{
    const atomic_bool *stop = arg;
    unsigned type = (unsigned)weft_perf_register("encode");
    while (!atomic_load(stop)) {
        int64_t began = weft_perf_begin(type);
        weft_fiber child;
        if (weft_pool_self()) {
            CHECK_EQ(weft_spawn(&child, empty, NULL, NULL), 0);
            CHECK_EQ(weft_join(child, NULL, WEFT_FOREVER), 0);
        }
        weft_perf_end(type, began, 1, 1);
        weft_yield();
    }
    return NULL;
}

TEST(a_callback_that_was_removed_is_not_called)
{
    atomic_bool stop = false;
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(weft_pool_spawn(pool, NULL, do_a_bit_of_all, &stop, NULL), 0);
    }
    pthread_t thread = thread_open(do_a_bit_of_all, &stop);
    for (long i = check_scale(100); i > 0; i--) {
        begin(i % 3 ? UINT64_MAX : BIT(WEFT_PERF_QUEUE)); /* on_event checks what was accepted */
        weft_yield();
        end();
    }
    begin(UINT64_MAX);
    while (atomic_load(&told[weft_perf_register("encode")]) == 0 ||
           atomic_load(&told[WEFT_PERF_QUEUE]) == 0) {
        weft_yield();
    }
    end();
    atomic_store(&stop, true);
    thread_close(thread);
    pool_close(pool);
}
