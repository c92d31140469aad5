/* Close a descriptor on behalf of a caller that cannot wait. If operations in flight still use the
 * descriptor, the last of them closes it. */
#include <errno.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/fd.h"

static void free_closer(struct weft__fd_closer *closer)
{
    weft__free(closer);
}

int weft__fd_close_number(int fd)
{
    /* EINTR: Linux has closed the descriptor anyway, and the number may already be reused. */
    return close(fd) == 0 || errno == EINTR ? 0 : -errno;
}

int weft__fd_close(int fd, struct weft__driver *here, struct weft__io_done *done)
{
    struct weft__fd *record = weft__fd_find(fd);
    int err;
    if (!record) {
        return weft__fd_close_number(fd);
    }
    struct weft__fd_closer *closer = weft__alloc(sizeof *closer);
    if (!closer) {
        return -ENOMEM;
    }
    *closer = (struct weft__fd_closer){.closes = true, .drained = free_closer};
    if (!weft__fd_forget_and_close(record, closer, here, done, &err)) {
        weft__free(closer);
    }
    return err;
}
