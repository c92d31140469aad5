/* The runtime's own memory. All requests go through these functions, so that tests can make any
 * request fail. */
#ifndef WEFT_BASE_ALLOC_H
#define WEFT_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

/* Zeroed, aligned to a cache line; NULL if memory runs out. */
void *weft__alloc(size_t bytes);
/* The same, not zeroed. */
void *weft__alloc_dirty(size_t bytes);
/* The same for numerous small objects: not zeroed, aligned only as malloc does. */
void *weft__alloc_packed(size_t bytes);
void weft__free(void *memory);
/* Returns free memory of malloc's heaps to the kernel. Takes some milliseconds for a large heap. */
void weft__alloc_release(void);

/* Anonymous private pages, read and write, without swap reservation; NULL if the kernel refuses. */
void *weft__map(size_t bytes);
void weft__unmap(void *memory, size_t bytes);

/* For tests: request number `countdown` from now fails, and all later ones if `sticky`; 0: never.
 * Counts weft__alloc and weft__map of the whole process. */
void weft__alloc_fail_after(long countdown, bool sticky);
/* Number of requests since the last weft__alloc_fail_after. */
long weft__alloc_requests(void);

#endif
