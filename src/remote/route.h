/* The ID of this node and the routes to other nodes. The public contract is <weft/remote.h>. */
#ifndef WEFT_REMOTE_ROUTE_H
#define WEFT_REMOTE_ROUTE_H

#include <weft/remote.h>

#include "actor/actor.h"

extern _Atomic(uint32_t) weft__this_node;

/* Relaxed: the ID is written before the first PID exists. */
static inline uint32_t weft__node(void)
{
    return atomic_load_explicit(&weft__this_node, memory_order_relaxed);
}

/* weft_actor_pid, inline. */
static inline weft_pid weft__actor_pid(const weft_actor *actor)
{
    return (weft_pid){.node = weft__node(), .host = actor->host->number, .id = actor->self};
}

/* Freeze the node's ID: from now on PIDs that contain it may exist. */
void weft__node_freeze(void);

/* Send an envelope to another node. Takes the envelope. */
int weft__route_envelope(weft_pid to, struct weft__envelope *envelope);

#endif
