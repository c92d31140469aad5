/* Write the front of a buffer chain. */
#ifndef WEFT_STREAM_DRAIN_H
#define WEFT_STREAM_DRAIN_H

#include <weft/stream.h>

/* Write as many buffers as one system call takes, and drop the bytes that were written. The chain
 * must not be empty. Returns the number of bytes, or the error. */
ssize_t weft__drain(weft_bufs *chain, int fd, weft_stream_fn writev, void *arg, int64_t deadline);

#endif
