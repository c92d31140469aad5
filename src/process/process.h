/* The wait for a child process split in two steps (arm, finish), for stackless tasks. */
#ifndef WEFT_PROCESS_PROCESS_H
#define WEFT_PROCESS_PROCESS_H

#include <weft/process.h>

#include "wait/waiter.h"

/* Links the node, whose waiter is armed, and keeps the process in memory until finish. False: the
 * child has ended, nothing was linked; disarm. weft_process_wait then returns the status without
 * waiting. */
bool weft__process_arm(weft_process *process, struct weft__node *node);
/* After the wait has ended, for any reason; node->status is -EPIPE if the handle was closed. */
void weft__process_finish(weft_process *process, struct weft__node *node);

#endif
