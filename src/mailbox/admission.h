/* Waiting for capacity in a mailbox.
 *
 * The senders that wait for an actor form one FIFO queue: fibers and plain threads with a node on
 * their stack, steps with the envelope itself (mailbox/pending_send.h). As long as the queue is not
 * empty the mailbox counts as full (CONTENDED), so no sender overtakes another sender, nor one of
 * its own messages.
 *
 * A step whose message had to wait gets a send credit with the completion: in the step that sees
 * it, the actor may send more messages although the mailbox is CONTENDED, as long as there is
 * capacity, up to a limit. Without credits a thousand senders that had to wait once would wait for
 * every single message ever after. Capacity is granted to as many waiting senders as would fill it
 * at that limit, and granted again when a credit has ended, because the step is over or never came.
 * The admission word counts the outstanding credits. So if there is capacity and a sender waits,
 * then
 *
 *     there is a credit, whose end admits the next senders; or
 *     the actor is in a turn, and admits them when half of the mailbox is empty, or when the actor
 *     sleeps or yields.
 */
#ifndef WEFT_MAILBOX_ADMISSION_H
#define WEFT_MAILBOX_ADMISSION_H

#include "actor/actor.h"

/* A sender that waits. */
struct weft__sender {
    struct weft__sender *next, *prev; /* under the lock of its wait bucket, like `linked` */
    bool linked, credit;              /* has_credit: a send credit was granted */
    weft_pid to;
    struct weft__node *node;         /* of a fiber or a thread; or */
    struct weft__envelope *envelope; /* of a step: then this is part of a pending send */
};

#define WEFT__SEND_CREDIT_MAX 256u /* messages per send credit at most */
#define WEFT__ADMISSION_QUEUED 2   /* in the queue; other results: as weft__admission_reserve */

/* Reserve a place, waiting until the deadline, in a fiber or a plain thread. Returns as
 * weft__admission_reserve; -ETIMEDOUT, -ECANCELED, -EINTR. */
int weft__admission_wait(weft_actor *actor, weft_pid to, int64_t deadline);
/* Reserve a place with a send credit. Never waits. */
int weft__admission_reserve_by_credit(weft_actor *actor, weft_pid to);
/* Reserve a place, or append the sender to the queue. */
int weft__admission_enqueue(struct weft__sender *sender);
/* Remove the sender from the queue. Returns false if it was no longer queued. */
bool weft__admission_dequeue(struct weft__sender *sender);
#endif
