/* The scope struct, and its close split in steps for stackless tasks. */
#ifndef WEFT_SYNC_SCOPE_H
#define WEFT_SYNC_SCOPE_H

#include <weft/scope.h>

#include "sync/source.h"
#include "task/parent.h"
#include "time/wheel.h"

struct weft__child;

struct weft__children {
    struct weft__child *first;
};

struct WEFT__OVERLAY weft__scope {
    struct weft__source source; /* its waiter: the parent in close */
    struct weft__parent parent;
    /* under the lock */
    uint64_t live;                 /* children that were spawned and have not ended */
    struct weft__children running; /* children that have started and were not cancelled by the
                                    * scope */
    struct weft__children cancelled_children; /* children that the scope has cancelled */
    int32_t result;                           /* the result of close */
    bool cancelled, expired;
    /* immutable */
    bool open, fail_fast;
    int64_t deadline; /* the earliest, including enclosing scopes */
    weft_pool *pool;  /* runs the children */
    /* used by the opener only */
    int64_t close_deadline;    /* of the wait in close; WEFT_FOREVER once it has come */
    weft_fiber opener;         /* 0: a plain thread */
    weft_pool *home;           /* the pool that the wheel belongs to */
    struct weft__wheel *wheel; /* holds the timer; NULL: none */
    struct weft__timer timer;
    struct weft__scope *outer; /* the enclosing scope, of this fiber or of its parent */
    struct weft_fiber_cleanup cleanup;
};

#ifndef WEFT_EXPLORE
_Static_assert(sizeof(struct weft__scope) <= sizeof(weft_scope), "the public storage");
#endif

static inline struct weft__scope *weft__scope_of(weft_scope *scope)
{
    return (struct weft__scope *)(void *)scope;
}

/* A stackless task opens a scope as a plain thread does, and closes it with these calls, possibly
 * several times:
 *   begin   once, before the first arm;
 *   arm     links the node, whose waiter is armed. False: no child is left, nothing was linked;
 *           disarm, and finish with REASON_NONE;
 *   finish  after the wait has ended, for this reason, which cancels the children as close does.
 *           True: the last child has ended, the scope is closed, *result is the result of close.
 *           False: some children still run; arm again. */
bool weft__scope_arm(struct weft__scope *scope, struct weft__node *node);
bool weft__scope_finish(struct weft__scope *scope, struct weft__node *node,
                        enum weft__reason reason, int *result);

/* Begins a close that waits until this deadline, and then cancels the children. */
void weft__scope_close_begin(struct weft__scope *scope, int64_t deadline);

/* The time at which the runner of such a task, or the closing fiber or thread itself, ends the wait
 * with REASON_TIMEOUT. */
static inline int64_t weft__scope_until(const struct weft__scope *scope)
{
    return scope->close_deadline;
}

/* A stackless child. Spawning it takes these steps:
 *   admit    0, or the result of weft_scope_spawn; then the child is counted;
 *   make     its record, and the node that is its only joiner; NULL: no memory;
 *   unadmit  if it could not be spawned after all; frees the record unless NULL.
 * The node identifies the child. The child itself calls starts when it first runs, and leaves, with
 * its status, before it ends. */
int weft__scope_admit(struct weft__scope *scope);
struct weft__node *weft__scope_child_make(struct weft__scope *scope);
void weft__scope_admit_undo(struct weft__scope *scope, struct weft__node *node);
void weft__scope_child_start(struct weft__node *node);
void weft__scope_child_exit(struct weft__node *node, int status);
bool weft__scope_child_has_started(const struct weft__node *node);
struct weft__scope *weft__scope_of_child(const struct weft__node *node);

#endif
