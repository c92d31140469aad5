/* The wait for an edge, and the edge: the protocol of io/fd.h where it is plain, which is for nearly every message. The rest is in
 * io/fd.c. */
#ifndef WEFT_IO_EDGE_H
#define WEFT_IO_EDGE_H

#include "io/driver.h"
#include "io/fd.h"

int weft__fd_wait_any_locked(struct weft__fd *record, enum weft__side side, uint32_t generation,
                             uint32_t edges, struct weft__driver *driver, void *who,
                             uint64_t ticket);
void weft__fd_edge_listed_locked(struct weft__fd *record, enum weft__side side,
                                 struct weft__driver *here, void *ready);
void weft__fd_hang_up_locked(struct weft__fd *record, struct weft__driver *here, void *ready);

/* As weft__fd_link, for a fiber without an operation: -EBUSY, another one waits so already. When it is fired it looks at the
 * generation to see whether the descriptor was closed. */
static inline int weft__fd_wait(struct weft__fd *record, enum weft__side side, uint32_t generation,
                                uint32_t edges, struct weft__driver *driver, void *who,
                                uint64_t ticket)
{
    int err = 0;
    struct weft__fd_fiber *at = &record->fiber[side];
    weft__latch_take(&record->lock);
    if (__builtin_expect(
            weft__fd_generation(record) == generation &&
                atomic_load_explicit(&record->side[side].edges, memory_order_relaxed) == edges &&
                !at->who && record->home && !record->home->kind->armed,
            1)) {
        at->who = who;
        at->ticket = ticket;
        weft__driver_count(driver, 1);
    } else {
        err = weft__fd_wait_any_locked(record, side, generation, edges, driver, who, ticket);
    }
    weft__latch_drop(&record->lock);
    return err;
}

static inline void weft__fd_fire_locked(struct weft__fd *record, enum weft__side side,
                                        struct weft__driver *here, void *ready)
{
    void *who = record->fiber[side].who;
    if (who) {
        record->fiber[side].who = NULL;
        weft__driver_count(here, -1);
        weft__io_fire(who, record->fiber[side].ticket, ready);
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
        weft__fd_fire_locked(record, side, here, ready);
    }
}

/* The driver's: an edge. `sides` is a bit per side; `hung`: both, and short reads mean nothing any more. An event for an
 * earlier generation is none. */
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

#endif
