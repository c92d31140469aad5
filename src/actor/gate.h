/* Waiting for room in a mailbox.
 *
 * Those who wait are in one queue for each actor, in the order in which they came: fibers and plain
 * threads by a node on their stack, steps by the letter itself (actor/parcel.h). As long as there
 * are any the mailbox counts as full (CROWDED), so nobody overtakes them, nor himself.
 *
 * A step that has waited gets a pass with its completion: in the step that sees it, it may send on
 * though the mailbox is CROWDED, as long as there is a place, up to a measure. Else a thousand
 * senders, once they have had to wait, would wait for every single message ever after. Room is
 * given to as many as would fill it by that measure, and given out again when a pass has ended: the
 * step is over, or there was none. The gate counts them. So if there is room and somebody waits,
 *     there is a pass, whose end gives it out; or
 *     the actor is in a turn, and does when half of the mailbox is empty, or when it sleeps or lets
 *     others run.
 */
#ifndef WEFT_ACTOR_GATE_H
#define WEFT_ACTOR_GATE_H

#include "actor/actor.h"

/* One who waits. */
struct weft__sender {
    struct weft__sender *next, *prev; /* under the lock of its lot, as `linked` */
    bool linked, pass;                /* pass: it has one */
    weft_pid to;
    struct weft__node *node;     /* of a fiber or a thread; or */
    struct weft__letter *letter; /* of a step; with it it is a parcel's */
};

#define WEFT__PASS 256u    /* messages by one pass at most */
#define WEFT__GATE_WAITS 2 /* what else: as weft__gate_enter */

/* Has a place, or waits for it until the deadline, in a fiber or a plain thread. As
 * weft__gate_enter; -ETIMEDOUT, -ECANCELED, -EINTR. */
int weft__gate_await(weft_actor *actor, weft_pid to, int64_t deadline);
/* The same for one that has a pass, and never waits. */
int weft__gate_pass(weft_actor *actor, weft_pid to);
/* Has a place, or is put into the queue. */
int weft__gate_queue(struct weft__sender *sender);
/* Takes it out again. False: it was not in it, any more. */
bool weft__gate_unqueue(struct weft__sender *sender);
#endif
