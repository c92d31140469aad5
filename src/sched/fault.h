/* Faults: who was running is said before the process ends.
 *
 * A stack overflow is recognised by the fault's address and reported by the fiber's name. Of any
 * other fault the fiber is named that runs on the thread, or the body whose step does, with what it
 * says it is at (an actor: the last message). Where the program has a handler of its own that is
 * said once: it may live by faults.
 *
 * Worker threads have an alternate signal stack, because the fiber's own is full. The handler is
 * installed once for the process; a fault that is not in one of our guards goes on to the handler
 * that was there before, or to the default. */
#ifndef WEFT_SCHED_FAULT_H
#define WEFT_SCHED_FAULT_H

void weft__fault_install(void);
/* The same for abort, and with it assert: only programs with actors have a handler for it. */
void weft__fault_install_abort(void);

/* Gives the thread an alternate stack, unless it has one already. */
void weft__fault_enter_thread(void);
void weft__fault_leave_thread(void);

#endif
