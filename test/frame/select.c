/* labels: valgrind */
/* Waiting in a frame for the first of several events. */
#include "frame/fixture.h"

struct chooser {
    weft_frame frame;
    struct weft_wait waits[6];
    struct weft_case cases[6];
    size_t n;
    int64_t deadline;
    struct weft_got got;
};

static enum weft_step chosen(weft_frame *f, struct weft_got got)
{
    SELF(chooser);
    self->got = got;
    return weft_frame_return(f, NULL);
}

static enum weft_step chooses(weft_frame *f, struct weft_got got)
{
    SELF(chooser);
    (void)got;
    return weft_frame_select(f, self->waits, self->cases, self->n, self->deadline,
                             WEFT_THEN(chosen));
}

static const struct weft_frame_kind choosing = {.name = "chooser", .start = chooses};

struct things {
    weft_chan *in, *out;
    weft_event event;
    weft_future *future;
    weft_cond cond;
    int received, sent;
};

static void things_open(struct things *t)
{
    *t = (struct things){.sent = 5};
    CHECK_EQ(weft_chan_create(&t->in, sizeof(int), NULL), 0);
    CHECK_EQ(weft_chan_create(&t->out, sizeof(int), NULL), 0);
    CHECK_EQ(weft_future_create(&t->future, NULL), 0);
    weft_event_init(&t->event, NULL);
    weft_cond_init(&t->cond, NULL);
}

static void things_close(struct things *t)
{
    weft_chan_destroy(t->in);
    weft_chan_destroy(t->out);
    weft_future_unref(t->future);
    weft_event_deinit(&t->event);
    weft_cond_deinit(&t->cond);
}

static struct chooser among(struct things *t)
{
    struct chooser c = {
        .cases = {weft_case_recv(t->in, &t->received), weft_case_send(t->out, &t->sent),
                  weft_case_event(&t->event), weft_case_future(t->future),
                  weft_case_cond(&t->cond, NULL), weft_case_at(WEFT_FOREVER)},
        .n = 6,
        .deadline = WEFT_FOREVER,
    };
    weft_frame_init(&c.frame, &choosing);
    return c;
}

static void do_one(struct things *t, int which)
{
    int item = 9;
    switch (which) {
    case 0:
        CHECK_EQ(weft_chan_send(t->in, &item, WEFT_FOREVER), 0);
        break;
    case 1:
        CHECK_EQ(weft_chan_recv(t->out, &item, WEFT_FOREVER), 0);
        CHECK_EQ(item, 5);
        break;
    case 2:
        weft_event_set(&t->event);
        break;
    case 3:
        weft_future_complete(t->future, NULL);
        break;
    default:
        weft_cond_signal(&t->cond);
        break;
    }
}

EACH_HOME(each_kind_of_case_ends_frame_select)
{
    for (int which = 0; which < 5; which++) {
        struct things t;
        things_open(&t);
        struct chooser c = among(&t);
        weft_fiber fiber = home_waiting(home, &c.frame);
        do_one(&t, which);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(c.got.status, which);
        CHECK(c.got.value == &c.cases[which]);
        CHECK_EQ(c.cases[which].status, 0);
        CHECK_EQ(t.received, which == 0 ? 9 : 0);
        things_close(&t);
    }
}

EACH_HOME(frame_select_executes_ready_case_immediately)
{
    static const int ready[] = {2, 3};
    for (int i = 0; i < 2; i++) {
        struct things t;
        things_open(&t);
        do_one(&t, ready[i]);
        struct chooser c = among(&t);
        CHECK_EQ(home_run(home, &c.frame, NULL), 0);
        CHECK_EQ(c.got.status, ready[i]);
        things_close(&t);
    }
}

EACH_HOME(frame_select_distinguishes_time_case_from_deadline)
{
    struct things t;
    things_open(&t);
    struct chooser c = among(&t);
    int64_t began = weft_now();
    c.cases[5] = weft_case_at(began + 2 * MS);
    CHECK_EQ(home_run(home, &c.frame, NULL), 0);
    CHECK_EQ(c.got.status, 5);
    CHECK(weft_now() >= began + 2 * MS);
    c = among(&t);
    c.deadline = weft_after(MS);
    CHECK_EQ(home_run(home, &c.frame, NULL), 0);
    CHECK_EQ(c.got.status, -ETIMEDOUT);
    c = among(&t);
    c.deadline = 0;
    CHECK_EQ(home_run(home, &c.frame, NULL), 0);
    CHECK_EQ(c.got.status, -ETIMEDOUT);
    things_close(&t);
}

EACH_HOME(closed_channel_ends_frame_select)
{
    struct things t;
    things_open(&t);
    struct chooser c = among(&t);
    weft_fiber fiber = home_waiting(home, &c.frame);
    weft_chan_close(t.in);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(c.got.status, 0);
    CHECK_EQ(c.cases[0].status, -EPIPE);
    things_close(&t);
}

EACH_HOME(cancelled_frame_select_leaves_all_cases_unchanged)
{
    struct things t;
    things_open(&t);
    struct chooser c = among(&t);
    weft_fiber fiber = home_waiting(home, &c.frame);
    CHECK_EQ(weft_cancel(fiber), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), -ECANCELED);
    int item = 3;
    CHECK_EQ(weft_chan_send(t.in, &item, 0), -ETIMEDOUT); /* no receiver */
    things_close(&t);
}

/* --- two frames that select from each other's channels ---------------------------------------- */

struct trader {
    weft_frame frame;
    struct weft_wait waits[2];
    struct weft_case cases[2];
    weft_chan *buys, *sells;
    int item, sent, received;
    int left;
};

static enum weft_step trades(weft_frame *f, struct weft_got got)
{
    SELF(trader);
    if (got.value) {
        CHECK(got.value == &self->cases[got.status]);
        *(got.status ? &self->sent : &self->received) += 1;
        self->left--;
    }
    if (self->left == 0) {
        return weft_frame_return(f, NULL);
    }
    self->cases[0] = weft_case_recv(self->buys, &self->item);
    self->cases[1] = weft_case_send(self->sells, &self->left);
    return weft_frame_select(f, self->waits, self->cases, 2, WEFT_FOREVER, WEFT_THEN(trades));
}

static const struct weft_frame_kind trading = {.name = "trader", .start = trades};

EACH_HOME(frame_select_executes_exactly_one_case)
{
    enum { DEALS = 2000 };
    weft_chan *chans[2];
    CHECK_EQ(weft_chan_create(&chans[0], sizeof(int), NULL), 0);
    CHECK_EQ(weft_chan_create(&chans[1], sizeof(int), NULL), 0);
    struct trader a = {.buys = chans[0], .sells = chans[1], .left = DEALS};
    struct trader b = {.buys = chans[1], .sells = chans[0], .left = DEALS};
    weft_frame_init(&a.frame, &trading);
    weft_frame_init(&b.frame, &trading);
    weft_fiber first = home_spawn(home, &a.frame), second = home_spawn(home, &b.frame);
    CHECK_EQ(weft_join(first, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_join(second, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(a.sent, b.received);
    CHECK_EQ(b.sent, a.received);
    CHECK_EQ(a.sent + a.received, DEALS);
    weft_chan_destroy(chans[0]);
    weft_chan_destroy(chans[1]);
}
