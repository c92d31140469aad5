/* Every kind of wait, except for locks (test/frame/lock.c), with everything that can end it, in a
 * group and in a pool with two workers.
 *
 * Counterparts of the original's tests:
 *   ConditionTest  timeout resumes normally, a signal wakes a timed wait, interrupt:
 *                  frame_timeout_is_status_and_for_future_error, plain_thread_ends_frame_wait,
 *                  interrupt_of_frame_wait_throws_once
 *   FutureTest     timeout and interrupt throw, interrupt before the start hits the first wait,
 *                  from another thread
 *   ChannelTest    a timed take of an empty channel, a foreign offer wakes the consumer
 *   JoinTest       with and without a deadline
 *   SleepTest      an interrupt ends a long sleep, and the continuation does not run
 * Faults of the original: timeouts of 0 and less meant "for ever"
 * (past_deadline_ends_frame_wait_immediately); there was no single rule for which waits an
 * interrupt ends (interrupt_before_frame_wait_is_delivered_by_wait).
 */
#include <sys/socket.h>

#include "base/assert.h"
#include "frame/fixture.h"

struct waiter;

/* One kind of wait. */
struct kind {
    const char *name;
    enum weft_step (*wait)(struct waiter *self);
    void (*satisfy)(struct waiter *self);
    bool throws_timeout;
    bool remembers; /* if satisfied before, it returns at once */
    int timeout;    /* got.status of a timeout */
};

struct waiter {
    weft_frame frame;
    struct weft_wait waits[3];
    const struct kind *kind;
    int64_t deadline;
    /* the objects it waits on */
    weft_event event;
    weft_cond cond, others[2];
    weft_sem sem;
    weft_future *future;
    weft_chan *chan;
    weft_event joined_may_end;
    weft_fiber joined;
    int ends[2];
    struct weft_case cases[2];
    int item;
    _Atomic(weft_fiber) self;
    /* the results */
    int status, code, steps, handled, finals;
    atomic_bool waits_again;
    void *value;
    struct weft_fiber_ended_wait ended;
    char message[80];
    int ended_err;
    bool again; /* wait once more after an error */
};

static enum weft_step goes_on(weft_frame *f, struct weft_got got)
{
    SELF(waiter);
    self->status = got.status;
    self->value = got.value;
    return weft_frame_return(f, self);
}

static enum weft_step starts(weft_frame *f, struct weft_got got)
{
    SELF(waiter);
    (void)got;
    atomic_store(&self->self, weft_self());
    self->steps++;
    return self->kind->wait(self);
}

static enum weft_step handles(weft_frame *f, const weft_error *error)
{
    SELF(waiter);
    self->handled++;
    self->code = weft_error_code(error);
    self->ended_err = weft_fiber_ended_wait(&self->ended);
    snprintf(self->message, sizeof self->message, "%s", weft_error_message(error));
    CHECK_EQ(weft_error_frames(error), 1);
    CHECK_STR(weft_error_frame(error, 0).frame, "waiter");
    if (self->again) {
        atomic_store(&self->waits_again, true);
        return self->kind->wait(self);
    }
    return weft_frame_return(f, NULL);
}

static enum weft_step ends(weft_frame *f)
{
    SELF(waiter);
    self->finals++;
    return weft_frame_done(f);
}

static const struct weft_frame_kind waiting = {
    .name = "waiter", .start = starts, .handle = handles, .finally = ends};

/* --- the kinds --------------------------------------------------------------------------- */

#define THEN WEFT_THEN(goes_on)

static enum weft_step on_event(struct waiter *w)
{
    return weft_frame_await_event(&w->frame, w->waits, &w->event, w->deadline, THEN);
}

static void set_event(struct waiter *w)
{
    weft_event_set(&w->event);
}

static enum weft_step on_sem(struct waiter *w)
{
    return weft_frame_await_sem(&w->frame, w->waits, &w->sem, 3, w->deadline, THEN);
}

static void release_permits(struct waiter *w)
{
    weft_sem_release(&w->sem, 3);
}

static enum weft_step on_cond(struct waiter *w)
{
    return weft_frame_await_cond(&w->frame, w->waits, &w->cond, w->deadline, THEN);
}

static void signal_cond(struct waiter *w)
{
    weft_cond_signal(&w->cond);
}

static enum weft_step on_conds(struct waiter *w)
{
    weft_cond *const conds[] = {&w->others[0], &w->cond, &w->others[1]};
    return weft_frame_await_conds(&w->frame, w->waits, conds, 3, w->deadline, THEN);
}

static enum weft_step on_future(struct waiter *w)
{
    return weft_frame_await_future(&w->frame, w->waits, w->future, w->deadline, THEN);
}

static void complete(struct waiter *w)
{
    weft_future_complete(w->future, w);
}

static enum weft_step on_recv(struct waiter *w)
{
    return weft_frame_await_recv(&w->frame, w->waits, w->chan, &w->item, w->deadline, THEN);
}

static void send_one(struct waiter *w)
{
    int item = 7;
    CHECK_EQ(weft_chan_send(w->chan, &item, 0), 0);
}

static enum weft_step on_send(struct waiter *w)
{
    return weft_frame_await_send(&w->frame, w->waits, w->chan, &w->item, w->deadline, THEN);
}

static void take_one(struct waiter *w)
{
    int item;
    CHECK_EQ(weft_chan_recv(w->chan, &item, 0), 0);
}

static enum weft_step on_join(struct waiter *w)
{
    return weft_frame_await_join(&w->frame, w->waits, w->joined, w->deadline, THEN);
}

static void let_end(struct waiter *w)
{
    weft_event_set(&w->joined_may_end);
}

static enum weft_step on_fd(struct waiter *w)
{
    return weft_frame_await_fd(&w->frame, w->waits, w->ends[0], WEFT_READABLE, w->deadline, THEN);
}

static void write_byte(struct waiter *w)
{
    CHECK_EQ(write(w->ends[1], "x", 1), 1);
}

static enum weft_step on_select(struct waiter *w)
{
    w->cases[0] = weft_case_recv(w->chan, &w->item);
    w->cases[1] = weft_case_event(&w->event);
    return weft_frame_select(&w->frame, w->waits, w->cases, 2, w->deadline, THEN);
}

static enum weft_step on_park(struct waiter *w)
{
    return weft_frame_park(&w->frame, w->deadline, THEN);
}

static void unpark(struct waiter *w)
{
    weft_fiber fiber;
    while (!(fiber = atomic_load(&w->self))) {
        sched_yield();
    }
    CHECK_EQ(weft_fiber_unpark(fiber), 0);
}

static const struct kind kinds[] = {
    {"event", on_event, set_event, .remembers = true, .timeout = -ETIMEDOUT},
    {"semaphore", on_sem, release_permits, .remembers = true, .timeout = -ETIMEDOUT},
    {"condition", on_cond, signal_cond, .timeout = -ETIMEDOUT},
    {"condition", on_conds, signal_cond, .timeout = -ETIMEDOUT},
    {"future", on_future, complete, .remembers = true, .throws_timeout = true},
    {"channel receive", on_recv, send_one, .remembers = true, .timeout = -ETIMEDOUT},
    {"channel send", on_send, take_one, .remembers = true, .timeout = -ETIMEDOUT},
    {"join", on_join, let_end, .remembers = true, .timeout = -ETIMEDOUT},
    {"readiness", on_fd, write_byte, .remembers = true, .timeout = -ETIMEDOUT},
    {"select", on_select, set_event, .remembers = true, .timeout = -ETIMEDOUT},
    {"park", on_park, unpark, .timeout = -ETIMEDOUT},
};
#define KINDS (sizeof kinds / sizeof *kinds)

static void *ends_when_told(void *arg)
{
    struct waiter *w = arg;
    CHECK_EQ(weft_event_wait(&w->joined_may_end, WEFT_FOREVER), 0);
    return w;
}

static void open_waiter(const struct home *home, struct waiter *w, const struct kind *kind)
{
    *w = (struct waiter){.kind = kind, .deadline = WEFT_FOREVER, .status = 77};
    weft_frame_init(&w->frame, &waiting);
    weft_event_init(&w->event, &(struct weft_sync_opts){.name = "gate"});
    weft_event_init(&w->joined_may_end, NULL);
    weft_cond_init(&w->cond, NULL);
    weft_sem_init(&w->sem, 0, NULL);
    weft_cond_init(&w->others[0], NULL);
    weft_cond_init(&w->others[1], NULL);
    CHECK_EQ(weft_future_create(&w->future, NULL), 0);
    CHECK_EQ(weft_chan_create(&w->chan, sizeof(int),
                              &(struct weft_chan_opts){.name = "numbers", .capacity = 1}),
             0);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, w->ends), 0);
    if (kind->wait == on_join) {
        w->joined = home_spawn_fn(home, ends_when_told, w);
    }
    if (kind->wait == on_send) {
        CHECK_EQ(weft_chan_send(w->chan, &w->item, 0), 0); /* it is full */
    }
}

/* Checks that nothing waits any more: these calls would fail. */
static void close_waiter(struct waiter *w, weft_fiber fiber)
{
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(w->finals, 1);
    CHECK_EQ(w->steps, 1);
    if (w->joined) {
        weft_event_set(&w->joined_may_end);
        int err = weft_join(w->joined, NULL, WEFT_FOREVER);
        CHECK(err == 0 || err == -ESRCH); /* the frame may have joined it */
    }
    weft_event_deinit(&w->event);
    weft_event_deinit(&w->joined_may_end);
    weft_cond_deinit(&w->cond);
    weft_sem_deinit(&w->sem);
    weft_cond_deinit(&w->others[0]);
    weft_cond_deinit(&w->others[1]);
    weft_future_unref(w->future);
    weft_chan_destroy(w->chan);
    weft_close(w->ends[0]);
    close(w->ends[1]);
}

static void was_satisfied(const struct waiter *w)
{
    CHECK_EQ(w->handled, 0);
    if (w->kind->wait == on_select) {
        CHECK_EQ(w->status, 1);
        CHECK(w->value == &w->cases[1]);
        return;
    }
    CHECK_EQ(w->status, 0);
    CHECK_EQ(weft_sem_permits(&w->sem), 0); /* the frame has them */
    if (w->kind->wait == on_future || w->kind->wait == on_join) {
        CHECK(w->value == w);
    } else if (w->kind->wait == on_cond || w->kind->wait == on_conds) {
        CHECK(w->value == &w->cond);
    } else if (w->kind->wait == on_recv) {
        CHECK_EQ(w->item, 7);
    }
}

#define EACH_KIND(w, kind)                                                                         \
    for (const struct kind *kind = kinds;                                                          \
         kind < kinds + KINDS && (open_waiter(home, &w, kind), 1); kind++)

/* --- satisfied ----------------------------------------------------------------------------- */

EACH_HOME(satisfied_frame_wait_returns_without_waiting)
{
    struct waiter w;
    EACH_KIND(w, kind)
    {
        if (kind->remembers) {
            kind->satisfy(&w);
            if (kind->wait == on_join) {
                await_state(w.joined, WEFT_FIBER_DONE);
            }
        } else {
            w.deadline = weft_after(MS);
        }
        weft_fiber fiber = home_spawn(home, &w.frame);
        close_waiter(&w, fiber);
        if (kind->remembers) {
            was_satisfied(&w);
        }
    }
}

/* Also in a cancelled fiber: this is no wait. */
EACH_HOME(cancelled_frame_still_gets_satisfied_wait)
{
    struct waiter w;
    EACH_KIND(w, kind)
    {
        weft_fiber fiber;
        if (kind->remembers) {
            kind->satisfy(&w);
            if (kind->wait == on_join) {
                await_state(w.joined, WEFT_FIBER_DONE);
            }
        }
        fiber = home_spawn(home, &w.frame);
        weft_cancel(fiber); /* before its first step, in the middle, or after it has ended */
        close_waiter(&w, fiber);
        if (kind->remembers) {
            was_satisfied(&w);
        } else {
            CHECK_EQ(w.code, -ECANCELED);
        }
    }
}

EACH_HOME(plain_thread_ends_frame_wait)
{
    struct waiter w;
    EACH_KIND(w, kind)
    {
        weft_fiber fiber = home_waiting(home, &w.frame);
        kind->satisfy(&w);
        close_waiter(&w, fiber);
        was_satisfied(&w);
    }
}

static void *satisfies(void *arg)
{
    struct waiter *w = arg;
    w->kind->satisfy(w);
    return NULL;
}

EACH_HOME(fiber_ends_frame_wait)
{
    struct waiter w;
    EACH_KIND(w, kind)
    {
        w.deadline = weft_after(1000000 * MS);
        weft_fiber fiber = home_waiting(home, &w.frame);
        weft_fiber other = home_spawn_fn(home, satisfies, &w);
        CHECK_EQ(weft_join(other, NULL, WEFT_FOREVER), 0);
        close_waiter(&w, fiber);
        was_satisfied(&w);
    }
}

EACH_HOME(fiber_of_other_group_ends_frame_wait)
{
    struct waiter w;
    if (!home->other) {
        return;
    }
    EACH_KIND(w, kind)
    {
        weft_fiber other, fiber = home_waiting(home, &w.frame);
        CHECK_EQ(weft_group_spawn(home->other, &other, satisfies, &w, NULL), 0);
        CHECK_EQ(weft_join(other, NULL, WEFT_FOREVER), 0);
        close_waiter(&w, fiber);
        was_satisfied(&w);
    }
}

/* --- time ------------------------------------------------------------------------------------- */

static void timed_out(const struct waiter *w)
{
    if (w->kind->throws_timeout) {
        CHECK_EQ(w->status, 77);
        CHECK_EQ(w->code, -ETIMEDOUT);
    } else {
        CHECK_EQ(w->handled, 0);
        CHECK_EQ(w->status, w->kind->timeout);
    }
}

EACH_HOME(frame_timeout_is_status_and_for_future_error)
{
    struct waiter w;
    EACH_KIND(w, kind)
    {
        int64_t began = weft_now();
        w.deadline = began + 2 * MS;
        close_waiter(&w, home_spawn(home, &w.frame));
        CHECK(weft_now() - began >= 2 * MS); /* never early */
        timed_out(&w);
    }
}

EACH_HOME(past_deadline_ends_frame_wait_immediately)
{
    const int64_t past[] = {0, weft_now() - 1, WEFT_DEBUG ? 0 : -5}; /* a bug in debug builds */
    struct waiter w;
    for (unsigned i = 0; i < 3; i++) {
        EACH_KIND(w, kind)
        {
            w.deadline = past[i];
            close_waiter(&w, home_spawn(home, &w.frame));
            timed_out(&w);
        }
    }
}

/* --- cancel, interrupt ------------------------------------------------------------------------ */

static void what_ended(const struct waiter *w)
{
    CHECK_EQ(w->ended_err, 0);
    CHECK_STR(w->ended.what, w->kind->name);
    if (w->kind->wait == on_join) {
        CHECK(w->ended.fiber == w->joined);
    } else if (w->kind->wait == on_event) {
        CHECK(w->ended.object == &w->event);
        CHECK_STR(w->ended.name, "gate");
        CHECK_STR(w->message, "event gate");
    } else if (w->kind->wait == on_select) {
        CHECK_STR(w->ended.name, "numbers");
        CHECK_EQ(w->ended.others, 1);
        CHECK_STR(w->message, "select numbers and 1 other");
    } else if (w->kind->wait == on_conds) {
        CHECK_EQ(w->ended.others, 2);
        CHECK_STR(w->message, "condition and 2 others");
    } else if (w->kind->wait == on_fd) {
        CHECK(strncmp(w->ended.name, "fd ", 3) == 0);
        CHECK(strncmp(w->message, "readiness fd ", 13) == 0);
    }
}

EACH_HOME(cancel_of_frame_wait_throws)
{
    struct waiter w;
    EACH_KIND(w, kind)
    {
        weft_fiber fiber = home_waiting(home, &w.frame);
        CHECK_EQ(weft_cancel(fiber), 0);
        close_waiter(&w, fiber);
        CHECK_EQ(w.status, 77);
        CHECK_EQ(w.handled, 1);
        CHECK_EQ(w.code, -ECANCELED);
        what_ended(&w);
    }
}

EACH_HOME(interrupt_of_frame_wait_throws_once)
{
    struct waiter w;
    EACH_KIND(w, kind)
    {
        w.again = true;
        weft_fiber fiber = home_waiting(home, &w.frame);
        CHECK_EQ(weft_fiber_interrupt(fiber), 0);
        while (!atomic_load(&w.waits_again)) {
            weft_yield();
        }
        await_state(fiber, WEFT_FIBER_WAITING);
        kind->satisfy(&w);
        close_waiter(&w, fiber);
        CHECK_EQ(w.handled, 1);
        CHECK_EQ(w.code, -EINTR);
        what_ended(&w);
        w.handled = 0;
        was_satisfied(&w);
    }
}

struct gate {
    weft_frame frame;
    struct weft_wait wait;
    weft_event *open;
    weft_frame *then;
};

static enum weft_step gate_done(weft_frame *f, struct weft_got got)
{
    return weft_frame_return(f, got.value);
}

static enum weft_step gate_opened(weft_frame *f, struct weft_got got)
{
    SELF(gate);
    (void)got;
    weft_fiber_shield_leave();
    return weft_frame_call(f, self->then, WEFT_THEN(gate_done));
}

static enum weft_step gate_waits(weft_frame *f, struct weft_got got)
{
    SELF(gate);
    (void)got;
    weft_fiber_shield_enter();
    return weft_frame_await_event(f, &self->wait, self->open, WEFT_FOREVER, WEFT_THEN(gate_opened));
}

static const struct weft_frame_kind gating = {.name = "gate", .start = gate_waits};

static enum weft_step starts_quietly(weft_frame *f, struct weft_got got)
{
    return starts(f, got);
}

static enum weft_step handles_quietly(weft_frame *f, const weft_error *error)
{
    SELF(waiter);
    self->handled++;
    self->code = weft_error_code(error);
    CHECK_EQ(weft_error_frames(error), 2); /* the victim's frames */
    CHECK_STR(weft_error_frame(error, 1).frame, "gate");
    return weft_frame_return(f, NULL);
}

static const struct weft_frame_kind waiting_in_gate = {
    .name = "waiter", .start = starts_quietly, .handle = handles_quietly, .finally = ends};

/* The flag was set while a shield was active; the first wait after the shield delivers it. */
static void ended_before(struct home *home, bool cancel)
{
    struct waiter w;
    EACH_KIND(w, kind)
    {
        weft_event open;
        weft_event_init(&open, NULL);
        struct gate gate = {.open = &open, .then = &w.frame};
        weft_frame_init(&gate.frame, &gating);
        weft_frame_init(&w.frame, &waiting_in_gate);
        weft_fiber fiber = home_waiting(home, &gate.frame);
        CHECK_EQ(cancel ? weft_cancel(fiber) : weft_fiber_interrupt(fiber), 0);
        weft_event_set(&open);
        close_waiter(&w, fiber);
        CHECK_EQ(w.status, 77);
        CHECK_EQ(w.code, cancel ? -ECANCELED : -EINTR);
        weft_event_deinit(&open);
    }
}

EACH_HOME(cancel_before_frame_wait_is_delivered_by_wait)
{
    ended_before(home, true);
}

EACH_HOME(interrupt_before_frame_wait_is_delivered_by_wait)
{
    ended_before(home, false);
}
