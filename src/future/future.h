/* The future struct; deciding a future step by step; and its wait split in two steps (arm, finish)
 * for stackless tasks.
 *
 * Deciding a future writes its result, ends all waits, and detaches its list of continuations
 * (struct weft__continuation). The continuations go to a work list and run one after the other with
 * no lock held; a continuation may decide a derived future, whose own continuations are then
 * appended to the work list. So a chain of any length is processed in a loop, without recursion.
 */
#ifndef WEFT_FUTURE_FUTURE_H
#define WEFT_FUTURE_FUTURE_H

#include <weft/future.h>

#include "sync/source.h"

struct weft__future_work;
struct weft__future_group;

/* A continuation. */
struct weft__continuation {
    struct weft__continuation *next,
        *prev;   /* in the future's list, under its lock; then in the work
                                     * list */
    bool linked; /* in the future's list; under its lock */
    int err;     /* the result, once it is known */
    void *value;
    void (*run)(struct weft__continuation *then,
                struct weft__future_work *work); /* runs the continuation, and
                                                                     * takes it */
};

struct weft__continuations {
    struct weft__continuation *first, *last;
};

enum weft__future_state {
    WEFT__FUTURE_PENDING,
    WEFT__FUTURE_COMPLETED,
    WEFT__FUTURE_FAILED,
};

struct weft__future {
    struct weft__source source;
    _Atomic(uint32_t) refs;  /* changed only by the owner, if there is one */
    _Atomic(uint32_t) state; /* written under the lock */
    int err;                 /* err, which and value: immutable once the future is decided */
    int which;
    void *value;
    struct weft__continuations continuations; /* under the lock */
    struct weft__future_group *group; /* under the lock: the inputs it is derived from, until it is
                                * decided */
    struct weft__future *garbage;     /* the next in a work list */
    void *values[];                   /* for weft_future_all */
};

/* Work that remains to be done when no lock is held. */
struct weft__future_work {
    struct weft__continuations continuations;
    struct weft__future *garbage; /* freed when all continuations have run */
};

/* n: number of values it can hold. NULL: no memory. */
struct weft__future *weft__future_new(const struct weft_sync_opts *opts, size_t n);
/* False: the future was decided before. */
bool weft__future_decide(struct weft__future *future, int err, void *value, int which,
                         struct weft__future_work *work);
/* Adds a reference to a future that may be losing its last one. False: it has none left. */
bool weft__future_try_ref(struct weft__future *future);
void weft__future_unref(struct weft__future *future, struct weft__future_work *work);
/* Runs the continuation through `work` if the future is decided, otherwise when it is decided. */
void weft__future_link(struct weft__future *future, struct weft__continuation *then,
                       struct weft__future_work *work);
/* False: the continuation is no longer linked, and will run. */
bool weft__future_unlink(struct weft__future *future, struct weft__continuation *then);
void weft__future_work_run(struct weft__future_work *work);

/* A derived future was decided: it drops all its inputs. Takes the derived future's reference to
 * the group. */
void weft__future_group_leave(struct weft__future_group *group, struct weft__future_work *work);

/* Links the node, whose waiter is armed. False: the future is decided, nothing was linked;
 * disarm. */
bool weft__future_arm(struct weft__future *future, struct weft__node *node);
/* After the wait has ended, for any reason. */
void weft__future_finish(struct weft__future *future, struct weft__node *node);

#endif
