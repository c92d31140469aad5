/* Clients of queue/ring.h. T0 owns `ring`; the others are thieves with rings of their own. */
#include "base/alloc.h"
#include "model/explore.h"
#include "model/items.h"
#include "queue/ring.h"

static struct weft__ring ring, mine[2];
static struct weft__chain spilled;
static int last_popped;

static void ring_setup(struct weft__ring *which, uint64_t slots, uint64_t first, const char *name)
{
    X_ASSERT(weft__ring_init(which, slots, first) == 0);
    x_name(which, sizeof *which, name);
    x_ahead(which->slots, slots * sizeof *which->slots);
}

static void setup_at(uint64_t slots, uint64_t first)
{
    items_reset();
    weft__chain_init(&spilled);
    last_popped = -1;
    ring_setup(&ring, slots, first, "ring");
    ring_setup(&mine[0], slots, first, "thief1");
    ring_setup(&mine[1], slots, first, "thief2");
}

static void setup(void)
{
    setup_at(2, 0);
}

static void setup_wrap(void)
{
    setup_at(2, UINT64_MAX - 1);
}

static void push(int number)
{
    X_ASSERT(weft__ring_push_local(&ring, item_make(number), memory_order_release));
}

/* The owner pops items in the order of pushing. */
static bool pop(void)
{
    struct weft__link *link = weft__ring_pop_local(&ring);
    if (link) {
        int number = item_take(link);
        X_ASSERT(number > last_popped);
        last_popped = number;
    }
    return link != NULL;
}

static uint64_t steal(struct weft__ring *from, struct weft__ring *to)
{
    uint64_t taken = 0;
    struct weft__link *link = weft__ring_steal(from, to, &taken);
    X_ASSERT((link != NULL) == (taken > 0));
    if (link) {
        item_take(link);
    }
    return taken;
}

static void drain(struct weft__ring *which)
{
    struct weft__link *link;
    while ((link = weft__ring_pop_local(which)) != NULL) {
        item_take(link);
    }
}

static void finish(int n)
{
    drain(&ring);
    drain(&mine[0]);
    drain(&mine[1]);
    struct weft__link *link;
    while ((link = weft__chain_pop(&spilled)) != NULL) {
        item_take(link);
    }
    items_check(n);
    weft__ring_deinit(&ring);
    weft__ring_deinit(&mine[0]);
    weft__ring_deinit(&mine[1]);
}

/* ---- steal against pop ---- */

static void empty(int i)
{
    if (i == 0) {
        X_ASSERT(!pop());
        X_ASSERT(weft__ring_length(&ring) == 0);
    } else {
        X_ASSERT(steal(&ring, &mine[0]) == 0);
    }
}

static void one(int i)
{
    if (i == 0) {
        push(0);
        pop();
    } else {
        steal(&ring, &mine[i - 1]);
    }
}

static void two(int i)
{
    if (i == 0) {
        push(0);
        push(1);
        pop();
        pop();
    } else {
        steal(&ring, &mine[i - 1]);
        drain(&mine[i - 1]);
    }
}

/* The owner reuses slots that a slow thief has read: with two slots, on the next lap. */
static void lap(int i)
{
    if (i == 0) {
        push(0);
        push(1);
        if (pop()) {
            push(2);
        }
    } else {
        steal(&ring, &mine[i - 1]);
    }
}

/* The space that a thief freed is used at once. */
static void refill(int i)
{
    if (i == 0) {
        push(0);
        push(1);
        for (int n = 2; n < 4; n++) {
            if (!weft__ring_push_local(&ring, item_make(n), memory_order_release)) {
                x_count(n); /* full: not handed over */
            }
        }
    } else {
        steal(&ring, &mine[i - 1]);
    }
}

/* The same for many items at once, as far as they fit. */
static void refill_many(int i)
{
    if (i == 0) {
        push(0);
        push(1);
        uint64_t room = weft__ring_room_local(&ring), set = 0;
        for (int n = 2; n < 4; n++) {
            struct weft__link *item = item_make(n);
            if (set < room) {
                weft__ring_set_local(&ring, set++, item);
            } else {
                x_count(n); /* full: not handed over */
            }
        }
        weft__ring_publish_local(&ring, set, memory_order_release);
    } else {
        steal(&ring, &mine[i - 1]);
    }
}

static void overflow(int i)
{
    if (i == 0) {
        push(0);
        push(1);
        struct weft__link *third = item_make(2);
        while (!weft__ring_push_local(&ring, third, memory_order_release)) {
            weft__ring_spill_local(&ring, &spilled);
        }
        pop();
    } else {
        steal(&ring, &mine[i - 1]);
    }
}

/* ---- thieves among themselves ---- */

static void setup_two(void)
{
    setup();
    push(0);
    push(1);
}

static void setup_four(void)
{
    setup_at(4, UINT64_MAX - 2);
    for (int n = 0; n < 4; n++) {
        push(n);
    }
}

static void steal_against_steal(int i)
{
    steal(&ring, &mine[i]);
    drain(&mine[i]);
}

static void steal_half(int i)
{
    if (i == 0) {
        pop();
    } else {
        steal(&ring, &mine[i - 1]);
        drain(&mine[i - 1]);
    }
}

/* Items that a thief put into its own ring are stolen again. */
static void steal_onwards(int i)
{
    if (i == 0) {
        steal(&ring, &mine[0]);
        struct weft__link *link = weft__ring_pop_local(&mine[0]);
        if (link) {
            item_take(link);
        }
    } else {
        steal(&mine[0], &mine[1]);
    }
}

/* A thief's ring of two slots is filled, stolen from, emptied and filled again. */
static void steal_again(int i)
{
    if (i == 0) {
        for (int n = 0; n < 3; n++) {
            steal(&ring, &mine[0]);
        }
    } else {
        steal(&mine[0], &mine[1]);
    }
}

/* Seven items; the thieves' rings have two slots. */
static void setup_again(void)
{
    items_reset();
    last_popped = -1;
    weft__chain_init(&spilled);
    ring_setup(&ring, 8, 0, "ring");
    ring_setup(&mine[0], 2, 0, "thief1");
    ring_setup(&mine[1], 2, 0, "thief2");
    for (int n = 0; n < 7; n++) {
        push(n);
    }
}

static void all_of_7(void)
{
    finish(7);
}

/* Of four items a thief takes two, of the rest one. */
static void half(int i)
{
    (void)i;
    X_ASSERT(steal(&ring, &mine[0]) == 2);
    X_ASSERT(steal(&ring, &mine[0]) == 1);
    X_ASSERT(weft__ring_length(&ring) == 1 && weft__ring_length(&mine[0]) == 1);
}

/* A thief with little space takes no more than fits beside the item that it runs. */
static void little_room(int i)
{
    if (i == 0) {
        pop();
    } else {
        X_ASSERT(steal(&ring, &mine[0]) <= 2);
        X_ASSERT(weft__ring_length(&mine[0]) <= 2);
    }
}

static void setup_little_room(void)
{
    items_reset();
    last_popped = -1;
    weft__chain_init(&spilled);
    ring_setup(&ring, 8, 0, "ring");
    ring_setup(&mine[0], 2, 0, "thief1");
    ring_setup(&mine[1], 2, 0, "thief2");
    for (int n = 0; n < 5; n++) {
        push(n);
    }
    X_ASSERT(weft__ring_push_local(&mine[0], item_make(5), memory_order_release));
}

static void all_of_6(void)
{
    finish(6);
}

/* ---- reads from outside ---- */

/* A length that any thread reads is a length that the ring can have. */
static void length(int i)
{
    if (i == 0) {
        push(0);
        pop();
        push(1);
    } else {
        X_ASSERT(weft__ring_length(&ring) <= 2);
    }
}

/* ---- too long to explore: sampled ---- */

static void many(int i)
{
    if (i > 0) {
        steal(&ring, &mine[i - 1]);
        drain(&mine[i - 1]);
        steal(&ring, &mine[i - 1]);
        return;
    }
    for (int n = 0; n < ITEMS; n++) {
        struct weft__link *link = item_make(n);
        while (!weft__ring_push_local(&ring, link, memory_order_release)) {
            weft__ring_spill_local(&ring, &spilled);
        }
        if (n % 3 == 2) {
            pop();
        }
    }
}

static void all_of_8(void)
{
    finish(8);
}

/* The long clients come last: a mutant usually fails before. */
static const struct x_client clients[] = {
    X_CLIENT("empty", 2, setup, empty, all_of_0, .spurious = 1),
    X_CLIENT("one", 2, setup, one, all_of_1, .spurious = 1),
    X_CLIENT("two", 2, setup, two, all_of_2, .spurious = 1),
    X_CLIENT("two_wrap", 2, setup_wrap, two, all_of_2),
    X_CLIENT("lap", 2, setup, lap, all_of_3, .ahead = true),
    X_CLIENT("lap_wrap", 2, setup_wrap, lap, all_of_3),
    X_CLIENT("refill", 2, setup, refill, all_of_4, .ahead = true),
    X_CLIENT("refill_many", 2, setup, refill_many, all_of_4, .ahead = true),
    X_CLIENT("refill_many_wrap", 2, setup_wrap, refill_many, all_of_4),
    X_CLIENT("overflow", 2, setup, overflow, all_of_3, .ahead = true),
    X_CLIENT("overflow_wrap", 2, setup_wrap, overflow, all_of_3),
    X_CLIENT("steal_against_steal", 2, setup_two, steal_against_steal, all_of_2),
    X_CLIENT("steal_onwards", 2, setup_four, steal_onwards, all_of_4),
    X_CLIENT("steal_again", 2, setup_again, steal_again, all_of_7, .ahead = true),
    X_CLIENT("half", 1, setup_four, half, all_of_4),
    X_CLIENT("little_room", 2, setup_little_room, little_room, all_of_6),
    X_CLIENT("length", 2, setup, length, all_of_2),
    X_CLIENT("one_two_thieves", 3, setup, one, all_of_1),
    X_CLIENT("refill_two_thieves", 3, setup, refill, all_of_4),
    X_CLIENT("steal_half", 3, setup_four, steal_half, all_of_4),
    X_CLIENT("two_two_thieves", 3, setup, two, all_of_2),
    X_CLIENT("overflow_two_thieves", 3, setup, overflow, all_of_3),
    X_CLIENT("many", 3, setup_wrap, many, all_of_8, .samples = 20000),
};

X_MAIN(clients)
