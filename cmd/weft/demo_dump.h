/* The part of the demo in which fibers wait for one another, and the dump that shows it. */
#ifndef WEFT_WEFT_DEMO_DUMP_H
#define WEFT_WEFT_DEMO_DUMP_H

/* Runs on a fiber. Returns 0, or 1 if the part failed. */
int demo_dump(int number);

#endif
