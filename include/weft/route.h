/* Other nodes: programs whose actors have PIDs too.
 *
 * A node has a number, which is part of its PIDs. What is sent to the PID of another node is handed
 * to the receiver that is registered for it: a transport, or a router that knows where to send it
 * on. What a transport gets from its peer it hands to weft_parcel_deliver, and the actor there has
 * it as if it had been sent here, with the sender's PID, which it can answer. Weft has no transport
 * of its own; test/actor/node.c has one over a Unix socket, in some hundred lines.
 *
 * Messages, cancels and completions go to other nodes. Calls, messages for later and ends do not:
 * who calls, kills, exits, joins, links to, monitors or looks at an actor of another node gets
 * -EREMOTE.
 */
#ifndef WEFT_ROUTE_H
#define WEFT_ROUTE_H

#include <weft/actor.h>

WEFT_BEGIN_DECLS

/* The number of this node; 0 at first. Once, before the first host: -EBUSY. */
WEFT_API int weft_node_set(uint32_t node);
WEFT_API uint32_t weft_node(void);

/* One message on its way. */
struct weft_parcel {
    /* WEFT_EVENT_MESSAGE, _COMPLETE or _CANCEL; of a stand-in (weft_receiver_spawn) also _CALL */
    enum weft_actor_event_kind kind;
    int error;
    uint32_t trace;
    weft_pid from, to;
    uint64_t tag;
    const char *topic; /* or NULL */
    weft_buf *buf;     /* or NULL */
};

/* Who takes messages for PIDs that are not of actors here. Embedded in what the user has to know
 * about it. */
struct weft_receiver {
    /* Takes parcel->buf, also on an error, which the sender gets. On the sender's thread, also in a
     * step: must not wait. Several at once. */
    int (*deliver)(struct weft_receiver *self, const struct weft_parcel *parcel);
};

/* From now on what is for this node goes there; it is borrowed until weft_unroute. -EEXIST: there
 * is one. -EINVAL: it is this node. -ENOMEM. */
WEFT_API int weft_route(uint32_t node, struct weft_receiver *receiver);
/* When it returns the receiver is not called any more. Not from a receiver. -ENOENT. */
WEFT_API int weft_unroute(uint32_t node);

/* What a transport has got for `parcel->to`: an actor here, or one of a node that is routed to.
 * Takes parcel->buf, also on an error; parcel->topic is copied. As weft_actor_send; -ENOMEM also:
 * too many different topics. -EINVAL: no such kind. Must not be called with a sender that is of
 * this node, unless it is known that it is: nobody checks. */
WEFT_API int weft_parcel_deliver(const struct weft_parcel *parcel);

/* An actor here in whose place a receiver stands: what is sent to its PID is handed to the
 * receiver, in order, one at a time, on a worker of the host. What the receiver answers with an
 * error is a dead letter, without its buffer. Of a call, `tag` is the reference for
 * weft_actor_reply; one that the receiver answers with an error is answered by it. A cancel is not
 * handed to it but ends it, as does a kill. The receiver is borrowed until then. As
 * weft_actor_spawn. */
WEFT_API int weft_receiver_spawn(weft_host *host, weft_pid *out, struct weft_receiver *receiver);

/* A topic that came from outside, or is made up, as one that can be sent: the same address for the
 * same text, for ever. NULL: no memory, or there are 65,536. */
WEFT_API const char *weft_topic(const char *text);

/* Of this node. */
struct weft_node_stats {
    uint64_t sent;        /* handed to receivers of other nodes, and taken */
    uint64_t refused;     /* ... not taken */
    uint64_t unreachable; /* for nodes that nobody has registered */
    uint64_t received;    /* by weft_parcel_deliver, and in a mailbox now */
    uint64_t dead;        /* ... not: dead letters from other nodes */
};
WEFT_API void weft_node_stats(struct weft_node_stats *out);

WEFT_END_DECLS
#endif
