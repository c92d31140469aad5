/* Close a descriptor on behalf of a caller that cannot wait. If operations in flight still use the
 * descriptor, the last of them closes it. */
#include <errno.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/fd.h"

struct later {
    struct weft__fd_closer base;
    struct weft__fd *record;
};

static void close_later(struct weft__fd_closer *base, void *ready)
{
    (void)ready;
    struct later *later = (struct later *)(void *)base;
    weft__fd_shut_locked(later->record);
    weft__free(later);
}

int weft__fd_close_number(int fd)
{
    /* EINTR: Linux has closed the descriptor anyway, and the number may already be reused. */
    return close(fd) == 0 || errno == EINTR ? 0 : -errno;
}

int weft__fd_close(int fd, struct weft__driver *here, void *ready)
{
    struct weft__fd *record = weft__fd_find(fd);
    int err;
    if (!record) {
        return weft__fd_close_number(fd);
    }
    struct later *later = weft__alloc(sizeof *later);
    if (!later) {
        return -ENOMEM;
    }
    *later = (struct later){.base = {.empty = close_later}, .record = record};
    if (!weft__fd_dispose(record, &later->base, here, ready, &err)) {
        weft__free(later);
    }
    return err;
}
