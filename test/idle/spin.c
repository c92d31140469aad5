/* When a wait spins before it sleeps. */
#include <errno.h>
#include <pthread.h>

#include <weft/weft.h>

#include "base/assert.h"
#include "check.h"
#include "idle/spin.h"

#define SHORT WEFT__SPIN_SHORT_NS

static void sleep_short(struct weft__spin *spin, unsigned times)
{
    for (unsigned i = 0; i < times; i++) {
        weft__spin_slept(spin, SHORT);
    }
}

/* The number of short sleeps until it spins. */
static unsigned trial_of(struct weft__spin *spin)
{
    unsigned n = 0;
    for (; !weft__spin_is_worthwhile(spin); n++) {
        sleep_short(spin, 1);
    }
    return n;
}

static unsigned misses_of(struct weft__spin *spin)
{
    unsigned n = 0;
    for (; weft__spin_is_worthwhile(spin); n++) {
        weft__spin_missed(spin);
    }
    return n;
}

TEST(spin_does_not_start_before_waits_were_short)
{
    struct weft__spin spin = {0};
    CHECK(!weft__spin_is_worthwhile(&spin));
    for (int i = 0; i < 1000; i++) {
        weft__spin_slept(&spin, SHORT + 1);
        CHECK(!weft__spin_is_worthwhile(&spin));
    }
    CHECK_EQ(trial_of(&spin), WEFT__SPIN_TRIAL);
}

TEST(spin_trial_needs_consecutive_short_waits)
{
    struct weft__spin spin = {0};
    for (int i = 0; i < 1000; i++) {
        sleep_short(&spin, WEFT__SPIN_TRIAL - 1);
        weft__spin_slept(&spin, SHORT + 1);
        CHECK(!weft__spin_is_worthwhile(&spin));
    }
}

TEST(few_spins_are_lost_after_last_hit)
{
    struct weft__spin spin = {0};
    trial_of(&spin);
    for (int i = 0; i < 1000; i++) {
        weft__spin_hit(&spin);
    }
    CHECK_EQ(misses_of(&spin), WEFT__SPIN_MAX_SCORE / 2);
    CHECK(!weft__spin_is_worthwhile(&spin));
}

TEST(spin_ends_when_misses_equal_hits)
{
    struct weft__spin spin = {0};
    trial_of(&spin);
    int n = 0;
    for (; weft__spin_is_worthwhile(&spin); n++) {
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
        CHECK(weft__spin_is_worthwhile(&spin));
    }
}

TEST(failed_spin_trial_delays_next_trial_until_success)
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
    for (int i = 0; i <= WEFT__SPIN_MAX_SCORE; i++) {
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
    CHECK(!weft__spin_thread(&word, now, WEFT_FOREVER)); /* the thread has not seen a short wait */
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

TEST(thread_spins_only_when_profitable_and_for_bounded_time)
{
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, spins_or_not, NULL), 0); /* each learns on its own */
    CHECK_EQ(pthread_join(thread, NULL), 0);
}

TEST(spin_ends_at_deadline)
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
        for (unsigned n = 0; n < 1024; n++) { /* enough after any number of failed trials */
            weft__spin_thread_slept(SHORT);
        }
        CHECK_EQ(weft_event_wait(&event, long_past[i]), -ETIMEDOUT);
    }
    weft_event_set(&event);
    CHECK_EQ(weft_event_wait(&event, WEFT_FOREVER), 0);
    weft_event_deinit(&event);
}
