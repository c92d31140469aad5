#include "stream/drain.h"

#define VECTORS 64 /* 1 KiB of the fiber's stack */

ssize_t weft__drain(weft_bufs *chain, int fd, weft_stream_fn writev, void *arg, int64_t deadline)
{
    struct iovec iov[VECTORS];
    int count = weft_bufs_iovec(chain, iov, VECTORS);
    ssize_t n = writev       ? writev(arg, iov, count, deadline)
                : count == 1 ? weft_write(fd, iov->iov_base, iov->iov_len, deadline)
                             : weft_writev(fd, iov, count, deadline);
    if (n > 0) {
        weft_bufs_consume(chain, (size_t)n);
    }
    return n;
}
