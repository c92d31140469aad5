/* The listening socket that the raw servers share. */
#ifndef BENCH_LIMITS_TCP_H
#define BENCH_LIMITS_TCP_H

#include "../measure.h" /* first: _GNU_SOURCE */

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

static inline void die(const char *what)
{
    perror(what);
    exit(1);
}

static inline void no_delay(int fd)
{
    int on = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static inline int listen_on(const char *port, int flags)
{
    struct sockaddr_in address = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)atoi(port)),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int on = 1, fd = socket(AF_INET, SOCK_STREAM | flags, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    if (fd < 0 || bind(fd, (struct sockaddr *)&address, sizeof address) || listen(fd, 4096))
        die("listen");
    return fd;
}

#endif
