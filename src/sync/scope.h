/* The scope as its own struct, and its close in steps for bodies without a stack. */
#ifndef WEFT_SYNC_SCOPE_H
#define WEFT_SYNC_SCOPE_H

#include <weft/scope.h>

#include "sched/parent.h"
#include "sync/source.h"
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
    struct weft__children running; /* that have started, and were not cancelled by the scope */
    struct weft__children told;    /* that were */
    int32_t result;                /* what close will answer */
    bool cancelled, expired;
    /* immutable */
    bool open, fail_fast;
    int64_t deadline; /* the nearest, with those around */
    weft_pool *pool;  /* of the children */
    /* the opener's */
    weft_fiber opener;         /* 0: a plain thread */
    weft_pool *home;           /* whose wheel it is */
    struct weft__wheel *wheel; /* which has the timer; NULL: none */
    struct weft__timer timer;
    struct weft__scope *outer; /* around it, of this fiber or of its parent */
    struct weft_cleanup cleanup;
};

#ifndef WEFT_EXPLORE
_Static_assert(sizeof(struct weft__scope) <= sizeof(weft_scope), "the public storage");
#endif

static inline struct weft__scope *weft__scope_of(weft_scope *scope)
{
    return (struct weft__scope *)(void *)scope;
}

/* A body without a stack opens a scope as a plain thread does, and closes it so, once or several
 * times over:
 *   arm     links the node, whose waiter is armed. False: no child is left, nothing was linked;
 *           disarm, and finish with REASON_NONE;
 *   finish  after the wait has ended, for this reason, which the children are told of as close
 *           tells them. True: the last has ended, the scope is closed, *result is what close
 *           answers. False: some still run; arm again. */
bool weft__scope_arm(struct weft__scope *scope, struct weft__node *node);
bool weft__scope_finish(struct weft__scope *scope, struct weft__node *node,
                        enum weft__reason reason, int *result);

/* When whoever keeps the deadline of such a body, or the plain thread itself, ends the wait with
 * REASON_TIMEOUT. */
static inline int64_t weft__scope_until(const struct weft__scope *scope)
{
    return scope->opener || scope->wheel || scope->expired ? WEFT_FOREVER : scope->deadline;
}

/* A child without a stack. Spawning it is
 *   admit    0, or what weft_scope_spawn answers; then the child counts;
 *   make     its record, and the node that is its only joiner; NULL: no memory;
 *   unadmit  if it could not be spawned after all; the record, unless NULL, goes back.
 * The node stands for the child. It says itself that it starts, when it first runs, and that it
 * leaves, with its status, before it ends. */
int weft__scope_admit(struct weft__scope *scope);
struct weft__node *weft__scope_child_make(struct weft__scope *scope);
void weft__scope_unadmit(struct weft__scope *scope, struct weft__node *node);
void weft__scope_child_starts(struct weft__node *node);
void weft__scope_child_leaves(struct weft__node *node, int status);
bool weft__scope_child_started(const struct weft__node *node);
struct weft__scope *weft__scope_of_child(const struct weft__node *node);

#endif
