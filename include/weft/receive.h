/* Fiber actors: actors written as one sequential function that waits for its next event.
 *
 *     static int clerk(weft_actor *self, weft_buf **result)
 *     {
 *         const struct weft_actor_event *event;
 *         (void)self, (void)result;
 *         while (weft_receive(&event, WEFT_FOREVER) == 0 && event->kind == WEFT_EVENT_MESSAGE)
 *             weft_actor_send(event->from, "done", event->tag, weft_actor_take_buf(event));
 *         return 0;
 *     }
 *     static const struct weft_actor_kind clerks = {.name = "clerk", .run = clerk};
 *
 * A kind with a `run` function makes fiber actors. They have a PID, a mailbox, init, close, a state
 * and an end like all actors, and are sent to, called, cancelled and joined like all actors. In
 * addition they have a stack and may wait: in weft_receive and in every call in which a fiber may
 * wait. Messages that arrive meanwhile are queued and count in the mailbox, as do messages that a
 * selective receive skips. A fiber actor whose mailbox never becomes empty still yields after
 * `turn_events` events (struct weft_host_opts). The return value of `run` ends the actor: 0 and
 * *result, or an error. weft_fiber_exit ends the actor without a result.
 *
 *   weft_actor_cancel  queues an event, WEFT_EVENT_CANCEL, for a later receive. It ends no wait
 *   weft_actor_kill    calls weft_cancel as well: every wait outside a shield, and every receive,
 *                      even if messages are queued, returns -ECANCELED. `run` should return soon;
 *                      whatever it returns, the actor ends with -ECANCELED. A fiber that has not
 *                      started yet never starts
 *   weft_host_stop     cancels first; kills the actors that remain at the deadline. An actor that
 *                      does not return even then keeps the host from stopping: -EBUSY
 */
#ifndef WEFT_RECEIVE_H
#define WEFT_RECEIVE_H

#include <weft/actor.h>

WEFT_BEGIN_DECLS

/* Receive the next event: non-message events first, then messages in order of arrival.
 *
 * out: borrowed, with its buf unless weft_actor_take_buf takes it, until the next receive or the
 * end of the actor.
 * Returns 0 and *out; -ETIMEDOUT if no event arrives before the deadline (a deadline of 0 has
 * passed already, so the call polls); -ECANCELED if the actor was killed or its fiber cancelled;
 * -EINTR after weft_fiber_interrupt.
 * Context: fiber actors only, anything else is a caller's bug; waits; cancellation point. */
WEFT_API int weft_receive(const struct weft_actor_event **out, int64_t deadline);

/* Receive the next message or call with this topic (weft_receive_topic), or the next event that the
 * filter accepts (weft_receive_if). Other events stay queued, in order, for later receives.
 *
 * wanted: must not wait; it may be called more than once for the same event.
 * Returns and Context: as weft_receive. */
WEFT_API int weft_receive_topic(const struct weft_actor_event **out, const char *topic,
                                int64_t deadline);
typedef bool (*weft_receive_filter_fn)(const struct weft_actor_event *event, void *arg);
WEFT_API int weft_receive_if(const struct weft_actor_event **out, weft_receive_filter_fn wanted,
                             void *arg, int64_t deadline);

WEFT_END_DECLS
#endif
