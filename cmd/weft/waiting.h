/* The part of the demo in which fibers wait for one another, and the dump that shows it. */
#ifndef WEFT_CMD_WAITING_H
#define WEFT_CMD_WAITING_H

/* Runs on a fiber. Returns 0, or 1 if the part failed. */
int show_waiting(int number);

#endif
