#include "net/epoll_set.h"

#include <errno.h>

#include <weft/io.h>

int weft__epoll_set_open(struct weft__epoll_set *group)
{
    group->epoll = epoll_create1(EPOLL_CLOEXEC);
    return group->epoll < 0 ? -errno : 0;
}

void weft__epoll_set_close(struct weft__epoll_set *group)
{
    weft_close(group->epoll);
}

int weft__epoll_set_update(struct weft__epoll_set *group, int fd, uint32_t events)
{
    struct epoll_event event = {.events = events, .data.fd = fd};
    int rc = epoll_ctl(group->epoll, events ? EPOLL_CTL_MOD : EPOLL_CTL_DEL, fd, &event);
    if (rc != 0 && errno == ENOENT && events) {
        rc = epoll_ctl(group->epoll, EPOLL_CTL_ADD, fd, &event);
    }
    return rc == 0 || !events ? 0 : -errno;
}

int weft__epoll_set_wait(struct weft__epoll_set *group, struct epoll_event *events, int max,
                         int64_t deadline)
{
    int ready = weft_fd_wait(group->epoll, WEFT_READABLE, deadline);
    if (ready < 0) {
        return ready == -ETIMEDOUT ? 0 : ready;
    }
    int n = epoll_wait(group->epoll, events, max, 0);
    return n < 0 ? -errno : n;
}
