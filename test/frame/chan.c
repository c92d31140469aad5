/* labels: valgrind */
/* Channels and frames. Counterparts of the original's tests:
 *   ChannelTest    channel_items_reach_frames_in_order; a timed take and a foreign offer are in
 *                  test/frame/wait.c
 * Faults of the original that are tested here: with two waiting consumers, two offers woke one, and
 * an item was stuck (two_waiting_frames_get_two_items); there was no capacity limit and no close
 * (frame_sender_waits_for_channel_capacity, close_ends_waiting_frames_after_remaining_items); an
 * item without a value could not be taken, and was indistinguishable from a timeout (statuses are
 * distinct).
 */
#include "frame/fixture.h"

struct end {
    weft_frame frame;
    struct weft_wait wait;
    weft_chan *chan;
    int left, next, item, status;
    long sum;
    bool sends;
};

static enum weft_step one_more(weft_frame *f, struct weft_got got);

static enum weft_step done_one(weft_frame *f, struct weft_got got)
{
    SELF(end);
    self->status = got.status;
    if (got.status) {
        return weft_frame_return(f, NULL);
    }
    if (!self->sends) {
        CHECK(self->next < 0 || self->item == self->next++);
        self->sum += self->item;
    }
    self->left--;
    return one_more(f, got);
}

static enum weft_step one_more(weft_frame *f, struct weft_got got)
{
    SELF(end);
    (void)got;
    if (self->left == 0) {
        return weft_frame_return(f, NULL);
    }
    if (self->sends) {
        self->item = self->next++;
        return weft_frame_await_send(f, &self->wait, self->chan, &self->item, WEFT_FOREVER,
                                     WEFT_THEN(done_one));
    }
    return weft_frame_await_recv(f, &self->wait, self->chan, &self->item, WEFT_FOREVER,
                                 WEFT_THEN(done_one));
}

static const struct weft_frame_kind ending = {.name = "end", .start = one_more};

static struct end end_of(weft_chan *chan, bool sends, int n)
{
    struct end end = {.chan = chan, .sends = sends, .left = n};
    weft_frame_init(&end.frame, &ending);
    return end;
}

static weft_chan *chan_of(size_t capacity)
{
    weft_chan *chan;
    CHECK_EQ(weft_chan_create(&chan, sizeof(int), &(struct weft_chan_opts){.capacity = capacity}),
             0);
    return chan;
}

EACH_HOME(channel_items_reach_frames_in_order)
{
    for (size_t capacity = 0; capacity < 9; capacity += 4) {
        weft_chan *chan = chan_of(capacity);
        struct end in = end_of(chan, true, 1000), out = end_of(chan, false, 1000);
        weft_fiber first = home_spawn(home, &out.frame), second = home_spawn(home, &in.frame);
        CHECK_EQ(weft_join(first, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(weft_join(second, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(out.sum, 999 * 1000 / 2);
        weft_chan_destroy(chan);
    }
}

EACH_HOME(many_frame_senders_and_receivers_lose_no_item)
{
    enum { EACH = 8, ITEMS = 500 };
    static struct end in[EACH], out[EACH];
    weft_fiber fibers[2 * EACH];
    weft_chan *chan = chan_of(3);
    long sum = 0;
    for (int i = 0; i < EACH; i++) {
        in[i] = end_of(chan, true, ITEMS);
        out[i] = end_of(chan, false, ITEMS);
        out[i].next = -1; /* in any order */
        fibers[i] = home_spawn(home, &in[i].frame);
        fibers[EACH + i] = home_spawn(home, &out[i].frame);
    }
    for (int i = 0; i < 2 * EACH; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
        sum += i >= EACH ? out[i - EACH].sum : 0;
    }
    CHECK_EQ(sum, (long)EACH * (ITEMS - 1) * ITEMS / 2);
    weft_chan_destroy(chan);
}

EACH_HOME(two_waiting_frames_get_two_items)
{
    weft_chan *chan = chan_of(8);
    struct end a = end_of(chan, false, 1), b = end_of(chan, false, 1);
    int item = 0;
    weft_fiber first = home_waiting(home, &a.frame), second = home_waiting(home, &b.frame);
    CHECK_EQ(weft_chan_send(chan, &item, 0), 0);
    CHECK_EQ(weft_chan_send(chan, &item, 0), 0);
    CHECK_EQ(weft_join(first, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_join(second, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_chan_length(chan), 0);
    weft_chan_destroy(chan);
}

EACH_HOME(frame_sender_waits_for_channel_capacity)
{
    weft_chan *chan = chan_of(1);
    struct end in = end_of(chan, true, 3);
    weft_fiber fiber = home_waiting(home, &in.frame);
    for (int i = 0; i < 3; i++) {
        int item = -1;
        CHECK_EQ(weft_chan_recv(chan, &item, WEFT_FOREVER), 0);
        CHECK_EQ(item, i);
    }
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    weft_chan_destroy(chan);
}

EACH_HOME(close_ends_waiting_frames_after_remaining_items)
{
    weft_chan *chan = chan_of(4);
    struct end out = end_of(chan, false, 10);
    int item = 0;
    weft_fiber fiber = home_waiting(home, &out.frame);
    CHECK_EQ(weft_chan_send(chan, &item, 0), 0);
    item = 1;
    CHECK_EQ(weft_chan_send(chan, &item, 0), 0);
    weft_chan_close(chan);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(out.status, -EPIPE);
    CHECK_EQ(out.left, 8);
    out = end_of(chan, false, 1); /* already closed */
    CHECK_EQ(home_run(home, &out.frame, NULL), 0);
    CHECK_EQ(out.status, -EPIPE);
    weft_chan_destroy(chan);
    chan = chan_of(0);
    struct end in = end_of(chan, true, 1);
    fiber = home_waiting(home, &in.frame);
    weft_chan_close(chan);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(in.status, -EPIPE);
    in = end_of(chan, true, 1);
    CHECK_EQ(home_run(home, &in.frame, NULL), 0);
    CHECK_EQ(in.status, -EPIPE);
    weft_chan_destroy(chan);
}

/* An item that a cancelled receive did not take is there for the next. */
EACH_HOME(cancelled_frame_receive_takes_no_item)
{
    weft_chan *chan = chan_of(4);
    for (int i = 0; i < 50; i++) {
        struct end out = end_of(chan, false, 1);
        out.next = -1;
        weft_fiber fiber = home_waiting(home, &out.frame);
        int item = i + 1, rest = 0;
        CHECK_EQ(weft_cancel(fiber), 0);
        CHECK_EQ(weft_chan_send(chan, &item, 0), 0);
        int err = weft_join(fiber, NULL, WEFT_FOREVER);
        CHECK_EQ(err, -ECANCELED);
        CHECK_EQ(weft_chan_recv(chan, &rest, 0), 0);
        CHECK_EQ(rest, item);
    }
    weft_chan_destroy(chan);
}
