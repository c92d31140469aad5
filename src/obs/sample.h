/* Looking at a thread that runs: it is sent a signal and copies its own registers and stack (a
 * shot).
 *
 * One sampler at a time in a process, between begin and end. The handler is installed by begin and
 * taken back by end, and only where the signal had its default disposition: what a program does
 * with its signals stays as it was. The default is SIGURG, which is ignored by default, so that one
 * that arrives late disturbs nobody. After another signal was not answered in time the handler
 * stays, because its default could end the process.
 *
 * A thread that does not answer (it has the signal blocked, or is stuck in the kernel) costs the
 * deadline and no more (obs/request.h).
 */
#ifndef WEFT_OBS_SAMPLE_H
#define WEFT_OBS_SAMPLE_H

#include <weft/fiber.h>

#include "obs/unwind.h"

/* 0: SIGURG. -EBUSY: the signal is used by the program, or another sampler goes on and on.
 * -EINVAL. */
int weft__sample_begin(int signal);
void weft__sample_end(void);

/* What the thread runs, if it is a worker: that fiber, or any (WEFT_NO_FIBER). -EAGAIN: it runs
 * something else. -ETIMEDOUT: it did not answer. -ESRCH: no such thread. */
int weft__sample(int tid, weft_fiber fiber, int64_t deadline, struct weft__shot *out);

/* Whoever was at it is not in the child, nor who was asked. */
void weft__sample_fork_child(void);

#endif
