/* Internal structures of a dispatcher and of a group. The public contract is <weft/dispatcher.h>.
 *
 * A dispatcher is a pool with one worker that uses the round-based group scheduler
 * (sched/group_scheduler.h). A group owns run queues in that scheduler, and has a life cycle:
 *
 *   running --stop--> stopping --only daemons left--> finishing --daemons ended--> finished
 *
 * Everything that other threads send to a group (posted functions, new fibers, the stop request)
 * passes the group's intake (queue/intake.h, with the proof). weft__group_settle decides whether
 * the group finishes. It runs after every turn in which the group could finish, and every arrival
 * and every end of a fiber causes a turn. The order in weft__group_settle:
 *   1. only daemons are left and nothing is on its way: cancel the daemons;
 *   2. the daemons have ended: close the intake;
 *   3. the intake is closed: the group is finished, and its future completes.
 */
#ifndef WEFT_DISPATCH_DISPATCHER_H
#define WEFT_DISPATCH_DISPATCHER_H

#include <errno.h>

#include <weft/dispatcher.h>
#include <weft/sync.h>

#include "lock/lock.h"
#include "sched/group_scheduler.h"
#include "task/spawn.h"
#include "worker/worker.h"

#define WEFT__GROUPS 65536u /* group numbers; 0 means no group */

struct weft_dispatcher {
    weft_pool *pool;
    struct weft__group_sched rounds; /* used by the worker's thread only */
    /* immutable */
    struct weft_perf perf; /* on_event NULL: not installed */
    bool caller;
    enum weft_overdue on_overdue;
    /* any thread */
    weft_event empty;       /* no unfinished group is left; set and reset under the lock */
    _Atomic(bool) stopping; /* written under the lock */
    struct weft__lock lock;
    /* under the lock */
    weft_group *groups; /* all groups that are not destroyed */
    unsigned unfinished;
    bool stopped;         /* the thread has ended */
    unsigned last_number; /* the group number assigned last */
};

/* The numbers of weft_group_stats, as a sequence lock: written by the group's thread, read by any
 * thread. `version` is odd while a write is in progress. */
struct weft__group_snapshot {
    _Atomic(uint64_t) version;
    _Atomic(uint64_t) turns, executed, fibers, daemons, ready;
};

enum weft__group_phase {
    WEFT__GROUP_RUNNING,
    WEFT__GROUP_STOPPING,
    WEFT__GROUP_FINISHING, /* the daemons have been cancelled */
    WEFT__GROUP_FINISHED,
};

struct weft_group {
    struct weft__group_queues queues; /* first member: sync/source.c relies on it */
    weft_dispatcher *dispatcher;
    char *name; /* owned copy */
    enum weft_on_fatal on_fatal;
    weft_group *next; /* under the dispatcher's lock */
    weft_future *finished;
    weft_event stop;                   /* used by the group only */
    _Atomic(int) phase;                /* enum weft__group_phase; written by the group's thread */
    _Atomic(uint32_t) stop_asked;      /* the stop command was sent or has run */
    struct weft__command stop_command; /* weft_group_stop from outside the group */
    int error;                         /* group only: the error the group fails with */
    uint64_t daemons_cancelled; /* group only: daemons started when daemons were last cancelled */
    struct weft__group_snapshot snapshot;
};

static inline enum weft__group_phase weft__group_phase(const weft_group *group)
{
    return (enum weft__group_phase)atomic_load_explicit(
        &group->phase, memory_order_acquire); /* pairs: set_phase */
}

/* True if a fiber of the group's dispatcher or a posted function runs on the calling thread: then a
 * spawn goes straight into the group's queues. False in a timer callback, which belongs to no
 * group. `w` is the calling thread's worker, or NULL. */
static inline bool weft__group_is_among(const weft_group *group, const struct weft__worker *w)
{
    return w && w->group_sched == group->queues.rounds &&
           (weft__running(w) || w->group_sched->running);
}

/* Prepare *member for a spawn from any thread: 0, -ESHUTDOWN, -EINVAL. A spawn from outside passes
 * the intake. */
static inline int weft__group_admit(weft_group *group, const struct weft__worker *w,
                                    const struct weft_member_opts *opts,
                                    struct weft__group_member *member)
{
    if (opts->signals_per_round > UINT16_MAX) {
        return -EINVAL;
    }
    *member = (struct weft__group_member){
        .group = group->queues.index,
        .signals = (uint16_t)opts->signals_per_round,
        .daemon = opts->daemon,
        .front = opts->front,
        .intake = weft__group_is_among(group, w) ? NULL : &group->queues.intake,
    };
    return weft__group_phase(group) == WEFT__GROUP_FINISHED ? -ESHUTDOWN : 0;
}

static inline weft_group *weft__group_of(struct weft__group_queues *queues)
{
    return (weft_group *)(void *)queues;
}

/* The scheduler's `settle` callback. */
void weft__group_settle(struct weft__group_queues *queues);
/* Stop the group; the caller runs in the group. */
void weft__group_stop_here(weft_group *group);
/* A group has finished. The dispatcher exists until the end of the round. */
void weft__dispatcher_group_finished(weft_dispatcher *dispatcher);

#endif
