/* The wait for a child in two steps, for bodies without a stack. */
#ifndef WEFT_SYNC_PROCESS_H
#define WEFT_SYNC_PROCESS_H

#include <weft/process.h>

#include "sched/waiter.h"

/* Links the node, whose waiter is armed, and keeps the process in memory until finish. False: the
 * child has ended, nothing was linked; disarm. The status comes from weft_process_wait, which then
 * need not wait. */
bool weft__process_arm(weft_process *process, struct weft__node *node);
/* After the wait has ended, for whatever reason; node->status is -EPIPE if the handle was
 * closed. */
void weft__process_finish(weft_process *process, struct weft__node *node);

#endif
