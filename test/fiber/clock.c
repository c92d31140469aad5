/* not under: valgrind qemu */
/* Time as fibers see it: which clock is read, how old the cached time is, how late a sleep ends. */
#include <sys/syscall.h>

#include "pool/fixture.h"

#define MS INT64_C(1000000)

#ifndef __has_feature
#define __has_feature(feature) 0
#endif
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__) || defined(CHECK_CHAOS) ||       \
    __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define SLOW 20
#else
#define SLOW 1
#endif

/* Replaces the C library's function for this program and the runtime in it: the wall clock jumps
 * back and forth by years, and each read of the wall clock is recorded. */
static atomic_int asked_wall_clock;

int clock_gettime(clockid_t clock, struct timespec *time)
{
    int rc = (int)syscall(SYS_clock_gettime, clock, time);
    if (clock != CLOCK_MONOTONIC && clock != CLOCK_MONOTONIC_COARSE &&
        clock != CLOCK_THREAD_CPUTIME_ID) {
        int n = atomic_fetch_add(&asked_wall_clock, 1);
        time->tv_sec += n % 2 ? 100000000 : -100000000;
    }
    return rc;
}

static atomic_int fired;

static void count_call(weft_timer *timer, void *arg, uint64_t times)
{
    (void)timer;
    (void)arg;
    (void)times;
    atomic_fetch_add(&fired, 1);
}

static void *use_time(void *arg)
{
    weft_timer timer;
    (void)arg;
    for (int i = 0; i < 5; i++) {
        int64_t before = weft_now();
        CHECK_EQ(weft_sleep(weft_after(MS)), 0);
        CHECK_EQ(weft_fiber_park(weft_after(MS)), -ETIMEDOUT);
        CHECK(weft_now() - before >= 2 * MS);
    }
    weft_timer_init(&timer, count_call, NULL, NULL);
    weft_timer_set_every(&timer, weft_after(MS), MS, WEFT_TIMER_RATE);
    await_count(&fired, 3);
    CHECK(weft_timer_cancel_wait(&timer, WEFT_FOREVER) >= 0);
    return NULL;
}

TEST(wall_clock_is_never_read)
{
    check_seed(); /* reads the wall clock, once */
    int before = atomic_load(&asked_wall_clock);
    run_in_fiber(2, use_time, NULL);
    CHECK_EQ(weft_sleep(weft_after(MS)), 0); /* a plain thread */
    CHECK_EQ(atomic_load(&asked_wall_clock), before);
}

/* --- the cached clock ----------------------------------------------------------- */

static void *look_at_cached(void *arg)
{
    (void)arg;
    int64_t last = weft_now_cached();
    for (int i = 0; i < 200; i++) {
        int64_t stands = weft_now_cached();
        CHECK(stands >= last && stands <= weft_now());
        CHECK_EQ(weft_now_cached(), stands); /* constant within a turn */
        last = stands;
        weft_yield();
    }
    /* After at most 61 turns the cached clock has moved. */
    int64_t start = weft_now();
    for (int i = 0; i < 62; i++) {
        weft_yield();
    }
    CHECK(weft_now_cached() >= start);
    /* The cached clock has also moved after a sleep. */
    start = weft_now();
    CHECK_EQ(weft_sleep(weft_after(MS)), 0);
    CHECK(weft_now_cached() >= start + MS);
    return NULL;
}

TEST(cached_clock_is_never_ahead_and_at_most_61_turns_old)
{
    run_in_fiber(1, look_at_cached, NULL);
    int64_t before = weft_now();
    CHECK(weft_now_cached() >= before); /* on a plain thread the cached clock is exact */
}

/* --- lateness ---------------------------------------------------------------------- */

#define ROUNDS 31
#define WAIT_LIMIT (30000 * MS)

static int by_value(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return x < y ? -1 : x > y;
}

static atomic_bool stop;

static void *yield_for_ever(void *arg)
{
    while (!atomic_load_explicit(&stop, memory_order_relaxed)) {
        weft_yield();
    }
    return arg;
}

/* CPU time of this worker's thread: less than the elapsed time if other threads use the CPU too. */
static int64_t cpu_time(void)
{
    struct timespec time;
    CHECK_EQ(clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time), 0);
    return time.tv_sec * 1000 * MS + time.tv_nsec;
}

static void *measure_sleeps(void *arg)
{
    int64_t *took = arg;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t before = weft_now(), cpu = cpu_time();
        CHECK_EQ(weft_sleep(weft_after(MS)), 0);
        took[i] = cpu_time() - cpu;
        CHECK(weft_now() - before >= MS);
    }
    qsort(took, ROUNDS, sizeof *took, by_value);
    return NULL;
}

TEST(sleep_among_thousand_yielders_ends_within_3_ms)
{
    int64_t took[ROUNDS];
    weft_fiber sleeper;
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    atomic_store(&stop, false);
    for (int i = 0; i < 2000; i++) {
        CHECK_EQ(weft_pool_submit(pool, yield_for_ever, NULL), 0);
    }
    CHECK_EQ(weft_pool_spawn(pool, &sleeper, measure_sleeps, took,
                             &(struct weft_fiber_opts){.bound = true, .worker = 0}),
             0);
    CHECK_EQ(weft_join(sleeper, NULL, WEFT_FOREVER), 0);
    atomic_store(&stop, true);
    pool_close(pool);
    printf("     median %.3f ms, worst %.3f ms\n", (double)took[ROUNDS / 2] / 1e6,
           (double)took[ROUNDS - 1] / 1e6);
    CHECK(took[ROUNDS / 2] <= 3 * MS * SLOW);
}

/* The best of several attempts: on a busy machine the kernel sometimes wakes a thread late. */
static void *sleep_until_in_time(void *arg)
{
    int64_t began = weft_now(), best = INT64_MAX;
    for (int i = 0; i < ROUNDS || best > *(int64_t *)arg; i++) {
        int64_t before = weft_now();
        CHECK(before - began < WAIT_LIMIT);
        CHECK_EQ(weft_sleep(weft_after(MS)), 0);
        int64_t took = weft_now() - before;
        CHECK(took >= MS);
        best = took < best ? took : best;
    }
    printf("     best %.3f ms\n", (double)best / 1e6);
    return NULL;
}

TEST(sleep_in_idle_pool_ends_within_one_tick)
{
    int64_t most = MS + 65536 + 200000 * SLOW; /* a tick, plus the kernel's wake-up latency */
    run_in_fiber(1, sleep_until_in_time, &most);
}
