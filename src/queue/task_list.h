/* A task list: a singly linked queue of tasks through their links, open at both ends for pushing.
 * Used by one thread, not synchronised. While the list is empty `last` is undefined, so that
 * removing the first item is one load and one store. */
#ifndef WEFT_QUEUE_TASK_LIST_H
#define WEFT_QUEUE_TASK_LIST_H

#include "base/link.h"

struct weft__task_list {
    struct weft__link *first, *last;
};

static inline void weft__task_list_push(struct weft__task_list *list, struct weft__link *item)
{
    item->next = NULL;
    *(list->first ? &list->last->next : &list->first) = item;
    list->last = item;
}

static inline void weft__task_list_push_front(struct weft__task_list *list, struct weft__link *item)
{
    item->next = list->first;
    if (!list->first) {
        list->last = item;
    }
    list->first = item;
}

/* Returns NULL if the list is empty. */
static inline struct weft__link *weft__task_list_pop(struct weft__task_list *list)
{
    struct weft__link *item = list->first;
    if (item) {
        list->first = item->next;
    }
    return item;
}

/* Moves all items of the other list to the end of this one. */
static inline void weft__task_list_append(struct weft__task_list *list,
                                          struct weft__task_list *other)
{
    if (other->first) {
        *(list->first ? &list->last->next : &list->first) = other->first;
        list->last = other->last;
        other->first = NULL;
    }
}

#endif
