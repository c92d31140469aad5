/* labels: valgrind */
/* Joining from a frame, and joining frame fibers. Counterparts of the original's tests:
 *   JoinTest       frame_join_ends_when_sleeping_target_is_interrupted
 * Error codes are in test/frame/error.c. Faults of the original: a join did not return the fiber's
 * exit status.
 */
#include "dispatch/fixture.h"
#include "frame/script.h"

struct joiner {
    weft_frame frame;
    struct weft_wait wait;
    weft_fiber fiber; /* 0: itself */
    int64_t deadline;
    const char *name;
    struct weft_got got;
};

static enum weft_step joined(weft_frame *f, struct weft_got got)
{
    SELF(joiner);
    self->got = got;
    if (self->name) {
        notes_add(self->name);
    }
    return weft_frame_return(f, NULL);
}

static enum weft_step joins(weft_frame *f, struct weft_got got)
{
    SELF(joiner);
    (void)got;
    return weft_frame_await_join(f, &self->wait, self->fiber ? self->fiber : weft_self(),
                                 self->deadline, WEFT_THEN(joined));
}

static const struct weft_frame_kind joining = {.name = "joiner", .start = joins};

static struct joiner joiner_of(weft_fiber fiber, int64_t deadline)
{
    struct joiner j = {.fiber = fiber, .deadline = deadline};
    weft_frame_init(&j.frame, &joining);
    return j;
}

EACH_HOME(frame_join_ends_when_sleeping_target_is_interrupted)
{
    const int64_t deadlines[] = {WEFT_FOREVER, weft_after(3600 * 1000 * MS)};
    for (int i = 0; i < 2; i++) {
        struct script target = script("target", "s", "r", "d");
        target.until = weft_after(3600 * 1000 * MS);
        weft_fiber fiber = home_waiting(home, &target.frame);
        struct joiner j = joiner_of(fiber, deadlines[i]);
        weft_fiber waits = home_waiting(home, &j.frame);
        CHECK_EQ(weft_fiber_interrupt(fiber), 0);
        CHECK_EQ(weft_join(waits, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(j.got.status, 0);
        CHECK(j.got.value == script_value('H'));
        notes_are("target!interrupt target.");
    }
}

EACH_HOME(frame_join_timeout_leaves_fiber_joinable)
{
    struct script target = script("target", "s", "r", "d");
    target.until = WEFT_FOREVER;
    weft_fiber fiber = home_waiting(home, &target.frame);
    struct joiner j = joiner_of(fiber, weft_after(MS));
    CHECK_EQ(home_run(home, &j.frame, NULL), 0);
    CHECK_EQ(j.got.status, -ETIMEDOUT);
    CHECK_EQ(weft_fiber_interrupt(fiber), 0);
    void *result;
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK(result == script_value('H'));
    notes_are(NULL);
}

static void *waits_for(void *arg)
{
    CHECK_EQ(weft_event_wait(arg, WEFT_FOREVER), 0);
    return NULL;
}

EACH_HOME(invalid_frame_join_is_returned_as_status)
{
    struct joiner self = joiner_of(WEFT_NO_FIBER, WEFT_FOREVER);
    CHECK_EQ(home_run(home, &self.frame, NULL), 0);
    CHECK_EQ(self.got.status, -EDEADLK);
    struct joiner gone = joiner_of(weft_self() + 0x7fffffff, WEFT_FOREVER);
    CHECK_EQ(home_run(home, &gone.frame, NULL), 0);
    CHECK_EQ(gone.got.status, -ESRCH);
    weft_event may_end;
    weft_event_init(&may_end, NULL);
    weft_fiber fiber = home_spawn_fn(home, waits_for, &may_end);
    CHECK_EQ(weft_fiber_detach(fiber), 0);
    struct joiner detached = joiner_of(fiber, WEFT_FOREVER);
    CHECK_EQ(home_run(home, &detached.frame, NULL), 0);
    CHECK_EQ(detached.got.status, -EINVAL);
    weft_event_set(&may_end);
    while (weft_fiber_state(fiber, &(enum weft_fiber_state){0}) == 0) {
        weft_yield();
    }
    weft_event_deinit(&may_end);
}

/* A fiber with a stack joins a frame, and a frame of one group joins a fiber of another. */
EACH_HOME(frame_joins_fiber_of_other_group_and_kind)
{
    if (!home->other) {
        return;
    }
    struct script target = script("target", "ssr", "x", "sd");
    weft_fiber fiber, waits;
    CHECK_EQ(weft_group_spawn_frame(home->other, &fiber, &target.frame, NULL), 0);
    struct joiner j = joiner_of(fiber, WEFT_FOREVER);
    waits = home_spawn(home, &j.frame);
    CHECK_EQ(weft_join(waits, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(j.got.status, 0);
    CHECK(j.got.value == script_value('B'));
    notes_are(NULL);
}

static void *orders(void *arg)
{
    static struct joiner all[3];
    static const char *const names[] = {"first", "second", "third"};
    struct script target = script("target", "yyyd", NULL, "d");
    weft_fiber fiber;
    (void)arg;
    CHECK_EQ(weft_spawn_frame(&fiber, &target.frame, NULL), 0);
    for (int i = 0; i < 3; i++) {
        all[i] = joiner_of(fiber, WEFT_FOREVER);
        all[i].name = names[i];
        CHECK_EQ(weft_fiber_share(fiber), 0);
        CHECK_EQ(weft_spawn_frame(NULL, &all[i].frame, NULL), 0);
    }
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    return NULL;
}

TEST(frame_joiners_resume_in_arrival_order)
{
    run_in_group(orders, NULL);
    notes_are("target. first second third");
}
