/* Items for the clients of queues: each carries plain data, so that a hand-over without
 * happens-before is a race, and is counted, so that a lost or duplicated item is detected. */
#ifndef WEFT_TEST_MODEL_ITEMS_H
#define WEFT_TEST_MODEL_ITEMS_H

#include "base/link.h"
#include "model/explore.h"

#define ITEMS 8

struct item {
    struct weft__link link; /* first */
    int number;
};

static struct item items[ITEMS];

static inline void items_reset(void)
{
    x_name(items, sizeof items, "items");
    for (int i = 0; i < ITEMS; i++) {
        items[i] = (struct item){.number = -1};
    }
}

/* Filled by the thread that hands it over. */
static inline struct weft__link *item_make(int number)
{
    items[number].number = number;
    return &items[number].link;
}

/* Received: returns its number. The data is read and written, because the receiver owns it now. */
static inline int item_take(struct weft__link *link)
{
    struct item *item = (struct item *)link;
    X_ASSERT(item >= items && item < items + ITEMS);
    int number = item->number;
    X_ASSERT(item == &items[number]);
    item->number = number;
    link->next = NULL;
    x_count(number);
    return number;
}

/* For check: the first n were received once each, and no other was. */
static inline void items_check(int n)
{
    for (int i = 0; i < ITEMS; i++) {
        X_ASSERT(x_counted(i) == (i < n));
    }
}

/* For check: takes the remaining items out, and all n were received. */
static void finish(int n);

__attribute__((unused)) static void all_of_0(void)
{
    finish(0);
}
__attribute__((unused)) static void all_of_1(void)
{
    finish(1);
}
__attribute__((unused)) static void all_of_2(void)
{
    finish(2);
}
__attribute__((unused)) static void all_of_3(void)
{
    finish(3);
}
__attribute__((unused)) static void all_of_4(void)
{
    finish(4);
}

#endif
