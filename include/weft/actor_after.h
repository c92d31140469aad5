/* Messages for later. They are on the timer wheels of the actor's host, and end with the actor: one
 * that has ended has no timers. Never early; late by a tick, and what the host is busy with. */
#ifndef WEFT_ACTOR_AFTER_H
#define WEFT_ACTOR_AFTER_H

#include <weft/actor.h>

WEFT_BEGIN_DECLS

/* Sends the message at this time, `from` nobody. `topic` and `buf` as in weft_actor_send. If the
 * mailbox is full then, it is a dead letter. *ref, unless NULL, is for weft_actor_send_cancel, and
 * never used again. Any thread. -ESRCH, -ENOMEM. -EREMOTE: it is of another node. */
WEFT_API int weft_actor_send_at(weft_pid to, const char *topic, uint64_t tag, weft_buf *buf,
                                int64_t deadline, uint64_t *ref);
/* After so many ns; a delay that is not positive: at once, by a timer as well. */
WEFT_API int weft_actor_send_after(weft_pid to, const char *topic, uint64_t tag, weft_buf *buf,
                                   int64_t delay_ns, uint64_t *ref);
/* At first, first + period, first + 2 period ...: no drift. Periods that were missed are one
 * message. Each has a view of the same bytes. -EINVAL: the period is not positive. */
WEFT_API int weft_actor_send_every(weft_pid to, const char *topic, uint64_t tag, weft_buf *buf,
                                   int64_t first, int64_t period_ns, uint64_t *ref);

/* Any thread. 0: it was pending, and will not be sent; of a recurring one, not again. -ENOENT: it
 * was sent, it was cancelled, its actor has ended, or there never was one. There is nothing in
 * between. */
WEFT_API int weft_actor_send_cancel(uint64_t ref);

WEFT_END_DECLS
#endif
