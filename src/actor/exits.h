/* The ends of actors that nobody has joined yet: actor/exits.c. */
#ifndef WEFT_ACTOR_EXITS_H
#define WEFT_ACTOR_EXITS_H

#include <weft/actor.h>

#include "base/lock.h"

struct weft__exit {
    uint64_t id; /* of the PID; 0: it was taken */
    weft_buf *result;
    int error;
    uint32_t next; /* in its chain, + 1 */
};

/* Of a host. Empty if all zero but `room`. */
struct weft__exits {
    struct weft__lock lock;
    /* under it */
    uint32_t room, at; /* how many are kept; where the next one goes */
    struct weft__exit *ring;
    uint32_t *chains; /* by slot: the first, + 1 */
};

void weft__exits_init(struct weft__exits *exits, uint32_t room);
/* Takes the result, or NULL. The oldest goes; if there is no memory, this one. Under the actor's
 * lock. */
void weft__exits_keep(struct weft__exits *exits, weft_pid pid, int error, weft_buf *result);
/* What it ended by, and *result, owned. -ESRCH: none is kept, any more. */
int weft__exits_take(struct weft__exits *exits, weft_pid pid, weft_buf **result);
/* Of a host that is destroyed. */
void weft__exits_free(struct weft__exits *exits);

#endif
