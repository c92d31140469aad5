/* Memory runs out at the k-th request, for every k of a run that uses all frame features: each run
 * returns an error or succeeds, nothing hangs, and nothing is lost (the lanes with a leak checker
 * detect leaks). */
#include <sys/socket.h>

#include "base/alloc.h"
#include "frame/fixture.h"

struct run {
    weft_frame frame;
    struct weft_wait wait;
    weft_scope scope;
    int ends[2];
    int done, finals;
    weft_future *future;
};

struct part {
    weft_frame frame;
    struct weft_wait wait;
    char room[200];
};

static enum weft_step part_ends(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_throw(f, -EBADE, "a part of %d bytes", (int)sizeof(struct part));
}

static enum weft_step part_starts(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_sleep(f, weft_after(1000), WEFT_THEN(part_ends));
}

static enum weft_step part_handles(weft_frame *f, const weft_error *error)
{
    return weft_frame_throw_from(f, -EPROTO, error, "the part");
}

static enum weft_step part_finally(weft_frame *f)
{
    return weft_frame_throw(f, -EIO, "no clean end");
}

static const struct weft_frame_kind part_kind = {
    .name = "part", .start = part_starts, .handle = part_handles, .finally = part_finally};

static enum weft_step child_ends(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_return(f, NULL);
}

static enum weft_step child_starts(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_sleep(f, weft_after(1000), WEFT_THEN(child_ends));
}

static const struct weft_frame_kind child_kind = {.name = "child", .start = child_starts};

static enum weft_step has_closed(weft_frame *f, struct weft_got got)
{
    SELF(run);
    CHECK(got.status == 0 || got.status == -ENOMEM);
    self->done++;
    return weft_frame_return(f, self);
}

static enum weft_step has_fd(weft_frame *f, struct weft_got got)
{
    SELF(run);
    CHECK_EQ(got.status, -ETIMEDOUT);
    self->done++;
    CHECK_EQ(weft_scope_open(&self->scope, NULL), 0);
    weft_frame *child = weft_frame_create(&child_kind, sizeof(struct part));
    if (child && weft_scope_spawn_frame(&self->scope, NULL, child,
                                        &(struct weft_fiber_opts){.name = "child"}) != 0) {
        weft_frame_destroy(child);
    }
    return weft_frame_await_scope(f, &self->wait, &self->scope, WEFT_FOREVER,
                                  WEFT_THEN(has_closed));
}

static enum weft_step has_tried(weft_frame *f, struct weft_got got)
{
    SELF(run);
    const weft_error *error = weft_frame_caught(f);
    CHECK(got.status == -EIO || got.status == -ENOMEM);
    CHECK(error);
    for (; error; error = weft_error_suppressed(error)) {
        CHECK(weft_error_code(error) < 0);
        CHECK(weft_error_message(error));
    }
    self->done++;
    return weft_frame_await_fd(f, &self->wait, self->ends[0], WEFT_READABLE, weft_after(100000),
                               WEFT_THEN(has_fd));
}

static enum weft_step has_waited(weft_frame *f, struct weft_got got)
{
    SELF(run);
    (void)got;
    self->done++;
    weft_frame *part = weft_frame_create(&part_kind, sizeof(struct part));
    return part ? weft_frame_try(f, part, WEFT_THEN(has_tried))
                : weft_frame_throw(f, -ENOMEM, "no part");
}

static enum weft_step starts(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_park(f, weft_after(100000), WEFT_THEN(has_waited));
}

static enum weft_step has_slept(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_done(f);
}

static enum weft_step ends(weft_frame *f)
{
    SELF(run);
    self->finals++;
    return weft_frame_sleep(f, weft_after(1000), WEFT_THEN(has_slept));
}

static enum weft_step run_handles(weft_frame *f, const weft_error *error)
{
    CHECK_EQ(weft_error_code(error), -ENOMEM);
    return weft_frame_rethrow(f);
}

static enum weft_step is_done(weft_frame *f)
{
    SELF(run);
    self->finals++;
    return weft_frame_done(f);
}

static const struct weft_frame_kind running = {
    .name = "run", .start = starts, .handle = run_handles, .finally = is_done};
/* With a finally that waits, which may have no memory for the wait. */
static const struct weft_frame_kind running_slowly = {
    .name = "run", .start = starts, .handle = run_handles, .finally = ends};

/* Returns how many steps succeeded; 4 is all. */
static int run_once(bool grouped, const struct weft_frame_kind *kind, long k, bool sticky)
{
    struct home home;
    struct run run = {.done = 0};
    weft_fiber fiber;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, run.ends), 0);
    home_open(&home, grouped);
    weft_frame_init(&run.frame, kind);
    weft__alloc_fail_after(k, sticky);
    int err = grouped ? weft_group_spawn_frame(home.group, &fiber, &run.frame,
                                               &(struct weft_member_opts){.name = "run"})
                      : weft_pool_spawn_frame(home.pool, &fiber, &run.frame, NULL);
    if (!err) {
        err = weft_join(fiber, NULL, WEFT_FOREVER);
        CHECK_EQ(run.finals, 1);
        CHECK(err == -ENOMEM || run.done == 4);
    }
    weft__alloc_fail_after(0, false);
    CHECK(err == 0 || err == -ENOMEM);
    home_close(&home);
    weft_close(run.ends[0]);
    weft_close(run.ends[1]);
    take_reports();
    return err ? 0 : run.done;
}

static void run_all(const struct weft_frame_kind *kind)
{
    for (int grouped = 0; grouped < 2; grouped++) {
        CHECK_EQ(run_once(grouped, kind, 0, false), 4);
        for (int sticky = 0; sticky < 2; sticky++) {
            int failed = 0, in_a_row = 0;
            for (long k = 1; k < 400 && in_a_row < 12; k++) {
                bool whole = run_once(grouped, kind, k, sticky) == 4;
                failed += !whole;
                in_a_row = whole ? in_a_row + 1 : 0;
            }
            CHECK(failed > 0);
            CHECK(in_a_row >= 12);
        }
    }
}

TEST(frames_survive_failure_of_any_allocation)
{
    run_all(&running);
}

TEST(frames_with_waiting_finally_survive_any_failed_allocation)
{
    run_all(&running_slowly);
}
