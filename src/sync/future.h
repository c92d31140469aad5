/* The future as a struct; deciding it step by step; its wait for bodies without a stack.
 *
 * To decide a future is to write its result, to end all waits, and to take off the list of those
 * who are to be told (struct weft__then). These go to a list of work and are told one after the
 * other with no lock held; telling one may decide a derived future, whose own list is then
 * appended. So a chain of any length is worked off in a loop.
 */
#ifndef WEFT_SYNC_FUTURE_H
#define WEFT_SYNC_FUTURE_H

#include <weft/future.h>

#include "sync/source.h"

struct weft__work;
struct weft__group;

/* One who is to be told. */
struct weft__then {
    struct weft__then *next, *prev; /* of the future's list, under its lock; then of the work's */
    bool linked;                    /* in the future's list; under its lock */
    int err;                        /* the result, once it is known */
    void *value;
    void (*tell)(struct weft__then *then, struct weft__work *work); /* takes it */
};

struct weft__thens {
    struct weft__then *first, *last;
};

enum weft__future_state {
    WEFT__FUTURE_PENDING,
    WEFT__FUTURE_COMPLETED,
    WEFT__FUTURE_FAILED,
};

struct weft__future {
    struct weft__source source;
    _Atomic(uint32_t) refs;  /* by its owner alone, if it has one */
    _Atomic(uint32_t) state; /* written under the lock */
    int err;                 /* these three: immutable once it is decided */
    int which;
    void *value;
    struct weft__thens thens;  /* under the lock */
    struct weft__group *group; /* under the lock: what it is derived from, until it is decided */
    struct weft__future *dead; /* the next in a list of work */
    void *values[];            /* of weft_future_all */
};

/* What is still to be done once no lock is held. */
struct weft__work {
    struct weft__thens thens;
    struct weft__future *dead; /* to be freed when all were told */
};

/* n: how many values it holds. NULL: no memory. */
struct weft__future *weft__future_new(const struct weft_sync_opts *opts, size_t n);
/* False: it was decided before. */
bool weft__future_decide(struct weft__future *future, int err, void *value, int which,
                         struct weft__work *work);
/* Takes a reference of a future that may be losing its last one. False: it is. */
bool weft__future_try_ref(struct weft__future *future);
void weft__future_unref(struct weft__future *future, struct weft__work *work);
/* Has it told now, if the future is decided, or later. */
void weft__future_link(struct weft__future *future, struct weft__then *then,
                       struct weft__work *work);
/* False: it is not linked any more, and will be told. */
bool weft__future_unlink(struct weft__future *future, struct weft__then *then);
void weft__work_do(struct weft__work *work);

/* A derived future was decided: it lets go of all it was derived from. Takes its reference of the
 * group. */
void weft__group_leave(struct weft__group *group, struct weft__work *work);

/* Links the node, whose waiter is armed. False: it is decided, nothing was linked; disarm. */
bool weft__future_arm(struct weft__future *future, struct weft__node *node);
/* After the wait has ended, for whatever reason. */
void weft__future_finish(struct weft__future *future, struct weft__node *node);

#endif
