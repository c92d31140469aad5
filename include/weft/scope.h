/* Scopes (structured concurrency): children that end before their parent continues.
 *
 *     weft_scope scope;
 *     struct weft_scope_opts opts = {.deadline = weft_after(ns), .fail_fast = true};
 *     weft_scope_open(&scope, &opts);
 *     weft_scope_spawn(&scope, NULL, fetch, &a, NULL);
 *     weft_scope_spawn(&scope, NULL, fetch, &b, NULL);
 *     err = weft_scope_close(&scope, WEFT_FOREVER);
 *
 * A scope lives in the memory of its opener, a fiber or a plain thread. The opener closes it, the
 * innermost scope first. close returns only when the last child has ended: if the parent is
 * cancelled, aborted or interrupted inside close, it cancels the children and keeps waiting. A
 * child needs no memory besides its fiber.
 *
 * A fiber that ends, by weft_fiber_exit or by returning, with open scopes cancels their children
 * and waits for them, as a cleanup does (weft_fiber_cleanup_push). As for cleanups, returning from
 * the stack frame that contains an open scope is a caller's bug.
 *
 * A scope is cancelled by weft_scope_cancel, by its deadline, by the first failure with fail_fast,
 * by its parent inside close, or by the parent's end. Then every child is cancelled (weft_cancel),
 * children that have not started yet start cancelled, and no more can be spawned. A child's own
 * scopes are reached because the child's waits end: its close cancels them in turn.
 */
#ifndef WEFT_SCOPE_H
#define WEFT_SCOPE_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

typedef struct weft_scope {
    /* private */
    struct weft_source weft_source;
    uint64_t weft_private[24];
} weft_scope;

struct weft_scope_opts {
    const char *name; /* for dumps; borrowed until close; default none */
    /* When this time comes, the children are cancelled. The earliest deadline among this scope and
     * the enclosing scopes counts, also for a scope that a child opens; a plain thread checks the
     * deadline only in close. Default: the enclosing scopes' deadline, if there is one. */
    int64_t deadline;
    weft_pool *pool; /* runs the children; default: the opener's; a plain thread must set it */
    bool fail_fast;  /* the first failure of a child cancels the others */
};

/* Open a scope in the caller's memory. A frame fiber (weft/frame.h) opens a scope within a step and
 * closes it with weft_frame_await_scope.
 * opts: NULL for defaults; borrowed for the call.
 * Returns 0; -EINVAL if a plain thread set no pool (weft_last_error says so).
 * Context: any fiber or thread; does not wait. */
WEFT_API int weft_scope_open(weft_scope *scope, const struct weft_scope_opts *opts);

/* Start fn(arg) as a child of the scope. The return value of fn is success (>= 0) or failure (a
 * negative errno); a child that leaves by weft_fiber_exit passes that integer in the pointer.
 *
 * out: if not NULL, receives the child's handle, valid for every call except joining.
 * opts: NULL for defaults; borrowed for the call.
 * Returns 0; -ECANCELED if the scope is cancelled, -ETIMEDOUT if its deadline has passed; -EINVAL
 * if fn is NULL; otherwise as weft_pool_spawn.
 * Context: the parent or a child, also while the parent is in close; does not wait. */
WEFT_API int weft_scope_spawn(weft_scope *scope, weft_fiber *out, weft_int_fn fn, void *arg,
                              const struct weft_fiber_opts *opts);

/* Cancel the scope and all its children.
 * Context: any thread that knows the scope is still open; does not wait. */
WEFT_API void weft_scope_cancel(weft_scope *scope);
/* Report whether the scope is cancelled.
 * Returns true if it was cancelled for any reason, including its deadline.
 * Context: any thread that knows the scope is still open; does not wait. */
WEFT_API bool weft_scope_is_cancelled(weft_scope *scope);

/* Wait until every child has ended, and end the scope. When the deadline comes, or the scope's own
 * if that is earlier, the children are cancelled and the wait continues. Stops the program if the
 * caller is not the opener, or if a scope that was opened later is still open.
 * Returns the first of these that happened: the failure of a child; -ETIMEDOUT if a deadline came
 * while children were running; -ECANCELED or -EINTR if the parent was cancelled or
 * interrupted while it waited. 0 if none did. A child of a cancelled scope that returns -ECANCELED
 * is not a failure.
 * Context: the opener only; may wait; a cancel or interrupt cancels the children and does not
 * shorten the wait for them. */
WEFT_API int weft_scope_close(weft_scope *scope, int64_t deadline);

/* Find the deadline of the scopes that the calling fiber is in: its own scopes and those it is a
 * child of.
 * Returns the earliest deadline; WEFT_FOREVER if there is none.
 * Context: any fiber or thread; does not wait. */
WEFT_API int64_t weft_scope_deadline(void);

WEFT_END_DECLS
#endif
