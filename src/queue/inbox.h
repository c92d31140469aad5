/* The inbox: tasks that other threads send to one worker. Multi-producer, single-consumer (MPSC);
 * the consumer takes everything at once.
 *
 * A stack of links: producers push by CAS, the consumer takes the whole stack with one exchange and
 * reverses it, so the result is FIFO per producer. There is no moment, as in a queue with a swap
 * and a later link, when an item is pushed but cannot be seen; and no ABA, because no thread pops
 * single items.
 */
#ifndef WEFT_QUEUE_INBOX_H
#define WEFT_QUEUE_INBOX_H

#include <stdbool.h>

#include "base/atomic.h"
#include "base/link.h"

struct weft__inbox {
    _Atomic(struct weft__link *) newest;
};

static inline void weft__inbox_init(struct weft__inbox *inbox)
{
    atomic_init(&inbox->newest, NULL);
}

/* Any thread. True: the inbox was empty, so the caller wakes the consumer; later producers before
 * the same drain need not. The seq_cst CAS is the "publish, then check" of that wake:
 * idle/parker.h. */
static inline bool weft__inbox_push_remote(struct weft__inbox *inbox, struct weft__link *item)
{
    struct weft__link *newest = atomic_load_explicit(&inbox->newest, memory_order_relaxed);
    do {
        item->next = newest;
        WEFT__STEP();
    } while (!atomic_compare_exchange_weak_explicit(&inbox->newest, &newest, item,
                                                    memory_order_seq_cst, /* pairs: drain_local */
                                                    memory_order_relaxed));
    return newest == NULL;
}

static inline bool weft__inbox_is_empty(const struct weft__inbox *inbox)
{
    return atomic_load_explicit(&inbox->newest, memory_order_seq_cst) == NULL;
}

/* Consumer only, relaxed: was it empty a moment ago? */
static inline bool weft__inbox_is_empty_relaxed(const struct weft__inbox *inbox)
{
    return atomic_load_explicit(&inbox->newest, memory_order_relaxed) == NULL;
}

/* Consumer only: takes all items, oldest first, as a NULL-terminated list. */
static inline struct weft__link *weft__inbox_drain_local(struct weft__inbox *inbox)
{
    if (weft__inbox_is_empty_relaxed(inbox)) {
        return NULL;
    }
    struct weft__link *item = atomic_exchange_explicit(
        &inbox->newest, NULL, memory_order_acquire); /* pairs: push_remote */
    struct weft__link *oldest = NULL;
    while (item) {
        struct weft__link *below = item->next;
        item->next = oldest;
        oldest = item;
        item = below;
    }
    return oldest;
}

#endif
