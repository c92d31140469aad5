/* labels: valgrind */
/* Errors: their text, which frames they contain, and who gets them. Counterparts of the original's
 * tests:
 *   VirtualExceptionTest   each_error_has_one_trace_per_throw,
 *                          interrupt_error_has_frames_of_interrupted_fiber
 * Faults of the original: interrupts had the frames of the interrupting fiber; timeouts had none
 * (timeout_error_has_frames_of_waiting_fiber); a failed future that was awaited again got another
 * trace each time (failed_future_gives_each_waiter_one_trace); a join did not return the fiber's
 * error (joiners_of_all_kinds_get_error_code).
 */
#include "frame/script.h"

/* --- printed text ------------------------------------------------------------------------- */

struct job {
    weft_frame frame;
    struct weft_wait wait;
    weft_event *event;
    struct job *sub;
    char text[2048];
};

static void print_to(struct job *job, const weft_error *error)
{
    FILE *out = fmemopen(job->text, sizeof job->text, "w");
    CHECK(out);
    weft_error_dump(error, out);
    fclose(out);
}

static int throw_line, call_line, wait_line;

static enum weft_step inner_fails(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_throw(f, -EBADMSG, "item %d", 42);
}

static enum weft_step inner_starts(weft_frame *f, struct weft_got got)
{
    (void)got;
    const struct weft_resume_point *then = WEFT_THEN(inner_fails);
    throw_line = (int)then->line;
    return weft_frame_yield(f, then);
}

static enum weft_step inner_cleans_up(weft_frame *f)
{
    return weft_frame_throw(f, -EIO, "no clean end");
}

static enum weft_step outer_ends(weft_frame *f, struct weft_got got)
{
    return weft_frame_return(f, got.value);
}

static enum weft_step outer_starts(weft_frame *f, struct weft_got got)
{
    SELF(job);
    (void)got;
    const struct weft_resume_point *then = WEFT_THEN(outer_ends);
    call_line = (int)then->line;
    return weft_frame_call(f, &self->sub->frame, then);
}

static enum weft_step outer_handles(weft_frame *f, const weft_error *error)
{
    return weft_frame_throw_from(f, -EPROTO, error, "the job");
}

static enum weft_step top_handles(weft_frame *f, const weft_error *error)
{
    SELF(job);
    print_to(self, error);
    return weft_frame_return(f, NULL);
}

static const struct weft_frame_kind inner_kind = {
    .name = "inner", .start = inner_starts, .finally = inner_cleans_up};
static const struct weft_frame_kind outer_kind = {
    .name = "outer", .start = outer_starts, .handle = outer_handles};
static const struct weft_frame_kind top_kind = {
    .name = "top", .start = outer_starts, .handle = top_handles};

EACH_HOME(error_dump_shows_code_frames_and_cause)
{
    static struct job top, outer, inner;
    char expected[2048];
    top.sub = &outer;
    outer.sub = &inner;
    weft_frame_init(&top.frame, &top_kind);
    weft_frame_init(&outer.frame, &outer_kind);
    weft_frame_init(&inner.frame, &inner_kind);
    CHECK_EQ(home_run(home, &top.frame, NULL), 0);
    snprintf(expected, sizeof expected,
             "error: Protocol error: the job\n"
             "    in outer, handle\n"
             "    in top, outer_ends (%s:%d)\n"
             "  caused by: Input/output error: no clean end\n"
             "    in inner, finally\n"
             "    in outer, outer_ends (%s:%d)\n"
             "    in top, outer_ends (%s:%d)\n",
             __FILE__, call_line, __FILE__, call_line, __FILE__, call_line);
    CHECK_STR(top.text, expected);
}

static enum weft_step passes(weft_frame *f, const weft_error *error)
{
    SELF(job);
    print_to(self, error);
    return weft_frame_rethrow(f);
}

static const struct weft_frame_kind printing = {
    .name = "prints", .start = outer_starts, .handle = passes};

EACH_HOME(error_dump_shows_suppressed_errors)
{
    static struct job top, inner;
    char expected[2048];
    top.sub = &inner;
    weft_frame_init(&top.frame, &printing);
    weft_frame_init(&inner.frame, &inner_kind);
    CHECK_EQ(home_run(home, &top.frame, NULL), -EIO);
    snprintf(expected, sizeof expected,
             "error: Input/output error: no clean end\n"
             "    in inner, finally\n"
             "    in prints, outer_ends (%s:%d)\n"
             "  suppressed: Malformed data: item 42\n"
             "    in inner, inner_fails (%s:%d)\n"
             "    in prints, outer_ends (%s:%d)\n",
             __FILE__, call_line, __FILE__, throw_line, __FILE__, call_line);
    CHECK_STR(top.text, expected);
    CHECK_EQ(take_reports(), 1);
    CHECK_EQ(atomic_load(&reported_code), -EIO);
}

static enum weft_step throws_strangely(weft_frame *f, struct weft_got got)
{
    char letters[400];
    (void)got;
    memset(letters, 'x', sizeof letters);
    return weft_frame_throw(f, -9999, "%.*s", (int)sizeof letters, letters);
}

static enum weft_step looks_at_strange(weft_frame *f, const weft_error *error)
{
    SELF(job);
    CHECK_EQ(weft_error_code(error), -9999);
    CHECK_EQ(strlen(weft_error_message(error)), 255);
    print_to(self, error);
    return weft_frame_rethrow(f);
}

static const struct weft_frame_kind strange = {
    .name = "strange", .start = throws_strangely, .handle = looks_at_strange};

EACH_HOME(any_error_code_survives_and_long_message_is_truncated)
{
    static struct job one;
    weft_frame_init(&one.frame, &strange);
    weft_fiber fiber = home_spawn(home, &one.frame);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), -9999);
    CHECK(strstr(one.text, "error: unknown error: xxx"));
    CHECK_EQ(take_reports(), 1);
}

/* --- frames in the error ---------------------------------------------------------------------- */

static enum weft_step victim_goes_on(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_return(f, NULL);
}

static enum weft_step victim_waits(weft_frame *f, struct weft_got got)
{
    SELF(job);
    (void)got;
    const struct weft_resume_point *then = WEFT_THEN(victim_goes_on);
    wait_line = (int)then->line;
    return weft_frame_await_event(f, &self->wait, self->event, WEFT_FOREVER, then);
}

static const struct weft_frame_kind victim_kind = {.name = "victim", .start = victim_waits};

struct interrupter {
    weft_frame frame;
    weft_fiber victim;
};

static enum weft_step interrupts(weft_frame *f, struct weft_got got)
{
    SELF(interrupter);
    (void)got;
    CHECK_EQ(weft_fiber_interrupt(self->victim), 0);
    return weft_frame_return(f, NULL);
}

static const struct weft_frame_kind interrupting = {.name = "interrupter", .start = interrupts};

EACH_HOME(interrupt_error_has_frames_of_interrupted_fiber)
{
    static struct job top, inner;
    weft_event event;
    char expected[512];
    weft_event_init(&event, NULL);
    top.sub = &inner;
    inner.event = &event;
    weft_frame_init(&top.frame, &printing);
    weft_frame_init(&inner.frame, &victim_kind);
    struct interrupter interrupter = {.victim = home_waiting(home, &top.frame)};
    weft_frame_init(&interrupter.frame, &interrupting);
    CHECK_EQ(home_run(home, &interrupter.frame, NULL), 0);
    CHECK_EQ(weft_join(interrupter.victim, NULL, WEFT_FOREVER), -EINTR);
    snprintf(expected, sizeof expected,
             "error: Interrupted: event\n"
             "    in victim, victim_goes_on (%s:%d)\n"
             "    in prints, outer_ends (%s:%d)\n",
             __FILE__, wait_line, __FILE__, call_line);
    CHECK_STR(top.text, expected);
    CHECK_EQ(take_reports(), 1); /* the error was not handled */
    weft_event_deinit(&event);
}

struct on_future {
    weft_frame frame;
    struct weft_wait wait;
    weft_future *future;
    int64_t deadline;
    int code;
};

static enum weft_step handles_future(weft_frame *f, const weft_error *error)
{
    SELF(on_future);
    self->code = weft_error_code(error);
    CHECK_EQ(weft_error_frames(error), 1);
    CHECK_STR(weft_error_frame(error, 0).frame, "on_future");
    CHECK_STR(weft_error_frame(error, 0).step, "victim_goes_on");
    CHECK_STR(weft_error_message(error), "future");
    CHECK(!weft_error_suppressed(error) && !weft_error_cause(error));
    return weft_frame_return(f, NULL);
}

static enum weft_step awaits_future(weft_frame *f, struct weft_got got)
{
    SELF(on_future);
    (void)got;
    return weft_frame_await_future(f, &self->wait, self->future, self->deadline,
                                   WEFT_THEN(victim_goes_on));
}

static const struct weft_frame_kind awaiting_future = {
    .name = "on_future", .start = awaits_future, .handle = handles_future};

static int outcome_of(const struct home *home, weft_future *future, int64_t deadline)
{
    struct on_future one = {.future = future, .deadline = deadline};
    weft_frame_init(&one.frame, &awaiting_future);
    CHECK_EQ(home_run(home, &one.frame, NULL), 0);
    return one.code;
}

EACH_HOME(timeout_error_has_frames_of_waiting_fiber)
{
    weft_future *future;
    CHECK_EQ(weft_future_create(&future, NULL), 0);
    CHECK_EQ(outcome_of(home, future, weft_after(MS)), -ETIMEDOUT);
    CHECK_EQ(outcome_of(home, future, 0), -ETIMEDOUT);
    CHECK(!weft_future_is_done(future)); /* not completed yet */
    weft_future_unref(future);
}

EACH_HOME(failed_future_gives_each_waiter_one_trace)
{
    weft_future *future;
    CHECK_EQ(weft_future_create(&future, NULL), 0);
    struct on_future early = {.future = future, .deadline = WEFT_FOREVER};
    weft_frame_init(&early.frame, &awaiting_future);
    weft_fiber fiber = home_waiting(home, &early.frame);
    weft_future_fail(future, -ENOLINK);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(early.code, -ENOLINK);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(outcome_of(home, future, WEFT_FOREVER), -ENOLINK);
    }
    weft_future_unref(future);
}

static int traces_of(const weft_error *error)
{
    int n = 0;
    for (; error; error = weft_error_suppressed(error)) {
        CHECK_EQ(weft_error_frames(error), 1);
        n++;
    }
    return n;
}

static int traces;

static void count_traces(weft_fiber fiber, const char *name, const weft_error *error)
{
    (void)fiber;
    CHECK_STR(name, "script"); /* it has no name of its own */
    traces = traces_of(error);
}

EACH_HOME(each_error_has_one_trace_per_throw)
{
    static const struct {
        const char *body, *handle, *finally;
        int errors;
    } cases[] = {
        {"t", NULL, "d", 1},   {"t", "x", "d", 1},    {"t", "t", "d", 1}, {"r", NULL, "t", 1},
        {"t", NULL, "t", 2},   {"t", "x", "t", 2},    {"t", "t", "t", 2}, {"t", "r", "t", 1},
        {"st", "sx", "st", 2}, {"st", "st", "st", 2},
    };
    weft_error_fn before = weft_frame_on_error(count_traces);
    CHECK(before == count_report);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct script one = script("one", cases[i].body, cases[i].handle, cases[i].finally);
        CHECK(home_run(home, &one.frame, NULL) < 0);
        CHECK_EQ(traces, cases[i].errors);
        notes_are(NULL);
    }
    CHECK(weft_frame_on_error(before) == count_traces);
}

struct deep {
    weft_frame frame;
    int depth;
};

static enum weft_step dives(weft_frame *f, struct weft_got got);
static enum weft_step deep_handles(weft_frame *f, const weft_error *error)
{
    CHECK_EQ(weft_error_frames(error), 64); /* the innermost */
    CHECK_STR(weft_error_frame(error, 63).frame, "deep");
    return weft_frame_rethrow(f);
}
static const struct weft_frame_kind diving = {.name = "deep", .start = dives};
static const struct weft_frame_kind diving_first = {
    .name = "first", .start = dives, .handle = deep_handles};

static enum weft_step dives(weft_frame *f, struct weft_got got)
{
    SELF(deep);
    (void)got;
    if (self->depth == 10000) {
        return weft_frame_throw(f, -EXDEV, NULL);
    }
    struct deep *sub = (struct deep *)weft_frame_create(&diving, sizeof *sub);
    CHECK(sub);
    sub->depth = self->depth + 1;
    return weft_frame_call(f, &sub->frame, WEFT_THEN(dives));
}

EACH_HOME(error_through_ten_thousand_frames_needs_no_stack)
{
    struct deep first = {.depth = 0};
    weft_frame_init(&first.frame, &diving_first);
    CHECK_EQ(home_run(home, &first.frame, NULL), -EXDEV);
    CHECK_EQ(take_reports(), 1);
}

/* --- receivers of the error ------------------------------------------------------------------- */

struct joiner {
    weft_frame frame;
    struct weft_wait wait;
    weft_fiber fiber;
    int status;
    void *value;
};

static enum weft_step has_joined(weft_frame *f, struct weft_got got)
{
    SELF(joiner);
    self->status = got.status;
    self->value = got.value;
    return weft_frame_return(f, NULL);
}

static enum weft_step joins(weft_frame *f, struct weft_got got)
{
    SELF(joiner);
    (void)got;
    return weft_frame_await_join(f, &self->wait, self->fiber, WEFT_FOREVER, WEFT_THEN(has_joined));
}

static const struct weft_frame_kind joining = {.name = "joins", .start = joins};

static void *joins_as_fiber(void *arg)
{
    weft_fiber *fiber = arg;
    return (void *)(intptr_t)weft_join(*fiber, NULL, WEFT_FOREVER);
}

static int code_for_joiners;

static enum weft_step throws_code(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_throw(f, code_for_joiners, "for its joiners");
}

static enum weft_step waits_then_throws(weft_frame *f, struct weft_got got)
{
    SELF(job);
    (void)got;
    return weft_frame_await_event(f, &self->wait, self->event, WEFT_FOREVER,
                                  WEFT_THEN(throws_code));
}

static const struct weft_frame_kind throwing = {.name = "throws", .start = waits_then_throws};

/* Some joiners arrive before the fiber has ended, and some after. -ETIMEDOUT is an error like
 * others: not the joiner's own timeout. */
static void joined_with(const struct home *home, int code)
{
    weft_event event;
    struct job job = {.event = &event};
    struct joiner early, late, gone;
    void *answer;
    weft_event_init(&event, NULL);
    weft_frame_init(&job.frame, &throwing);
    code_for_joiners = code;
    weft_fiber fiber = home_waiting(home, &job.frame);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(weft_fiber_share(fiber), 0);
    }
    early = late = gone = (struct joiner){.fiber = fiber, .status = 77, .value = &early};
    weft_frame_init(&early.frame, &joining);
    weft_frame_init(&late.frame, &joining);
    weft_frame_init(&gone.frame, &joining);
    weft_fiber first = home_waiting(home, &early.frame);
    weft_fiber second = home_spawn_fn(home, joins_as_fiber, &fiber);
    pthread_t thread = thread_open(joins_as_fiber, &fiber);
    await_state(second, WEFT_FIBER_WAITING);
    weft_event_set(&event);
    CHECK_EQ(weft_join(first, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(early.status, code);
    CHECK(early.value == NULL);
    CHECK_EQ(weft_join(second, &answer, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)answer, code);
    CHECK_EQ((intptr_t)thread_close(thread), code);
    await_state(fiber, WEFT_FIBER_DONE);
    CHECK_EQ(home_run(home, &late.frame, NULL), 0);
    CHECK_EQ(late.status, code);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), code);
    CHECK_EQ(home_run(home, &gone.frame, NULL), 0); /* all join rights are used up */
    CHECK_EQ(gone.status, -ESRCH);
    CHECK_EQ(take_reports(), 1);
    weft_event_deinit(&event);
}

EACH_HOME(joiners_of_all_kinds_get_error_code)
{
    joined_with(home, -EBADE);
    joined_with(home, -ETIMEDOUT);
    joined_with(home, -EINTR);
    joined_with(home, -4000);
}

static void throws_unheard(void *arg)
{
    struct home home;
    struct script one = script("one", "t", NULL, "d");
    weft_fiber fiber;
    (void)arg;
    weft_frame_on_error(NULL);
    home_open(&home, true);
    CHECK_EQ(weft_group_spawn_frame(home.group, &fiber, &one.frame,
                                    &(struct weft_member_opts){.name = "careless"}),
             0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), B_CODE);
    home_close(&home);
}

TEST(unhandled_error_is_printed_with_fiber_name)
{
    char err[1024];
    int status = check_child(throws_unheard, NULL, err, sizeof err);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(strncmp(err, "weft: fiber #", 13) == 0);
    CHECK(strstr(err,
                 " careless ended by an error: Numerical argument out of domain: one threw in B\n"
                 "    in script, start\n"));
}
