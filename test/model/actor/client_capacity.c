/* Clients of src/mailbox: a full mailbox against senders that wait for capacity, that have a send
 * credit, that stop waiting, and against the receiver's end. Thread 0 is the worker that runs the
 * actor, the others are plain threads. */
#include "model/actor/one_actor.h"

/* --- a full mailbox --------------------------------------------------------------------------- */

static void setup_full(int count, enum weft_mailbox_policy policy)
{
    setup_with(count, policy, 1);
}

static void setup_waiting(void)
{
    setup_full(3, WEFT_MAILBOX_WAIT);
}

/* Capacity for one message: each sender waits for the other, and the first for itself. */
static void three_senders_one_slot(int i)
{
    if (i == 0) {
        serve();
        return;
    }
    for (uint64_t k = 0; k < (i == 1 ? 2 : 1); k++) {
        X_ASSERT(weft_actor_send(pid, "x", (uint64_t)(i - 1) * 10 + k, NULL, WEFT_FOREVER) == 0);
    }
}

static void three_came(void)
{
    rest(1);
    X_ASSERT(messages == 3 && x_counted(BURIED) == 0);
}

static void setup_leaving(void)
{
    setup_full(1, WEFT_MAILBOX_WAIT);
}

/* The receiver ends after the first message, while two senders may wait: one gets the first one's
 * capacity, the other gets an error. */
static void capacity_against_exit(int i)
{
    if (i == 0) {
        serve();
        return;
    }
    for (uint64_t k = 0; k < (i == 1 ? 2 : 1); k++) {
        int err = weft_actor_send(pid, "x", (uint64_t)(i - 1) * 10 + k, NULL, WEFT_FOREVER);
        X_ASSERT(err == 0 || err == -ESRCH);
    }
}

static void each_seen_or_buried(void)
{
    rest(1);
    X_ASSERT(messages >= 1 && x_counted(SEEN) + x_counted(BURIED) == 3);
}

/* --- steps that wait for capacity: threads that act as their actors would --------------------- */

enum { WAITS = 1, ADMITTED = 2, HAS_CREDIT = 4, NOTIFIED = 8 };

static struct {
    struct weft__pending_send send;
    _Atomic(uint32_t) how;
} steps[3];

void weft__pending_send_complete(struct weft__pending_send *send, int error)
{
    int i = 1;
    while (&steps[i].send != send) {
        i++;
    }
    X_ASSERT(error == 0 || error == -ESRCH);
    uint32_t how = error ? NOTIFIED : ADMITTED | (send->sender.credit ? HAS_CREDIT : 0);
    X_ASSERT(atomic_exchange_explicit(&steps[i].how, how, memory_order_acq_rel) == WAITS);
    weft__futex_wake(&steps[i].how, 1);
}

static struct weft__envelope *envelope_of(int i, uint64_t k)
{
    struct weft__envelope *envelope =
        weft__envelope_new(WEFT_EVENT_MESSAGE, (uint64_t)(i - 1) * 10 + k, NULL);
    envelope->topic = "x";
    return envelope;
}

/* 0: there was capacity at once, or the receiver does not exist. */
static uint32_t requests_capacity(int i, struct weft__envelope *envelope)
{
    struct weft__sender *sender = &steps[i].send.sender;
    *sender = (struct weft__sender){.to = pid, .envelope = envelope};
    atomic_store_explicit(&steps[i].how, WAITS, memory_order_relaxed);
    int place = weft__envelope_reserve(&record, pid, WEFT_BY_POLICY);
    if (place == -ENOBUFS) {
        place = weft__admission_enqueue(sender);
    }
    if (place == WEFT__ADMISSION_QUEUED) {
        return WAITS;
    }
    if (place < 0) {
        X_ASSERT(place == -ESRCH);
        weft__envelope_discard(envelope, 1);
    } else {
        weft__envelope_put(&record, pid, envelope, place);
    }
    return 0;
}

static uint32_t outcome_of(int i)
{
    while (atomic_load_explicit(&steps[i].how, memory_order_acquire) == WAITS) {
        weft__futex_wait(&steps[i].how, WAITS, INT64_MAX);
    }
    return atomic_load_explicit(&steps[i].how, memory_order_acquire);
}

/* Its next message, in the step that has the completion. False: there is no capacity for it. */
static bool sends_on(int i, uint64_t k)
{
    int place = weft__admission_reserve_by_credit(&record, pid);
    if (place == -ENOBUFS) {
        return false;
    }
    if (place == -ESRCH) {
        weft__envelope_discard(envelope_of(i, k), 1);
    } else {
        weft__envelope_put(&record, pid, envelope_of(i, k), place);
    }
    return true;
}

/* This many messages, each when it may be sent. */
static void step_sends(int i, uint64_t count)
{
    for (uint64_t k = 0; k < count; k++) {
        uint32_t how = requests_capacity(i, envelope_of(i, k)) ? outcome_of(i) : 0;
        if (how & HAS_CREDIT) {
            weft__send_credit_begin(pid);
            k += k + 1 < count && sends_on(i, k + 1);
            weft__send_credit_end(pid);
        }
    }
}

static void steps_one_slot(int i)
{
    if (i == 0) {
        serve();
    } else {
        step_sends(i, i == 1 ? 2 : 1);
    }
}

static void steps_against_exit(int i)
{
    steps_one_slot(i);
}

/* One sender has ended before it could use its send credit. */
static void credit_against_capacity(int i)
{
    if (i == 0) {
        serve();
    } else if (i == 1) {
        if (requests_capacity(i, envelope_of(i, 0)) && outcome_of(i) & HAS_CREDIT) {
            weft__send_credit_drop(pid);
        }
        step_sends(2, 1);
    } else {
        X_ASSERT(weft_actor_send(pid, "x", 20, NULL, WEFT_FOREVER) == 0);
    }
}

/* One sender stops waiting. */
static void leave_against_capacity(int i)
{
    if (i == 0) {
        serve();
    } else if (i == 2) {
        step_sends(i, 2);
    } else if (requests_capacity(i, envelope_of(i, 0))) {
        if (weft__admission_dequeue(&steps[i].send.sender)) {
            weft__envelope_free(steps[i].send.sender.envelope);
            X_ASSERT(weft_actor_send(pid, "x", 0, NULL, WEFT_FOREVER) == 0);
        } else if (outcome_of(i) & HAS_CREDIT) {
            weft__send_credit_drop(pid);
        }
    }
}

static _Atomic(uint32_t) through;

static void setup_blocking(void)
{
    setup_with(2, WEFT_MAILBOX_WAIT, 2);
    atomic_init(&through, 0);
    for (int i = 0; i < 2; i++) {
        X_ASSERT(weft_actor_send(pid, "x", 0, NULL, WEFT_BY_POLICY) == 0);
    }
}

/* The receiver handles the queued messages, and nothing more until both senders are admitted: each
 * gets the capacity that the other frees. */
static void credit_against_block(int i)
{
    struct weft__envelope *taken_out[2];
    if (i > 0) {
        step_sends(i, 1);
        atomic_fetch_add_explicit(&through, 1, memory_order_release);
        weft__futex_wake(&through, 1);
        return;
    }
    size_t n = weft__mailbox_take(&record, taken_out, 2);
    X_ASSERT(n == 2);
    weft__envelope_free(taken_out[0]);
    weft__envelope_free(taken_out[1]);
    weft__admission_end_turn(&record);
    uint32_t seen;
    while ((seen = atomic_load_explicit(&through, memory_order_acquire)) < 2) {
        weft__futex_wait(&through, seen, INT64_MAX);
    }
    serve();
}

static void two_came(void)
{
    rest(1);
    X_ASSERT(messages == 2 && x_counted(BURIED) == 0);
}

/* A late use of a send credit does not affect the next actor of the slot. */
static void credit_against_reuse(int i)
{
    if (i == 0) {
        serve_two(10);
    } else {
        step_sends(i, 2);
    }
}

static void two_and_one_seen_or_buried(void)
{
    rest(2);
    X_ASSERT(x_counted(SEEN) + x_counted(BURIED) == 3);
}

static void setup_dropping(void)
{
    setup_full(1, WEFT_MAILBOX_DROP_OLDEST);
}

/* Each dropped message is dropped once; the actor ends with the first message that it sees. */
static void drop_against_step(int i)
{
    if (i == 0) {
        serve();
    } else {
        X_ASSERT(weft_actor_send(pid, "x", 0, NULL, WEFT_BY_POLICY) != -ENOBUFS);
        sends_to(pid, 1);
    }
}

static void none_twice(void)
{
    rest(1);
    X_ASSERT(messages >= 1 && x_counted(SEEN) + x_counted(BURIED) == 2);
}

static const struct x_client clients[] = {
    X_CLIENT("three_senders_one_slot", 3, setup_waiting, three_senders_one_slot, three_came,
             .preemptions = 1, .stale = 1),
    X_CLIENT("capacity_against_exit", 3, setup_leaving, capacity_against_exit, each_seen_or_buried,
             .preemptions = 1, .stale = 1),
    X_CLIENT("steps_one_slot", 3, setup_waiting, steps_one_slot, three_came, .preemptions = 1,
             .stale = 1),
    X_CLIENT("steps_against_exit", 3, setup_leaving, steps_against_exit, each_seen_or_buried,
             .preemptions = 1, .stale = 1),
    X_CLIENT("credit_against_capacity", 3, setup_waiting, credit_against_capacity, three_came,
             .preemptions = 1, .stale = 1),
    X_CLIENT("leave_against_capacity", 3, setup_waiting, leave_against_capacity, three_came,
             .preemptions = 1, .stale = 1),
    X_CLIENT("credit_against_block", 3, setup_blocking, credit_against_block, two_came,
             .preemptions = 1, .stale = 1),
    X_CLIENT("credit_against_reuse", 2, setup_leaving, credit_against_reuse,
             two_and_one_seen_or_buried, .preemptions = 2, .stale = 1),
    X_CLIENT("drop_against_step", 2, setup_dropping, drop_against_step, none_twice,
             .preemptions = 3, .stale = 1),
};

X_MAIN(clients)
