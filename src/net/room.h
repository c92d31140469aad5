/* Room for descriptors: who has none left waits here until somebody closes one by weft_close, or
 * for a while, since others close too. */
#ifndef WEFT_NET_ROOM_H
#define WEFT_NET_ROOM_H

#include <stdbool.h>
#include <stdint.h>

/* The result says that descriptors or the kernel's memory have run out. */
bool weft__room_lacks(int64_t result);

/* Between the two, closes are counted. */
void weft__room_enter(void);
void weft__room_leave(void);
uint64_t weft__room_closed(void);
/* Waits for a close after the count was `closed`. 0; -ETIMEDOUT, -ECANCELED, -EINTR. */
int weft__room_wait(uint64_t closed, int64_t deadline);

/* A descriptor was closed. */
void weft__room_freed(void);

#ifdef WEFT_EXPLORE
void weft__room_reset(void);
#endif

#endif
