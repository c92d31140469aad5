/* Connect to a host: several addresses, the first success wins (RFC 8305). */
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include <weft/net.h>

#include "io/fd.h"
#include "io/op.h"
#include "net/addr.h"
#include "net/epoll_set.h"
#include "net/socket.h"

#define MAX_ADDRS 16u /* addresses of a host that are tried at most */
#define ATTEMPT_DELAY_NS 250000000

struct dial {
    const struct weft_addr *addrs[MAX_ADDRS];
    int fds[MAX_ADDRS]; /* of attempts in progress; -1: not begun, or ended */
    size_t count, begun, open;
    struct weft__epoll_set group;
    int err; /* of the last failure */
};

/* Alternate between the address families, beginning with that of the best address. */
static void interleave(struct dial *dial, const struct weft_addr *addrs, size_t n)
{
    bool used[MAX_ADDRS] = {false};
    sa_family_t last = AF_UNSPEC;
    n = n < MAX_ADDRS ? n : MAX_ADDRS;
    while (dial->count < n) {
        size_t pick = n;
        for (size_t i = 0; i < n && pick == n; i++) {
            if (!used[i] && addrs[i].storage.ss_family != last) {
                pick = i;
            }
        }
        for (size_t i = 0; i < n && pick == n; i++) {
            pick = used[i] ? n : i;
        }
        used[pick] = true;
        last = addrs[pick].storage.ss_family;
        dial->addrs[dial->count++] = &addrs[pick];
    }
}

static void end_attempt(struct dial *dial, size_t i, int err)
{
    weft__epoll_set_update(&dial->group, dial->fds[i], 0);
    close(dial->fds[i]);
    dial->fds[i] = -1;
    dial->open--;
    dial->err = err;
}

/* Begin the next attempt. Returns the descriptor if it connected at once; -1: in progress, or
 * failed. */
static int begin_next(struct dial *dial)
{
    size_t i = dial->begun++;
    const struct weft_addr *addr = dial->addrs[i];
    struct weft__op op;
    int fd = socket(addr->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        dial->err = -errno;
        return -1;
    }
    dial->fds[i] = fd;
    dial->open++;
    weft__op_init(&op, fd, WEFT__OP_CONNECT, WEFT__SIDE_OUT);
    op.addr = (struct sockaddr *)(uintptr_t)&addr->storage;
    op.addr_len = addr->len;
    int64_t err = weft__op_perform(&op);
    if (err == -EINPROGRESS) {
        err = weft__epoll_set_update(&dial->group, fd, EPOLLOUT);
        if (err == 0) {
            return -1;
        }
    }
    if (err) {
        end_attempt(dial, i, (int)err);
    }
    return err ? -1 : fd;
}

/* An attempt has an outcome. Returns the descriptor if it connected; else -1. */
static int check_attempt(struct dial *dial, int fd)
{
    size_t i = 0;
    while (i < dial->begun && dial->fds[i] != fd) {
        i++;
    }
    if (i == dial->begun) {
        return -1;
    }
    int err = weft__op_connect_result(fd);
    if (err) {
        end_attempt(dial, i, err);
    }
    return err ? -1 : fd;
}

/* Returns the connected descriptor or an error. */
static int race(struct dial *dial, int64_t attempt_delay_ns, int64_t deadline)
{
    int64_t next_at = 0;
    for (;;) {
        struct epoll_event event;
        int fd = -1;
        int64_t now = weft_now();
        if (deadline != WEFT_FOREVER && now >= deadline && dial->begun > 0) {
            return -ETIMEDOUT;
        }
        if (dial->begun < dial->count && (dial->open == 0 || now >= next_at)) {
            fd = begin_next(dial);
            next_at = weft_after(attempt_delay_ns);
        } else if (dial->open == 0) {
            return dial->err;
        } else {
            int64_t until = dial->begun < dial->count && next_at < deadline ? next_at : deadline;
            int n = weft__epoll_set_wait(&dial->group, &event, 1, until);
            if (n < 0) {
                return n;
            }
            fd = n ? check_attempt(dial, event.data.fd) : -1;
        }
        if (fd >= 0) {
            return fd;
        }
    }
}

int weft_dial_addrs(const struct weft_addr *addrs, size_t n, int64_t attempt_delay_ns,
                    int64_t deadline)
{
    struct dial dial = {.err = -EINVAL};
    if (n == 0 || attempt_delay_ns < 0) {
        return -EINVAL;
    }
    memset(dial.fds, -1, sizeof dial.fds);
    int err = weft__epoll_set_open(&dial.group);
    if (err) {
        return err;
    }
    interleave(&dial, addrs, n);
    int won = race(&dial, attempt_delay_ns ? attempt_delay_ns : ATTEMPT_DELAY_NS, deadline);
    unsigned flags = 0;
    for (size_t i = 0; i < dial.begun; i++) {
        if (dial.fds[i] >= 0 && dial.fds[i] == won) {
            flags = weft__fd_socket_flags(dial.addrs[i]->storage.ss_family, SOCK_STREAM);
        } else if (dial.fds[i] >= 0) {
            end_attempt(&dial, i, 0);
        }
    }
    weft__epoll_set_close(&dial.group);
    return won < 0 ? won : weft__socket_register(won, flags);
}

/* Split "host:port". */
static int split(const char *address, char *host, size_t size, unsigned *port)
{
    const char *colon = strrchr(address, ':');
    size_t len = colon ? (size_t)(colon - address) : 0;
    int number = len > 0 && len < size ? weft__addr_parse_port(colon + 1) : -EINVAL;
    if (number < 0) {
        return number;
    }
    *port = (unsigned)number;
    memcpy(host, address, len);
    host[len] = 0;
    return 0;
}

int weft_dial(const char *address, const struct weft_dial_opts *opts, int64_t deadline)
{
    struct weft_addr addrs[MAX_ADDRS];
    char host[256];
    unsigned port;
    if (weft_addr_parse(&addrs[0], address) == 0) {
        return weft_connect(&addrs[0], deadline);
    }
    int err = split(address, host, sizeof host, &port);
    if (err) {
        return err;
    }
    int n = weft_resolve(addrs, MAX_ADDRS, host, port, opts ? &opts->resolve : NULL, deadline);
    return n < 0 ? n
                 : weft_dial_addrs(addrs, (size_t)n, opts ? opts->attempt_delay_ns : 0, deadline);
}
