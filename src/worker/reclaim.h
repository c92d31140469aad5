/* Returns memory that a burst of load has left behind to the kernel.
 *
 * Stacks stay warm and buffers stay in pools because their last users usually need them again soon.
 * After ten thousand closed connections this keeps a hundred megabytes. A worker that is about to
 * sleep and sees a surplus opens a period of one second. At its end the first worker that passes
 * gives back what was not used during the period: stacks below the low-water mark, the buffer
 * pools, and what malloc holds for them. This also works in a program that is never idle: no worker
 * needs to sleep for a whole period.
 *
 * Workers that go to sleep during a period wake up for its end, because the worker that opened it
 * may be gone or busy. A period is opened only for a surplus that recent use has created, so an
 * idle program wakes up two or three times, then no more.
 */
#ifndef WEFT_WORKER_RECLAIM_H
#define WEFT_WORKER_RECLAIM_H

#include <stdbool.h>
#include <stdint.h>

struct weft__worker;

/* For a worker that is about to sleep: when it should call weft__reclaim; INT64_MAX: never. */
int64_t weft__reclaim_at(struct weft__worker *w);
/* Does a slice of the work. The caller checks for other work afterwards. */
void weft__reclaim(struct weft__worker *w);

#endif
