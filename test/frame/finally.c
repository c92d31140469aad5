/* labels: valgrind */
/* finally runs on every way out, exactly once. Counterparts of the original's tests:
 *   FinallyTest    waiting_finally_keeps_result, waiting_finally_keeps_error,
 *                  finally_can_replace_result, error_in_finally_suppresses_earlier_error,
 *                  error_in_waiting_finally_suppresses_earlier_error
 * Faults of the original: the callers' handle and finally did not run after a fatal error
 * (test/frame/misuse.c); fibers that did not hold their group open were dropped, together with
 * their finallys and their joiners (cancelled_daemon_runs_its_finally).
 */
#include "frame/script.h"

EACH_HOME(waiting_finally_keeps_result)
{
    struct script outer = script("outer", "cv", "x", "d"),
                  inner = script("inner", "r", "x", "sgyd");
    void *result;
    CHECK_EQ(script_run(home, &outer, &inner, &result), 0);
    CHECK(result == script_value('B'));
    notes_are("inner. outer.");
}

EACH_HOME(waiting_finally_keeps_error)
{
    struct script outer = script("outer", "cv", "r", "d"),
                  inner = script("inner", "t", NULL, "sgyd");
    CHECK_EQ(script_run(home, &outer, &inner, NULL), 0);
    CHECK(outer.value == NULL);
    notes_are("inner. outer!B outer.");
}

EACH_HOME(finally_can_replace_result)
{
    struct script outer = script("outer", "cv", "x", "d"), inner = script("inner", "r", "x", "sr");
    void *result;
    CHECK_EQ(script_run(home, &outer, &inner, &result), 0);
    CHECK(result == script_value('F'));
    outer = script("outer", "cv", "x", "d"), inner = script("inner", "t", NULL, "r");
    CHECK_EQ(script_run(home, &outer, &inner, &result), 0); /* also instead of an error */
    CHECK(result == script_value('F'));
    notes_are("inner. outer. inner. outer.");
    CHECK_EQ(take_reports(), 0);
}

struct looks {
    weft_frame frame;
    struct script *sub;
    int suppressed; /* how many */
};

static enum weft_step looked(weft_frame *f, struct weft_got got)
{
    return weft_frame_return(f, got.value);
}

static enum weft_step calls(weft_frame *f, struct weft_got got)
{
    SELF(looks);
    (void)got;
    return weft_frame_call(f, &self->sub->frame, WEFT_THEN(looked));
}

static enum weft_step looks_at(weft_frame *f, const weft_error *error)
{
    SELF(looks);
    const weft_error *earlier = weft_error_suppressed(error);
    CHECK_EQ(weft_error_code(error), F_CODE);
    CHECK_EQ(weft_error_frames(error), 2);
    CHECK_STR(weft_error_frame(error, 0).step,
              self->sub->finally[0] == 't' ? "finally" : "script_step");
    for (; earlier; earlier = weft_error_suppressed(earlier)) {
        CHECK_EQ(weft_error_code(earlier), self->sub->handle ? H_CODE : B_CODE);
        CHECK_EQ(weft_error_frames(earlier), 2);
        CHECK_STR(weft_error_frame(earlier, 1).frame, "looks");
        self->suppressed++;
    }
    return weft_frame_return(f, NULL);
}

static const struct weft_frame_kind looking = {.name = "looks", .start = calls, .handle = looks_at};

static int suppressed_by(const struct home *home, const char *body, const char *handle,
                         const char *finally)
{
    struct script sub = script("sub", body, handle, finally);
    struct looks looks = {.sub = &sub};
    weft_frame_init(&looks.frame, &looking);
    CHECK_EQ(home_run(home, &looks.frame, NULL), 0);
    return looks.suppressed;
}

EACH_HOME(error_in_finally_suppresses_earlier_error)
{
    CHECK_EQ(suppressed_by(home, "r", NULL, "t"), 0);
    CHECK_EQ(suppressed_by(home, "t", NULL, "t"), 1);
    CHECK_EQ(suppressed_by(home, "t", "t", "t"), 1); /* an error that handle replaced is gone */
    notes_are("sub. sub. sub!B sub.");
}

EACH_HOME(error_in_waiting_finally_suppresses_earlier_error)
{
    CHECK_EQ(suppressed_by(home, "sr", NULL, "st"), 0);
    CHECK_EQ(suppressed_by(home, "st", NULL, "sgyt"), 1);
    CHECK_EQ(suppressed_by(home, "st", "st", "st"), 1);
    notes_are("sub. sub. sub!B sub.");
}

EACH_HOME(finally_does_not_run_own_handle)
{
    struct script one = script("one", "r", "r", "t");
    CHECK_EQ(home_run(home, &one.frame, NULL), F_CODE);
    notes_are("one.");
    CHECK_EQ(take_reports(), 1);
}

EACH_HOME(error_of_frame_called_by_finally_belongs_to_finally)
{
    struct script outer = script("outer", "t", NULL, "cd"),
                  inner = script("inner", "st", NULL, "d");
    outer.sub = &inner.frame;
    CHECK_EQ(home_run(home, &outer.frame, NULL), B_CODE);
    notes_are("outer. inner.");
    CHECK_EQ(take_reports(), 1);
}

/* --- cancel ----------------------------------------------------------------------------------- */

EACH_HOME(finally_of_cancelled_fiber_can_wait)
{
    struct script outer = script("outer", "c", "x", "ssd"),
                  inner = script("inner", "s", "x", "sysd");
    outer.sub = &inner.frame;
    inner.until = WEFT_FOREVER;
    weft_fiber fiber = home_waiting(home, &outer.frame);
    inner.until = 0;
    CHECK_EQ(weft_cancel(fiber), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), -ECANCELED);
    notes_are("inner!cancel inner. outer!cancel outer.");
    CHECK_EQ(take_reports(), 0); /* a cancel is not reported as an error */
}

/* Whether it has started or not: its frames are entered, and left by their finally. */
EACH_HOME(cancel_before_start_runs_finally_once)
{
    for (int i = 0; i < 50; i++) {
        struct script one = script("one", "s", "x", "gyd");
        one.until = WEFT_FOREVER;
        weft_fiber fiber = home_spawn(home, &one.frame);
        weft_cancel(fiber);
        int err = weft_join(fiber, NULL, WEFT_FOREVER);
        CHECK_EQ(err, -ECANCELED);
        notes_are("one!cancel one.");
    }
    CHECK_EQ(take_reports(), 0);
}

EACH_HOME(waiting_handle_in_cancelled_fiber_is_cancelled_again)
{
    struct script one = script("one", "s", "s", "sd");
    one.until = WEFT_FOREVER;
    weft_fiber fiber = home_waiting(home, &one.frame);
    one.until = 0;
    CHECK_EQ(weft_cancel(fiber), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), -ECANCELED);
    notes_are("one!cancel one.");
}

TEST(cancelled_daemon_runs_its_finally)
{
    struct home home;
    struct script one = script("one", "s", "x", "sysd");
    weft_fiber fiber;
    home_open(&home, true);
    one.until = WEFT_FOREVER;
    CHECK_EQ(weft_group_spawn_frame(home.group, &fiber, &one.frame,
                                    &(struct weft_member_opts){.daemon = true}),
             0);
    await_state(fiber, WEFT_FIBER_WAITING);
    one.until = 0;
    home_close(&home);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), -ECANCELED);
    notes_are("one!cancel one.");
}
