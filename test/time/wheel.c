/* Edge cases of the timer wheel: level boundaries, stalls, mass expiry, several threads at once. */
#include "time/wheel.h"

#include <pthread.h>

#include "base/rand.h"
#include "check.h"

#define TICK 16

static struct weft__wheel wheel;

/* The time at which a timer with this deadline is due: the beginning of its tick. */
static int64_t due_at(int64_t deadline, unsigned shift)
{
    int64_t last = ((int64_t)1 << shift) - 1;
    return deadline > INT64_MAX - last ? INT64_MAX : (deadline + last) & ~last;
}

static void not_early(struct weft__timer *timer, void *now)
{
    CHECK(!weft__timer_is_pending(timer));
    CHECK(timer->deadline <= *(int64_t *)now);
}

/* Approaches one timer in steps that halve, each stop made by a separate timer, so that current
 * crosses every digit in between and the timer comes down through all its levels. */
static void check_boundary(int64_t start, int64_t deadline, unsigned shift)
{
    struct weft__timer timer, stops[64];
    int64_t due = due_at(deadline > start ? deadline : start, shift);
    int count = 0;
    weft__wheel_init(&wheel, start, shift);
    weft__timer_init(&timer, not_early);
    weft__wheel_add(&wheel, &timer, deadline);
    for (int64_t step = due - start; step > 0; step /= 2) {
        weft__timer_init(&stops[count], not_early);
        weft__wheel_add(&wheel, &stops[count++], due - step);
    }
    for (int64_t step = due - start; step > 0; step /= 2) {
        int64_t now = due - step;
        weft__wheel_advance(&wheel, now, SIZE_MAX, &now);
        CHECK(weft__timer_is_pending(&timer) || (deadline <= start && now >= deadline));
        CHECK(weft__wheel_next(&wheel) <= due);
    }
    weft__wheel_advance(&wheel, due, SIZE_MAX, &due);
    CHECK(!weft__timer_is_pending(&timer));
    CHECK_EQ(weft__wheel_next(&wheel), INT64_MAX);
}

TEST(wheel_level_boundaries_are_exact)
{
    for (unsigned k = 0; k < 63; k++) {
        for (int64_t off = -1; off <= 1; off++) {
            int64_t delay = ((int64_t)1 << k) + off;
            check_boundary(0, delay, 0);
            check_boundary(0, delay, TICK);
            for (unsigned j = 0; j < 63; j++) {
                int64_t start = ((int64_t)1 << j) + (int64_t)(k + j) % 3 - 1;
                int64_t deadline = start > INT64_MAX - delay ? INT64_MAX : start + delay;
                check_boundary(start, deadline, 0);
                check_boundary(start, deadline, TICK);
            }
        }
    }
    check_boundary(0, INT64_MAX, 62);
    check_boundary(INT64_MAX - 1, INT64_MAX, TICK);
    check_boundary(INT64_MAX, INT64_MAX, TICK);
    check_boundary(INT64_MAX, INT64_MIN, TICK);
    check_boundary(5, -5, TICK);
}

TEST(single_sleeper_is_woken_once)
{
    struct weft__timer timer, other;
    int64_t start = 1000000000000, deadline = start + 3600000000000;
    weft__wheel_init(&wheel, start, TICK);
    weft__timer_init(&timer, not_early);
    weft__timer_init(&other, not_early);
    CHECK(weft__wheel_add(&wheel, &timer, deadline));
    CHECK(weft__wheel_add(&wheel, &other, start + 1));
    CHECK(weft__wheel_cancel(&wheel, &other));
    CHECK_EQ(weft__wheel_next(&wheel), due_at(deadline, TICK));
    CHECK(!weft__wheel_rearm(&wheel, &timer, deadline + 1000000)); /* later: no thread to wake */
    CHECK_EQ(weft__wheel_next(&wheel), due_at(deadline + 1000000, TICK));
    CHECK(weft__wheel_rearm(&wheel, &timer, deadline));
    CHECK(!weft__wheel_add(&wheel, &other, INT64_MAX));
    CHECK_EQ(weft__wheel_advance(&wheel, weft__wheel_next(&wheel), 2, &(int64_t){deadline}), 1);
    CHECK_EQ(weft__wheel_next(&wheel), INT64_MAX);
    CHECK(weft__wheel_cancel(&wheel, &other));
}

static int64_t last_deadline;

static void in_order(struct weft__timer *timer, void *now)
{
    not_early(timer, now);
    CHECK(due_at(timer->deadline, TICK) >= due_at(last_deadline, TICK));
    last_deadline = timer->deadline;
}

TEST(stalled_clock_catches_up_in_one_advance)
{
    enum { COUNT = 10000 };
    static struct weft__timer timers[COUNT];
    const int64_t hour = 3600000000000, start = 1234567890123;
    struct weft__rand rng;
    weft__rand_seed(&rng, check_seed());
    weft__wheel_init(&wheel, start, TICK);
    for (size_t i = 0; i < COUNT; i++) {
        weft__timer_init(&timers[i], in_order);
        weft__wheel_add(&wheel, &timers[i], start + weft__rand_next(&rng) * (int64_t)800);
    }
    last_deadline = 0;
    int64_t ten_years_on = start + 87600 * hour;
    CHECK_EQ(weft__wheel_advance(&wheel, ten_years_on, SIZE_MAX, &ten_years_on), COUNT);
    CHECK_EQ(wheel.current, ten_years_on >> TICK);
    CHECK_EQ(weft__wheel_next(&wheel), INT64_MAX);
}

static struct weft__timer *expected;

static void next_in_row(struct weft__timer *timer, void *now)
{
    not_early(timer, now);
    CHECK(timer == expected);
    expected++;
}

TEST(mass_expiry_is_sliced)
{
    enum { COUNT = 100000, MAX = 64 };
    struct weft__timer *timers = calloc(COUNT, sizeof *timers);
    int64_t start = 987654321, minute = start + 60000000000;
    CHECK(timers != NULL);
    weft__wheel_init(&wheel, start, TICK);
    for (size_t i = 0; i < COUNT; i++) {
        weft__timer_init(&timers[i], next_in_row);
        CHECK_EQ(weft__wheel_add(&wheel, &timers[i], minute), i == 0);
    }
    size_t fired = 0, calls = 0, empty_calls = 0;
    expected = timers;
    for (int64_t now = due_at(minute, TICK); weft__wheel_next(&wheel) <= now; calls++) {
        size_t n = weft__wheel_advance(&wheel, now, MAX, &now);
        CHECK(n <= MAX);
        fired += n;
        empty_calls += n == 0;
    }
    CHECK_EQ(fired, COUNT);
    CHECK(expected == timers + COUNT);
    CHECK(calls >= COUNT / MAX);
    CHECK(empty_calls >= COUNT / WEFT__WHEEL_MOVES); /* the cascade was sliced too */
    free(timers);
}

TEST(slot_can_be_emptied_in_middle_of_cascade)
{
    enum { COUNT = 3 * WEFT__WHEEL_MOVES };
    static struct weft__timer timers[COUNT];
    int64_t deadline = (int64_t)(64 * WEFT__WHEEL_LOW + 1) << TICK, end = 10 * deadline;
    weft__wheel_init(&wheel, 0, TICK);
    for (size_t i = 0; i < COUNT; i++) {
        weft__timer_init(&timers[i], not_early);
        weft__wheel_add(&wheel, &timers[i], deadline);
    }
    CHECK_EQ(weft__wheel_advance(&wheel, deadline, 1, &deadline), 0);
    CHECK(wheel.cascade != WEFT__TIMER_IDLE);
    CHECK(weft__wheel_next(&wheel) <= deadline);
    for (size_t i = 1; i < COUNT; i++) {
        CHECK(weft__wheel_cancel(&wheel, &timers[i]));
    }
    CHECK_EQ(wheel.cascade, WEFT__TIMER_IDLE);
    CHECK_EQ(weft__wheel_advance(&wheel, end, 1, &end), 1);
    CHECK_EQ(weft__wheel_next(&wheel), INT64_MAX);
}

TEST(last_timer_of_cascade_does_not_hide_earlier_moved_timers)
{
    struct weft__timer timers[3];
    int64_t first = (int64_t)(WEFT__WHEEL_LOW + 10) << TICK, last = (int64_t)(WEFT__WHEEL_LOW + 60)
                                                                    << TICK;
    weft__wheel_init(&wheel, 0, TICK);
    wheel.moves = 2;
    for (size_t i = 0; i < 3; i++) {
        weft__timer_init(&timers[i], not_early);
        weft__wheel_add(&wheel, &timers[i], i == 2 ? last : first);
    }
    CHECK_EQ(weft__wheel_advance(&wheel, first, 2, &first), 0);
    CHECK(wheel.cascade != WEFT__TIMER_IDLE);
    CHECK(weft__wheel_next(&wheel) <= first);
    CHECK_EQ(weft__wheel_advance(&wheel, first, 3, &first), 2);
    CHECK_EQ(weft__wheel_next(&wheel), last);
}

/* Threads: four users with their own timers, and two that advance one virtual clock. */

enum { USERS = 4, OWN = 64, ADVANCERS = 2 };

struct mine {
    struct weft__timer timer;
    int armed, fired; /* plain: cancel's exclusion of the callback orders the accesses */
};

static _Atomic(int64_t) clock_ns;
static _Atomic(bool) done;

static int64_t random_span(struct weft__rand *rng)
{
    unsigned shift = weft__rand_next(rng) % 24;
    return weft__rand_next(rng) >> shift;
}

static void count_firing(struct weft__timer *timer, void *now)
{
    not_early(timer, now);
    ((struct mine *)timer)->fired++;
}

static void settle(struct mine *mine)
{
    bool pending = weft__wheel_cancel(&wheel, &mine->timer);
    CHECK(mine->fired + pending <= mine->armed);
    CHECK(mine->armed == 0 || mine->fired + pending >= 1);
    CHECK(mine->armed != 1 || mine->fired + pending == 1);
    memset(mine, 0xa5, sizeof *mine); /* nothing may access it any more */
    mine->armed = mine->fired = 0;
    weft__timer_init(&mine->timer, count_firing);
}

static void *use(void *arg)
{
    struct mine mine[OWN];
    struct weft__rand rng;
    weft__rand_seed(&rng, check_seed() + (uintptr_t)arg);
    for (size_t i = 0; i < OWN; i++) {
        mine[i].armed = mine[i].fired = 0;
        weft__timer_init(&mine[i].timer, count_firing);
    }
    for (long left = check_scale(200000); left > 0; left--) {
        struct mine *one = &mine[weft__rand_next(&rng) % OWN];
        int64_t now = atomic_load_explicit(&clock_ns, memory_order_relaxed);
        int64_t deadline = now + random_span(&rng);
        if (weft__rand_next(&rng) % 4 == 0) {
            weft__wheel_rearm(&wheel, &one->timer, deadline);
        } else {
            settle(one);
            weft__wheel_add(&wheel, &one->timer, deadline);
        }
        one->armed++;
    }
    for (size_t i = 0; i < OWN; i++) {
        settle(&mine[i]);
    }
    return NULL;
}

static void *advance(void *arg)
{
    struct weft__rand rng;
    weft__rand_seed(&rng, check_seed() + (uintptr_t)arg);
    while (!atomic_load_explicit(&done, memory_order_relaxed)) {
        int64_t step = random_span(&rng);
        int64_t now = step + atomic_fetch_add_explicit(&clock_ns, step, memory_order_relaxed);
        weft__wheel_advance(&wheel, now, 1 + weft__rand_next(&rng) % 100, &now);
    }
    return NULL;
}

TEST(threads_can_add_cancel_and_advance_concurrently)
{
    pthread_t users[USERS], advancers[ADVANCERS];
    check_seed();
    weft__wheel_init(&wheel, 0, TICK);
    wheel.moves = 8;
    for (uintptr_t i = 0; i < ADVANCERS; i++) {
        CHECK_EQ(pthread_create(&advancers[i], NULL, advance, (void *)(100 + i)), 0);
    }
    for (uintptr_t i = 0; i < USERS; i++) {
        CHECK_EQ(pthread_create(&users[i], NULL, use, (void *)i), 0);
    }
    for (int i = 0; i < USERS; i++) {
        CHECK_EQ(pthread_join(users[i], NULL), 0);
    }
    atomic_store_explicit(&done, true, memory_order_relaxed);
    for (int i = 0; i < ADVANCERS; i++) {
        CHECK_EQ(pthread_join(advancers[i], NULL), 0);
    }
    CHECK_EQ(weft__wheel_next(&wheel), INT64_MAX);
    CHECK_EQ(wheel.levels, 0);
}
