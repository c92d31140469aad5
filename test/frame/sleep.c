/* labels: valgrind */
/* Sleeping and yielding. Counterparts of the original's tests:
 *   YieldTest      yielding_frame_lets_others_run
 *   SleepTest      interrupt_ends_long_frame_sleep, group_stop_ends_wait_for_stop,
 *                  wait_for_stop_in_stopping_group_yields
 * Faults of the original: sleeps could end early, because of its cached clock
 * (frame_sleep_never_ends_early); equal deadlines had no order
 * (equal_deadlines_end_in_start_order); an interrupt could not be queried or cleared
 * (frame_can_clear_pending_interrupt).
 */
#include "dispatch/fixture.h"
#include "frame/script.h"

struct yields {
    weft_frame frame;
    const atomic_bool *until;
    long rounds;
};

static enum weft_step yields(weft_frame *f, struct weft_got got)
{
    SELF(yields);
    (void)got;
    self->rounds++;
    return atomic_load(self->until) ? weft_frame_return(f, NULL)
                                    : weft_frame_yield(f, WEFT_THEN(yields));
}

static const struct weft_frame_kind yielding = {.name = "yields", .start = yields};

static void *sets(void *arg)
{
    atomic_store((atomic_bool *)arg, true);
    return NULL;
}

EACH_HOME(yielding_frame_lets_others_run)
{
    atomic_bool flag = false;
    struct yields all[4];
    weft_fiber fibers[4];
    for (int i = 0; i < 4; i++) { /* more than there are workers */
        all[i] = (struct yields){.until = &flag};
        weft_frame_init(&all[i].frame, &yielding);
        fibers[i] = home_spawn(home, &all[i].frame);
    }
    CHECK_EQ(weft_join(home_spawn_fn(home, sets, &flag), NULL, WEFT_FOREVER), 0);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
        CHECK(all[i].rounds > 0);
    }
}

EACH_HOME(interrupt_ends_long_frame_sleep)
{
    struct script one = script("one", "st", "r", "d");
    one.until = weft_after(3600 * 1000 * MS);
    weft_fiber fiber = home_waiting(home, &one.frame);
    CHECK_EQ(weft_fiber_interrupt(fiber), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    notes_are("one!interrupt one."); /* and the next step did not run */
}

static atomic_bool was_interrupted;

static enum weft_step takes_it_back(weft_frame *f, struct weft_got got)
{
    (void)got;
    if (!weft_fiber_is_interrupted()) {
        return weft_frame_yield(
            f, WEFT_THEN(takes_it_back)); /* a yield is no wait: it delivers no interrupt */
    }
    CHECK(weft_fiber_clear_interrupt());
    CHECK(!weft_fiber_is_interrupted() && !weft_fiber_clear_interrupt());
    atomic_store(&was_interrupted, true);
    return weft_frame_sleep(f, weft_after(1000), WEFT_THEN(yields));
}

static const struct weft_frame_kind taking_back = {.name = "takes", .start = takes_it_back};

EACH_HOME(frame_can_clear_pending_interrupt)
{
    atomic_bool flag = true;
    struct yields one = {.until = &flag};
    atomic_store(&was_interrupted, false);
    weft_frame_init(&one.frame, &taking_back);
    weft_fiber fiber = home_spawn(home, &one.frame);
    CHECK_EQ(weft_fiber_interrupt(fiber), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK(atomic_load(&was_interrupted));
    CHECK_EQ(one.rounds, 1);
}

struct naps {
    weft_frame frame;
    int left;
    int64_t until;
};

static enum weft_step naps(weft_frame *f, struct weft_got got)
{
    SELF(naps);
    CHECK_EQ(got.status, 0);
    CHECK(weft_now() >= self->until);
    if (self->left-- == 0) {
        return weft_frame_return(f, NULL);
    }
    self->until = weft_after(100000);
    return weft_frame_sleep(f, self->until, WEFT_THEN(naps));
}

static const struct weft_frame_kind napping = {.name = "naps", .start = naps};

EACH_HOME(frame_sleep_never_ends_early)
{
    struct naps one = {.left = 200};
    weft_frame_init(&one.frame, &napping);
    CHECK_EQ(home_run(home, &one.frame, NULL), 0);
}

/* --- equal deadlines ----------------------------------------------------------------------- */

/* Repeats with more time, if the machine was too slow for all to begin in time. */
static void *sleeps_alike(void *arg)
{
    static struct script all[5];
    static const char *const names[] = {"a", "b", "c", "d", "e"};
    weft_fiber fibers[5];
    bool in_time = false;
    (void)arg;
    for (int64_t time = 2 * MS; !in_time; time *= 2) {
        int64_t until = weft_after(time);
        for (int i = 0; i < 5; i++) {
            all[i] = script(names[i], "sd", NULL, "d");
            all[i].until = until;
            CHECK_EQ(weft_spawn_frame(&fibers[i], &all[i].frame, NULL), 0);
        }
        weft_yield();
        in_time = weft_now() < until;
        for (int i = 0; i < 5; i++) {
            CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
        }
        notes_are(in_time ? "a. b. c. d. e." : NULL);
    }
    return NULL;
}

TEST(equal_deadlines_end_in_start_order)
{
    run_in_group(sleeps_alike, NULL);
}

/* --- a group's stop -------------------------------------------------------------------------- */

struct stops {
    weft_frame frame;
    struct weft_wait wait;
    int64_t deadline;
    int status, rounds;
};

static enum weft_step heard(weft_frame *f, struct weft_got got)
{
    SELF(stops);
    self->status = got.status;
    if (self->rounds-- > 0) {
        return weft_frame_await_stop(f, &self->wait, self->deadline, WEFT_THEN(heard));
    }
    return weft_frame_return(f, NULL);
}

static enum weft_step listens(weft_frame *f, struct weft_got got)
{
    SELF(stops);
    (void)got;
    return weft_frame_await_stop(f, &self->wait, self->deadline, WEFT_THEN(heard));
}

static const struct weft_frame_kind listening = {.name = "stops", .start = listens};

TEST(group_stop_ends_wait_for_stop)
{
    struct home home;
    struct stops all[2] = {{.deadline = WEFT_FOREVER, .status = 77},
                           {.deadline = weft_after(3600 * 1000 * MS), .status = 77}};
    weft_fiber fibers[2];
    home_open(&home, true);
    for (int i = 0; i < 2; i++) {
        weft_frame_init(&all[i].frame, &listening);
        fibers[i] = home_waiting(&home, &all[i].frame);
    }
    weft_group_stop(home.group);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
        CHECK_EQ(all[i].status, 0);
    }
    home_close(&home);
}

TEST(wait_for_group_stop_times_out)
{
    struct home home;
    struct stops one = {.deadline = weft_after(MS)};
    home_open(&home, true);
    weft_frame_init(&one.frame, &listening);
    CHECK_EQ(home_run(&home, &one.frame, NULL), 0);
    CHECK_EQ(one.status, -ETIMEDOUT);
    home_close(&home);
}

static void *notes(void *arg)
{
    notes_add(arg);
    return NULL;
}

static void *stops_then_waits(void *arg)
{
    static struct stops one;
    weft_fiber fiber;
    (void)arg;
    weft_group_stop(weft_group_self());
    weft_yield();
    CHECK(weft_group_is_stopping(weft_group_self()));
    one = (struct stops){.deadline = WEFT_FOREVER, .rounds = 1000};
    weft_frame_init(&one.frame, &listening);
    CHECK_EQ(weft_spawn_frame(&fiber, &one.frame, NULL), 0);
    weft_yield();
    CHECK_EQ(weft_spawn(NULL, notes, (void *)(uintptr_t) "other", NULL), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    notes_are("other"); /* a loop of these waits let the other run */
    return NULL;
}

TEST(wait_for_stop_in_stopping_group_yields)
{
    run_in_group(stops_then_waits, NULL);
}
