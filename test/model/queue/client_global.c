/* Clients of queue/global.h. */
#include "model/explore.h"
#include "model/items.h"
#include "queue/global.h"

static struct weft__global global;
static int order[2]; /* check only: the last item of each producer, by parity */

static void setup(void)
{
    items_reset();
    weft__global_init(&global);
    x_name(&global, sizeof global, "global");
    order[0] = order[1] = -1;
}

static void push(int number)
{
    weft__global_push(&global, item_make(number));
}

/* Takes up to max; items from one producer come in its order. */
static int take(uint64_t max)
{
    struct weft__link *out[17];
    X_ASSERT(max <= 16);
    uint64_t n = weft__global_take(&global, max, out);
    X_ASSERT(n <= max);
    int last[2] = {-1, -1};
    for (uint64_t i = 0; i < n; i++) {
        int number = item_take(out[i]);
        X_ASSERT(number > last[number % 2]);
        last[number % 2] = number;
    }
    return last[0] > last[1] ? last[0] : last[1];
}

static void finish(int n)
{
    uint64_t length = weft__global_length(&global);
    X_ASSERT(length == global.chain.count);
    while (take(16) >= 0) {
    }
    X_ASSERT(weft__global_length(&global) == 0 && !global.chain.head);
    items_check(n);
}

static void empty(int i)
{
    (void)i;
    X_ASSERT(take(16) < 0);
}

static void one(int i)
{
    if (i == 0) {
        push(0);
    } else {
        take(16);
    }
}

static void two(int i)
{
    if (i == 0) {
        push(0);
        push(1);
    } else {
        take(1);
    }
}

static void two_producers(int i)
{
    if (i < 2) {
        push(i);
    } else {
        take(2);
    }
}

static void setup_three(void)
{
    setup();
    push(0);
    push(1);
    push(2);
}

/* A batch that leaves something, and a batch that does not. */
static void take_against_take(int i)
{
    take(i == 0 ? 2 : 16);
}

static void take_against_push(int i)
{
    if (i == 0) {
        take(2);
    } else {
        push(3);
    }
}

static void push_a_chain(int i)
{
    if (i == 0) {
        struct weft__chain chain;
        weft__chain_init(&chain);
        weft__chain_push(&chain, item_make(0));
        weft__chain_push(&chain, item_make(2));
        weft__global_push_chain(&global, &chain);
        X_ASSERT(!chain.head && chain.count == 0);
        weft__global_push_chain(&global, &chain); /* empty */
    } else if (i == 1) {
        push(1);
    } else {
        take(2);
    }
}

/* A thread that sees the length sees the item, and a thread that emptied the queue sees none. */
static void length(int i)
{
    if (i == 0) {
        push(0);
    } else if (weft__global_length(&global) != 0) {
        X_ASSERT(take(1) == 0);
        X_ASSERT(take(1) < 0);
    }
}

static const struct x_client clients[] = {
    X_CLIENT("empty", 2, setup, empty, all_of_0),
    X_CLIENT("one", 2, setup, one, all_of_1),
    X_CLIENT("two", 2, setup, two, all_of_2),
    X_CLIENT("two_producers", 3, setup, two_producers, all_of_2, .preemptions = 3),
    X_CLIENT("take_against_take", 2, setup_three, take_against_take, all_of_3),
    X_CLIENT("take_against_push", 2, setup_three, take_against_push, all_of_4),
    X_CLIENT("push_a_chain", 3, setup, push_a_chain, all_of_3, .preemptions = 2),
    X_CLIENT("length", 2, setup, length, all_of_1),
};

X_MAIN(clients)
