/* Calls: a request to an actor and its reply.
 *
 * The actor receives an event WEFT_EVENT_CALL, a message whose tag is the call's reference, and
 * answers with weft_actor_reply: in that step, in a later step, or by passing the reference on to
 * another actor. References are never reused: a reply that is late, or a second reply, is counted
 * and dropped.
 *
 * A call ends exactly once: by the reply, at its deadline, or immediately with an error of the
 * runtime:
 *
 *   -ESRCH       the actor had ended and never received the call
 *   -EOWNERDEAD  the actor ended before it replied, whether it had seen the call or not and
 *                however it ended: normally, with an error, killed, or to be restarted by its
 *                supervisor; or it was upgraded and its new code did not take the call over
 *                (<weft/relation.h>). The request may have been carried out
 *   -ENOBUFS     the mailbox was full and the call was refused, or dropped
 *                (WEFT_MAILBOX_DROP_OLDEST)
 *
 * So when an actor passes a reference on and then ends, the call ends as well, unless it was
 * transferred (weft_actor_call_transfer). Calls do not reach other nodes (-EREMOTE).
 */
#ifndef WEFT_ACTOR_CALL_H
#define WEFT_ACTOR_CALL_H

#include <weft/actor.h>

WEFT_BEGIN_DECLS

/* Call an actor and wait for its reply; also waits for mailbox capacity.
 *
 * topic, request: as in weft_actor_send; request is taken, also on an error. reply: NULL, or
 * receives the reply, owned, which may be NULL.
 * Returns 0 and *reply; the error given to weft_actor_reply; -ESRCH, -EOWNERDEAD, -ENOBUFS as
 * above; -ETIMEDOUT, -ECANCELED, -EINTR: the request may be carried out all the same; -EREMOTE if
 * the actor is on another node; -ENOMEM.
 * Context: any thread or fiber; waits; cancellation point. Not in a step: use weft_out_call
 * there. */
WEFT_API int weft_actor_call(weft_pid to, const char *topic, weft_buf *request, weft_buf **reply,
                             int64_t deadline);

/* Call an actor from a step, as a command. The completion has this tag and carries the reply, or an
 * error: -ETIMEDOUT at the deadline; -ESRCH, -EOWNERDEAD, -ENOBUFS as above; -EREMOTE; -ENOMEM; or
 * the error given to weft_actor_reply. It does not wait for mailbox capacity.
 *
 * topic: as in weft_actor_send. request: taken, also on an error.
 * Returns 0; -ENOMEM.
 * Context: in a step, with its own `out`; does not wait. */
WEFT_API int weft_out_call(weft_out *out, uint64_t tag, weft_pid to, const char *topic,
                           weft_buf *request, int64_t deadline);

/* Reply to a call, with an error (a negative errno) or with `buf`.
 *
 * buf: taken, also on an error; NULL is allowed.
 * Returns 0; -ESRCH if no caller waits for this reply any longer.
 * Context: any thread, fiber or step; does not wait. */
WEFT_API int weft_actor_reply(uint64_t call, int error, weft_buf *buf);

/* Make `to` responsible for the reply: from now on the call ends when `to` ends, and no longer when
 * the called actor ends. Transfer first, then send the reference to `to`. In the `convert` function
 * of an upgrade, transferring to the actor's own PID lets the new code take the call over.
 *
 * Returns 0; -ESRCH if no caller waits for the reply any longer; -EOWNERDEAD if `to` has ended, and
 * -EREMOTE if it is on another node: the call stays where it was.
 * Context: any thread, fiber or step; does not wait. */
WEFT_API int weft_actor_call_transfer(uint64_t call, weft_pid to);

/* Counters for the whole process. */
struct weft_actor_call_stats {
    uint64_t calls;
    uint64_t late; /* replies without a waiting caller */
};
/* Read the counters. Context: any thread; does not wait. */
WEFT_API void weft_actor_call_stats(struct weft_actor_call_stats *out);

WEFT_END_DECLS
#endif
