/* The part of the demo that runs on a dispatcher: fair scheduling of groups, and fibers without a
 * stack. */
#ifndef WEFT_WEFT_DEMO_DISPATCHER_H
#define WEFT_WEFT_DEMO_DISPATCHER_H

/* Runs on a plain thread, which becomes the dispatcher's. fibers: upper limit. Returns 0, or 1 if
 * the part failed. */
int demo_dispatcher(int number, long fibers);

#endif
