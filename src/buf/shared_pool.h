/* The shared pool of large blocks, and of the blocks that plain threads allocate. One lock protects
 * all lists: a caller that needs 32 KiB or more spends far longer on the bytes than here. Memory is
 * requested from and freed to the system without the lock. */
#ifndef WEFT_BUF_SHARED_POOL_H
#define WEFT_BUF_SHARED_POOL_H

#include "buf/block.h"

/* Any thread. `bytes` is used for the last class only, which is never kept. NULL: no memory. */
weft_buf *weft__buf_shared_get(unsigned class, size_t bytes);
void weft__buf_shared_put(weft_buf *block);
/* Frees all kept blocks to the system. Returns the number of bytes. */
size_t weft__buf_shared_trim(void);

/* Adds the counters of the class to *out; *larger is set to the bytes of live blocks of the last
 * class. */
void weft__buf_shared_add_stats(unsigned class, struct weft_buf_class_stats *out, size_t *larger);

/* Around a fork, in the parent and in the child. For pool/fork.c. */
void weft__buf_shared_fork_prepare(void);
void weft__buf_shared_fork_done(void);

#endif
