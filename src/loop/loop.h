/* The inside of a loop: shared by the reactor and the proactor.
 *
 * Both consist of driver operations (io/op.h). On a driver that completes operations, an operation
 * is submitted and reports its completion. On a driver that reports readiness, this thread tries
 * the operation; if it would block, it is linked into the descriptor's record and reports when to
 * try again. A completion is returned by the loop's dispatch. A wait for readiness is ended by the
 * loop's dispatch too, or by another thread that closes the descriptor, and goes through the loop's
 * queue (io/op_queue.h). The loop's thread handles both after its wait:
 *
 *   todo, unverified -- try or verify --> done, ready -- call -->
 *        ^                   | would block
 *        |                 linked, or in flight
 *        +---- woken <-------+ an edge, a completion, a close
 */
#ifndef WEFT_LOOP_LOOP_H
#define WEFT_LOOP_LOOP_H

#include <weft/loop.h>

#include "io/driver.h"
#include "io/op_queue.h"
#include "loop/list.h"
#include "time/wheel.h"

/* An operation of a loop, and the function that handles it after it was woken. */
struct weft__loop_item {
    struct weft__op op; /* must be first */
    weft_loop *loop;
    void (*woken)(struct weft__loop_item *item); /* called on the loop's thread */
};

struct weft__loop_post;

struct weft_loop {
    /* immutable after create */
    struct weft__driver *driver;
    bool completes;
    int wake_fd;

    /* loop's thread only */
    bool turning;
    bool dirty; /* the driver has submissions that only its next wait passes to the kernel */
    int64_t now;
    struct weft__timer *due;                  /* temporary: the timer that has just expired */
    size_t ops, watches;                      /* operations not yet delivered; watches not yet
                                               ended */
    uint64_t started;                         /* total number of operations started */
    struct weft__list todo;                   /* operations to try */
    struct weft__list done;                   /* operations to deliver */
    struct weft__list completed;              /* completed operations without a handler, to be
                                               polled for */
    struct weft__list all, unverified, ready; /* watches: all, to be verified, to be called, */
    struct weft__list paused;                 /* paused: without events */

    /* any thread */
    struct weft__io_counters io;
    struct weft__op_queue woken; /* every operation here has it as its queue */
    _Atomic(bool) stopping;
    struct weft__lock lock;
    /* Under the lock. The wake-up is also written under it, because the loop may be destroyed after
     * that. */
    struct weft__loop_post *posts, **last_post;

    /* Loop's thread only. Last, because its slots are not cleared (time/wheel.h). */
    struct weft__wheel wheel;
};

/* Make the loop's driver report the descriptor's readiness. -EBUSY: another driver does. */
int weft__loop_claim(weft_loop *loop, struct weft__fd *record);
/* weft__fd_link. Another thread may end the wait, and a loop's counters are not part of the sum: so
 * these waits are counted as those of threads without a driver. */
int weft__loop_link(weft_loop *loop, struct weft__fd *record, struct weft__op *op,
                    uint32_t generation, uint32_t edges);
/* Submit an operation to a driver that completes operations. */
void weft__loop_submit(weft_loop *loop, struct weft__op *op);
static inline struct weft__driver *weft__loop_here(const weft_loop *loop)
{
    return loop->completes ? loop->driver : NULL;
}

/* Translate the events that poll(2) returned for one descriptor: a bit per side; negative: there is
 * no descriptor with this number. */
int weft__loop_sides(short revents);

void weft__proactor_try(weft_loop *loop);    /* tries operations that were started */
int weft__proactor_deliver(weft_loop *loop); /* delivers completions; returns their number */
void weft__reactor_verify(weft_loop *loop);  /* verifies and arms watches */
int weft__reactor_dispatch(weft_loop *loop);
void weft__reactor_fd_closed(weft_loop *loop, int fd); /* for paused watches */
void weft__reactor_remove_all(weft_loop *loop);        /* removes all watches */

#endif
