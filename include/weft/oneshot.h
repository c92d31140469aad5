/* A one-shot waiter: one value, handed from whoever has it to the one who waits for it, once.
 *
 * It may live on the stack of the one who waits: when the wait has returned 0 nobody touches it any
 * more.
 *
 *     weft_oneshot answer = WEFT_ONESHOT_INIT;
 *     ... give &answer to somebody who will call weft_oneshot_notify(&answer, value) ...
 *     err = weft_oneshot_wait(&answer, &value, deadline);
 *
 * One who gives up before (a deadline, a cancel) calls weft_oneshot_close, and has to see to it
 * that the object stays until the other has called as well.
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

WEFT_API void weft_oneshot_init(weft_oneshot *oneshot, const struct weft_sync_opts *opts);
WEFT_API void weft_oneshot_deinit(weft_oneshot *oneshot);

/* Hands the value over. If nobody waits yet it is kept for the one who will. What was written
 * before is seen by that one. -EALREADY: there was a notify before; -EPIPE: it was closed. The
 * caller keeps the value then. */
WEFT_API int weft_oneshot_notify(weft_oneshot *oneshot, void *value);

/* There will be no value, or nobody who takes it: the wait answers -EPIPE, and so does a notify.
 * -EALREADY: it was notified or closed before, and stays as it is. */
WEFT_API int weft_oneshot_close(weft_oneshot *oneshot);

/* Waits for the value, which is written if `value` is not NULL. 0, -ETIMEDOUT, -ECANCELED, -EINTR;
 * -EPIPE: closed. Only 0 uses it up. To wait again after that, or while another waits, is a
 * caller's bug. */
WEFT_API int weft_oneshot_wait(weft_oneshot *oneshot, void **value, int64_t deadline);

WEFT_END_DECLS
#endif
