/* Routing to other nodes: other processes whose actors have PIDs too.
 *
 * A node has an ID, which is part of its PIDs. A message for the PID of another node is handed to
 * the receiver that is registered for that node: a transport, or a router that knows where to
 * forward it. A transport hands what it gets from its peer to weft_remote_message_deliver, and the
 * actor on this node gets it as if it had been sent here, with the sender's PID, to which it can
 * reply. Weft has no transport of its own; test/remote/node.c has one over a Unix socket in about a
 * hundred lines.
 *
 * Messages, cancels and completions travel to other nodes. Calls, delayed messages and exits do
 * not: to call, kill, exit, join, link to, monitor or inspect an actor of another node returns
 * -EREMOTE.
 */
#ifndef WEFT_REMOTE_H
#define WEFT_REMOTE_H

#include <weft/actor.h>

WEFT_BEGIN_DECLS

/* Set the ID of this node, once, before the first host is created.
 *
 * Returns 0; -EBUSY if the ID was set before or a host has been created: the ID is unchanged.
 * Context: any thread; does not wait. */
WEFT_API int weft_node_set_id(uint32_t node);
/* Get the ID of this node.
 *
 * Returns the ID; 0 unless it was set.
 * Context: any thread; does not wait. */
WEFT_API uint32_t weft_node_id(void);

/* A message between nodes. */
struct weft_remote_message {
    /* WEFT_EVENT_MESSAGE, _COMPLETE or _CANCEL; for a proxy (weft_receiver_spawn) also _CALL */
    enum weft_actor_event_kind kind;
    int error;
    uint32_t trace;
    weft_pid from, to;
    uint64_t tag;
    const char *topic; /* or NULL */
    weft_buf *buf;     /* or NULL */
};

/* A destination for messages to PIDs that are not actors of this node. Embed it in the struct that
 * holds what `deliver` needs. */
struct weft_receiver {
    /* Takes message->buf, also on an error, which is returned to the sender. Called on the
     * sender's thread, also inside a step: must not wait. May be called by several threads at
     * once. */
    int (*deliver)(struct weft_receiver *self, const struct weft_remote_message *message);
};

/* Register the receiver for a node. The receiver is borrowed until weft_route_remove returns.
 *
 * Returns 0; -EEXIST if the node has a receiver; -EINVAL for this node; -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_route_add(uint32_t node, struct weft_receiver *receiver);
/* Remove the receiver for a node. When this returns, the receiver is not running and is not called
 * again.
 *
 * Returns 0; -ENOENT if the node has no receiver.
 * Context: any thread, not from a receiver; waits, by yielding, for calls of `deliver` that are
 * running; not a cancellation point. */
WEFT_API int weft_route_remove(uint32_t node);

/* Deliver a message that a transport got for message->to: an actor of this node, or of a node that
 * has a route. Takes message->buf, also on an error; message->topic is copied. message->from is
 * trusted: pass a sender of this node only if it is known to be one.
 *
 * Returns 0; -EINVAL if message->kind cannot be sent between nodes; the errors of weft_actor_send,
 * of which -ENOMEM also means that there are too many different topics (weft_topic_intern); for
 * another node, -EHOSTUNREACH or the error of its receiver.
 * Context: any thread; sends as weft_actor_send does, so a fiber waits for capacity in a mailbox
 * with WEFT_MAILBOX_WAIT. */
WEFT_API int weft_remote_message_deliver(const struct weft_remote_message *message);

/* Spawn a proxy: an actor whose messages are handed to a receiver, in order, one at a time, on a
 * worker of the host. The receiver is borrowed until the actor ends.
 *
 * A message whose `deliver` returns an error becomes a dead letter, without its buffer. For a call,
 * `tag` is the reference for weft_actor_reply; if `deliver` returns an error the call is answered
 * with that error. A cancel is not handed to the receiver but ends the proxy, as does a kill.
 *
 * Returns as weft_actor_spawn does.
 * Context: any thread; does not wait. */
WEFT_API int weft_receiver_spawn(weft_host *host, weft_pid *out, struct weft_receiver *receiver);

/* Intern a topic that came from outside or was built at run time, so that it can be sent: equal
 * texts give the same address, for the life of the process.
 *
 * Returns the interned text, shared; NULL if there is no memory, or 65,536 topics are interned.
 * Context: any thread; does not wait. */
WEFT_API const char *weft_topic_intern(const char *text);

/* Counters of this node, since the start of the process. */
struct weft_node_stats {
    uint64_t sent;        /* accepted by the receivers of other nodes */
    uint64_t refused;     /* refused by the receivers of other nodes */
    uint64_t unreachable; /* for nodes without a receiver */
    uint64_t received;    /* by weft_remote_message_deliver, and put into a mailbox */
    uint64_t dead;        /* by weft_remote_message_deliver, and not put into a mailbox */
};
/* Read the counters of this node. Each is exact; together they are not of one moment.
 *
 * Context: any thread; does not wait. */
WEFT_API void weft_node_stats(struct weft_node_stats *out);

WEFT_END_DECLS
#endif
