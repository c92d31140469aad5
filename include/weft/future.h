/* A future: a result that becomes available later, for any number of waiters. The result is a value
 * or an error.
 *
 * A future is reference-counted: create returns one reference; each user holds its own
 * (weft_future_ref) or relies on a holder that outlives it. The value is a plain pointer whose
 * ownership is the caller's convention; the future never frees it.
 *
 * The first call to complete, fail or cancel decides the future, from any thread; later calls
 * return -EALREADY. A future that loses its last reference undecided fails with -EPIPE, which
 * futures derived from it see.
 *
 * Callbacks and conversions run inline in the call that decides the future, on that caller's stack
 * with no lock held. They should be short, and may use futures freely. A long chain of derived
 * futures does not need a deep stack.
 */
#ifndef WEFT_FUTURE_H
#define WEFT_FUTURE_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

typedef struct weft__future weft_future;

/* Create an undecided future.
 * opts: NULL for defaults; borrowed for the call (opts->name until the last unref).
 * Returns 0 and one reference in *out; -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_future_create(weft_future **out, const struct weft_sync_opts *opts);
/* Add a reference.
 * Returns its argument.
 * Context: any thread (with an owner: the owner only); does not wait. */
WEFT_API weft_future *weft_future_ref(weft_future *future);
/* Drop a reference; NULL is ignored. Dropping the last one fails an undecided future with -EPIPE; a
 * future with waiters then stops the program.
 * Context: any thread (with an owner: the owner only); does not wait, but may run callbacks. */
WEFT_API void weft_future_unref(weft_future *future);

/* Decide the future: with a value, with an error (err is a negative errno, otherwise the program
 * stops), or with -ECANCELED. Writes made before the call are visible to every reader of the
 * result.
 * Returns 0; -EALREADY if the future was decided before, and then the call has no effect.
 * Context: any thread; does not wait, but runs callbacks and conversions. */
WEFT_API int weft_future_complete(weft_future *future, void *value);
WEFT_API int weft_future_fail(weft_future *future, int err);
WEFT_API int weft_future_cancel(weft_future *future);

/* Read the result without waiting.
 * value: receives the value if the future completed; may be NULL.
 * Returns 0 and the value; the error that the future failed with; -EINPROGRESS if undecided.
 * Context: any thread; does not wait. */
WEFT_API int weft_future_result(const weft_future *future, void **value);
/* Report whether the future is decided.
 * Returns true if it has a value or an error.
 * Context: any thread; does not wait. */
WEFT_API bool weft_future_is_done(const weft_future *future);

/* Wait until the future is decided, with a value or an error. Deadline 0 tries once.
 * Returns 0 if decided; -ETIMEDOUT, -ECANCELED or -EINTR concern the wait only, not the future.
 * Context: any fiber or thread; may wait; cancellation point if it waits. */
WEFT_API int weft_future_wait(weft_future *future, int64_t deadline);

/* Wait and read the result in one call, for callers that need not distinguish an error of the
 * future from an error of the wait.
 * Returns as weft_future_wait if that fails, else as weft_future_result.
 * Context: any fiber or thread; may wait; cancellation point if it waits. */
WEFT_API int weft_future_get(weft_future *future, void **value, int64_t deadline);

/* Run fn(arg, err, value) once the future is decided: immediately if it is, else in the call that
 * decides it.
 * Returns 0; -ENOMEM, and fn will not run.
 * Context: any thread; does not wait. */
typedef void (*weft_future_fn)(void *arg, int err, void *value);
WEFT_API int weft_future_then(weft_future *future, weft_future_fn fn, void *arg);

/* Derived futures. Each call returns a new future with one reference owned by the caller. A derived
 * future drops its inputs as soon as it is decided; to give it up, cancel it: that does not affect
 * the inputs. If the inputs have an owner, all must have the same one (otherwise the program
 * stops), and so does the derived future. All calls return -ENOMEM if memory runs out, may be
 * called from any thread, and do not wait. */

/* Derive a future that holds the value of `future` converted by fn(arg, value, &converted). fn
 * returns 0, or a negative errno to fail with; *converted initially is the value. A failure is
 * passed on without calling fn. If the derived future is cancelled while fn runs, the converted
 * value is lost.
 * Returns 0 and an owned future in *out; -ENOMEM.
 * Context: any thread; does not wait. */
typedef int (*weft_future_convert)(void *arg, void *value, void **converted);
WEFT_API int weft_future_map(weft_future *future, weft_future **out, weft_future_convert fn,
                             void *arg);

/* Derive a future that completes when all n futures have completed, or fails with the first error.
 * Its value is a `void **`, an array of the n values in order, which lives as long as the derived
 * future.
 * Returns 0 and an owned future in *out; -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_future_all(weft_future **out, weft_future *const *futures, size_t n);

/* Derive a future that completes with the first value of n futures, or fails with the last error
 * when all n have failed.
 * Returns 0 and an owned future in *out; -EINVAL if n is 0; -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_future_any(weft_future **out, weft_future *const *futures, size_t n);

/* Find which input decided a future made by weft_future_all or weft_future_any.
 * Returns the index of that input; -1 if all inputs together decided it, or no input did.
 * Context: any thread; does not wait. */
WEFT_API int weft_future_which(const weft_future *future);

WEFT_END_DECLS
#endif
