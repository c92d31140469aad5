/* Where the runtime's own memory comes from. One door, so that tests can make any request fail. */
#ifndef WEFT_BASE_ALLOC_H
#define WEFT_BASE_ALLOC_H

#include <stdbool.h>
#include <stddef.h>

/* Zeroed, aligned to a cache line; NULL if there is none. */
void *weft__alloc(size_t bytes);
/* The same, with whatever was there before. */
void *weft__alloc_dirty(size_t bytes);
/* The same for small things of which there are many: aligned only as malloc does it. */
void *weft__alloc_packed(size_t bytes);
void weft__free(void *memory);
/* What is free within malloc's heaps goes back to the kernel. Some milliseconds for a large heap.
 */
void weft__alloc_release(void);

/* Anonymous private pages, read and write, not reserved in swap; NULL if the kernel refuses. */
void *weft__map(size_t bytes);
void weft__unmap(void *memory, size_t bytes);

/* Tests: request number `countdown` from now fails, and all after it if `sticky`; 0: never.
 * Counts weft__alloc and weft__map of the whole process. */
void weft__alloc_fail_after(long countdown, bool sticky);
/* How many requests were made since the last weft__alloc_fail_after. */
long weft__alloc_requests(void);

#endif
