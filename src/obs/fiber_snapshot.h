/* The snapshot of one fiber: its state, the object it waits on and the holder of that object, its
 * backtrace.
 *
 * Under its ident lock a fiber cannot end, so its name and its home are stable; only copying is
 * done there. A waiting fiber is held as well (task/task.h), which keeps its stack and the object
 * it waits on in place, also after the ident lock is released, until its stack is copied. */
#ifndef WEFT_OBS_FIBER_SNAPSHOT_H
#define WEFT_OBS_FIBER_SNAPSHOT_H

#include <weft/inspect.h>

#include "backtrace/unwind.h"
#include "obs/task_info.h"
#include "sched/stackless.h"

#define WEFT__SNAPSHOT_FRAMES 128

struct weft__fiber_snapshot {
    weft_fiber fiber;
    char name[16], pool[32], group[32]; /* "" if none */
    bool daemon;
    enum weft_fiber_state state;
    bool unreadable; /* the fiber could not be locked in time: only the handle is known */
    int worker, bound;
    int64_t age_ns, since_ns; /* since_ns: how long it has waited; -1: unknown */

    struct weft__task_info actor; /* kind NULL: not an actor */

    const char *waits;  /* the kind of wait; NULL: none */
    bool on_fiber;      /* `on` is a fiber's handle, */
    bool on_descriptor; /* or a descriptor, otherwise an address */
    uint64_t on;        /* 0: nothing that has a name */
    unsigned others;    /* number of further objects it waits on */
    char label[48];     /* the object's or the fiber's name; "" if none */
    weft_fiber holder;  /* the fiber that must act first; 0: unknown */
    char holder_name[16];

    const char *no_frames; /* why there are none; NULL: there are */
    /* For a stackless task: its frames are pairs of pointers, for sched/stackless.h; otherwise
     * NULL. */
    struct weft__stackless_frame (*describe)(void *const *pair);
    int frames;
    void *pcs[WEFT__SNAPSHOT_FRAMES];
};

/* The filter and the limits of snapshots, and the memory that they need. */
struct weft__snapshot_context {
    const weft_pool *pool;                   /* only its fibers; NULL: all */
    const struct weft__group_queues *group;  /* only its fibers; NULL: all */
    int max_frames;                          /* 0: no backtraces */
    int max_steps;                           /* the same, for stackless tasks */
    bool sampling;                           /* between weft__sample_begin and end */
    int64_t sample_ns;                       /* timeout for one running fiber */
    int64_t sample_budget;                   /* for all of them; counted down */
    struct weft__stack_sample *stack_sample; /* memory for one, if backtraces are wanted */
    struct weft__unwind_cache *unwind_cache; /* cache of earlier backtraces; may be NULL */
};

/* False: there is no fiber in this slot, or it is of another pool. */
bool weft__fiber_snapshot_slot(struct weft__snapshot_context *context, uint32_t slot,
                               struct weft__fiber_snapshot *out);

#endif
