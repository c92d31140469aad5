/* Channels: items of one size, copied in by senders and out by receivers, first in first out.
 *
 *  - Any number of senders and receivers: fibers of one pool or of several, and plain threads.
 *  - A receiver that waits is handed its item directly; several that wait are served in the order
 *    in which they came.
 *  - An item that a send has accepted is received by exactly one receive, however closely a
 *    deadline, a cancel, an interrupt or a close raced it.
 *  - What an item is made of is the caller's affair: all bytes zero, or a NULL pointer, is an item
 *    like any other. Items of no bytes at all are allowed; then it is only the number that counts,
 *    and `item` may be NULL.
 */
#ifndef WEFT_CHAN_H
#define WEFT_CHAN_H

#include <sys/types.h>

#include <weft/sync.h>

WEFT_BEGIN_DECLS

typedef struct weft_chan weft_chan;

struct weft_chan_opts {
    const char *name;  /* for dumps and reports; borrowed; default none */
    weft_pool *owner;  /* as in weft_sync_opts */
    weft_group *group; /* as in weft_sync_opts */
    /* How many items it holds that nobody has received yet; default 0: none, a send waits for its
     * receiver. */
    size_t capacity;
    /* If it is more than that: how many it may come to hold. The buffer doubles when it is full,
     * and a sender waits when this is reached, or when there is no memory. It does not shrink. */
    size_t max_capacity;
};

/* -ENOMEM; -EINVAL: the buffer would have more than PTRDIFF_MAX bytes. */
WEFT_API int weft_chan_create(weft_chan **out, size_t item_bytes,
                              const struct weft_chan_opts *opts);
/* Nobody may wait on it. Items that nobody received are dropped. NULL: nothing happens. */
WEFT_API void weft_chan_destroy(weft_chan *chan);

/* Sends a copy of *item. 0: it was received, or is held for a receiver. -EPIPE: the channel is
 * closed. -ETIMEDOUT, -ECANCELED, -EINTR. */
WEFT_API int weft_chan_send(weft_chan *chan, const void *item, int64_t deadline);

/* Receives into *item, which holds anything if the result is not 0. -EPIPE: the channel is closed
 * and empty. -ETIMEDOUT, -ECANCELED, -EINTR. */
WEFT_API int weft_chan_recv(weft_chan *chan, void *item, int64_t deadline);

/* Many at once, from or into an array: waits as above until one can be sent or received, then goes
 * on with what needs no more waiting. How many it were, 1 to n; or an error as above, and then it
 * were none. n = 0: 0. */
WEFT_API ssize_t weft_chan_send_many(weft_chan *chan, const void *items, size_t n,
                                     int64_t deadline);
WEFT_API ssize_t weft_chan_recv_many(weft_chan *chan, void *items, size_t n, int64_t deadline);

/* From now on sends are refused, also those that wait; receives go on until what is left has been
 * received, those that wait in vain end. A second time: nothing happens. */
WEFT_API void weft_chan_close(weft_chan *chan);
WEFT_API bool weft_chan_is_closed(const weft_chan *chan);

/* Items it holds, and how many it can come to hold. True of their own moment. */
WEFT_API size_t weft_chan_length(const weft_chan *chan);
WEFT_API size_t weft_chan_capacity(const weft_chan *chan);

WEFT_END_DECLS
#endif
