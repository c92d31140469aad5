/* Deadlines of a dispatcher's fibers that have come.
 *
 * A pool's worker fires a wait under the lock of the wheel, because elsewhere the wait may end
 * meanwhile and its node go. A dispatcher's fibers run on the thread that advances the wheel, so
 * nothing changes until it is done with it: what is due is only listed, while the control blocks
 * are asked for, and fired after that, without the lock and into the queues at once. That is for
 * the many: of a hundred sleepers that wake together each would else be a wait for memory.
 */
#ifndef WEFT_SCHED_DUE_H
#define WEFT_SCHED_DUE_H

#include "sched/timer.h"

/* For weft__timer_init: lists the deadline, whose task is a dispatcher's. `arg` is what fires. */
void weft__due_expire(struct weft__timer *timer, void *arg);
/* After an advance of this wheel: ends the waits that were listed, in the order of their
 * deadlines. */
void weft__due_fire(struct weft__wheel *wheel, struct weft__firing *firing);

#endif
