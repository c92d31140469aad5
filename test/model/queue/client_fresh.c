/* Clients of queue/fresh.h. T0 is the owner, the others are thieves. */
#include <errno.h>

#include "model/explore.h"
#include "model/items.h"
#include "model/twins.h"
#include "queue/fresh.h"

static struct weft__fresh fresh;
static bool owner_saw_empty;

static void setup_at(uint64_t slots, uint64_t first)
{
    items_reset();
    twin_alloc_fails(false);
    owner_saw_empty = false;
    X_ASSERT(weft__fresh_init(&fresh, slots, first) == 0);
    x_name(&fresh, sizeof fresh, "fresh");
    x_name(fresh.buffer, sizeof *fresh.buffer + slots * sizeof fresh.buffer->slots[0], "buffer");
    x_ahead(fresh.buffer->slots, slots * sizeof fresh.buffer->slots[0]);
}

static void setup(void)
{
    setup_at(2, 0);
}

/* Both indices wrap around within the run. */
static void setup_wrap(void)
{
    setup_at(2, UINT64_MAX);
}

static void push(int number)
{
    X_ASSERT(weft__fresh_push_local(&fresh, item_make(number)) == 0);
    owner_saw_empty = false;
}

/* Returns the number, or -1: then the queue is empty, because only the owner adds. */
static int take(void)
{
    struct weft__link *link = weft__fresh_take_newest_local(&fresh);
    owner_saw_empty = !link;
    return link ? item_take(link) : -1;
}

/* Returns the number, or -1. */
static int steal(void)
{
    bool lost;
    struct weft__link *link = weft__fresh_take_oldest(&fresh, &lost);
    X_ASSERT(!link || !lost);
    return link ? item_take(link) : -1;
}

static void finish(int n)
{
    X_ASSERT(!owner_saw_empty || weft__fresh_length(&fresh) == 0);
    while (take() >= 0) {
    }
    items_check(n);
    weft__fresh_deinit(&fresh);
}

/* ---- take against steal ---- */

static void empty(int i)
{
    X_ASSERT(i == 0 ? take() < 0 : steal() < 0);
}

static void one(int i)
{
    if (i == 0) {
        push(0);
        take();
    } else {
        steal();
    }
}

static void two(int i)
{
    if (i == 0) {
        push(0);
        push(1);
        int first = take();
        int second = take();
        X_ASSERT(first != 0 || second < 0); /* newest first */
    } else {
        steal();
    }
}

/* A thief takes both, oldest first. */
static void two_stolen(int i)
{
    if (i == 0) {
        push(0);
        push(1);
        take();
    } else {
        int first = steal();
        int second = steal();
        X_ASSERT(second < 0 || first < second);
    }
}

/* After the race for the last item, the next push uses the right slot. */
static void last_then_push(int i)
{
    if (i == 0) {
        push(0);
        take();
        push(1);
        take();
    } else {
        steal();
    }
}

/* In its fairness turns the owner takes the oldest item, like a thief. */
static void owner_takes_oldest(int i)
{
    if (i == 0) {
        push(0);
        push(1);
        steal();
        take();
    } else {
        steal();
    }
}

/* ---- growing ---- */

static void grow_against_steal(int i)
{
    if (i == 0) {
        push(0);
        push(1);
        push(2); /* two slots: grows unless a thief has taken an item */
        take();
    } else {
        steal();
        if (i == 1) {
            steal();
        }
    }
}

/* Four items through two slots: a slot is reused after a thief has emptied it. */
static void reuse_against_steal(int i)
{
    if (i == 0) {
        push(0);
        take();
        push(1);
        push(2);
        push(3);
    } else {
        steal();
        steal();
    }
}

static void grow_fails(int i)
{
    if (i == 0) {
        push(0);
        push(1);
        twin_alloc_fails(true);
        int err = weft__fresh_push_local(&fresh, item_make(2));
        X_ASSERT(err == 0 || err == -ENOMEM);
        if (err) {
            x_count(2); /* the caller keeps it */
        }
    } else {
        steal();
    }
}

/* ---- thieves among themselves ---- */

static void setup_two(void)
{
    setup();
    push(0);
    push(1);
}

static void steal_against_steal(int i)
{
    (void)i;
    steal();
}

/* Two thieves and an owner compete for two items. */
static void last_two(int i)
{
    if (i == 0) {
        take();
        take();
    } else {
        steal();
    }
}

/* No other thread: a thief gets everything, and loses no race. */
static void lone_thief(int i)
{
    (void)i;
    X_ASSERT(steal() == 0);
    X_ASSERT(steal() == 1);
    X_ASSERT(steal() == -1);
}

/* ---- too long to explore: sampled ---- */

static void many(int i)
{
    if (i > 0) {
        for (int n = 0; n < 3; n++) {
            steal();
        }
        return;
    }
    for (int n = 0; n < ITEMS; n++) {
        push(n);
        if (n % 3 == 2) {
            take();
            take();
        }
    }
}

static void all_of_8(void)
{
    finish(8);
}

static const struct x_client clients[] = {
    X_CLIENT("empty", 2, setup, empty, all_of_0),
    X_CLIENT("one", 2, setup, one, all_of_1),
    X_CLIENT("two", 2, setup, two, all_of_2),
    X_CLIENT("two_wrap", 2, setup_wrap, two, all_of_2),
    X_CLIENT("two_stolen", 2, setup, two_stolen, all_of_2),
    X_CLIENT("two_stolen_wrap", 2, setup_wrap, two_stolen, all_of_2),
    X_CLIENT("last_then_push", 2, setup, last_then_push, all_of_2),
    X_CLIENT("owner_takes_oldest", 2, setup, owner_takes_oldest, all_of_2),
    X_CLIENT("grow_against_steal", 2, setup, grow_against_steal, all_of_3),
    X_CLIENT("grow_against_steal_wrap", 2, setup_wrap, grow_against_steal, all_of_3),
    X_CLIENT("grow_fails", 2, setup, grow_fails, all_of_3),
    X_CLIENT("reuse_against_steal", 2, setup, reuse_against_steal, all_of_4, .ahead = true),
    X_CLIENT("steal_against_steal", 2, setup_two, steal_against_steal, all_of_2),
    X_CLIENT("lone_thief", 1, setup_two, lone_thief, all_of_2),
    X_CLIENT("one_two_thieves", 3, setup, one, all_of_1),
    X_CLIENT("last_two", 3, setup_two, last_two, all_of_2),
    X_CLIENT("two_two_thieves", 3, setup, two, all_of_2),
    X_CLIENT("last_then_push_two_thieves", 3, setup, last_then_push, all_of_2),
    X_CLIENT("grow_two_thieves", 3, setup, grow_against_steal, all_of_3),
    X_CLIENT("many", 3, setup_wrap, many, all_of_8, .samples = 20000),
};

X_MAIN(clients)
