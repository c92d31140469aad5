/* A oneshot: one value, handed once from a notifier to one waiter.
 *
 * A oneshot may live on the waiter's stack: once the wait has returned 0, no other thread touches
 * it.
 *
 *     weft_oneshot reply = WEFT_ONESHOT_INIT;
 *     ... give &reply to the code that will call weft_oneshot_notify(&reply, value) ...
 *     err = weft_oneshot_wait(&reply, &value, deadline);
 *
 * A waiter that gives up (deadline, cancel) calls weft_oneshot_close, and must keep the object
 * alive until the notifier has made its call as well.
 */
#ifndef WEFT_ONESHOT_H
#define WEFT_ONESHOT_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

typedef struct weft_oneshot {
    /* private */
    struct weft_source weft_source;
    uint64_t weft_private[2];
} weft_oneshot;

#define WEFT_ONESHOT_INIT                                                                          \
    {                                                                                              \
        {{0}},                                                                                     \
        {                                                                                          \
            0                                                                                      \
        }                                                                                          \
    }

/* Initialise a oneshot (all-zero bytes, WEFT_ONESHOT_INIT, need no init), or end its use. deinit
 * stops the program if there are waiters.
 * opts: NULL for defaults; borrowed for the call (opts->name until deinit).
 * Context: any thread; no concurrent use of the object; do not wait. */
WEFT_API void weft_oneshot_init(weft_oneshot *oneshot, const struct weft_sync_opts *opts);
WEFT_API void weft_oneshot_deinit(weft_oneshot *oneshot);

/* Hand over the value. If there is no waiter yet, the value is kept for the later wait. Writes made
 * before the call are visible to the waiter.
 * Returns 0; -EALREADY if there was a notify before, -EPIPE if the oneshot was closed: then the
 * caller keeps the value.
 * Context: any thread; does not wait. */
WEFT_API int weft_oneshot_notify(weft_oneshot *oneshot, void *value);

/* Close the oneshot: there will be no value, or no waiter to take it. A wait, and a later notify,
 * return -EPIPE.
 * Returns 0; -EALREADY if the oneshot was notified or closed before, and then the call has no
 * effect.
 * Context: any thread; does not wait. */
WEFT_API int weft_oneshot_close(weft_oneshot *oneshot);

/* Wait for the value.
 *
 * value: receives the value; may be NULL. Only a return of 0 consumes the value. A second wait
 * after that, or a second concurrent waiter, is a caller's bug and stops the program.
 * Returns 0 and the value; -EPIPE if closed; -ETIMEDOUT, -ECANCELED or -EINTR if the wait ended
 * first.
 * Context: any fiber or thread; may wait; cancellation point if it waits. */
WEFT_API int weft_oneshot_wait(weft_oneshot *oneshot, void **value, int64_t deadline);

WEFT_END_DECLS
#endif
