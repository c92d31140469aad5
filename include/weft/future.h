/* A future: a result that will be there later, for any number of waiters. A value, or an error.
 *
 * It is counted: create gives one reference, each user has its own (weft_future_ref) or knows of
 * somebody who has one. What it carries is a pointer that belongs to whom you say; the future never
 * frees it.
 *
 * Whoever is first to complete, fail or cancel it decides, from any thread; the others get
 * -EALREADY. One that loses its last reference undecided fails with -EPIPE, for those derived from
 * it.
 *
 * Callbacks and conversions run inline in the one who decides, on its stack, with no lock held:
 * they should be short, and may use futures as they like. A long chain of derived futures needs no
 * deep stack.
 */
#ifndef WEFT_FUTURE_H
#define WEFT_FUTURE_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

typedef struct weft__future weft_future;

/* -ENOMEM. */
WEFT_API int weft_future_create(weft_future **out, const struct weft_sync_opts *opts);
/* Returns its argument. */
WEFT_API weft_future *weft_future_ref(weft_future *future);
/* NULL is fine. */
WEFT_API void weft_future_unref(weft_future *future);

/* Decides it: with a value, with an error (negative errno), with -ECANCELED. What was written
 * before is seen by whoever gets the result. -EALREADY: it was decided before. */
WEFT_API int weft_future_complete(weft_future *future, void *value);
WEFT_API int weft_future_fail(weft_future *future, int err);
WEFT_API int weft_future_cancel(weft_future *future);

/* The result as it stands: 0 and the value (if `value` is not NULL), the error it failed with, or
 * -EINPROGRESS. */
WEFT_API int weft_future_result(const weft_future *future, void **value);
WEFT_API bool weft_future_is_done(const weft_future *future);

/* Waits until it is decided, whichever way: 0. -ETIMEDOUT, -ECANCELED, -EINTR are about the wait
 * alone. */
WEFT_API int weft_future_wait(weft_future *future, int64_t deadline);

/* Wait and result in one, for those who need not tell an error of the future from one of the
 * wait. */
WEFT_API int weft_future_get(weft_future *future, void **value, int64_t deadline);

/* Runs fn(arg, err, value) once it is decided: now, if it is. -ENOMEM. */
typedef void (*weft_future_fn)(void *arg, int err, void *value);
WEFT_API int weft_future_then(weft_future *future, weft_future_fn fn, void *arg);

/* Derived futures: each is a new one, with a reference for the caller. They let go of what they
 * were derived from as soon as they are decided, so to give one up for good, cancel it; that leaves
 * the others as they are. All of them, if they have an owner, have the same one. -ENOMEM. */

/* The value converted by fn(arg, value, &converted), which gives 0 or a negative errno to fail
 * with; *converted is the value at first. A failure passes by without fn. If it is cancelled while
 * fn runs, nobody gets what fn has made. */
typedef int (*weft_future_convert)(void *arg, void *value, void **converted);
WEFT_API int weft_future_map(weft_future *future, weft_future **out, weft_future_convert fn,
                             void *arg);

/* All n have completed: the value is a `void **`, their n values in order, which lives as long as
 * this future. Or the first to fail failed: its error, at once. */
WEFT_API int weft_future_all(weft_future *const *futures, size_t n, weft_future **out);

/* The first to complete: its value. All n have failed: the error of the last. -EINVAL: n is 0. */
WEFT_API int weft_future_any(weft_future *const *futures, size_t n, weft_future **out);

/* Of one of these two: the index of the future that decided it. -1: it took them all, or it is not
 * decided by any. */
WEFT_API int weft_future_which(const weft_future *future);

WEFT_END_DECLS
#endif
