/* Stack overflow: recognised by the fault's address, reported by the fiber's name.
 *
 * Worker threads have an alternate signal stack, because the fiber's own is full. The handler is
 * installed once for the process; a fault that is not in one of our guards goes on to the handler that
 * was there before, or to the default. */
#ifndef WEFT_SCHED_FAULT_H
#define WEFT_SCHED_FAULT_H

void weft__fault_install(void);

/* Gives the thread an alternate stack, unless it has one already. */
void weft__fault_enter_thread(void);
void weft__fault_leave_thread(void);

#endif
