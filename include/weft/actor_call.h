/* Calls: a message that is answered.
 *
 * The actor has an event WEFT_EVENT_CALL, which is a message whose tag is the call's reference, and
 * answers by weft_actor_reply: in that step, in a later one, or by handing the reference on to
 * whoever will. A reference is never used again: an answer that comes too late, or a second one, is
 * dropped and counted, and reaches nobody.
 *
 * A call ends exactly once: by an answer, at its deadline, or by an error of the runtime, at once:
 *
 *   -ESRCH       the actor had ended: it never had the call
 *   -EOWNERDEAD  it ended before it answered, whether it had seen the call or not, and whichever
 *                way it ended: normally, by an error, killed, to be started again by its
 *                supervisor; or it was upgraded, and its new code did not take the call over
 *                (<weft/relation.h>). It may have done what it was asked for
 *   -ENOBUFS     its mailbox was full, and refused or dropped the call (WEFT_MAILBOX_DROP)
 *
 * So who handed a reference on and then ends takes the call with it, unless the call was
 * transferred (weft_actor_call_transfer). Calls do not go to other nodes (-EREMOTE).
 */
#ifndef WEFT_ACTOR_CALL_H
#define WEFT_ACTOR_CALL_H

#include <weft/actor.h>

WEFT_BEGIN_DECLS

/* Calls and waits, in a fiber or a plain thread; also for room in the mailbox. `topic` and
 * `request` as in weft_actor_send. 0: *reply, unless NULL, is the answer, owned, maybe NULL. What
 * weft_actor_reply gave as an error. -ESRCH, -EOWNERDEAD, -ENOBUFS: see above. -ETIMEDOUT,
 * -ECANCELED, -EINTR: the actor may have done what it was asked for all the same. -ENOMEM.
 * -EREMOTE: it is of another node. Not in a step: there, weft_out_call. */
WEFT_API int weft_actor_call(weft_pid to, const char *topic, weft_buf *request, weft_buf **reply,
                             int64_t deadline);

/* From a step: the same as a command. Its completion has this tag, and the answer or an error;
 * -ETIMEDOUT at the deadline; -ESRCH, -EOWNERDEAD, -ENOBUFS: see above. `request` is taken, also on
 * an error. -ENOMEM. */
WEFT_API int weft_out_call(weft_out *out, uint64_t tag, weft_pid to, const char *topic,
                           weft_buf *request, int64_t deadline);

/* Answers: by an error, a negative errno, or with `buf`, or NULL; it is taken, also on an error.
 * Any thread. -ESRCH: nobody waits for it, any more. */
WEFT_API int weft_actor_reply(uint64_t call, int error, weft_buf *buf);

/* Makes `to` the actor that is to answer: from now on the call ends with that one, and not with the
 * actor that was called. Transfer first, then send it the reference. With the PID of the actor that
 * has the call, in the `convert` of an upgrade: its new code takes the call over. Does not wait.
 * Any thread.
 *
 * Returns 0. -ESRCH: nobody waits for the answer, any more. -EOWNERDEAD: `to` has ended, and the
 * call stays where it was. -EREMOTE: `to` is of another node, and the call stays where it was. */
WEFT_API int weft_actor_call_transfer(uint64_t call, weft_pid to);

/* Of the whole process. */
struct weft_actor_call_stats {
    uint64_t calls;
    uint64_t late; /* answers that nobody waited for */
};
WEFT_API void weft_actor_call_stats(struct weft_actor_call_stats *out);

WEFT_END_DECLS
#endif
