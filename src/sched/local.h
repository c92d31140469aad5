/* Fiber-local storage and cleanups. */
#ifndef WEFT_SCHED_LOCAL_H
#define WEFT_SCHED_LOCAL_H

#include "sched/worker.h"

/* At the fiber's end, on its own stack: cleanups from the top, then destructors of its locals,
 * until none leaves anything behind. */
void weft__local_run_cleanups(struct weft__rare *rare);

/* When the body has returned: no cleanup is in one of its frames, all of which lie below
 * `frame`. */
void weft__local_check_nodes(const struct weft__task *task, const void *frame);

#endif
