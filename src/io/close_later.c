/* Close a descriptor on behalf of a caller that cannot wait. If operations in flight still use the
 * descriptor, the last of them closes it. */
#include <errno.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/fd.h"

struct pending_close {
    struct weft__fd_closer base;
    struct weft__fd *record;
};

static void close_drained(struct weft__fd_closer *base, void *ready)
{
    (void)ready;
    struct pending_close *pending_close = (struct pending_close *)(void *)base;
    weft__fd_finish_close_locked(pending_close->record);
    weft__free(pending_close);
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
    struct pending_close *pending_close = weft__alloc(sizeof *pending_close);
    if (!pending_close) {
        return -ENOMEM;
    }
    *pending_close = (struct pending_close){.base = {.empty = close_drained}, .record = record};
    if (!weft__fd_forget_and_close(record, &pending_close->base, here, ready, &err)) {
        weft__free(pending_close);
    }
    return err;
}
