/* Fiber-local storage and cleanups. */
#ifndef WEFT_SCHED_LOCAL_H
#define WEFT_SCHED_LOCAL_H

#include "sched/worker.h"

/* At the fiber's end, on its own stack: cleanups from the top, then destructors of its locals, until
 * none leaves anything behind. */
void weft__local_run_cleanups(struct weft__rare *rare);

#endif
