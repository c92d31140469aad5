/* Clients of queue/inbox.h. T0 is the consumer, the others are producers. */
#include "idle/parker.h"
#include "model/explore.h"
#include "model/items.h"
#include "queue/inbox.h"

enum { WAKES = 20, DRAINS }; /* counters */

static struct weft__inbox inbox;
static struct weft__parker parker;
static int last[2]; /* of each producer, by the parity of the item */
static int received;

static void setup(void)
{
    items_reset();
    weft__inbox_init(&inbox);
    weft__parker_init(&parker);
    x_name(&inbox, sizeof inbox, "inbox");
    x_name(&parker, sizeof parker, "parker");
    last[0] = last[1] = -1;
    received = 0;
}

static bool push(int number)
{
    bool was_empty = weft__inbox_push_remote(&inbox, item_make(number));
    if (was_empty) {
        x_count(WAKES);
    }
    return was_empty;
}

static bool drain(void)
{
    struct weft__link *link = weft__inbox_drain_local(&inbox);
    bool any = link != NULL;
    if (any) {
        x_count(DRAINS);
    }
    while (link) {
        struct weft__link *next = link->next;
        int number = item_take(link);
        X_ASSERT(number > last[number % 2]); /* first in, first out, for each producer */
        last[number % 2] = number;
        received++;
        link = next;
    }
    return any;
}

/* Each time the inbox became non-empty, exactly one producer was told to wake the consumer. */
static void finish(int n)
{
    drain();
    X_ASSERT(weft__inbox_is_empty(&inbox));
    X_ASSERT(x_counted(WAKES) == x_counted(DRAINS));
    items_check(n);
}

static void empty(int i)
{
    (void)i;
    X_ASSERT(!drain());
}

static void one(int i)
{
    if (i == 0) {
        drain();
        drain();
    } else {
        push(0);
    }
}

static void two(int i)
{
    if (i == 0) {
        drain();
    } else {
        push(0);
        push(1);
    }
}

static void two_producers(int i)
{
    if (i == 0) {
        drain();
        drain();
    } else {
        push(i - 1);
    }
}

static void two_each(int i)
{
    if (i == 0) {
        drain();
    } else {
        push(i - 1);
        push(i + 1);
    }
}

/* An item that the consumer sends back reappears at the same address. */
static void push_again(int i)
{
    if (i == 0) {
        drain();
    } else {
        push(i - 1);
        if (i == 2) {
            push(i + 1);
        } else {
            x_count(2);
        }
    }
}

/* Park against submit: the consumer sleeps when the inbox is empty, and the producer that makes it
 * non-empty wakes the consumer. */
static void wait_for(int n)
{
    while (received < n) {
        if (!drain() && weft__inbox_is_empty(&inbox)) {
            weft__parker_park(&parker, INT64_MAX);
        }
    }
}

static void submit(int number)
{
    if (push(number)) {
        weft__parker_wake(&parker);
    }
}

static void park_one(int i)
{
    if (i == 0) {
        wait_for(1);
    } else {
        submit(0);
    }
}

static void park_two(int i)
{
    if (i == 0) {
        wait_for(2);
    } else {
        submit(0);
        submit(1);
    }
}

static void park_two_producers(int i)
{
    if (i == 0) {
        wait_for(2);
    } else {
        submit(i - 1);
    }
}

static const struct x_client clients[] = {
    X_CLIENT("empty", 1, setup, empty, all_of_0),
    X_CLIENT("one", 2, setup, one, all_of_1, .spurious = 1),
    X_CLIENT("two", 2, setup, two, all_of_2, .spurious = 1),
    X_CLIENT("two_producers", 3, setup, two_producers, all_of_2, .spurious = 1),
    X_CLIENT("two_each", 3, setup, two_each, all_of_4),
    X_CLIENT("push_again", 3, setup, push_again, all_of_4),
    X_CLIENT("park_one", 2, setup, park_one, all_of_1, .spurious = 1),
    X_CLIENT("park_two", 2, setup, park_two, all_of_2),
    X_CLIENT("park_two_producers", 3, setup, park_two_producers, all_of_2),
};

X_MAIN(clients)
