/* Calls on buffers and chains for the layers above, which are not public: a view's headroom,
 * splitting a chain, reading into the free space at its end, and freeing what the pools keep. */
#ifndef WEFT_BUF_BUFS_H
#define WEFT_BUF_BUFS_H

#include <weft/buf.h>

/* The number of bytes that the view can grow at the front; 0 while the view is not writable. */
size_t weft__buf_headroom(const weft_buf *buf);

/* Moves everything after the first `at` bytes to the end of `tail`. A buffer that spans the cut is
 * shared between both chains. Returns 0; -ENOMEM, and then nothing has changed. */
int weft__bufs_split(weft_bufs *chain, size_t at, weft_bufs *tail);

/* Fills up to `max` iovec entries with the free space after the last byte, for readv: the tailroom
 * of the last non-empty buffer, then that of the empty buffers after it. Returns the number of
 * entries. */
int weft__bufs_tailroom_iovec(const weft_bufs *chain, struct iovec *iov, int max);
/* Records that n bytes were written into that space, from its beginning. */
void weft__bufs_commit(weft_bufs *chain, size_t n);

/* Frees all kept memory to the system: immediately for the shared pool and the calling worker's
 * cache; the other workers free theirs at their next tick or before they sleep. Returns the number
 * of bytes that this call freed itself. */
size_t weft__buf_trim_pools(void);

#endif
