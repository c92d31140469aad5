/* Fiber-local storage and cleanups. */
#ifndef WEFT_SCHED_FIBER_LOCAL_H
#define WEFT_SCHED_FIBER_LOCAL_H

#include "worker/worker.h"

/* At the fiber's end, on its own stack: runs cleanups from the top, then destructors of its
 * locals, and repeats until neither adds another. */
void weft__local_run_cleanups(struct weft__rare *rare);

/* After the fiber's function has returned: panics if a cleanup node is in one of its frames, all
 * of which lie below `frame`. */
void weft__local_check_nodes(const struct weft__task *task, const void *frame);

#endif
