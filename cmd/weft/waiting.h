/* The scene of the tour in which fibers wait for one another, and the dump that tells it. */
#ifndef WEFT_CMD_WAITING_H
#define WEFT_CMD_WAITING_H

/* From a fiber. 0, or 1 if it could not be played. */
int show_waiting(int number);

#endif
