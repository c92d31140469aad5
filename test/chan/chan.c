/* labels: valgrind */
#include <weft/chan.h>

#include "base/alloc.h"
#include "chan/chan.h"
#include "sync/fixture.h"
#include "sync/stackless.h"

#define MS INT64_C(1000000)

static weft_chan *chan;

static void fresh(size_t capacity, size_t max)
{
    const struct weft_chan_opts opts = {.name = "mail", .capacity = capacity, .max_capacity = max};
    CHECK_EQ(weft_chan_create(&chan, sizeof(int), &opts), 0);
}

static int send_one(int item, int64_t deadline)
{
    return weft_chan_send(chan, &item, deadline);
}

/* Returns the item, or the error; items are not negative here. */
static int recv_one(int64_t deadline)
{
    int item = -1000, err = weft_chan_recv(chan, &item, deadline);
    return err ? err : item;
}

TEST(growing_channel_never_exceeds_max_capacity)
{
    for (int max = 1; max <= 9; max++) {
        fresh(0, (size_t)max);
        for (int i = 0; i < max; i++) {
            CHECK_EQ(send_one(i, 0), 0);
        }
        CHECK_EQ(send_one(max, 0), -ETIMEDOUT);
        CHECK_EQ(weft_chan_length(chan), max);
        for (int i = 0; i < max; i++) {
            CHECK_EQ(recv_one(0), i);
        }
        weft_chan_destroy(chan);
    }
}

static void *receives(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)recv_one(WEFT_FOREVER);
}

static void *sends(void *arg)
{
    return (void *)(intptr_t)send_one((int)(intptr_t)arg, WEFT_FOREVER);
}

static weft_fiber waiting(weft_fn fn, int arg)
{
    return waiting_in(fn, (void *)(intptr_t)arg);
}

TEST(bounded_channel_holds_capacity_items_in_order)
{
    fresh(3, 0);
    for (int lap = 0; lap < 5; lap++) {
        for (int i = 0; i < 3; i++) {
            CHECK_EQ(send_one(i, 0), 0);
        }
        CHECK_EQ(weft_chan_length(chan), 3);
        CHECK_EQ(send_one(3, 0), -ETIMEDOUT);
        CHECK_EQ(recv_one(0), 0);
        CHECK_EQ(send_one(3, 0), 0);
        for (int i = 1; i <= 3; i++) {
            CHECK_EQ(recv_one(0), i);
        }
        CHECK_EQ(recv_one(0), -ETIMEDOUT);
    }
    weft_chan_destroy(chan);
}

TEST(unbuffered_channel_holds_no_items)
{
    fresh(0, 0);
    CHECK_EQ(send_one(1, 0), -ETIMEDOUT);
    CHECK_EQ(recv_one(0), -ETIMEDOUT);
    CHECK_EQ(weft_chan_length(chan), 0);
    weft_chan_destroy(chan);
}

TEST(growing_channel_grows_to_maximum_and_keeps_order)
{
    fresh(2, 13);
    CHECK_EQ(send_one(100, 0), 0);
    CHECK_EQ(recv_one(0), 100); /* so that the first growth finds a wrapped ring */
    for (int i = 0; i < 13; i++) {
        CHECK_EQ(send_one(i, 0), 0);
    }
    CHECK_EQ(send_one(13, 0), -ETIMEDOUT);
    for (int i = 0; i < 13; i++) {
        CHECK_EQ(recv_one(0), i);
    }
    CHECK_EQ(recv_one(0), -ETIMEDOUT);
    weft_chan_destroy(chan);
}

TEST(channel_without_memory_is_neither_created_nor_grown)
{
    fresh(1, 8);
    weft__alloc_fail_after(1, true);
    CHECK_EQ(send_one(1, 0), 0);
    CHECK_EQ(send_one(2, 0), -ETIMEDOUT);
    weft__alloc_fail_after(0, false);
    CHECK_EQ(send_one(2, 0), 0);
    CHECK_EQ(recv_one(0), 1);
    CHECK_EQ(recv_one(0), 2);
    weft_chan_destroy(chan);
    for (int nth = 1; nth <= 2; nth++) {
        weft__alloc_fail_after(nth, false);
        CHECK_EQ(weft_chan_create(&chan, 4, &(struct weft_chan_opts){.capacity = 9}), -ENOMEM);
    }
    weft__alloc_fail_after(0, false);
    CHECK_EQ(weft_chan_create(&chan, 16, &(struct weft_chan_opts){.capacity = SIZE_MAX / 8}),
             -EINVAL);
    CHECK_EQ(weft_chan_create(&chan, SIZE_MAX, NULL), -EINVAL);
}

TEST(channel_items_can_be_null_empty_or_large)
{
    weft_chan *c;
    void *null = &null;
    const struct weft_chan_opts two = {.capacity = 1, .max_capacity = 2};
    CHECK_EQ(weft_chan_create(&c, sizeof(void *), &two), 0);
    CHECK_EQ(weft_chan_send(c, &(void *){NULL}, 0), 0);
    CHECK_EQ(weft_chan_recv(c, &null, 0), 0);
    CHECK(!null);
    weft_chan_destroy(c);

    CHECK_EQ(weft_chan_create(&c, 0, &two), 0);
    CHECK_EQ(weft_chan_send(c, NULL, 0), 0);
    CHECK_EQ(weft_chan_send(c, NULL, 0), 0);
    CHECK_EQ(weft_chan_send(c, NULL, 0), -ETIMEDOUT);
    CHECK_EQ(weft_chan_recv(c, NULL, 0), 0);
    CHECK_EQ(weft_chan_length(c), 1);
    weft_chan_destroy(c);
    weft_chan_destroy(NULL);

    char big[3000], back[3000];
    memset(big, 'x', sizeof big);
    CHECK_EQ(weft_chan_create(&c, sizeof big, &two), 0);
    CHECK_EQ(weft_chan_send(c, big, 0), 0);
    CHECK_EQ(weft_chan_send(c, big, 0), 0);
    CHECK_EQ(weft_chan_recv(c, back, 0), 0);
    CHECK(memcmp(big, back, sizeof big) == 0);
    weft_chan_destroy(c);
}

static void *hands_over(void *arg)
{
    (void)arg;
    weft_fiber receivers[3];
    for (int i = 0; i < 3; i++) {
        receivers[i] = waiting(receives, 0);
    }
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(send_one(i, 0), 0); /* needs no capacity: a receiver waits */
    }
    CHECK_EQ(weft_chan_length(chan), 0);
    for (int i = 0; i < 3; i++) {
        joined(receivers[i], i);
    }
    return NULL;
}

TEST(item_is_handed_to_longest_waiting_receiver)
{
    for (size_t capacity = 0; capacity < 2; capacity++) {
        fresh(capacity, 0);
        run_in_fiber(1, hands_over, NULL);
        weft_chan_destroy(chan);
    }
}

static void *senders_wait(void *arg)
{
    int capacity = (int)(intptr_t)arg;
    for (int i = 0; i < capacity; i++) {
        CHECK_EQ(send_one(i, 0), 0);
    }
    weft_fiber senders[3];
    for (int i = 0; i < 3; i++) {
        senders[i] = waiting(sends, capacity + i);
    }
    for (int i = 0; i < capacity + 3; i++) {
        CHECK_EQ(recv_one(0), i);
    }
    for (int i = 0; i < 3; i++) {
        joined(senders[i], 0);
    }
    CHECK_EQ(recv_one(0), -ETIMEDOUT);
    return NULL;
}

TEST(waiting_senders_are_served_in_order)
{
    for (int capacity = 0; capacity < 4; capacity++) {
        fresh((size_t)capacity, 0);
        run_in_fiber(1, senders_wait, (void *)(intptr_t)capacity);
        weft_chan_destroy(chan);
    }
}

static void *many(void *arg)
{
    int in[10] = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9}, out[10];
    CHECK_EQ(weft_chan_send_many(chan, in, 0, 0), 0);
    CHECK_EQ(weft_chan_recv_many(chan, out, 0, 0), 0);
    CHECK_EQ(weft_chan_recv_many(chan, out, 10, 0), -ETIMEDOUT);
    CHECK_EQ(weft_chan_send_many(chan, in, 3, WEFT_FOREVER), 3);
    CHECK_EQ(weft_chan_recv_many(chan, out, 2, WEFT_FOREVER), 2);
    CHECK_EQ(weft_chan_send_many(chan, in + 3, 7, WEFT_FOREVER), 3); /* as many as fit */
    CHECK_EQ(weft_chan_send_many(chan, in, 1, 0), -ETIMEDOUT);
    weft_fiber late = waiting(sends, 6);
    CHECK_EQ(weft_chan_recv_many(chan, out + 2, 8, WEFT_FOREVER),
             5); /* including the item of the waiting sender */
    joined(late, 0);
    for (int i = 0; i < 7; i++) {
        CHECK_EQ(out[i], i);
    }
    weft_fiber two[2] = {waiting(receives, 0), waiting(receives, 0)};
    CHECK_EQ(weft_chan_send_many(chan, in + 4, 6, WEFT_FOREVER), 6);
    joined(two[0], 4);
    joined(two[1], 5);
    weft_chan_close(chan);
    CHECK_EQ(weft_chan_recv_many(chan, out, 10, WEFT_FOREVER), 4);
    CHECK_EQ(out[3], 9);
    CHECK_EQ(weft_chan_recv_many(chan, out, 10, WEFT_FOREVER), -EPIPE);
    CHECK_EQ(weft_chan_send_many(chan, in, 2, WEFT_FOREVER), -EPIPE);
    return arg;
}

static void *receives_many(void *arg)
{
    int out[8];
    ssize_t n = weft_chan_recv_many(chan, out, 8, WEFT_FOREVER);
    CHECK(n >= 1 && out[n - 1] == n);
    return arg ? (void *)n : NULL;
}

static void *many_wait(void *arg)
{
    int in[3] = {1, 2, 3};
    weft_fiber fiber = waiting(receives_many, 1);
    CHECK_EQ(weft_chan_send_many(chan, in, 3, WEFT_FOREVER), 3);
    joined(fiber, 3); /* the awaited item, and those that arrived before the fiber ran */
    return arg;
}

TEST(batch_receive_waits_for_one_item_and_takes_available_rest)
{
    fresh(4, 0);
    run_in_fiber(1, many, NULL);
    weft_chan_destroy(chan);
    fresh(4, 0);
    run_in_fiber(1, many_wait, NULL);
    weft_chan_destroy(chan);
}

static void *close_wakes(void *arg)
{
    weft_fiber fibers[6];
    bool to_send = arg != NULL;
    for (int i = 0; i < 6; i++) {
        fibers[i] = waiting(to_send ? sends : receives, 100);
    }
    weft_chan_close(chan);
    weft_chan_close(chan);
    for (int i = 0; i < 6; i++) {
        joined(fibers[i], -EPIPE);
    }
    CHECK(weft_chan_is_closed(chan));
    CHECK_EQ(send_one(1, WEFT_FOREVER), -EPIPE);
    return NULL;
}

TEST(close_wakes_all_waiters_and_remaining_items_are_receivable)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        fresh(2, 0);
        run_in_fiber(workers, close_wakes, NULL);
        CHECK_EQ(recv_one(WEFT_FOREVER), -EPIPE);
        weft_chan_destroy(chan);
        fresh(2, 0);
        CHECK_EQ(send_one(7, 0), 0);
        CHECK_EQ(send_one(8, 0), 0);
        run_in_fiber(workers, close_wakes, chan);
        CHECK_EQ(recv_one(WEFT_FOREVER), 7);
        CHECK_EQ(recv_one(WEFT_FOREVER), 8);
        CHECK_EQ(recv_one(WEFT_FOREVER), -EPIPE);
        weft_chan_destroy(chan);
    }
}

static void *times_out(void *arg)
{
    int64_t before = weft_now();
    CHECK_EQ(recv_one(weft_after(2 * MS)), -ETIMEDOUT);
    CHECK(weft_now() - before >= 2 * MS);
    before = weft_now();
    CHECK_EQ(send_one(1, weft_after(2 * MS)), -ETIMEDOUT);
    CHECK(weft_now() - before >= 2 * MS);
    CHECK_EQ(recv_one(0), -ETIMEDOUT); /* items that were not sent are absent */
    return arg;
}

TEST(channel_waits_end_at_deadline)
{
    fresh(0, 0);
    run_in_fiber(1, times_out, NULL);
    times_out(NULL); /* a plain thread */
    weft_chan_destroy(chan);
}

static void *cancelled_or_interrupted(void *arg)
{
    bool cancel = arg != NULL;
    for (int to_send = 0; to_send < 2; to_send++) {
        weft_fiber fiber = waiting(to_send ? sends : receives, 5);
        end_wait(fiber, cancel);
        CHECK_EQ(to_send ? recv_one(0) : send_one(5, 0), -ETIMEDOUT);
    }
    return NULL;
}

/* The wait has ended, but the fiber has not run since: its node is still linked. */
static void *dead_nodes_are_passed_over(void *arg)
{
    weft_fiber dead = waiting(receives, 0), live = waiting(receives, 0);
    CHECK_EQ(weft_fiber_interrupt(dead), 0);
    CHECK_EQ(send_one(3, 0), 0);
    joined(dead, -EINTR);
    joined(live, 3);
    dead = waiting(sends, 8), live = waiting(sends, 9);
    CHECK_EQ(weft_cancel(dead), 0);
    CHECK_EQ(recv_one(0), 9);
    joined(dead, -ECANCELED);
    joined(live, 0);
    return arg;
}

TEST(cancel_and_interrupt_end_channel_wait_and_lose_no_item)
{
    fresh(0, 0);
    run_in_fiber(1, cancelled_or_interrupted, NULL);
    run_in_fiber(2, cancelled_or_interrupted, chan);
    run_in_fiber(1, dead_nodes_are_passed_over, NULL);
    weft_chan_destroy(chan);
}

static void *knows_what_it_waited_on(void *arg)
{
    struct weft_fiber_ended_wait ended;
    CHECK_EQ(arg ? send_one(1, WEFT_FOREVER) : recv_one(WEFT_FOREVER), -EINTR);
    CHECK_EQ(weft_fiber_ended_wait(&ended), 0);
    CHECK_STR(ended.what, arg ? "channel send" : "channel receive");
    CHECK(ended.object == chan);
    return arg;
}

static void *interrupts_both(void *arg)
{
    for (int to_send = 0; to_send < 2; to_send++) {
        weft_fiber fiber = waiting(knows_what_it_waited_on, to_send);
        CHECK_EQ(weft_fiber_interrupt(fiber), 0);
        joined(fiber, to_send);
    }
    return arg;
}

TEST(channel_wait_reports_its_purpose)
{
    fresh(0, 0);
    run_in_fiber(1, interrupts_both, NULL);
    weft_chan_destroy(chan);
}

static void *succeeds_though_cancelled(void *arg)
{
    CHECK_EQ(weft_cancel(weft_self()), 0);
    CHECK_EQ(send_one(1, WEFT_FOREVER), 0);
    CHECK_EQ(send_one(2, WEFT_FOREVER), -ECANCELED);
    CHECK_EQ(recv_one(WEFT_FOREVER), 1);
    CHECK_EQ(recv_one(WEFT_FOREVER), -ECANCELED);
    return arg;
}

TEST(channel_call_without_wait_succeeds_in_cancelled_fiber)
{
    fresh(1, 0);
    run_in_fiber(1, succeeds_though_cancelled, NULL);
    weft_chan_destroy(chan);
}

TEST(stackless_task_sends_and_receives)
{
    struct body body;
    int place = 0;
    fresh(0, 0);
    body_arm(&body);
    body.node.item = &place;
    CHECK(weft__chan_arm_recv(chan, &body.node));
    CHECK(!body_told(&body));
    CHECK_EQ(send_one(4, 0), 0);
    CHECK(body_told(&body) && body.node.status == 0 && place == 4);
    weft__chan_finish_recv(chan, &body.node);

    body_arm(&body);
    body.node.item = &place;
    CHECK(weft__chan_arm_send(chan, &body.node));
    CHECK_EQ(recv_one(0), 4);
    CHECK(body_told(&body) && body.node.status == 0);
    weft__chan_finish_send(chan, &body.node);

    body_arm(&body);
    body.node.item = &place;
    CHECK(weft__chan_arm_recv(chan, &body.node));
    CHECK(body_end(&body, WEFT__REASON_TIMEOUT));
    CHECK_EQ(send_one(5, 0), -ETIMEDOUT); /* not into a wait that has ended */
    weft__chan_finish_recv(chan, &body.node);

    body_arm(&body);
    body.node.item = &place;
    CHECK(weft__chan_arm_recv(chan, &body.node));
    weft_chan_close(chan);
    CHECK(body_told(&body) && body.node.status == -EPIPE);
    weft__chan_finish_recv(chan, &body.node);
    body_arm(&body);
    CHECK(!weft__chan_arm_send(chan, &body.node));
    body_disarm(&body);
    weft_chan_destroy(chan);
}

static atomic_int sum;

static void *adds_up(void *arg)
{
    int item;
    while ((item = recv_one(WEFT_FOREVER)) >= 0) {
        atomic_fetch_add(&sum, item);
    }
    CHECK_EQ(item, -EPIPE);
    return arg;
}

static void *sends_a_hundred(void *arg)
{
    for (int i = 1; i <= 100; i++) {
        CHECK_EQ(send_one(i, WEFT_FOREVER), 0);
    }
    return arg;
}

TEST(threads_and_pools_share_one_channel)
{
    for (size_t capacity = 0; capacity < 3; capacity++) {
        fresh(capacity, 0);
        atomic_store(&sum, 0);
        weft_pool *a = pool_open(&(struct weft_pool_opts){.workers = 1, .name = "a"});
        weft_pool *b = pool_open(&(struct weft_pool_opts){.workers = 2, .name = "b"});
        weft_fiber in_a, in_b;
        CHECK_EQ(weft_pool_submit(a, adds_up, NULL), 0);
        CHECK_EQ(weft_pool_submit(b, adds_up, NULL), 0);
        pthread_t adds = thread_open(adds_up, NULL);
        CHECK_EQ(weft_pool_spawn(a, &in_a, sends_a_hundred, NULL, NULL), 0);
        CHECK_EQ(weft_pool_spawn(b, &in_b, sends_a_hundred, NULL, NULL), 0);
        sends_a_hundred(NULL);
        CHECK_EQ(weft_join(in_a, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(weft_join(in_b, NULL, WEFT_FOREVER), 0);
        weft_chan_close(chan);
        pool_close(a);
        pool_close(b);
        thread_close(adds);
        CHECK_EQ(atomic_load(&sum), 3 * 5050);
        weft_chan_destroy(chan);
    }
}

static void *send_from_a_thread(void *arg)
{
    send_one(1, 0);
    return arg;
}

static void *use_owned(void *arg)
{
    const struct weft_chan_opts opts = {.name = "mine", .owner = weft_pool_self(), .capacity = 1};
    CHECK_EQ(weft_chan_create(&chan, sizeof(int), &opts), 0);
    weft_fiber fiber = waiting(receives, 0);
    CHECK_EQ(send_one(4, WEFT_FOREVER), 0);
    joined(fiber, 4);
    CHECK_EQ(send_one(5, WEFT_FOREVER), 0);
    fiber = waiting(sends, 6);
    CHECK_EQ(recv_one(WEFT_FOREVER), 5);
    CHECK_EQ(recv_one(WEFT_FOREVER), 6);
    joined(fiber, 0);
    if (arg) {
        thread_close(thread_open(send_from_a_thread, NULL));
    }
    weft_chan_destroy(chan);
    return NULL;
}

TEST(owned_channel_aborts_when_used_by_non_owner)
{
    used_by_owner_only(use_owned);
}

static void *own_a_channel(void *arg)
{
    const struct weft_chan_opts opts = {.owner = weft_pool_self(), .capacity = 1};
    CHECK_EQ(weft_chan_create(&chan, sizeof(int), &opts), 0);
    CHECK_EQ(send_one(4, WEFT_FOREVER), 0);
    return arg;
}

TEST(owned_channel_outlives_its_owner)
{
    run_in_fiber(1, own_a_channel, NULL);
    weft_chan_destroy(chan);
}

static void *destroy_while_waited_on(void *arg)
{
    waiting(arg ? sends : receives, 0);
    weft_chan_destroy(chan);
    return NULL;
}

TEST(destroy_of_channel_with_waiters_aborts)
{
    fresh(0, 0);
    must_stop_in_fiber(destroy_while_waited_on, NULL,
                       "channel mail was destroyed while a fiber or thread waits on it");
    must_stop_in_fiber(destroy_while_waited_on, &chan,
                       "channel mail was destroyed while a fiber or thread waits on it");
    weft_chan_destroy(chan);
}
