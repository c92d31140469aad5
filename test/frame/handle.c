/* labels: valgrind */
/* Catching errors. Counterparts of the original's tests:
 *   CatchTest      own_handle_provides_result, handle_of_caller_sees_error,
 *                  unhandled_error_runs_every_finally, error_in_handle_goes_to_caller,
 *                  error_in_waiting_handle_goes_to_caller, handle_can_wait_and_then_return
 *   CallTest       called_frame_can_wait_and_returns_result
 * Faults of the original: already_failed_future_is_handled_like_other_errors (its pending error
 * stayed set: the continuation of a waiting handle was lost, and a waiting finally ended the
 * dispatcher).
 */
#include "frame/script.h"

EACH_HOME(called_frame_can_wait_and_returns_result)
{
    struct script outer = script("outer", "cv", "x", "d"), inner = script("inner", "sr", "x", "d");
    void *result;
    CHECK_EQ(script_run(home, &outer, &inner, &result), 0);
    CHECK(result == script_value('B'));
    notes_are("inner. outer.");
    CHECK_EQ(take_reports(), 0);
}

EACH_HOME(own_handle_provides_result)
{
    struct script outer = script("outer", "cv", "x", "d"), inner = script("inner", "t", "r", "d");
    void *result;
    CHECK_EQ(script_run(home, &outer, &inner, &result), 0);
    CHECK(result == script_value('H'));
    notes_are("inner!B inner. outer.");
}

EACH_HOME(handle_of_caller_sees_error)
{
    struct script outer = script("outer", "c", "r", "d"), inner = script("inner", "st", NULL, "d");
    void *result;
    CHECK_EQ(script_run(home, &outer, &inner, &result), 0);
    CHECK(result == script_value('H'));
    notes_are("inner. outer!B outer.");
}

EACH_HOME(rethrown_error_reaches_handle_of_caller)
{
    struct script outer = script("outer", "c", "r", "d"), inner = script("inner", "t", "x", "d");
    CHECK_EQ(script_run(home, &outer, &inner, NULL), 0);
    notes_are("inner!B inner. outer!B outer.");
    outer = script("outer", "c", "r", "d"), inner = script("inner", "t", "syx", "sd");
    CHECK_EQ(script_run(home, &outer, &inner, NULL), 0);
    notes_are("inner!B inner. outer!B outer.");
}

EACH_HOME(unhandled_error_runs_every_finally)
{
    struct script outer = script("outer", "c", NULL, "d"), inner = script("inner", "t", NULL, "d");
    CHECK_EQ(script_run(home, &outer, &inner, NULL), B_CODE);
    notes_are("inner. outer.");
    CHECK_EQ(take_reports(), 1);
}

EACH_HOME(error_in_handle_goes_to_caller)
{
    struct script outer = script("outer", "c", "r", "d"), inner = script("inner", "t", "t", "d");
    CHECK_EQ(script_run(home, &outer, &inner, NULL), 0);
    notes_are("inner!B inner. outer!H outer.");
}

EACH_HOME(error_in_waiting_handle_goes_to_caller)
{
    struct script outer = script("outer", "c", "r", "d"), inner = script("inner", "t", "sgyt", "d");
    CHECK_EQ(script_run(home, &outer, &inner, NULL), 0);
    notes_are("inner!B inner. outer!H outer.");
}

EACH_HOME(handle_can_wait_and_then_return)
{
    struct script outer = script("outer", "cv", "x", "d"), inner = script("inner", "t", "sr", "d");
    void *result;
    CHECK_EQ(script_run(home, &outer, &inner, &result), 0);
    CHECK(result == script_value('H'));
    notes_are("inner!B inner. outer.");
}

EACH_HOME(handle_can_call_frame)
{
    struct script outer = script("outer", "t", "cv", "d"), inner = script("inner", "sr", "x", "d");
    void *result;
    CHECK_EQ(script_run(home, &outer, &inner, &result), 0);
    CHECK(result == script_value('B'));
    notes_are("outer!B inner. outer.");
    outer = script("outer", "t", "cv", "d"), inner = script("inner", "st", "x", "d");
    CHECK_EQ(script_run(home, &outer, &inner, NULL), B_CODE);
    notes_are("outer!B inner!B inner. outer."); /* the outer frame's handle has ended */
    CHECK_EQ(take_reports(), 1);
}

EACH_HOME(handle_that_is_done_returns_null)
{
    struct script outer = script("outer", "cv", "x", "d"), inner = script("inner", "t", "d", "d");
    void *result = home;
    CHECK_EQ(script_run(home, &outer, &inner, &result), 0);
    CHECK(result == NULL);
    notes_are("inner!B inner. outer.");
}

/* --- try ---------------------------------------------------------------------------------- */

EACH_HOME(try_returns_value_or_code_and_never_throws)
{
    struct script outer = script("outer", "Tv", "x", "d"), inner = script("inner", "sr", "x", "d");
    void *result;
    CHECK_EQ(script_run(home, &outer, &inner, &result), 0);
    CHECK_EQ(outer.tried, 0);
    CHECK(result == script_value('B'));
    notes_are("inner. outer.");
    outer = script("outer", "Tsr", "x", "d"), inner = script("inner", "st", NULL, "sd");
    CHECK_EQ(script_run(home, &outer, &inner, &result), 0);
    CHECK_EQ(outer.tried, B_CODE);
    CHECK(result == script_value('B'));
    notes_are("inner. outer.");
    CHECK_EQ(take_reports(), 0);
}

EACH_HOME(call_after_try_still_throws)
{
    struct script outer = script("outer", "Tc", "r", "d"), inner = script("inner", "t", NULL, "d");
    CHECK_EQ(script_run(home, &outer, &inner, NULL), 0); /* the same frame again */
    CHECK_EQ(outer.tried, B_CODE);
    notes_are("inner. inner. outer!B outer.");
}

struct asks {
    weft_frame frame;
    struct script sub;
};

static enum weft_step has_tried(weft_frame *f, struct weft_got got)
{
    const weft_error *error = weft_frame_caught(f);
    CHECK_EQ(got.status, B_CODE);
    CHECK(got.value == NULL);
    CHECK(error);
    CHECK_EQ(weft_error_code(error), B_CODE);
    CHECK_STR(weft_error_message(error), "sub threw in B");
    CHECK_EQ(weft_error_frames(error), 2);
    return weft_frame_throw_from(f, -EPROTO, error, "because of that");
}

static enum weft_step tries(weft_frame *f, struct weft_got got)
{
    SELF(asks);
    (void)got;
    CHECK(!weft_frame_caught(f));
    self->sub = script("sub", "st", NULL, "d");
    return weft_frame_try(f, &self->sub.frame, WEFT_THEN(has_tried));
}

static enum weft_step looks(weft_frame *f, const weft_error *error)
{
    CHECK_EQ(weft_error_code(error), -EPROTO);
    CHECK(!weft_frame_caught(f)); /* the step has returned */
    CHECK(weft_error_cause(error));
    CHECK_STR(weft_error_message(weft_error_cause(error)), "sub threw in B");
    CHECK_EQ(weft_error_frames(weft_error_cause(error)), 2);
    return weft_frame_return(f, NULL);
}

static const struct weft_frame_kind asking = {.name = "asks", .start = tries, .handle = looks};

EACH_HOME(error_of_try_can_be_read_and_used_as_cause)
{
    struct asks asks;
    weft_frame_init(&asks.frame, &asking);
    CHECK_EQ(home_run(home, &asks.frame, NULL), 0);
    notes_are("sub.");
}

/* --- a fault of the original ------------------------------------------------------------------ */

EACH_HOME(already_failed_future_is_handled_like_other_errors)
{
    weft_future *failed;
    CHECK_EQ(weft_future_create(&failed, NULL), 0);
    weft_future_fail(failed, -ENOLINK);
    struct script outer = script("outer", "cv", "x", "d"), inner = script("inner", "n", "sr", "d");
    void *result;
    inner.failed = failed;
    CHECK_EQ(script_run(home, &outer, &inner, &result), 0);
    CHECK(result == script_value('H'));
    notes_are("inner!nolink inner. outer.");
    outer = script("outer", "cv", "r", "d"), inner = script("inner", "n", "x", "sd");
    inner.failed = failed;
    CHECK_EQ(script_run(home, &outer, &inner, NULL), 0);
    notes_are("inner!nolink inner. outer!nolink outer.");
    weft_future_unref(failed);
}
