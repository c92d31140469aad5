/* A call: one operation on a descriptor, and the fiber or thread that waits for it.
 *
 * On a driver that reports readiness the call is tried, waits, and is tried again. On one that completes operations it is
 * handed over, and the fiber does not return before it is over, since the kernel uses its buffer: a deadline or a cancel asks the
 * driver to end it and waits on. What it has done by then counts.
 */
#ifndef WEFT_NET_CALL_H
#define WEFT_NET_CALL_H

#include <stdbool.h>

#include "base/lock.h"
#include "io/fd.h"
#include "io/op.h"
#include "sched/waiter.h"

struct weft__call {
    struct weft__op op; /* first: an operation of ours is a call */
    struct weft__waiter waiter;
    struct weft__lock lock;
    bool waits, done; /* under the lock */
};

/* The result of the operation; -ETIMEDOUT, -ECANCELED, -EINTR, WEFT__CLOSED, -EOPNOTSUPP. The caller has initialised the operation
 * and filled in what its code needs. */
int64_t weft__call_run(struct weft__call *call, int64_t deadline,
                       const struct weft__wait_kind *kind);
/* The same, of a descriptor whose record is known. */
int64_t weft__call_run_on(struct weft__fd *record, struct weft__call *call, int64_t deadline,
                          const struct weft__wait_kind *kind);

/* For a driver that reports readiness: waits until there may be an edge after `edges`. 0: try again. */
int weft__call_wait_edge(struct weft__fd *record, enum weft__side side, uint32_t generation,
                         uint32_t edges, int64_t deadline, const struct weft__wait_kind *kind);

/* The same for what the kernel tells no event for when it could go on (-EAGAIN): it is tried again after pauses that grow
 * from a quarter of a millisecond to 64. */
int64_t weft__call_retry(struct weft__op *op, int64_t deadline, const struct weft__wait_kind *kind);

/* For a fiber, on a driver that completes operations: hands it over and waits until it is over. */
int64_t weft__call_complete(struct weft__driver *driver, struct weft__call *call, int64_t deadline,
                            const struct weft__wait_kind *kind);

/* For a kind whose `on` is a descriptor: "fd 7". The text is the calling thread's, until its next call. */
const char *weft__call_label(uint64_t on);

/* Waits for one side of a descriptor. 0 or as above. */
int weft__call_wait(int fd, enum weft__side side, int64_t deadline,
                    const struct weft__wait_kind *kind);

#endif
