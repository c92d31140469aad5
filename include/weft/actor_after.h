/* Delayed messages: sent to an actor at a given time, once or periodically.
 *
 * They run on the timer wheels of the receiver's host and are dropped when the receiver ends, so
 * that an ended actor has no timers. A delayed message is never early; it is late by at most one
 * tick plus the time the host is busy.
 */
#ifndef WEFT_ACTOR_AFTER_H
#define WEFT_ACTOR_AFTER_H

#include <weft/actor.h>

WEFT_BEGIN_DECLS

/* Send a message at the given time. The event has no `from`. If the mailbox is full at that time
 * the message becomes a dead letter.
 *
 * topic, buf: as in weft_actor_send; buf is taken, also on an error. ref: NULL, or receives a
 * reference for weft_actor_send_cancel, which is never reused.
 * Returns 0; -ESRCH if the actor has ended; -EREMOTE if it is on another node; -ENOMEM.
 * Context: any thread, fiber or step; does not wait. */
WEFT_API int weft_actor_send_at(weft_pid to, const char *topic, uint64_t tag, weft_buf *buf,
                                int64_t deadline, uint64_t *ref);
/* Send a message after delay_ns. A delay of 0 or less sends it as soon as possible, still by a
 * timer. Otherwise as weft_actor_send_at.
 *
 * Returns as weft_actor_send_at.
 * Context: any thread, fiber or step; does not wait. */
WEFT_API int weft_actor_send_after(weft_pid to, const char *topic, uint64_t tag, weft_buf *buf,
                                   int64_t delay_ns, uint64_t *ref);
/* Send a message at first, first + period, first + 2 * period, ...: the schedule does not drift.
 * Periods that were missed are combined into one message. Each message has its own view of the same
 * bytes. Otherwise as weft_actor_send_at.
 *
 * Returns as weft_actor_send_at; also -EINVAL if period_ns is not positive.
 * Context: any thread, fiber or step; does not wait. */
WEFT_API int weft_actor_send_every(weft_pid to, const char *topic, uint64_t tag, weft_buf *buf,
                                   int64_t first, int64_t period_ns, uint64_t *ref);

/* Cancel a delayed message; a recurring message is not sent again.
 *
 * Returns 0 if the message was pending and is now never sent; -ENOENT if it was sent, was
 * cancelled, its actor has ended, or the reference was never valid. There is no third outcome.
 * Context: any thread, fiber or step; does not wait. */
WEFT_API int weft_actor_send_cancel(uint64_t ref);

WEFT_END_DECLS
#endif
