/* Waiting for descriptors when the process has run out of them (EMFILE): a caller waits until
 * weft_close frees a descriptor, or for a limited time, because descriptors may also be closed by
 * other means. */
#ifndef WEFT_NET_ROOM_H
#define WEFT_NET_ROOM_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the result means that descriptors or kernel memory have run out. */
bool weft__room_lacks(int64_t result);

/* Closes are counted between enter and leave. */
void weft__room_enter(void);
void weft__room_leave(void);
uint64_t weft__room_closed(void);
/* Wait for a close after the count was `closed`. 0; -ETIMEDOUT, -ECANCELED, -EINTR. */
int weft__room_wait(uint64_t closed, int64_t deadline);

/* Called after a descriptor was closed. */
void weft__room_freed(void);

#ifdef WEFT_EXPLORE
void weft__room_reset(void);
#endif

#endif
