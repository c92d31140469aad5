/* Scopes: children that end before their parent goes on.
 *
 *     weft_scope scope;
 *     struct weft_scope_opts opts = {.deadline = weft_after(ns), .fail_fast = true};
 *     weft_scope_open(&scope, &opts);
 *     weft_scope_spawn(&scope, NULL, fetch, &a, NULL);
 *     weft_scope_spawn(&scope, NULL, fetch, &b, NULL);
 *     err = weft_scope_close(&scope);
 *
 * A scope lives in the memory of the one who opens it, a fiber or a plain thread, and is closed by
 * the same one, the innermost first. close returns when the last child has ended and not before,
 * whatever happens: if the parent is cancelled, aborted or interrupted in it, it cancels the
 * children and goes on waiting. A child costs no memory but the fiber.
 *
 * A fiber that ends by weft_exit, or returns, with scopes open cancels their children and waits for
 * them, as a cleanup does (weft_cleanup_push); like there, to return from the frame that a scope
 * lives in is a caller's bug.
 *
 * A scope is cancelled by weft_scope_cancel, by its deadline, by the first failure with fail_fast,
 * by its parent in close, or by the parent's end: every child is cancelled (weft_cancel), those
 * that have not started yet start cancelled, and no more can be spawned. A child's own scopes are
 * reached because the child's waits end: their close cancels them in turn.
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
    const char *name; /* for dumps; borrowed; default none */
    /* The children are cancelled then. The nearest of the scopes around it counts, also for a child
     * that opens one; a plain thread looks at it in close only. Default: that of the scopes around,
     * if there are any. */
    int64_t deadline;
    weft_pool *pool; /* of the children; default: the opener's, and a plain thread must name one */
    bool fail_fast;  /* the first failure of a child cancels the others */
};

/* -EINVAL: a plain thread has named no pool. A frame fiber (weft/frame.h) opens one in a step, and
 * closes it by weft_frame_await_scope. */
WEFT_API int weft_scope_open(weft_scope *scope, const struct weft_scope_opts *opts);

/* Starts fn(arg) as a child. What it returns is its success (>= 0) or its failure (a negative
 * errno); one that leaves by weft_exit gives that as the integer in the pointer. Called by the
 * parent or by children, also while the parent is in close. *out, unless NULL, is good for
 * everything but joining. -ECANCELED, -ETIMEDOUT: the scope is cancelled, by its deadline. Else as
 * weft_pool_spawn. */
WEFT_API int weft_scope_spawn(weft_scope *scope, weft_fiber *out, int (*fn)(void *arg), void *arg,
                              const struct weft_fiber_opts *opts);

/* Cancels it. From the parent, a child, or anybody who knows that it is not closed yet. */
WEFT_API void weft_scope_cancel(weft_scope *scope);
WEFT_API bool weft_scope_is_cancelled(weft_scope *scope);

/* Waits until every child has ended. Answers what came first: the failure of a child; -ETIMEDOUT:
 * the deadline passed with children running; -ECANCELED, -EINTR: the parent was cancelled or
 * interrupted while it waited. 0: none of these. That a child of a cancelled scope returns
 * -ECANCELED is no failure. */
WEFT_API int weft_scope_close(weft_scope *scope);

/* The deadline of the scopes that the calling fiber is in, its own and those it is a child of;
 * WEFT_FOREVER: none. */
WEFT_API int64_t weft_scope_deadline(void);

WEFT_END_DECLS
#endif
