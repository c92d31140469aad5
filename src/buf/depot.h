/* The depot: the common pool of large blocks, and of those that plain threads take. One lock over
 * all lists: who needs 32 KiB and more spends far longer on the bytes than here. Memory is asked
 * for and given to the system without it. */
#ifndef WEFT_BUF_DEPOT_H
#define WEFT_BUF_DEPOT_H

#include "buf/block.h"

/* Any thread. `bytes` is for the last class only, which is never kept. NULL: no memory. */
weft_buf *weft__depot_take(unsigned class, size_t bytes);
void weft__depot_give(weft_buf *block);
/* Gives everything that is kept to the system. Returns the bytes. */
size_t weft__depot_trim(void);

/* What the class has seen here, added to *out; *larger is the bytes of live blocks of the last
 * class. */
void weft__depot_add_stats(unsigned class, struct weft_buf_class_stats *out, size_t *larger);

/* Around a fork, in the parent and in the child. For sched/fork.c. */
void weft__depot_fork_prepare(void);
void weft__depot_fork_done(void);

#endif
