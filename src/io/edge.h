/* Waiting for an edge, and delivering an edge: the fast path of the protocol in io/fd.h, which
 * nearly every message takes. The slow paths are in io/fd.c. */
#ifndef WEFT_IO_EDGE_H
#define WEFT_IO_EDGE_H

#include "io/driver.h"
#include "io/fd.h"

int weft__fd_wait_any_locked(struct weft__fd *record, enum weft__side side, uint32_t generation,
                             uint32_t edges, struct weft__driver *driver, void *who,
                             uint64_t ticket);
void weft__fd_edge_listed_locked(struct weft__fd *record, enum weft__side side,
                                 struct weft__driver *here, void *ready);
void weft__fd_ended_locked(struct weft__fd *record, void *ready);
void weft__fd_hang_up_locked(struct weft__fd *record, struct weft__driver *here, void *ready);

/* As weft__fd_link, for a fiber without an operation. -EBUSY: another fiber waits in this way
 * already. When the fiber is woken, it compares the generation to see whether the descriptor was
 * closed. */
static inline int weft__fd_wait(struct weft__fd *record, enum weft__side side, uint32_t generation,
                                uint32_t edges, struct weft__driver *driver, void *who,
                                uint64_t ticket)
{
    int err = 0;
    struct weft__fd_place *at = &record->place[side];
    weft__latch_take(&record->lock);
    if (__builtin_expect(
            weft__fd_generation(record) == generation &&
                atomic_load_explicit(&record->side[side].edges, memory_order_relaxed) == edges &&
                !weft__fd_who(at) && weft__fd_is(record, WEFT__FD_WATCHED),
            1)) {
        weft__fd_set_who(at, who);
        at->ticket = ticket;
        weft__driver_count(driver, 1);
    } else {
        err = weft__fd_wait_any_locked(record, side, generation, edges, driver, who, ticket);
    }
    weft__latch_drop(&record->lock);
    return err;
}

static inline void weft__fd_fire_locked(struct weft__fd *record, enum weft__side side,
                                        struct weft__driver *here, const void *near, void *ready)
{
    if (weft__fd_is_waited_locked(record, side)) {
        void *who = weft__fd_who(&record->place[side]);
        weft__fd_set_who(&record->place[side], NULL);
        weft__driver_count(here, -1);
        weft__io_fire(who, record->place[side].ticket, near, ready);
    }
}

static inline void weft__fd_edge_locked(struct weft__fd *record, enum weft__side side,
                                        struct weft__driver *here, void *ready)
{
    _Atomic(uint32_t) *edges = &record->side[side].edges;
    /* pairs: weft__fd_edges */
    atomic_store_explicit(edges, atomic_load_explicit(edges, memory_order_relaxed) + 1,
                          memory_order_release);
    if (__builtin_expect(record->listed, 0)) {
        weft__fd_edge_listed_locked(record, side, here, ready);
    } else {
        weft__fd_fire_locked(record, side, here, record, ready);
    }
}

/* Called by the driver: report an edge. `sides` has one bit per side; `hung` means both sides, and
 * that from now on a short read no longer implies an empty socket. An event for an earlier
 * generation is ignored. */
static inline void weft__fd_report(struct weft__fd *record, uint32_t generation, unsigned sides,
                                   bool hung, struct weft__driver *here, void *ready)
{
    weft__latch_take(&record->lock);
    if (__builtin_expect(weft__fd_generation(record) == generation, 1)) {
        if (__builtin_expect(hung, 0)) {
            weft__fd_hang_up_locked(record, here, ready);
        } else {
            if (sides & 1u << WEFT__SIDE_IN) {
                weft__fd_edge_locked(record, WEFT__SIDE_IN, here, ready);
            }
            if (sides & 1u << WEFT__SIDE_OUT) {
                weft__fd_edge_locked(record, WEFT__SIDE_OUT, here, ready);
            }
        }
    }
    weft__latch_drop(&record->lock);
}

/* For a driver that completes operations: it has taken the operation. Under the lock. */
static inline void weft__fd_begin_locked(struct weft__fd *record, struct weft__op *op)
{
    struct weft__fd_place *at = &record->place[op->side];
    if (__builtin_expect(!weft__fd_who(at), 1)) {
        weft__fd_set_who(at, op);
        at->ticket = WEFT__FD_FLIES;
        op->linked = true;
    } else {
        weft__fd_push_locked(record, op);
    }
}

/* For a driver that completes operations: the operation is finished. */
static inline void weft__fd_end(struct weft__fd *record, struct weft__op *op, void *ready)
{
    struct weft__fd_place *at = &record->place[op->side];
    weft__latch_take(&record->lock);
    if (__builtin_expect(weft__fd_who(at) == op, 1)) {
        weft__fd_set_who(at, NULL);
        op->linked = false;
    } else {
        weft__fd_remove_locked(record, op);
    }
    if (__builtin_expect(weft__fd_is(record, WEFT__FD_CLOSING), 0)) {
        weft__fd_ended_locked(record, ready);
    }
    weft__latch_drop(&record->lock);
}

#endif
