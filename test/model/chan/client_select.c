/* Clients of chan/select.c: of all ready cases exactly one is done, and nothing of the others is
 * lost. */
#include <errno.h>

#define FIBERS 3
#include "chan/chan.h"
#include "chan/select.h"
#include "future/future.h"
#include "model/fibers.h"
#include "model/holders.h"
#include "sync/cond.h"
#include "sync/event.h"
#include "sync/mutex.h"

static struct weft_chan a, b;
static union {
    struct weft__event event;
    weft_event storage;
} place;
static union {
    struct weft__mutex mutex;
    weft_mutex storage;
} mutex;
static union {
    struct weft__cond cond;
    weft_cond storage;
} cond;
static weft_future *future;
static int changed;
static uint64_t slots[2], x, out;
static int chosen, status, results[FIBERS];

static void chan_setup(weft_chan *chan, uint64_t *slot, size_t capacity)
{
    memset(chan, 0, sizeof *chan);
    chan->item_bytes = sizeof *slot;
    chan->slots = (char *)slot;
    chan->capacity = chan->max_capacity = capacity;
    *slot = 0;
}

static void setup_of(size_t capacity)
{
    fibers_setup();
    chan_setup(&a, &slots[0], capacity);
    chan_setup(&b, &slots[1], capacity);
    memset(&place, 0, sizeof place);
    memset(&mutex, 0, sizeof mutex);
    memset(&cond, 0, sizeof cond);
    changed = 0;
    x = 99;
    out = 7;
    chosen = -1000;
    status = 1;
    for (int i = 0; i < FIBERS; i++) {
        results[i] = 1;
    }
    x_name(&a, sizeof a, "a");
    x_name(&b, sizeof b, "b");
    x_name(&place, sizeof place, "event");
}

static void setup(void)
{
    setup_of(0);
}

static void setup_slots(void)
{
    setup_of(1);
}

static void setup_future(void)
{
    setup_of(0);
    X_ASSERT(weft_future_create(&future, NULL) == 0);
}

static void choose(struct weft_case *cases, size_t n, int64_t deadline)
{
    chosen = weft_select(cases, n, deadline);
    status = chosen >= 0 ? cases[chosen].status : 1;
}

static void rest(void)
{
    fibers_rest();
    X_ASSERT(!a.source.waiters.first && !a.senders.first);
    X_ASSERT(!b.source.waiters.first && !b.senders.first);
    X_ASSERT(!place.event.source.waiters.first && !cond.cond.source.waiters.first);
}

static void send_item(int thread, weft_chan *chan, uint64_t item, int64_t deadline)
{
    results[thread] = weft_chan_send(chan, &item, deadline);
}

static void choose_of_two(int64_t deadline)
{
    struct weft_case cases[] = {weft_case_recv(&a, &x), weft_case_recv(&b, &x)};
    choose(cases, 2, deadline);
}

/* --- one other thread ------------------------------------------------------------------ */

static void recv_second(int i)
{
    if (i == 0) {
        choose_of_two(WEFT_FOREVER);
        X_ASSERT(chosen == 1 && status == 0 && x == 2);
    } else if (i == 1) {
        send_item(1, &b, 2, WEFT_FOREVER);
        X_ASSERT(results[1] == 0);
    }
}

static void send_second(int i)
{
    if (i == 0) {
        struct weft_case cases[] = {weft_case_recv(&a, &x), weft_case_send(&b, &out)};
        choose(cases, 2, WEFT_FOREVER);
        X_ASSERT(chosen == 1 && status == 0 && x == 99);
    } else if (i == 1) {
        uint64_t item = 0;
        X_ASSERT(weft_chan_recv(&b, &item, WEFT_FOREVER) == 0);
        X_ASSERT(item == 7);
    }
}

/* The select could be both sides of `a`, and must wait for the other thread. */
static void never_itself(int i)
{
    if (i == 0) {
        struct weft_case cases[] = {weft_case_recv(&a, &x), weft_case_send(&a, &out)};
        choose(cases, 2, WEFT_FOREVER);
        X_ASSERT(chosen == 0 && x == 3);
    } else if (i == 1) {
        send_item(1, &a, 3, WEFT_FOREVER);
    }
}

static void close_second(int i)
{
    if (i == 0) {
        choose_of_two(WEFT_FOREVER);
        X_ASSERT(chosen == 1 && status == -EPIPE);
    } else if (i == 1) {
        weft_chan_close(&b);
    }
}

/* Both at once, from one thread: the slots hold the items that were not taken. */
static void both_slots(int i)
{
    if (i == 0) {
        choose_of_two(WEFT_FOREVER);
    } else if (i == 1) {
        send_item(1, &a, 1, WEFT_FOREVER);
        send_item(1, &b, 2, WEFT_FOREVER);
    }
}

static void one_is_left(void)
{
    rest();
    X_ASSERT(status == 0 && (chosen == 0 || chosen == 1));
    X_ASSERT(x == (uint64_t)chosen + 1);
    X_ASSERT((a.tail - a.head) == (chosen != 0) && (b.tail - b.head) == (chosen != 1));
}

/* Another receiver takes the item that the select has just seen: the select retries. */
static void stolen(int i)
{
    if (i == 0) {
        choose_of_two(WEFT_FOREVER);
        X_ASSERT(chosen == 0 && status == 0 && (x == 1 || x == 2));
    } else if (i == 1) {
        uint64_t item;
        send_item(1, &a, 1, WEFT_FOREVER);
        if (weft_chan_recv(&a, &item, 0) == 0) {
            send_item(1, &a, 2, WEFT_FOREVER);
        }
    }
}

static void beside_event(int i)
{
    if (i == 0) {
        struct weft_case cases[] = {weft_case_event(&place.storage), weft_case_recv(&a, &x)};
        choose(cases, 2, WEFT_FOREVER);
        X_ASSERT(chosen == 1 && x == 1);
    } else if (i == 1) {
        send_item(1, &a, 1, WEFT_FOREVER);
    }
}

/* A thread that changes something under the mutex and signals finds the select linked, or the
 * select finds the change. */
static void change_under_mutex(int i)
{
    X_ASSERT(weft_mutex_lock(&mutex.storage, WEFT_FOREVER) == 0);
    if (i == 0) {
        struct weft_case cases[] = {weft_case_recv(&a, &x),
                                    weft_case_cond(&cond.storage, &mutex.storage)};
        while (!changed) {
            choose(cases, 2, WEFT_FOREVER);
            X_ASSERT(chosen == 1);
        }
    } else {
        changed = 1; /* plain: the mutex orders it */
    }
    weft_mutex_unlock(&mutex.storage);
    if (i == 1) {
        weft_cond_signal(&cond.storage);
    }
}

static void decided_future(int i)
{
    if (i == 0) {
        struct weft_case cases[] = {weft_case_recv(&a, &x), weft_case_future(future)};
        choose(cases, 2, WEFT_FOREVER);
        X_ASSERT(chosen == 1);
    } else if (i == 1) {
        X_ASSERT(weft_future_complete(future, NULL) == 0);
    }
}

static void free_future(void)
{
    rest();
    weft_future_unref(future);
}

/* --- two other threads ------------------------------------------------------------------ */

static void two_senders(int i)
{
    if (i == 0) {
        choose_of_two(WEFT_FOREVER);
    } else if (i == 1) {
        send_item(1, &a, 1, WEFT_FOREVER);
    } else {
        send_item(2, &b, 2, WEFT_FOREVER);
    }
}

static void event_against_send(int i)
{
    if (i == 0) {
        struct weft_case cases[] = {weft_case_recv(&a, &x), weft_case_event(&place.storage)};
        choose(cases, 2, WEFT_FOREVER);
    } else if (i == 1) {
        send_item(1, &a, 1, WEFT_FOREVER);
    } else {
        weft_event_set(&place.storage);
    }
}

static void event_or_item(void)
{
    rest();
    X_ASSERT(chosen == 0 || chosen == 1);
    X_ASSERT((a.tail - a.head) == (chosen == 1) && x == (chosen == 0 ? 1 : 99));
}

static void deadline_against_send(int i)
{
    if (i == 0) {
        choose_of_two(LATER);
    } else if (i == 1) {
        send_item(1, &b, 2, WEFT_FOREVER);
    } else {
        fibers_expire(0);
    }
}

static void item_or_deadline(void)
{
    rest();
    X_ASSERT(chosen == 1 || chosen == -ETIMEDOUT);
    X_ASSERT((b.tail - b.head) == (chosen != 1) && x == (chosen == 1 ? 2 : 99));
}

/* --- a stackless task --------------------------------------------------------------------- */

static _Atomic(uint32_t) told;

static void is_told(struct weft__select *select)
{
    X_ASSERT(select->armed > 0); /* plain: the task may resume at once, on this thread */
    X_ASSERT(atomic_exchange_explicit(&told, 1, memory_order_release) == 0);
    weft__futex_wake(&told, 1);
}

/* The task resumes when it is notified, and its frame is gone when it is done. */
static void body_chooses(struct weft_case *cases, size_t n)
{
    struct weft__node *nodes = x_alloc(n * sizeof *nodes, true);
    struct weft__select *select = x_alloc(sizeof *select, true);
    chosen = weft__select_arm(select, cases, nodes, n, WEFT_FOREVER, is_told);
    if (chosen == -EINPROGRESS) {
        while (atomic_load_explicit(&told, memory_order_acquire) == 0) {
            weft__futex_wait(&told, 0, INT64_MAX);
        }
        chosen = weft__select_finish(select);
    } else {
        X_ASSERT(atomic_load_explicit(&told, memory_order_relaxed) == 0);
    }
    status = chosen >= 0 ? cases[chosen].status : 1;
    x_free(select);
    x_free(nodes);
}

static void setup_body(void)
{
    setup_of(1);
    atomic_init(&told, 0);
    x_name(&told, sizeof told, "told");
}

static void stackless_against_send(int i)
{
    if (i == 0) {
        struct weft_case cases[] = {weft_case_recv(&a, &x), weft_case_recv(&b, &x)};
        body_chooses(cases, 2);
    } else if (i == 1) {
        send_item(1, &a, 1, WEFT_FOREVER);
        send_item(1, &b, 2, WEFT_FOREVER);
    }
}

static void stackless_against_two(int i)
{
    if (i == 0) {
        struct weft_case cases[] = {weft_case_event(&place.storage), weft_case_recv(&a, &x)};
        body_chooses(cases, 2);
        X_ASSERT(chosen == 0 || (chosen == 1 && x == 1));
    } else if (i == 1) {
        send_item(1, &a, 1, WEFT_FOREVER);
    } else {
        weft_event_set(&place.storage);
    }
}

static const struct x_client clients[] = {
    X_CLIENT("recv_second", 2, setup, recv_second, rest, .preemptions = 3),
    X_CLIENT("send_second", 2, setup, send_second, rest, .preemptions = 3),
    X_CLIENT("never_itself", 2, setup, never_itself, rest, .preemptions = 3),
    X_CLIENT("close_second", 2, setup, close_second, rest, .preemptions = 3),
    X_CLIENT("both_slots", 2, setup_slots, both_slots, one_is_left, .preemptions = 3, .stale = 1),
    X_CLIENT("beside_event", 2, setup, beside_event, rest, .preemptions = 3),
    X_CLIENT("stolen", 2, setup_slots, stolen, rest, .preemptions = 3, .stale = 1),
    X_CLIENT("stackless_against_send", 2, setup_body, stackless_against_send, one_is_left,
             .preemptions = 3, .stale = 1),
    X_CLIENT("stackless_against_two", 3, setup_body, stackless_against_two, rest, .preemptions = 2),
    X_CLIENT("decided_future", 2, setup_future, decided_future, free_future, .preemptions = 3),
    X_CLIENT("change_under_mutex", 2, setup, change_under_mutex, rest, .preemptions = 2,
             .stale = 1),
    X_CLIENT("event_against_send", 3, setup_slots, event_against_send, event_or_item,
             .preemptions = 2, .stale = 1),
    X_CLIENT("deadline_against_send", 3, setup_slots, deadline_against_send, item_or_deadline,
             .preemptions = 1, .stale = 1),
    X_CLIENT("two_senders", 3, setup_slots, two_senders, one_is_left, .preemptions = 2, .stale = 1),
};

X_MAIN(clients)
