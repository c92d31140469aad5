/* The link of every intrusive queue: the first member of a queued struct. */
#ifndef WEFT_BASE_LINK_H
#define WEFT_BASE_LINK_H

#include <stddef.h>

struct weft__link {
    struct weft__link *next;
};

/* A FIFO list in its owner's memory, without synchronisation. */
struct weft__chain {
    struct weft__link *head, **tail;
    size_t count;
};

static inline void weft__chain_init(struct weft__chain *chain)
{
    chain->head = NULL;
    chain->tail = &chain->head;
    chain->count = 0;
}

static inline void weft__chain_push(struct weft__chain *chain, struct weft__link *item)
{
    item->next = NULL;
    *chain->tail = item;
    chain->tail = &item->next;
    chain->count++;
}

static inline struct weft__link *weft__chain_pop(struct weft__chain *chain)
{
    struct weft__link *item = chain->head;
    if (item) {
        chain->head = item->next;
        chain->count--;
        if (!chain->head) {
            chain->tail = &chain->head;
        }
    }
    return item;
}

#endif
