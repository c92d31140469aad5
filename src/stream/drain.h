/* Writing the front of a chain. */
#ifndef WEFT_STREAM_DRAIN_H
#define WEFT_STREAM_DRAIN_H

#include <weft/stream.h>

/* One write of as many buffers as it takes at once; what was written is dropped. How many bytes, or
 * the error. The chain has some. */
ssize_t weft__drain(weft_bufs *chain, int fd, weft_stream_fn writev, void *arg, int64_t deadline);

#endif
