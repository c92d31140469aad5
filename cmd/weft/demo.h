/* `weft demo`: shows what the library does on this machine. */
#ifndef WEFT_WEFT_DEMO_H
#define WEFT_WEFT_DEMO_H

/* fibers: how many to park; 0: a million, or as many as fit into a quarter of the free memory.
 * Returns the exit status. */
int demo(long fibers);

#endif
