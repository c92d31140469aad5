/* Fiber actors: actors that are written as one function, which waits for what it wants next.
 *
 *     static int clerk(weft_actor *self, weft_buf **result)
 *     {
 *         const struct weft_actor_event *event;
 *         (void)self, (void)result;
 *         while (weft_receive(&event, WEFT_FOREVER) == 0 && event->kind == WEFT_EVENT_MESSAGE)
 *             weft_actor_send(event->from, "done", event->tag, weft_actor_take(event));
 *         return 0;
 *     }
 *     static const struct weft_actor_kind clerks = {.name = "clerk", .run = clerk};
 *
 * A kind that has `run` makes fiber actors. They have a PID, a mailbox, init, close, a state and an
 * end like all others, and are sent to, asked, cancelled and joined like all others; only that they
 * have a stack, and may wait: in weft_receive, and in every call by which a fiber waits. While they
 * do, messages are kept, and count in the mailbox, as do those that a receive passes over. One that
 * always finds a message lets others have a turn all the same, after as many as its host's
 * `turn_events`. What `run` returns is how they end: 0 and *result, or an error. weft_exit is an
 * end without a result.
 *
 *   weft_actor_cancel   an event, WEFT_EVENT_CANCEL, that receive brings when it comes to it. No
 *                       wait is ended by it
 *   weft_actor_kill     weft_cancel besides: every wait but in a shield is ended by -ECANCELED, and
 *                       so is every receive, also if there are messages. `run` should return soon;
 *                       whatever it returns, the actor ends by -ECANCELED. One that has not yet
 *                       begun never does
 *   weft_host_stop      the first of these, and for those who are left at the deadline the second.
 *                       One that does not return even then keeps the host: -EBUSY
 */
#ifndef WEFT_RECEIVE_H
#define WEFT_RECEIVE_H

#include <weft/actor.h>

WEFT_BEGIN_DECLS

/* The next event: what is not a message first, then messages in the order in which they came. *out,
 * and its buf unless weft_actor_take takes it, are there until the next receive or the end.
 * -ETIMEDOUT: none until the deadline; 0 is a deadline that has passed. -ECANCELED; -EINTR:
 * weft_interrupt. To call it where no fiber actor runs is a caller's bug. */
WEFT_API int weft_receive(const struct weft_actor_event **out, int64_t deadline);

/* The same of messages and calls with this topic; of events that are wanted. The others stay as
 * they are, in their order, for later receives. `wanted` must not wait, and may be asked about an
 * event more than once. */
WEFT_API int weft_receive_topic(const struct weft_actor_event **out, const char *topic,
                                int64_t deadline);
typedef bool (*weft_wanted_fn)(const struct weft_actor_event *event, void *arg);
WEFT_API int weft_receive_if(const struct weft_actor_event **out, weft_wanted_fn wanted, void *arg,
                             int64_t deadline);

WEFT_END_DECLS
#endif
