/* Expired deadlines of a dispatcher's tasks.
 *
 * A pool's worker fires a wait under the wheel's lock, because the wait may end on another worker
 * meanwhile and free its node. A dispatcher's tasks run on the thread that advances the wheel, so
 * nothing changes until the advance is done: expired deadlines are only listed while their control
 * blocks are prefetched, and are fired afterwards, without the lock and directly into the run
 * queues. This is for many at once: without it, each of a hundred sleepers that wake together
 * would cost a cache miss. */
#ifndef WEFT_SCHED_GROUP_DEADLINE_H
#define WEFT_SCHED_GROUP_DEADLINE_H

#include "sched/timer.h"

/* After an advance of this wheel: ends the listed waits, in the order of their deadlines. */
void weft__group_deadline_fire(struct weft__wheel *wheel, struct weft__firing *firing);

#endif
