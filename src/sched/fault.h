/* Fault reports: names the task that was running before the process ends.
 *
 * A stack overflow is recognised by the fault's address and reported with the fiber's name. For any
 * other fault the report names the fiber that runs on the thread, or the stackless task whose step
 * runs, with its own description of what it is doing. If the program
 * has a handler of its own, the report is written only once: such a program may rely on faults.
 *
 * Worker threads have an alternate signal stack, because the fiber's own is full. The handler is
 * installed once for the process; a fault that is not in one of our guards is passed on to the
 * handler that was installed before, or to the default.
 */
#ifndef WEFT_SCHED_FAULT_H
#define WEFT_SCHED_FAULT_H

#include <stddef.h>

#include <weft/fiber.h>

#include "base/atomic.h"

void weft__fault_install(void);
/* Installs the handler for abort too, and so for assert. */
void weft__fault_install_abort(void);

/* Writes what a higher layer knows about a fiber, to follow "in fiber "; without a terminator.
 * Returns the length; 0: it knows nothing. Never blocks; async-signal-safe. */
typedef size_t (*weft__fault_describe_fn)(weft_fiber fiber, char *buf, size_t size);
extern _Atomic(weft__fault_describe_fn) weft__fault_describe; /* NULL: there is no such layer */

/* Gives the thread an alternate signal stack, unless it has one already. */
void weft__fault_enter_thread(void);
void weft__fault_leave_thread(void);

#endif
