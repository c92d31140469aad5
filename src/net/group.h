/* A group of descriptors that one caller waits on together: an epoll of its own, which is itself a
 * descriptor to wait on. For a few descriptors, and waits that are seldom. */
#ifndef WEFT_NET_GROUP_H
#define WEFT_NET_GROUP_H

#include <stdint.h>
#include <sys/epoll.h>

struct weft__group {
    int epoll;
};

int weft__group_open(struct weft__group *group);
void weft__group_close(struct weft__group *group);
/* Which of EPOLLIN and EPOLLOUT it wants to hear of a descriptor, from now on; 0: nothing. */
int weft__group_want(struct weft__group *group, int fd, uint32_t events);
/* Up to `max` events; 0: the time has come; -ECANCELED, -EINTR. */
int weft__group_wait(struct weft__group *group, struct epoll_event *events, int max,
                     int64_t deadline);

#endif
