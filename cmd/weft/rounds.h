/* The scene of the tour that is played on a dispatcher: groups in fair rounds, and fibers without a
 * stack. */
#ifndef WEFT_CMD_ROUNDS_H
#define WEFT_CMD_ROUNDS_H

/* From a plain thread, which is the dispatcher's. `fibers`: how many there may be. 0, or 1 if it
 * could not be played. */
int show_rounds(int number, long fibers);

#endif
