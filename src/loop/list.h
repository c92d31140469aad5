/* A circular intrusive list with a head. A link that is in no list points to itself; a link can be
 * removed without knowing which list contains it. */
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

/* Append a link, after removing it from the list that contains it, if any. */
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

/* Move all links of `from` to `to`, whose previous content is overwritten. */
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
