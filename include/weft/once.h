/* Once: a function that is called exactly once, however many callers request it. */
#ifndef WEFT_ONCE_H
#define WEFT_ONCE_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

typedef struct weft_once {
    /* private */
    struct weft_source weft_source;
    uint64_t weft_private;
} weft_once;

#define WEFT_ONCE_INIT                                                                             \
    {                                                                                              \
        {{0}}, 0                                                                                   \
    }

/* Initialise a once object (all-zero bytes, WEFT_ONCE_INIT, need no init), or end its use. deinit
 * stops the program if there are waiters.
 * opts: NULL for defaults; borrowed for the call (opts->name until deinit).
 * Context: any thread; no concurrent use of the object; do not wait. */
WEFT_API void weft_once_init(weft_once *once, const struct weft_sync_opts *opts);
WEFT_API void weft_once_deinit(weft_once *once);

/* Call fn(arg) if no caller has yet, otherwise wait until that call has returned.
 *
 * fn runs in the first caller's own fiber or thread. deadline limits only the wait for another
 * caller's fn, never fn itself. The first caller can be cancelled like any fiber: waits inside fn
 * end then, but fn still runs and counts as done when it returns. Calling weft_once_call on the
 * same object inside fn, or leaving fn by weft_fiber_exit, is a caller's bug and stops the program.
 * Returns 0 when fn has returned, and fn's writes are visible; -ETIMEDOUT, -ECANCELED or -EINTR if
 * the wait ended first.
 * Context: any fiber or thread; may wait; cancellation point if it waits. */
WEFT_API int weft_once_call(weft_once *once, void (*fn)(void *arg), void *arg, int64_t deadline);
/* Report whether fn has returned.
 * Returns true if fn has returned; its writes are then visible.
 * Context: any thread; does not wait. */
WEFT_API bool weft_once_is_done(const weft_once *once);

WEFT_END_DECLS
#endif
