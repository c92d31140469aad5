/* When a wait spins before it sleeps. */
#include <errno.h>
#include <pthread.h>

#include <weft/weft.h>

#include "base/assert.h"
#include "check.h"
#include "sched/spin.h"

#define SHORT WEFT__SPIN_SHORT_NS

static void sleep_short(struct weft__spin *spin, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        weft__spin_slept(spin, SHORT);
    }
}

/* Short sleeps that it takes until it spins. */
static unsigned trial_of(struct weft__spin *spin)
{
    unsigned n = 0;
    for (; !weft__spin_pays(spin); n++) {
        sleep_short(spin, 1);
    }
    return n;
}

static unsigned misses_of(struct weft__spin *spin)
{
    unsigned n = 0;
    for (; weft__spin_pays(spin); n++) {
        weft__spin_missed(spin);
    }
    return n;
}

TEST(nobody_spins_before_waits_were_short)
{
    struct weft__spin spin = {0};
    CHECK(!weft__spin_pays(&spin));
    for (int i = 0; i < 1000; i++) {
        weft__spin_slept(&spin, SHORT + 1);
        CHECK(!weft__spin_pays(&spin));
    }
    CHECK_EQ(trial_of(&spin), WEFT__SPIN_TRIAL);
}

TEST(short_waits_count_only_in_a_row)
{
    struct weft__spin spin = {0};
    for (int i = 0; i < 1000; i++) {
        sleep_short(&spin, WEFT__SPIN_TRIAL - 1);
        weft__spin_slept(&spin, SHORT + 1);
        CHECK(!weft__spin_pays(&spin));
    }
}

TEST(after_the_last_hit_few_spins_are_lost)
{
    struct weft__spin spin = {0};
    trial_of(&spin);
    for (int i = 0; i < 1000; i++) {
        weft__spin_hit(&spin);
    }
    CHECK_EQ(misses_of(&spin), WEFT__SPIN_MOST / 2);
    CHECK(!weft__spin_pays(&spin));
}

TEST(as_many_misses_as_hits_end_it)
{
    struct weft__spin spin = {0};
    trial_of(&spin);
    int n = 0;
    for (; weft__spin_pays(&spin); n++) {
        weft__spin_hit(&spin);
        weft__spin_missed(&spin);
    }
    CHECK(n < 10);
    trial_of(&spin);
    for (int i = 0; i < 1000; i++) {
        weft__spin_hit(&spin);
        weft__spin_hit(&spin);
        weft__spin_hit(&spin);
        weft__spin_missed(&spin);
        CHECK(weft__spin_pays(&spin));
    }
}

TEST(a_trial_that_fails_makes_the_next_one_rarer_and_success_makes_that_good)
{
    struct weft__spin spin = {0};
    unsigned last = 0, now = 0;
    for (int i = 0; i < 20; i++) {
        last = now;
        now = trial_of(&spin);
        CHECK(now == last * 2 || now == last || last == 0);
        CHECK(misses_of(&spin) <= 2);
    }
    CHECK_EQ(now, WEFT__SPIN_TRIAL << WEFT__SPIN_DOUBLINGS);
    trial_of(&spin);
    for (int i = 0; i <= WEFT__SPIN_MOST; i++) {
        weft__spin_hit(&spin);
    }
    misses_of(&spin);
    CHECK_EQ(trial_of(&spin), WEFT__SPIN_TRIAL * 2);
}

/* --- a plain thread ------------------------------------------------------------------------ */

static void *spins_or_not(void *arg)
{
    _Atomic(uint32_t) word = 1;
    bool cpus = weft__cpu_usable() > 1;
    int64_t now = weft__clock_ns();
    (void)arg;
    CHECK(!weft__spin_thread(&word, now, WEFT_FOREVER)); /* it has not seen a short wait */
    for (unsigned i = 0; i < WEFT__SPIN_TRIAL; i++) {
        weft__spin_thread_slept(SHORT);
    }
    CHECK_EQ(weft__spin_thread(&word, now, WEFT_FOREVER), cpus);
    atomic_store(&word, 0);
    for (int i = 0; i < 3; i++) { /* 5, 3, 1, 0 */
        CHECK(!weft__spin_thread(&word, weft__clock_ns(), WEFT_FOREVER));
    }
    atomic_store(&word, 1);
    CHECK_EQ(weft__spin_thread(&word, now, WEFT_FOREVER), false);
    return NULL;
}

TEST(a_thread_spins_where_that_pays_and_for_a_limited_time)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, spins_or_not, NULL), 0); /* what it learns is its own */
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

TEST(a_spin_does_not_outlast_the_deadline)
{
    weft_event event;
    weft_event_init(&event, NULL);
    for (unsigned i = 0; i < WEFT__SPIN_TRIAL; i++) {
        weft__spin_thread_slept(SHORT);
    }
    for (int i = 0; i < 10; i++) {
        int64_t deadline = weft_after(5000);
        CHECK_EQ(weft_event_wait(&event, deadline), -ETIMEDOUT);
        CHECK(weft__clock_ns() >= deadline);
    }
    const int64_t long_past[] = {0, weft__clock_ns() - 1, WEFT_DEBUG ? 0 : -1,
                                 WEFT_DEBUG ? 0 : INT64_MIN};
    for (size_t i = 0; i < sizeof long_past / sizeof *long_past; i++) {
        for (unsigned n = 0; n < 1024; n++) { /* enough after any number of trials in vain */
            weft__spin_thread_slept(SHORT);
        }
        CHECK_EQ(weft_event_wait(&event, long_past[i]), -ETIMEDOUT);
    }
    weft_event_set(&event);
    CHECK_EQ(weft_event_wait(&event, WEFT_FOREVER), 0);
    weft_event_deinit(&event);
}
