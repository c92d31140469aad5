/* Channels: first-in first-out queues of fixed-size items, copied in by senders and out by
 * receivers.
 *
 * - Any number of senders and receivers: fibers of one or several pools, and plain threads.
 * - A waiting receiver is handed its item directly; several waiting receivers are served in arrival
 *   order.
 * - An item that a send has accepted is received by exactly one receive, however closely a
 *   deadline, cancel, interrupt or close raced it.
 * - Item contents are opaque: all-zero bytes or a NULL pointer are ordinary items. Items of zero
 *   bytes are allowed; then only their number matters, and `item` may be NULL.
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
    /* Number of items the buffer holds; default 0: no buffer, a send waits for its receiver. */
    size_t capacity;
    /* If greater than capacity: the limit up to which the buffer may grow. A full buffer doubles; a
     * sender waits when the limit is reached or memory runs out. The buffer does not shrink. */
    size_t max_capacity;
};

/* Create a channel.
 *
 * item_bytes: size of one item; 0 is allowed.
 * opts: NULL for defaults; borrowed for the call (opts->name until destroy).
 * Returns 0 and an owned channel in *out; -EINVAL if the buffer would exceed PTRDIFF_MAX bytes
 * (weft_last_error names the option); -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_chan_create(weft_chan **out, size_t item_bytes,
                              const struct weft_chan_opts *opts);
/* Destroy a channel; takes it. Undelivered items are dropped. NULL is ignored. A channel with
 * waiters stops the program.
 * Context: any thread; no concurrent use of the channel; does not wait. */
WEFT_API void weft_chan_destroy(weft_chan *chan);

/* Send a copy of *item; wait until a receiver takes it or the buffer has space. Deadline 0 tries
 * once.
 * Returns 0 if the item was received or buffered; -EPIPE if the channel is closed; -ETIMEDOUT,
 * -ECANCELED or -EINTR with nothing sent.
 * Context: any fiber or thread; may wait; cancellation point if it waits. */
WEFT_API int weft_chan_send(weft_chan *chan, const void *item, int64_t deadline);

/* Receive one item into *item; wait until there is one. Deadline 0 tries once. The contents of
 * *item are unspecified unless the call returns 0.
 * Returns 0 and the item; -EPIPE if the channel is closed and empty; -ETIMEDOUT, -ECANCELED or
 * -EINTR with nothing received.
 * Context: any fiber or thread; may wait; cancellation point if it waits. */
WEFT_API int weft_chan_recv(weft_chan *chan, void *item, int64_t deadline);

/* Send from, or receive into, an array of n items: wait as above until the first item can be
 * transferred, then transfer as many more as possible without waiting.
 * Returns the number of items transferred (1..n), or a negative errno as above with nothing
 * transferred; 0 if n is 0.
 * Context: any fiber or thread; may wait; cancellation point if it waits. */
WEFT_API ssize_t weft_chan_send_many(weft_chan *chan, const void *items, size_t n,
                                     int64_t deadline);
WEFT_API ssize_t weft_chan_recv_many(weft_chan *chan, void *items, size_t n, int64_t deadline);

/* Close a channel: sends fail with -EPIPE, including those that are waiting; receives continue
 * until the remaining items have been received, and waiting receivers get -EPIPE. Closing a closed
 * channel does nothing.
 * Context: any thread; does not wait. */
WEFT_API void weft_chan_close(weft_chan *chan);
/* Report whether the channel is closed.
 * Returns true if weft_chan_close was called.
 * Context: any thread; does not wait. */
WEFT_API bool weft_chan_is_closed(const weft_chan *chan);

/* Read the number of buffered items (length), or the most items the buffer can grow to hold
 * (capacity).
 * Returns the number; a length may be out of date when the call returns.
 * Context: any thread; do not wait. */
WEFT_API size_t weft_chan_length(const weft_chan *chan);
WEFT_API size_t weft_chan_capacity(const weft_chan *chan);

WEFT_END_DECLS
#endif
