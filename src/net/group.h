/* A set of descriptors that one caller waits on together: a private epoll, whose descriptor can
 * itself be waited on. For a few descriptors and infrequent waits. */
#ifndef WEFT_NET_GROUP_H
#define WEFT_NET_GROUP_H

#include <stdint.h>
#include <sys/epoll.h>

struct weft__group {
    int epoll;
};

int weft__group_open(struct weft__group *group);
void weft__group_close(struct weft__group *group);
/* Set the events of a descriptor to EPOLLIN, EPOLLOUT or both; 0 removes it. */
int weft__group_want(struct weft__group *group, int fd, uint32_t events);
/* Wait for up to `max` events. 0: the deadline has passed; -ECANCELED, -EINTR. */
int weft__group_wait(struct weft__group *group, struct epoll_event *events, int max,
                     int64_t deadline);

#endif
