/* A dispatcher's own structure, and a group's. The public contract is <weft/dispatcher.h>.
 *
 * A dispatcher is a pool with one worker, which goes in rounds (sched/rounds.h). A group is its
 * queues there, and its life:
 *
 *   running --stop--> stopping --nothing left but daemons--> finishing --they have ended-->
 * finished
 *
 * What other threads send passes its gate (sched/gate.h, with the proof): functions, fresh fibers,
 * the request to stop. Whether the group finishes is asked (weft__group_settle) after each turn
 * that it could finish by, and it has one after whatever ends or arrives. The order there: nothing
 * but daemons is left and nothing is on its way -> they are cancelled; they have ended -> the gate
 * is shut; only then is it finished, and the future completes.
 */
#ifndef WEFT_DISPATCH_DISPATCHER_H
#define WEFT_DISPATCH_DISPATCHER_H

#include <errno.h>

#include <weft/dispatcher.h>
#include <weft/event.h>

#include "base/lock.h"
#include "sched/rounds.h"
#include "sched/spawn.h"
#include "sched/worker.h"

#define WEFT__GROUPS 65536u /* by number; 0 is none */

struct weft_dispatcher {
    weft_pool *pool;
    struct weft__rounds rounds; /* its worker's thread's */
    /* immutable */
    struct weft_perf perf; /* on_event NULL: none */
    bool caller;
    enum weft_overdue on_overdue;
    /* any thread */
    weft_event empty; /* no group is left that has not finished; set and reset under the lock */
    _Atomic(bool) stopping; /* written under the lock */
    struct weft__lock lock;
    /* under it */
    weft_group *groups; /* all that are not destroyed */
    unsigned unfinished;
    bool stopped;         /* its thread has ended */
    unsigned last_number; /* that was given out */
};

/* What weft_group_stats shows: written by the group's thread, read by any. An odd `version` is one
 * that is being written. */
struct weft__group_shot {
    _Atomic(uint64_t) version;
    _Atomic(uint64_t) turns, executed, fibers, daemons, ready;
};

enum weft__group_phase {
    WEFT__GROUP_RUNNING,
    WEFT__GROUP_STOPPING,
    WEFT__GROUP_FINISHING, /* its daemons have been cancelled */
    WEFT__GROUP_FINISHED,
};

struct weft_group {
    struct weft__ranks ranks; /* first: sync/source.c knows that */
    weft_dispatcher *dispatcher;
    char *name; /* its own copy */
    enum weft_on_fatal on_fatal;
    weft_group *next; /* under the dispatcher's lock */
    weft_future *finished;
    weft_event stop;              /* the group's own */
    _Atomic(int) phase;           /* enum weft__group_phase; written by the group's thread */
    _Atomic(uint32_t) stop_asked; /* the command is on its way, or was run */
    struct weft__command ask;     /* weft_group_stop from elsewhere */
    int error;                    /* the group's own: what it fails with */
    uint64_t daemons_told;        /* the group's own: of those ever started, who were cancelled */
    struct weft__group_shot shot;
};

static inline enum weft__group_phase weft__group_phase(const weft_group *group)
{
    return (enum weft__group_phase)atomic_load_explicit(
        &group->phase, memory_order_acquire); /* pairs: set_phase */
}

/* Does a fiber of its dispatcher run here, or a function that was posted? Then a spawn goes
 * straight into its queues. Not in a timer's callback, which is nobody's. `w` is the calling
 * thread's worker, or NULL. */
static inline bool weft__group_is_among(const weft_group *group, const struct weft__worker *w)
{
    return w && w->rounds == group->ranks.rounds && (weft__running(w) || w->rounds->running);
}

/* A place for one more fiber, from any thread: 0, -ESHUTDOWN, -EINVAL. The spawn passes the gate,
 * if it has to. */
static inline int weft__group_admit(weft_group *group, const struct weft__worker *w,
                                    const struct weft_member_opts *opts,
                                    struct weft__member *member)
{
    if (opts->signals_per_round > UINT16_MAX) {
        return -EINVAL;
    }
    *member = (struct weft__member){
        .group = group->ranks.index,
        .signals = (uint16_t)opts->signals_per_round,
        .daemon = opts->daemon,
        .front = opts->front,
        .gate = weft__group_is_among(group, w) ? NULL : &group->ranks.gate,
    };
    return weft__group_phase(group) == WEFT__GROUP_FINISHED ? -ESHUTDOWN : 0;
}

static inline weft_group *weft__group_of(struct weft__ranks *ranks)
{
    return (weft_group *)(void *)ranks;
}

/* rounds.settle */
void weft__group_settle(struct weft__ranks *ranks);
/* In the group. */
void weft__group_stop_here(weft_group *group);
/* A group has finished. Its dispatcher is there until the round is over. */
void weft__dispatcher_lost(weft_dispatcher *dispatcher);

#endif
