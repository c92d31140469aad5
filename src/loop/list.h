/* A circle of links with a head of its own. A link that is in no list points to itself, and can be
 * taken out of whichever list it is in without knowing which. */
#ifndef WEFT_LOOP_LIST_H
#define WEFT_LOOP_LIST_H

#include <stdbool.h>
#include <stddef.h>

struct weft__list {
    struct weft__list *next, *prev;
};

#define WEFT__LIST_OF(link, type, member) ((type *)(void *)((char *)(link)-offsetof(type, member)))

static inline void weft__list_init(struct weft__list *list)
{
    list->next = list->prev = list;
}

static inline bool weft__list_empty(const struct weft__list *list)
{
    return list->next == list;
}

static inline void weft__list_unlink(struct weft__list *link)
{
    link->prev->next = link->next;
    link->next->prev = link->prev;
    weft__list_init(link);
}

/* To the end; out of whichever list it was in. */
static inline void weft__list_push(struct weft__list *list, struct weft__list *link)
{
    weft__list_unlink(link);
    link->prev = list->prev;
    link->next = list;
    list->prev->next = link;
    list->prev = link;
}

static inline struct weft__list *weft__list_pop(struct weft__list *list)
{
    struct weft__list *first = list->next;
    if (first == list) {
        return NULL;
    }
    weft__list_unlink(first);
    return first;
}

/* All links of `from` go to `to`, which holds nothing. */
static inline void weft__list_take(struct weft__list *to, struct weft__list *from)
{
    weft__list_init(to);
    if (!weft__list_empty(from)) {
        *to = *from;
        to->next->prev = to->prev->next = to;
        weft__list_init(from);
    }
}

#endif
