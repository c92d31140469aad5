/* Waiting for descriptors when the process has run out of them (EMFILE): a caller waits until
 * weft_close frees a descriptor, or for a limited time, because descriptors may also be closed by
 * other means. */
#ifndef WEFT_FDIO_FD_EXHAUSTION_H
#define WEFT_FDIO_FD_EXHAUSTION_H

#include <stdbool.h>
#include <stdint.h>

/* Whether the result means that descriptors or kernel memory have run out. */
bool weft__is_fd_exhaustion(int64_t result);

/* Closes are counted between enter and leave. */
void weft__fd_exhaustion_enter(void);
void weft__fd_exhaustion_leave(void);
uint64_t weft__fd_exhaustion_close_count(void);
/* Wait for a close after the count was `closed`. 0; -ETIMEDOUT, -ECANCELED, -EINTR. */
int weft__fd_exhaustion_wait(uint64_t closed, int64_t deadline);

/* Called after a descriptor was closed. */
void weft__fd_exhaustion_notify(void);

#ifdef WEFT_EXPLORE
void weft__fd_exhaustion_reset(void);
#endif

#endif
