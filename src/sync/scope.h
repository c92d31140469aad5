/* The scope as its own struct. */
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

#endif
