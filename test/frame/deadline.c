/* Successive waits with deadlines: a stackless task of a group keeps its timer from one wait to the
 * next (task/deadline.h). */
#include "frame/fixture.h"

#define HOUR (3600000 * MS)
#define WAITS 3

struct timed {
    weft_frame frame;
    struct weft_wait wait;
    weft_cond cond;
    int64_t after[WAITS]; /* the timeout of each wait; WEFT_FOREVER; 0: no wait */
    int64_t busy;         /* how long the step between the waits takes */
    bool first_is_over;   /* the first is signalled before any time has passed */
    int64_t deadline;
    int status[WAITS];
    int began, ended;
};

static weft_dispatcher *dispatcher;
static weft_group *group;

static enum weft_step waits(weft_frame *f, struct weft_got got);

static enum weft_step has_waited(weft_frame *f, struct weft_got got)
{
    SELF(timed);
    CHECK(got.status != -ETIMEDOUT || weft_now() >= self->deadline); /* never early */
    self->status[self->ended++] = got.status;
    for (int64_t until = weft_after(self->busy); weft_now() < until;) {
    }
    return weft_frame_continue(f, NULL, WEFT_THEN(waits));
}

static enum weft_step waits(weft_frame *f, struct weft_got got)
{
    SELF(timed);
    (void)got;
    if (self->began == WAITS || !self->after[self->began]) {
        return weft_frame_return(f, NULL);
    }
    int64_t after = self->after[self->began++];
    self->deadline = after == WEFT_FOREVER ? WEFT_FOREVER : weft_after(after);
    enum weft_step step =
        weft_frame_await_cond(f, &self->wait, &self->cond, self->deadline, WEFT_THEN(has_waited));
    if (self->first_is_over && self->began == 1) {
        weft_cond_signal(&self->cond);
    }
    return step;
}

static const struct weft_frame_kind timing = {.name = "timed", .start = waits};

static void signals(void *arg)
{
    weft_cond_signal(&((struct timed *)arg)->cond);
}

static void start(struct timed *one)
{
    CHECK_EQ(weft_dispatcher_create(&dispatcher, &(struct weft_dispatcher_opts){.caller = true}),
             0);
    CHECK_EQ(weft_group_create(dispatcher, &group, NULL), 0);
    weft_cond_init(&one->cond, &(struct weft_sync_opts){.group = group});
    weft_frame_init(&one->frame, &timing);
    CHECK_EQ(weft_group_spawn_frame(group, NULL, &one->frame, NULL), 0);
    while (one->began == 0) {
        CHECK(weft_dispatcher_poll(dispatcher) >= 0);
    }
}

/* Polls until this many waits have ended. */
static void poll_to(const struct timed *one, int ended)
{
    while (one->ended < ended) {
        CHECK(weft_dispatcher_poll(dispatcher) >= 0);
    }
}

static void wake(struct timed *one)
{
    int ended = one->ended;
    CHECK_EQ(weft_group_post(group, signals, one), 0);
    poll_to(one, ended + 1);
    CHECK_EQ(one->status[ended], 0);
}

static void finish(struct timed *one)
{
    weft_group_stop(group);
    CHECK_EQ(weft_dispatcher_run(dispatcher), 0);
    CHECK_EQ(weft_dispatcher_stop(dispatcher, NULL, 0, WEFT_FOREVER), 0);
    weft_dispatcher_destroy(dispatcher); /* which aborts the program if a timer is left */
    CHECK_EQ(one->ended, one->began);
}

/* Returns false if the machine was so busy that the first deadline had passed before its wait
 * began. */
static bool later_is_kept(int64_t first)
{
    struct timed one = {.after = {first, 5 * first, MS}, .first_is_over = true};
    start(&one);
    poll_to(&one, 3);
    CHECK_EQ(one.status[1], -ETIMEDOUT);
    CHECK_EQ(one.status[2], -ETIMEDOUT);
    finish(&one);
    CHECK(one.status[0] == 0 || one.status[0] == -ETIMEDOUT);
    return one.status[0] == 0;
}

TEST(later_deadline_after_unused_deadline_is_kept)
{
    int64_t first = 2 * MS;
    while (!later_is_kept(first)) {
        first *= 2;
        CHECK(first < HOUR);
    }
}

TEST(earlier_deadline_does_not_wait_for_previous_one)
{
    struct timed one = {.after = {HOUR, 2 * MS}};
    start(&one);
    wake(&one);
    CHECK(one.ended == 2 || weft_dispatcher_next_deadline(dispatcher) < weft_after(HOUR / 2));
    poll_to(&one, 2);
    CHECK_EQ(one.status[1], -ETIMEDOUT);
    finish(&one);
}

TEST(frame_wait_without_deadline_has_no_timer)
{
    struct timed one = {.after = {HOUR, WEFT_FOREVER}};
    start(&one);
    CHECK(weft_dispatcher_next_deadline(dispatcher) < WEFT_FOREVER);
    wake(&one);
    CHECK_EQ(one.began, 2);
    while (weft_dispatcher_next_deadline(dispatcher) == 0) {
        CHECK(weft_dispatcher_poll(dispatcher) >= 0);
    }
    CHECK_EQ(weft_dispatcher_next_deadline(dispatcher), WEFT_FOREVER);
    wake(&one);
    finish(&one);
}

TEST(ended_frame_fiber_leaves_no_timer)
{
    struct timed one = {.after = {HOUR}};
    start(&one);
    wake(&one);
    finish(&one);
}

/* Returns false as above. */
static bool passes_between(int64_t first)
{
    struct timed one = {.after = {first, HOUR, 5 * MS}, .busy = 2 * first, .first_is_over = true};
    start(&one);
    poll_to(&one, 1);
    for (int64_t until = weft_after(2 * first); weft_now() < until;) {
        CHECK(weft_dispatcher_poll(dispatcher) >= 0);
    }
    CHECK_EQ(one.ended, 1);
    wake(&one);
    poll_to(&one, 3);
    CHECK_EQ(one.status[2], -ETIMEDOUT);
    finish(&one);
    CHECK(one.status[0] == 0 || one.status[0] == -ETIMEDOUT);
    return one.status[0] == 0;
}

TEST(deadline_passing_between_two_waits_ends_neither)
{
    int64_t first = MS;
    while (!passes_between(first)) {
        first *= 2;
        CHECK(first < HOUR);
    }
}
