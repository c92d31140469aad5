/* What a step must not do. In a group the mistake is an error that ends the group, after every
 * handle and finally up the stack has run; in a pool the program aborts with a message.
 *
 * Faults of the original: after a fatal error the callers' handle and finally did not run; the stop
 * was requested, but the fibers that wait for it were not woken (its check threw again); a throw
 * after a suspending call ran handle and finally at once, and left the fiber parked until the
 * timer, where it ended by a null pointer (throws_after_sleep, one of the mistakes in
 * frame_misuse_in_group_ends_group_after_all_cleanups).
 */
#include <pthread.h>

#include "frame/fixture.h"

struct wrong {
    weft_frame frame;
    struct weft_wait wait, second;
    weft_event event;
    weft_cond own; /* of the group it runs in */
    struct wrong *outer;
    weft_frame *other;
    int finals, handled;
};

static enum weft_step goes_on(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_return(f, NULL);
}

#define THEN WEFT_THEN(goes_on)

/* --- the mistakes --------------------------------------------------------------------- */

static enum weft_step sleeps_twice(weft_frame *f, struct weft_got got)
{
    (void)got;
    (void)weft_frame_sleep(f, WEFT_FOREVER, THEN);
    return weft_frame_sleep(f, WEFT_FOREVER, THEN);
}

/* With the same wait, which is linked. */
static enum weft_step awaits_twice(weft_frame *f, struct weft_got got)
{
    SELF(wrong);
    (void)got;
    (void)weft_frame_await_event(f, &self->wait, &self->event, WEFT_FOREVER, THEN);
    return weft_frame_await_event(f, &self->wait, &self->event, WEFT_FOREVER, THEN);
}

static enum weft_step returns_after_wait(weft_frame *f, struct weft_got got)
{
    SELF(wrong);
    (void)got;
    (void)weft_frame_await_event(f, &self->wait, &self->event, WEFT_FOREVER, THEN);
    return weft_frame_return(f, NULL);
}

static enum weft_step returns_after_own_wait(weft_frame *f, struct weft_got got)
{
    SELF(wrong);
    (void)got;
    (void)weft_frame_await_cond(f, &self->wait, &self->own, WEFT_FOREVER, THEN);
    return weft_frame_return(f, NULL);
}

/* Its fiber is ready again when the mistake is detected. */
static enum weft_step returns_after_its_signal(weft_frame *f, struct weft_got got)
{
    SELF(wrong);
    (void)got;
    (void)weft_frame_await_cond(f, &self->wait, &self->own, WEFT_FOREVER, THEN);
    weft_cond_signal(&self->own);
    return weft_frame_return(f, NULL);
}

static enum weft_step says_after_its_signal(weft_frame *f, struct weft_got got)
{
    SELF(wrong);
    (void)got;
    (void)weft_frame_await_cond(f, &self->wait, &self->own, WEFT_FOREVER, THEN);
    weft_cond_signal(&self->own);
    return WEFT_CALL;
}

static enum weft_step returns_after_its_interrupt(weft_frame *f, struct weft_got got)
{
    SELF(wrong);
    (void)got;
    (void)weft_frame_await_cond(f, &self->wait, &self->own, WEFT_FOREVER, THEN);
    CHECK_EQ(weft_fiber_interrupt(weft_self()), 0);
    return weft_frame_return(f, NULL);
}

static enum weft_step throws_after_sleep(weft_frame *f, struct weft_got got)
{
    (void)got;
    (void)weft_frame_sleep(f, weft_after(3600 * 1000 * MS), THEN);
    return weft_frame_throw(f, -EIO, "too late");
}

static enum weft_step says_something_else(weft_frame *f, struct weft_got got)
{
    SELF(wrong);
    (void)got;
    (void)weft_frame_await_event(f, &self->wait, &self->event, WEFT_FOREVER, THEN);
    return WEFT_RETURN;
}

static enum weft_step says_it_waits(weft_frame *f, struct weft_got got)
{
    (void)got;
    (void)weft_frame_throw(f, -EIO, "and is not returned");
    return WEFT_SUSPEND;
}

static enum weft_step does_nothing(weft_frame *f, struct weft_got got)
{
    (void)f, (void)got;
    return WEFT_RETURN;
}

static enum weft_step rethrows(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_rethrow(f);
}

static enum weft_step calls_itself(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_call(f, f, THEN);
}

static enum weft_step tries_its_caller(weft_frame *f, struct weft_got got)
{
    SELF(wrong);
    (void)got;
    return weft_frame_try(f, &self->outer->frame, THEN);
}

static const struct weft_frame_kind unused = {.name = "unused", .start = goes_on};

/* Neither frame may be lost. */
static enum weft_step calls_two(weft_frame *f, struct weft_got got)
{
    (void)got;
    (void)weft_frame_call(f, weft_frame_create(&unused, sizeof(struct wrong)), THEN);
    return weft_frame_call(f, weft_frame_create(&unused, sizeof(struct wrong)), THEN);
}

static enum weft_step calls_and_says_it_waits(weft_frame *f, struct weft_got got)
{
    (void)got;
    (void)weft_frame_call(f, weft_frame_create(&unused, sizeof(struct wrong)), THEN);
    return WEFT_SUSPEND;
}

static enum weft_step calls_anothers(weft_frame *f, struct weft_got got)
{
    SELF(wrong);
    (void)got;
    return weft_frame_call(f, self->other, THEN);
}

static enum weft_step waits_with_its_callers(weft_frame *f, struct weft_got got)
{
    SELF(wrong);
    (void)got;
    return weft_frame_sleep(&self->outer->frame, WEFT_FOREVER, THEN);
}

static enum weft_step waits_with_anothers(weft_frame *f, struct weft_got got)
{
    SELF(wrong);
    (void)got;
    return weft_frame_await_event(self->other, &self->wait, &self->event, WEFT_FOREVER, THEN);
}

static enum weft_step returns_anothers(weft_frame *f, struct weft_got got)
{
    SELF(wrong);
    (void)got;
    return weft_frame_return(self->other, NULL);
}

static enum weft_step waits_and_with_anothers(weft_frame *f, struct weft_got got)
{
    SELF(wrong);
    (void)got;
    (void)weft_frame_park(self->other, WEFT_FOREVER, THEN);
    return weft_frame_sleep(f, WEFT_FOREVER, THEN);
}

static enum weft_step selects_and_sleeps(weft_frame *f, struct weft_got got)
{
    SELF(wrong);
    static struct weft_case one;
    (void)got;
    one = weft_case_event(&self->event);
    (void)weft_frame_select(f, &self->wait, &one, 1, WEFT_FOREVER, THEN);
    return weft_frame_sleep(f, WEFT_FOREVER, THEN);
}

static int some_pipe[2];

static enum weft_step awaits_fd_and_sleeps(weft_frame *f, struct weft_got got)
{
    SELF(wrong);
    (void)got;
    (void)weft_frame_await_fd(f, &self->wait, some_pipe[0], WEFT_READABLE, WEFT_FOREVER, THEN);
    return weft_frame_sleep(f, WEFT_FOREVER, THEN);
}

static const struct mistake {
    weft_step_fn step;
    const char *message;
} mistakes[] = {
    {sleeps_twice, "frame wrong performed two actions in one step"},
    {awaits_twice, "frame wrong performed two actions in one step"},
    {returns_after_wait, "frame wrong performed two actions in one step"},
    {returns_after_own_wait, "frame wrong performed two actions in one step"},
    {returns_after_its_signal, "frame wrong performed two actions in one step"},
    {says_after_its_signal, "frame wrong returned a value that does not match its action"},
    {returns_after_its_interrupt, "frame wrong performed two actions in one step"},
    {throws_after_sleep, "frame wrong performed two actions in one step"},
    {says_something_else, "frame wrong returned a value that does not match its action"},
    {says_it_waits, "frame wrong returned a value that does not match its action"},
    {does_nothing, "frame wrong has neither called, nor waited, nor returned"},
    {rethrows, "frame wrong has no error to rethrow"},
    {calls_itself, "frame wrong is called while it is in use"},
    {tries_its_caller, "frame outer is called while it is in use"},
    {calls_two, "frame wrong performed two actions in one step"},
    {calls_and_says_it_waits, "frame wrong returned a value that does not match its action"},
    {calls_anothers, "frame bystander is used by two fibers"},
    {waits_with_its_callers, "frame wrong waits with a frame that is not its own"},
    {waits_with_anothers, "frame wrong waits with a frame that is not its own"},
    {returns_anothers, "frame wrong has neither called, nor waited, nor returned"},
    {waits_and_with_anothers, "frame wrong waits with a frame that is not its own"},
    {selects_and_sleeps, "frame wrong performed two actions in one step"},
    {awaits_fd_and_sleeps, "frame wrong performed two actions in one step"},
};
#define MISTAKES (sizeof mistakes / sizeof *mistakes)

/* --- consequences -------------------------------------------------------------------------- */

static const struct mistake *made;
static char told[256];

static enum weft_step makes_it(weft_frame *f, struct weft_got got)
{
    return made->step(f, got);
}

static enum weft_step outer_calls(weft_frame *f, struct weft_got got)
{
    SELF(wrong);
    (void)got;
    return weft_frame_call(f, &self->outer->frame, THEN);
}

static enum weft_step handles(weft_frame *f, const weft_error *error)
{
    SELF(wrong);
    self->handled++;
    CHECK_EQ(weft_error_code(error), -ENOTRECOVERABLE);
    snprintf(told, sizeof told, "%s", weft_error_message(error));
    return weft_frame_rethrow(f);
}

static enum weft_step ends(weft_frame *f)
{
    SELF(wrong);
    self->finals++;
    return weft_frame_sleep(f, weft_after(1000), WEFT_THEN(goes_on)); /* goes_on returns */
}

static enum weft_step is_done(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_done(f);
}

static enum weft_step ends_slowly(weft_frame *f)
{
    SELF(wrong);
    self->finals++;
    return weft_frame_sleep(f, weft_after(1000), WEFT_THEN(is_done));
}

static const struct weft_frame_kind wrong_kind = {
    .name = "wrong", .start = makes_it, .handle = handles, .finally = ends_slowly};
static const struct weft_frame_kind outer_kind = {
    .name = "outer", .start = outer_calls, .handle = handles, .finally = ends_slowly};
/* Its finally returns a value instead of the error: the group still ends. */
static const struct weft_frame_kind forgiving = {
    .name = "outer", .start = outer_calls, .handle = handles, .finally = ends};

static enum weft_step stands_by(weft_frame *f, struct weft_got got)
{
    SELF(wrong);
    (void)got;
    return weft_frame_await_stop(f, &self->wait, WEFT_FOREVER, THEN);
}

static const struct weft_frame_kind bystanding = {.name = "bystander", .start = stands_by};

static void *sleeps_until_stop(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)weft_group_sleep(WEFT_FOREVER);
}

struct cast {
    struct wrong outer, wrong, bystander;
};

static weft_fiber open_cast(const struct home *home, struct cast *cast,
                            const struct weft_frame_kind *outer)
{
    *cast = (struct cast){0};
    weft_frame_init(&cast->outer.frame, outer);
    weft_frame_init(&cast->wrong.frame, &wrong_kind);
    weft_frame_init(&cast->bystander.frame, &bystanding);
    weft_event_init(&cast->wrong.event, NULL);
    weft_cond_init(&cast->wrong.own, &(struct weft_sync_opts){.group = home->group});
    cast->outer.outer = &cast->wrong; /* which the outer frame calls */
    cast->wrong.outer = &cast->outer;
    cast->wrong.other = &cast->bystander.frame;
    return home->group ? home_waiting(home, &cast->bystander.frame) : WEFT_NO_FIBER;
}

static void ends_the_group(const struct weft_frame_kind *outer, int joined)
{
    static struct cast cast;
    struct home home;
    weft_fiber fiber;
    home_open(&home, true);
    weft_fiber bystander = open_cast(&home, &cast, outer);
    weft_fiber sleeper = home_spawn_fn(&home, sleeps_until_stop, NULL);
    await_state(sleeper, WEFT_FIBER_WAITING);
    fiber = home_spawn(&home, &cast.outer.frame);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), joined);
    CHECK_EQ(cast.outer.handled, 1);
    CHECK_EQ(cast.outer.finals, 1);
    CHECK_EQ(cast.wrong.handled, 1);
    CHECK_EQ(cast.wrong.finals, 1);
    CHECK_STR(told, made->message);
    CHECK_EQ(weft_join(bystander, NULL, WEFT_FOREVER), 0); /* woken, and undamaged */
    CHECK_EQ(weft_join(sleeper, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_future_get(weft_group_finished(home.group), NULL, WEFT_FOREVER),
             -ENOTRECOVERABLE);
    CHECK(!weft_future_is_done(weft_group_finished(home.other))); /* which continues */
    weft_event_deinit(&cast.wrong.event);
    weft_cond_deinit(&cast.wrong.own); /* where no waiter is linked */
    home_close(&home);
    CHECK_EQ(take_reports(), joined != 0);
}

TEST(frame_misuse_in_group_ends_group_after_all_cleanups)
{
    CHECK_EQ(pipe(some_pipe), 0);
    for (size_t i = 0; i < MISTAKES; i++) {
        made = &mistakes[i];
        ends_the_group(&outer_kind, -ENOTRECOVERABLE);
    }
}

TEST(handled_frame_misuse_still_ends_group)
{
    made = &mistakes[0];
    ends_the_group(&forgiving, 0);
}

static void in_a_pool(void *arg)
{
    static struct cast cast;
    struct home home;
    weft_fiber fiber;
    made = arg;
    home_open(&home, false);
    open_cast(&home, &cast, &outer_kind);
    if (cast.wrong.other) {
        weft_frame_init(cast.wrong.other, &unused);
    }
    fiber = home_spawn(&home, &cast.outer.frame);
    weft_join(fiber, NULL, WEFT_FOREVER);
}

TEST(frame_misuse_in_pool_aborts_with_frame_name)
{
    for (size_t i = 0; i < MISTAKES; i++) {
        char err[1024];
        if (mistakes[i].step == calls_anothers) {
            continue; /* there, no fiber owns its frame */
        }
        int status = check_child(in_a_pool, (void *)(uintptr_t)&mistakes[i], err, sizeof err);
        if (!strstr(err, mistakes[i].message)) {
            fprintf(stderr, "not \"%s\" but: %s\n", mistakes[i].message, err);
        }
        CHECK(WIFSIGNALED(status) && strstr(err, mistakes[i].message));
    }
}

/* --- in handle and in finally ----------------------------------------------------------------- */

static enum weft_step throws(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_throw(f, -EIO, "first");
}

static enum weft_step handles_wrongly(weft_frame *f, const weft_error *error)
{
    SELF(wrong);
    (void)error;
    self->handled++;
    (void)weft_frame_rethrow(f);
    return weft_frame_return(f, NULL);
}

static enum weft_step ends_wrongly(weft_frame *f)
{
    SELF(wrong);
    self->finals++;
    return weft_frame_rethrow(f);
}

static const struct weft_frame_kind wrong_in_handle = {
    .name = "wrong", .start = throws, .handle = handles_wrongly, .finally = ends_slowly};
static const struct weft_frame_kind wrong_in_finally = {
    .name = "wrong", .start = throws, .finally = ends_wrongly};

static void wrong_in(const struct weft_frame_kind *kind, int handled)
{
    static struct cast cast;
    struct home home;
    home_open(&home, true);
    weft_fiber bystander = open_cast(&home, &cast, &outer_kind);
    weft_frame_init(&cast.wrong.frame, kind);
    CHECK_EQ(home_run(&home, &cast.outer.frame, NULL), -ENOTRECOVERABLE);
    CHECK_EQ(cast.wrong.handled, handled);
    CHECK_EQ(cast.wrong.finals, 1);
    CHECK_EQ(cast.outer.finals, 1);
    CHECK_EQ(weft_join(bystander, NULL, WEFT_FOREVER), 0);
    home_close(&home);
    CHECK_EQ(take_reports(), 1);
}

TEST(frame_misuse_in_handle_and_finally_is_detected)
{
    wrong_in(&wrong_in_handle, 1);
    wrong_in(&wrong_in_finally, 0);
}

/* --- blocking calls in a step ----------------------------------------------------------------- */

static weft_mutex held = WEFT_MUTEX_INIT;
static void (*blocks)(void);

static enum weft_step blocks_in_step(weft_frame *f, struct weft_got got)
{
    (void)got;
    blocks();
    return weft_frame_return(f, NULL);
}

static const struct weft_frame_kind blocking = {.name = "blocks", .start = blocks_in_step};

static void by_sleep(void)
{
    weft_sleep(weft_after(3600 * 1000 * MS));
}

static void by_mutex(void)
{
    weft_mutex_lock(&held, WEFT_FOREVER);
}

static void by_read(void)
{
    char byte;
    weft_read(some_pipe[0], &byte, 1, WEFT_FOREVER);
}

static void by_fd_wait(void)
{
    weft_fd_wait(some_pipe[0], WEFT_READABLE, WEFT_FOREVER);
}

static void by_event(void)
{
    weft_event event;
    weft_event_init(&event, NULL);
    weft_event_wait(&event, weft_after(3600 * 1000 * MS));
}

static void run_blocking(void *arg)
{
    struct home home;
    struct wrong one = {0};
    home_open(&home, arg != NULL);
    CHECK_EQ(pipe(some_pipe), 0);
    CHECK_EQ(weft_mutex_lock(&held, WEFT_FOREVER), 0);
    weft_frame_init(&one.frame, &blocking);
    weft_join(home_spawn(&home, &one.frame), NULL, WEFT_FOREVER);
}

TEST(blocking_call_in_frame_step_aborts)
{
    static void (*const all[])(void) = {by_sleep, by_mutex, by_read, by_fd_wait, by_event};
    static char grouped[1];
    for (size_t i = 0; i < 2 * sizeof all / sizeof *all; i++) {
        char err[1024];
        blocks = all[i / 2];
        int status = check_child(run_blocking, i % 2 ? grouped : NULL, err, sizeof err);
        if (!strstr(err, "a frame waits in the middle of a step")) {
            fprintf(stderr, "%zu: %s\n", i, err);
        }
        CHECK(WIFSIGNALED(status) && strstr(err, "a frame waits in the middle of a step"));
    }
}

static void waits_on_thread(void *arg)
{
    struct wrong one = {0};
    (void)arg;
    weft_frame_init(&one.frame, &blocking);
    (void)weft_frame_sleep(&one.frame, 0, THEN);
}

TEST(frame_wait_outside_frame_fiber_aborts)
{
    char err[1024];
    int status = check_child(waits_on_thread, NULL, err, sizeof err);
    CHECK(WIFSIGNALED(status) && strstr(err, "frame blocks waits outside of a frame fiber"));
}

static void spawns_twice(void *arg)
{
    struct home home;
    struct cast cast;
    (void)arg;
    home_open(&home, true);
    open_cast(&home, &cast, &outer_kind);
    home_spawn(&home, &cast.bystander.frame);
}

TEST(frame_spawned_in_two_fibers_aborts)
{
    char err[1024];
    int status = check_child(spawns_twice, NULL, err, sizeof err);
    CHECK(WIFSIGNALED(status) && strstr(err, "frame bystander is used by two fibers"));
}
