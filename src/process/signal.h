/* The wait for a signal split in two steps (arm, finish), for stackless tasks. */
#ifndef WEFT_PROCESS_SIGNAL_H
#define WEFT_PROCESS_SIGNAL_H

#include <weft/process.h>

#include "wait/waiter.h"

/* Links the node, whose waiter is armed and whose item is a struct weft_signal_info, and keeps the
 * set in memory until finish. False: a signal was pending and is now in the item, nothing was
 * linked; disarm. */
bool weft__signal_arm(weft_signal_set *set, struct weft__node *node);
/* After the wait has ended, for any reason; node->status is -EPIPE if the set was closed. */
void weft__signal_finish(weft_signal_set *set, struct weft__node *node);

#endif
