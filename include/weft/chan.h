/* Channels, and select: a wait for one of several events. */
#ifndef WEFT_CHAN_H
#define WEFT_CHAN_H

#include <sys/types.h>

#include <weft/future.h>
#include <weft/sync.h>

WEFT_BEGIN_DECLS

/* --- channels ------------------------------------------------------------------------------- */

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

/* Read the number of buffered items.
 * Returns the number, which may be out of date when the call returns.
 * Context: any thread; does not wait. */
WEFT_API size_t weft_chan_length(const weft_chan *chan);

/* --- select --------------------------------------------------------------------------------- */

/* Select: wait for the first of several operations that can proceed, and perform it.
 *
 *     int number;
 *     struct weft_case cases[] = {
 *         weft_case_recv(numbers, &number),
 *         weft_case_event(&stop),
 *         weft_case_at(weft_after(WEFT_SECONDS(1))),
 *     };
 *     switch (weft_select(cases, 3, WEFT_FOREVER)) {
 *     case 0: if (cases[0].status == 0) ... a number; else -EPIPE, closed
 *     case 1: ... stop was requested
 *     case 2: ... a second has passed
 *     }
 *
 * Exactly one case is performed; the others have no effect: nothing was sent or received, and their
 * buffers are unchanged. A select never matches itself: a select that both sends to and receives
 * from one channel waits for another sender or receiver.
 */

/* The most cases in one select. Up to 8 cases need no memory besides the caller's stack. */
#define WEFT_SELECT_MAX 4000

enum weft_case_kind {
    WEFT_CASE_SEND,
    WEFT_CASE_RECV,
    WEFT_CASE_EVENT,
    WEFT_CASE_FUTURE,
    WEFT_CASE_COND,
    WEFT_CASE_AT,
};

struct weft_case {
    enum weft_case_kind kind;
    int status;   /* of the performed case: 0, or -EPIPE if the channel is closed */
    void *object; /* NULL: a case that is never ready */
    void *item;   /* channel: the item, only read by a send; condition: the mutex, or NULL */
    int64_t at;
};

/* Case: send a copy of *item, read at the moment of sending. */
static inline struct weft_case weft_case_send(weft_chan *chan, const void *item)
{
    struct weft_case one = {WEFT_CASE_SEND, 0, chan, (void *)(uintptr_t)item, 0};
    return one;
}

/* Case: receive into *item; several cases may share one buffer. */
static inline struct weft_case weft_case_recv(weft_chan *chan, void *item)
{
    struct weft_case one = {WEFT_CASE_RECV, 0, chan, item, 0};
    return one;
}

/* Case: the event is set. */
static inline struct weft_case weft_case_event(weft_event *event)
{
    struct weft_case one = {WEFT_CASE_EVENT, 0, event, NULL, 0};
    return one;
}

/* Case: the future is decided; read its result afterwards. */
static inline struct weft_case weft_case_future(weft_future *future)
{
    struct weft_case one = {WEFT_CASE_FUTURE, 0, future, NULL, 0};
    return one;
}

/* Case: the condition is signalled. The caller holds the mutex, as for weft_cond_wait, and holds it
 * again when the select returns, whatever the result; the mutex is unlocked meanwhile only if the
 * select has to wait. mutex may be NULL as in weft_cond_wait. */
static inline struct weft_case weft_case_cond(weft_cond *cond, weft_mutex *mutex)
{
    struct weft_case one = {WEFT_CASE_COND, 0, cond, mutex, 0};
    return one;
}

/* Case: this absolute time has been reached. */
static inline struct weft_case weft_case_at(int64_t time)
{
    struct weft_case one = {WEFT_CASE_AT, 0, NULL, NULL, time};
    return one;
}

/* Wait until one of n cases can proceed, perform it, and report which.
 *
 * cases: borrowed for the call; the performed case's status is set. If several cases are ready, one
 * is chosen at random. Deadline 0 only tries, like a `default` case in Go. More than
 * WEFT_SELECT_MAX cases stop the program.
 * Returns the index of the performed case; -ETIMEDOUT, -ECANCELED or -EINTR if no case was
 * performed; -ENOMEM, only with more than 8 cases.
 * Context: any fiber or thread; may wait; cancellation point if it waits. */
WEFT_API int weft_select(struct weft_case *cases, size_t n, int64_t deadline);

WEFT_END_DECLS
#endif
