/* Memory that a crowd has left behind goes back to the kernel.
 *
 * Stacks stay warm and buffers stay in pools, because whoever has just used them needs them again.
 * Ten thousand connections that have gone leave a hundred megabytes so. A worker that is about to
 * sleep and sees a surplus opens a period of a second. At its end the first worker that comes by
 * gives back what nobody has used in it: stacks below the low-water mark, the pools of buffers, and
 * what malloc holds of them. A program with something to do at all times is served too: nobody
 * needs to rest for a whole period.
 *
 * Workers that go to sleep in a period wake up for its end: the one that opened it may be gone, or
 * busy. No period is opened without a surplus that a use has made, so an idle program wakes up two
 * or three times, then no more.
 */
#ifndef WEFT_SCHED_RECLAIM_H
#define WEFT_SCHED_RECLAIM_H

#include <stdbool.h>
#include <stdint.h>

struct weft__worker;

/* By a worker that is about to sleep: when it should call weft__reclaim; INT64_MAX: not at all. */
int64_t weft__reclaim_at(struct weft__worker *w);
/* A slice of the work. The caller looks for other work after it. */
void weft__reclaim(struct weft__worker *w);

#endif
