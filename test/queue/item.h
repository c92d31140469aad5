/* Items for the queue tests: numbered, each with a count of how often it was taken out. */
#ifndef WEFT_TEST_QUEUE_ITEM_H
#define WEFT_TEST_QUEUE_ITEM_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "base/link.h"
#include "check.h"

struct item {
    struct weft__link link; /* first: a link is an item */
    uint64_t number;
    uint64_t check; /* a plain write before the push: shows a queue that orders no memory */
    atomic_uint seen;
};

static inline uint64_t item_check(uint64_t number)
{
    return (number + 1) * 0x9e3779b97f4a7c15u;
}

static inline struct weft__link *item_make(struct item *item, uint64_t number)
{
    item->number = number;
    item->check = item_check(number);
    return &item->link;
}

static inline struct item *item_of(struct weft__link *link)
{
    return (struct item *)(void *)link;
}

/* Marks the item as taken: only once, and intact. Returns its number. */
static inline uint64_t item_take(struct weft__link *link)
{
    struct item *item = item_of(link);
    CHECK_EQ(item->check, item_check(item->number));
    CHECK_EQ(atomic_fetch_add_explicit(&item->seen, 1, memory_order_relaxed), 0);
    return item->number;
}

static inline struct item *items_create(size_t n)
{
    struct item *items = calloc(n, sizeof *items);
    CHECK(items != NULL);
    return items;
}

/* Checks that every item was taken exactly once. */
static inline void items_check(const struct item *items, size_t n)
{
    for (size_t i = 0; i < n; i++) {
        CHECK_EQ(items[i].number, i);
        CHECK_EQ(atomic_load_explicit(&items[i].seen, memory_order_relaxed), 1);
    }
}

#endif
