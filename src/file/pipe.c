#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include <weft/io.h>

#include "io/fd.h"

int weft_pipe(int *in, int *out)
{
    int ends[2];
    if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
        return -errno;
    }
    int err = weft__fd_open(ends[0], WEFT__FD_STREAM | WEFT__FD_NONBLOCK);
    err = err ? err : weft__fd_open(ends[1], WEFT__FD_STREAM | WEFT__FD_NONBLOCK);
    if (err) {
        weft_close(ends[0]);
        weft_close(ends[1]);
        return err;
    }
    *in = ends[0];
    *out = ends[1];
    return 0;
}
