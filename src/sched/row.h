/* A task list: a singly linked queue of tasks through their links, open at both ends for pushing.
 * Used by one thread, not synchronised. While the list is empty `last` is undefined, so that
 * removing the first item is one load and one store. */
#ifndef WEFT_SCHED_ROW_H
#define WEFT_SCHED_ROW_H

#include "base/link.h"

struct weft__row {
    struct weft__link *first, *last;
};

static inline void weft__row_push(struct weft__row *row, struct weft__link *item)
{
    item->next = NULL;
    *(row->first ? &row->last->next : &row->first) = item;
    row->last = item;
}

static inline void weft__row_push_front(struct weft__row *row, struct weft__link *item)
{
    item->next = row->first;
    if (!row->first) {
        row->last = item;
    }
    row->first = item;
}

/* Returns NULL if the list is empty. */
static inline struct weft__link *weft__row_pop(struct weft__row *row)
{
    struct weft__link *item = row->first;
    if (item) {
        row->first = item->next;
    }
    return item;
}

/* Moves all items of the other list to the end of this one. */
static inline void weft__row_append(struct weft__row *row, struct weft__row *other)
{
    if (other->first) {
        *(row->first ? &row->last->next : &row->first) = other->first;
        row->last = other->last;
        other->first = NULL;
    }
}

#endif
