/* Sampling a running thread: it gets a signal and copies its own registers and stack (a stack
 * sample).
 *
 * One sampler at a time in a process, between begin and end. begin installs the handler and end
 * removes it, and only if the signal had its default disposition: the signal handling of the
 * program does not change. The default is SIGURG, which is ignored by default, so that a late
 * signal does no harm. After another signal was not answered in time the handler stays installed,
 * because the signal's default action could end the process.
 *
 * A thread that does not answer (the signal is blocked, or the thread is stuck in the kernel) costs
 * the deadline and no more (backtrace/sample_request.h).
 */
#ifndef WEFT_BACKTRACE_SAMPLE_H
#define WEFT_BACKTRACE_SAMPLE_H

#include <weft/fiber.h>

#include "backtrace/unwind.h"

/* signal: 0 for SIGURG. Returns 0; -EBUSY if the program uses the signal, or another sampler does
 * not finish; -EINVAL. */
int weft__sample_begin(int signal);
void weft__sample_end(void);

/* Sample the thread, if it is a worker that runs this fiber, or any fiber (WEFT_NO_FIBER). Returns
 * 0; -EAGAIN if it runs something else; -ETIMEDOUT if it did not answer; -ESRCH if there is no such
 * thread. */
int weft__sample(int tid, weft_fiber fiber, int64_t deadline, struct weft__stack_sample *out);

/* Reset after fork: neither the sampler nor the sampled thread exists in the child. */
void weft__sample_fork_child(void);

#endif
