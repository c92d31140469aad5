/* A set of descriptors that one caller waits on together: a private epoll, whose descriptor can
 * itself be waited on. For a few descriptors and infrequent waits. */
#ifndef WEFT_NET_EPOLL_SET_H
#define WEFT_NET_EPOLL_SET_H

#include <stdint.h>
#include <sys/epoll.h>

struct weft__epoll_set {
    int epoll;
};

int weft__epoll_set_open(struct weft__epoll_set *group);
void weft__epoll_set_close(struct weft__epoll_set *group);
/* Set the events of a descriptor to EPOLLIN, EPOLLOUT or both; 0 removes it. */
int weft__epoll_set_update(struct weft__epoll_set *group, int fd, uint32_t events);
/* Wait for up to `max` events. 0: the deadline has passed; -ECANCELED, -EINTR. */
int weft__epoll_set_wait(struct weft__epoll_set *group, struct epoll_event *events, int max,
                         int64_t deadline);

#endif
