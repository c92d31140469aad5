/* The inside of a loop: what the reactor and the proactor share.
 *
 * Both are made of operations of the driver (io/op.h). On one that completes, an operation is
 * submitted and says when it is over. On one that reports readiness, it is tried by this thread; if
 * it would block it is linked into the descriptor's record and says when to try again. In both
 * cases it says so by weft__loop_woken, which may be called by another thread (one that closes the
 * descriptor), and is looked at by the loop's own after its wait:
 *
 *   todo, suspects -- try or verify --> done, ready -- call -->
 *        ^                   | would block
 *        |                 linked, or in flight
 *        +---- woken <-------+ an edge, a completion, a close
 */
#ifndef WEFT_LOOP_LOOP_H
#define WEFT_LOOP_LOOP_H

#include <weft/loop.h>

#include "io/driver.h"
#include "loop/list.h"
#include "time/wheel.h"

/* An operation of a loop, and what to do with it once it is woken. */
struct weft__loop_item {
    struct weft__op op; /* first; `next` is free for the loop while it is not linked */
    weft_loop *loop;
    void (*woken)(struct weft__loop_item *item); /* the loop's thread */
};

struct weft__loop_post;

struct weft_loop {
    /* immutable after create */
    struct weft__driver *driver;
    bool completes;
    int wake_fd;

    /* the loop's thread */
    bool turning;
    bool dirty; /* the driver was given something that only its next wait hands over */
    int64_t now;
    struct weft__timer *due;                /* for a moment: the timer that has just expired */
    size_t ops, watches;                    /* not delivered; not ended */
    uint64_t started;                       /* operations, ever */
    struct weft__list todo;                 /* operations to try */
    struct weft__list done;                 /* operations to deliver */
    struct weft__list hand;                 /* operations without a handler, to be taken */
    struct weft__list all, suspects, ready; /* watches: all, to be verified, to be called, */
    struct weft__list resting;              /* that want nothing */

    /* any thread */
    struct weft__io_counters io;
    _Atomic(bool) stopping;
    struct weft__lock lock;
    /* under the lock; wakes are written under it, too: after it destroy may come */
    struct weft__op *woken, **last_woken;
    struct weft__loop_post *posts, **last_post;

    /* The loop's thread's. Last: its slots are not cleared (time/wheel.h). */
    struct weft__wheel wheel;
};

/* The `complete` of every operation here. Any thread. */
void weft__loop_woken(struct weft__op *op, void *ready);

/* The descriptor's events come to this loop. -EBUSY: they go elsewhere. */
int weft__loop_claim(weft_loop *loop, struct weft__fd *record);
/* weft__fd_link. A wait may be ended by another thread, and a loop's counters are in no sum: such
 * waits are counted as nobody's. */
int weft__loop_link(weft_loop *loop, struct weft__fd *record, struct weft__op *op,
                    uint32_t generation, uint32_t edges);
static inline struct weft__driver *weft__loop_here(const weft_loop *loop)
{
    return loop->completes ? loop->driver : NULL;
}

/* What poll(2) says of one descriptor now: a bit per side; negative: there is none with this
 * number. */
int weft__loop_sides(short revents);

void weft__proactor_begin(weft_loop *loop); /* tries what was started */
int weft__proactor_call(weft_loop *loop);   /* delivers; how many */
void weft__reactor_begin(weft_loop *loop);  /* verifies and arms */
int weft__reactor_call(weft_loop *loop);
void weft__reactor_closed(weft_loop *loop, int fd); /* for those that wait for nothing */
void weft__reactor_clear(weft_loop *loop);          /* removes all watches */

#endif
