/* Exit records of actors that have not been joined yet: actor/exits.c. */
#ifndef WEFT_ACTOR_EXITS_H
#define WEFT_ACTOR_EXITS_H

#include <weft/actor.h>

#include "base/lock.h"

struct weft__exit {
    uint64_t id; /* of the PID; 0: free, or already taken */
    weft_buf *result;
    int error;
    uint32_t next; /* index of the next record in the chain, + 1 */
};

/* Of one host. Zero-initialised memory with `room` set is an empty table. */
struct weft__exits {
    struct weft__lock lock;
    /* under the lock */
    uint32_t room, at; /* records kept; where the next one goes */
    struct weft__exit *ring;
    uint32_t *chains; /* by slot: index of the first record, + 1 */
};

void weft__exits_init(struct weft__exits *exits, uint32_t room);
/* Add a record. Takes `result`, which may be NULL. The oldest record is discarded; without memory
 * this one is. Under the actor's lock. */
void weft__exits_keep(struct weft__exits *exits, weft_pid pid, int error, weft_buf *result);
/* Returns the error the actor exited with, and *result, owned. -ESRCH: there is no record, or it
 * was discarded. */
int weft__exits_take(struct weft__exits *exits, weft_pid pid, weft_buf **result);
/* For a host that is being destroyed. */
void weft__exits_free(struct weft__exits *exits);

#endif
