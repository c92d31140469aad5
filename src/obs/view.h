/* One fiber as one sees it from outside: what it does, what it waits on and who holds that, its
 * backtrace.
 *
 * Under its ident lock a fiber cannot end, so its name and its home hold still; nothing but copying
 * is done there. A fiber that waits is held besides (sched/task.h), which keeps its stack and what
 * it waits on where they are, also after the ident lock is given back, until its stack is
 * copied. */
#ifndef WEFT_OBS_VIEW_H
#define WEFT_OBS_VIEW_H

#include <weft/stats.h>

#include "obs/unwind.h"
#include "sched/body.h"
#include "sched/face.h"

#define WEFT__VIEW_FRAMES 128

struct weft__view {
    weft_fiber fiber;
    char name[16], pool[32], group[32]; /* "" if none */
    bool daemon;
    enum weft_fiber_state state;
    bool unreadable; /* it could not be locked in time: nothing above but the handle is known */
    int worker, bound;
    int64_t age_ns, since_ns; /* since_ns: how long it has waited; -1: not known */

    struct weft__face actor; /* its kind NULL: it is none */

    const char *waits;  /* the kind of wait; NULL: none */
    bool on_fiber;      /* `on` is a fiber's handle, */
    bool on_descriptor; /* or a descriptor, else an address */
    uint64_t on;        /* 0: nothing that has a name */
    unsigned others;    /* it waits on so many more */
    char label[48];     /* the object's or the fiber's name; "" if none */
    weft_fiber holder;  /* who would have to act first; 0: nobody knows */
    char holder_name[16];

    const char *no_frames; /* why there are none; NULL: there are */
    /* Of a fiber without a stack: its frames are pairs of pointers, for sched/body.h; else NULL. */
    struct weft__body_frame (*describe)(void *const *pair);
    int frames;
    void *pcs[WEFT__VIEW_FRAMES];
};

/* How to look, and what that needs. */
struct weft__viewer {
    const weft_pool *pool;           /* only its fibers; NULL: all */
    const struct weft__ranks *group; /* only its; NULL: all */
    int max_frames;                  /* 0: no backtraces */
    int max_steps;                   /* the same, of fibers without a stack */
    bool sampling;                   /* between weft__sample_begin and end */
    int64_t sample_ns;               /* for one that runs */
    int64_t sample_budget;           /* for all of them; counted down */
    struct weft__shot *shot;         /* room for one, if there are to be backtraces */
    struct weft__trails *trails;     /* those that were made before; may be NULL */
};

/* False: there is no fiber in this slot, or it is of another pool. */
bool weft__view_slot(struct weft__viewer *viewer, uint32_t slot, struct weft__view *out);
/* The same by handle. */
bool weft__view_fiber(struct weft__viewer *viewer, weft_fiber fiber, struct weft__view *out);

#endif
