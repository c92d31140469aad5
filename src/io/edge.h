/* Waiting for an edge, and delivering an edge: the fast path of the protocol in io/fd.h, which
 * nearly every message takes. The slow paths are in io/fd.c. */
#ifndef WEFT_IO_EDGE_H
#define WEFT_IO_EDGE_H

#include "io/driver.h"
#include "io/fd.h"

int weft__fd_wait_slow_locked(struct weft__fd *record, enum weft__side side, uint32_t generation,
                              uint32_t edges, struct weft__driver *driver,
                              struct weft__io_waiter *waiter, uint64_t ticket);
void weft__fd_edge_listed_locked(struct weft__fd *record, enum weft__side side,
                                 struct weft__driver *here, struct weft__io_done *done);
struct weft__fd_closer *weft__fd_take_drained_locked(struct weft__fd *record);
void weft__fd_hang_up_locked(struct weft__fd *record, struct weft__driver *here,
                             struct weft__io_done *done);

/* As weft__fd_link, for a fiber without an operation. -EBUSY: another fiber waits in this way
 * already. When the fiber is woken, it compares the generation to see whether the descriptor was
 * closed. */
static inline int weft__fd_wait(struct weft__fd *record, enum weft__side side, uint32_t generation,
                                uint32_t edges, struct weft__driver *driver,
                                struct weft__io_waiter *waiter, uint64_t ticket)
{
    int err = 0;
    struct weft__fd_slot *at = &record->slot[side];
    weft__latch_lock(&record->lock);
    if (__builtin_expect(
            weft__fd_generation(record) == generation &&
                atomic_load_explicit(&record->side[side].edges, memory_order_relaxed) == edges &&
                !weft__fd_slot_waiter(at) && weft__fd_is(record, WEFT__FD_WATCHED),
            1)) {
        weft__fd_slot_set(at, waiter, ticket);
        weft__driver_count(driver, 1);
    } else {
        err = weft__fd_wait_slow_locked(record, side, generation, edges, driver, waiter, ticket);
    }
    weft__latch_unlock(&record->lock);
    return err;
}

static inline void weft__fd_wake_locked(struct weft__fd *record, enum weft__side side,
                                        struct weft__driver *here, const struct weft__fd *prefetch,
                                        struct weft__io_done *done)
{
    struct weft__fd_slot *at = &record->slot[side];
    if (weft__fd_is_waited_locked(record, side)) {
        weft__io_done_wake(done, weft__fd_slot_waiter(at), at->ticket, prefetch);
        weft__fd_slot_clear(at);
        weft__driver_count(here, -1);
    }
}

static inline void weft__fd_edge_locked(struct weft__fd *record, enum weft__side side,
                                        struct weft__driver *here, struct weft__io_done *done)
{
    _Atomic(uint32_t) *edges = &record->side[side].edges;
    /* pairs: weft__fd_edges */
    atomic_store_explicit(edges, atomic_load_explicit(edges, memory_order_relaxed) + 1,
                          memory_order_release);
    if (__builtin_expect(record->listed, 0)) {
        weft__fd_edge_listed_locked(record, side, here, done);
    } else {
        weft__fd_wake_locked(record, side, here, record, done);
    }
}

/* Called by the driver: report an edge. `sides` has one bit per side; `hung` means both sides, and
 * that from now on a short read no longer implies an empty socket. An event for an earlier
 * generation is ignored. */
static inline void weft__fd_report(struct weft__fd *record, uint32_t generation, unsigned sides,
                                   bool hung, struct weft__driver *here, struct weft__io_done *done)
{
    weft__latch_lock(&record->lock);
    if (__builtin_expect(weft__fd_generation(record) == generation, 1)) {
        if (__builtin_expect(hung, 0)) {
            weft__fd_hang_up_locked(record, here, done);
        } else {
            if (sides & 1u << WEFT__SIDE_IN) {
                weft__fd_edge_locked(record, WEFT__SIDE_IN, here, done);
            }
            if (sides & 1u << WEFT__SIDE_OUT) {
                weft__fd_edge_locked(record, WEFT__SIDE_OUT, here, done);
            }
        }
    }
    weft__latch_unlock(&record->lock);
}

/* For a driver that completes operations: it has taken the operation. Under the lock. */
static inline void weft__fd_begin_op_locked(struct weft__fd *record, struct weft__op *op)
{
    struct weft__fd_slot *at = &record->slot[op->side];
    if (__builtin_expect(!weft__fd_slot_waiter(at), 1)) {
        weft__fd_slot_set_op(at, op);
        op->linked = true;
    } else {
        weft__fd_push_locked(record, op);
    }
}

/* For a driver that completes operations: the operation is finished. */
static inline void weft__fd_end_op(struct weft__fd *record, struct weft__op *op)
{
    struct weft__fd_slot *at = &record->slot[op->side];
    struct weft__fd_closer *closer = NULL;
    weft__latch_lock(&record->lock);
    if (__builtin_expect(weft__fd_slot_has_op(at, op), 1)) {
        weft__fd_slot_clear(at);
        op->linked = false;
    } else {
        weft__fd_remove_locked(record, op);
    }
    if (__builtin_expect(weft__fd_is(record, WEFT__FD_CLOSE_PENDING), 0)) {
        closer = weft__fd_take_drained_locked(record);
    }
    weft__latch_unlock(&record->lock);
    if (__builtin_expect(closer != NULL, 0)) {
        closer->drained(closer);
    }
}

#endif
