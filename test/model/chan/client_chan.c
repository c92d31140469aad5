/* Clients of chan/chan.c: every item that was sent is received once, whatever races with it. */
#include <errno.h>

#define FIBERS 3
#include "chan/chan.h"
#include "model/fibers.h"

static weft_chan *chan;
static struct weft_chan place;
static uint64_t slots[2], sending[FIBERS];
#define LENGTH (place.tail - place.head)
static int sent, got[4], results[FIBERS]; /* got: how often each item was received */

static void setup_of(size_t capacity)
{
    fibers_setup();
    memset(&place, 0, sizeof place);
    memset(slots, 0, sizeof slots);
    memset(got, 0, sizeof got);
    place.item_bytes = sizeof(uint64_t);
    place.slots = (char *)slots;
    place.capacity = place.max_capacity = capacity;
    chan = &place;
    sent = 0;
    for (int i = 0; i < FIBERS; i++) {
        results[i] = 1;
    }
    x_name(&place, sizeof place, "chan");
}

static void setup(void)
{
    setup_of(0);
}

static void setup_one_slot(void)
{
    setup_of(1);
}

static void send_item(int thread, uint64_t item, int64_t deadline)
{
    sending[thread] = item;
    results[thread] = weft_chan_send(chan, &sending[thread], deadline);
    sending[thread] = 77; /* no thread reads it any more */
}

static void receive(int thread, int64_t deadline)
{
    uint64_t item = 99;
    results[thread] = weft_chan_recv(chan, &item, deadline);
    if (results[thread] == 0) {
        X_ASSERT(item < 4);
        got[item]++;
    }
}

static void rest(void)
{
    fibers_rest();
    X_ASSERT(!place.source.waiters.first && !place.senders.first);
}

/* --- two threads ------------------------------------------------------------------- */

static void send_against_recv(int i)
{
    if (i == 0) {
        receive(0, WEFT_FOREVER);
        X_ASSERT(results[0] == 0 && got[1] == 1 && sent == 1);
    } else if (i == 1) {
        sent = 1; /* plain: the hand-over orders it */
        send_item(1, 1, WEFT_FOREVER);
        X_ASSERT(results[1] == 0);
    }
}

/* Two items through one slot: the second send may have to wait for the first receive. */
static void two_items(int i)
{
    if (i == 0) {
        receive(0, WEFT_FOREVER);
        X_ASSERT(got[1] == 1 && got[2] == 0);
        receive(0, WEFT_FOREVER);
    } else if (i == 1) {
        send_item(1, 1, WEFT_FOREVER);
        send_item(1, 2, WEFT_FOREVER);
    }
}

static void two_items_came(void)
{
    rest();
    X_ASSERT(got[1] == 1 && got[2] == 1 && LENGTH == 0);
}

static void close_against_recv(int i)
{
    if (i == 0) {
        receive(0, WEFT_FOREVER);
        X_ASSERT(results[0] == -EPIPE && sent == 1);
    } else if (i == 1) {
        sent = 1;
        weft_chan_close(chan);
    }
}

static void close_against_send(int i)
{
    if (i == 0) {
        send_item(0, 1, WEFT_FOREVER);
        X_ASSERT(results[0] == -EPIPE);
    } else if (i == 1) {
        weft_chan_close(chan);
    }
}

/* There is no receiver: the first send has space, unless it comes too late. */
static void close_against_sends_slot(int i)
{
    if (i == 0) {
        send_item(0, 1, WEFT_FOREVER);
        X_ASSERT(results[0] == 0 || results[0] == -EPIPE);
        send_item(0, 2, WEFT_FOREVER);
        X_ASSERT(results[0] == -EPIPE);
    } else if (i == 1) {
        weft_chan_close(chan);
    }
}

/* --- three threads ------------------------------------------------------------------- */

/* Two receivers wait, one item: one gets it, and the close ends the other's wait. */
static void two_receivers_one_item(int i)
{
    if (i < 2) {
        receive(i, WEFT_FOREVER);
    } else {
        send_item(2, 1, WEFT_FOREVER);
        weft_chan_close(chan);
    }
}

static void one_got_it(void)
{
    rest();
    X_ASSERT(results[2] == 0 && got[1] == 1);
    X_ASSERT((results[0] == 0) != (results[1] == 0));
    X_ASSERT(results[0] + results[1] == -EPIPE);
}

static void two_senders_one_receiver(int i)
{
    if (i < 2) {
        send_item(i, (uint64_t)i, WEFT_FOREVER);
        X_ASSERT(results[i] == 0);
    } else {
        receive(2, WEFT_FOREVER);
        receive(2, WEFT_FOREVER);
    }
}

static void both_came(void)
{
    rest();
    X_ASSERT(got[0] == 1 && got[1] == 1 && LENGTH == 0);
}

static void recv_deadline_against_send(int i)
{
    if (i == 0) {
        receive(0, LATER);
    } else if (i == 1) {
        send_item(1, 1, 0);
        weft_chan_close(chan); /* the clock may have come too early to end the wait */
    } else {
        fibers_expire(0);
    }
}

static void send_deadline_against_recv(int i)
{
    if (i == 0) {
        send_item(0, 1, LATER);
    } else if (i == 1) {
        receive(1, 0);
        weft_chan_close(chan);
    } else {
        fibers_expire(0);
    }
}

/* Both sides report the hand-over, or neither does. */
static void both_agree(void)
{
    rest();
    X_ASSERT((results[0] == 0) == (results[1] == 0));
    X_ASSERT(results[0] == 0 || results[0] == -ETIMEDOUT || results[0] == -EPIPE);
    X_ASSERT(got[1] == (results[0] == 0));
}

/* An interrupted receiver leaves the item to the other. */
static void interrupt_against_send(int i)
{
    if (i == 0) {
        receive(0, WEFT_FOREVER);
    } else if (i == 1) {
        send_item(1, 1, 0);
    } else {
        X_ASSERT(weft_fiber_interrupt(HANDLE(0)) == 0);
    }
}

static void item_or_interrupt(void)
{
    rest();
    X_ASSERT(results[0] == 0 || results[0] == -EINTR);
    X_ASSERT(got[1] + (int)LENGTH == (results[1] == 0)); /* with a slot: the slot may hold the
                                                          * item */
    X_ASSERT(results[0] != 0 || results[1] == 0);
}

/* A sender that waits for the slot gives up, or the receiver takes both. */
static void full_send_deadline(int i)
{
    if (i == 0) {
        send_item(0, 1, WEFT_FOREVER);
        send_item(0, 2, LATER);
    } else if (i == 1) {
        receive(1, WEFT_FOREVER);
    } else {
        fibers_expire(0);
    }
}

static void accepted_is_held(void)
{
    rest();
    X_ASSERT(got[1] == 1 && got[2] == 0);
    X_ASSERT(LENGTH == (results[0] == 0));
    X_ASSERT(results[0] != 0 || slots[0] == 2);
}

static const struct x_client clients[] = {
    X_CLIENT("send_against_recv", 2, setup, send_against_recv, rest),
    X_CLIENT("send_against_recv_slot", 2, setup_one_slot, send_against_recv, rest),
    X_CLIENT("close_against_recv", 2, setup, close_against_recv, rest),
    X_CLIENT("close_against_send", 2, setup, close_against_send, rest),
    X_CLIENT("close_against_sends_slot", 2, setup_one_slot, close_against_sends_slot, rest),
    X_CLIENT("recv_deadline_against_send", 3, setup, recv_deadline_against_send, both_agree,
             .preemptions = 2, .stale = 1),
    X_CLIENT("send_deadline_against_recv", 3, setup, send_deadline_against_recv, both_agree,
             .preemptions = 2, .stale = 1),
    X_CLIENT("interrupt_against_send", 3, setup_one_slot, interrupt_against_send, item_or_interrupt,
             .preemptions = 2, .stale = 1),
    X_CLIENT("full_send_deadline", 3, setup_one_slot, full_send_deadline, accepted_is_held,
             .preemptions = 2, .stale = 1),
    X_CLIENT("two_receivers_one_item", 3, setup, two_receivers_one_item, one_got_it,
             .preemptions = 1, .stale = 1),
    X_CLIENT("two_items", 2, setup_one_slot, two_items, two_items_came, .preemptions = 2,
             .stale = 1),
    X_CLIENT("two_senders_one_receiver", 3, setup, two_senders_one_receiver, both_came,
             .preemptions = 1, .stale = 1),
};

X_MAIN(clients)
