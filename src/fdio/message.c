#include "fdio/message.h"

#include <errno.h>
#include <limits.h>
#include <string.h>

#include <weft/io.h>

#include "fdio/call.h"
#include "io/fd.h"

static const struct weft__wait_kind recv_kind = {.name = "recv", .descriptor = true};
static const struct weft__wait_kind send_kind = {.name = "send", .descriptor = true};

static int check(int fd, const struct msghdr *msg)
{
    int err = 0;
    const struct weft__fd *record = weft__fd_use(fd, &err);
    if (!record) {
        return err;
    }
    return !weft__fd_is(record, WEFT__FD_SOCKET) ? -ENOTSOCK
           : msg->msg_iovlen > IOV_MAX           ? -EMSGSIZE
                                                 : 0;
}

/* --- descriptors in control data -------------------------------------------------------------- */

static size_t fds_in(const struct cmsghdr *cmsg)
{
    return cmsg->cmsg_level == SOL_SOCKET && cmsg->cmsg_type == SCM_RIGHTS
               ? (cmsg->cmsg_len - CMSG_LEN(0)) / sizeof(int)
               : 0;
}

static int fd_at(const struct cmsghdr *cmsg, size_t i)
{
    int fd;
    memcpy(&fd, CMSG_DATA(cmsg) + i * sizeof fd, sizeof fd);
    return fd;
}

static void reset_received_fds(struct msghdr *msg)
{
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
        for (size_t i = 0; i < fds_in(cmsg); i++) {
            weft__fd_reset_unknown(fd_at(cmsg, i));
        }
    }
}

/* --- messages of any kind --------------------------------------------------------------------- */

ssize_t weft__message_recv(int fd, struct msghdr *msg, int flags, int64_t deadline)
{
    int err = check(fd, msg);
    struct weft__call call;
    weft__op_init(&call.op, fd, WEFT__OP_RECVMSG, WEFT__SIDE_IN);
    call.op.flags = flags;
    call.op.msg = msg;
    int64_t got = err ? err : weft__call_run(&call, deadline, &recv_kind);
    if (got >= 0 && msg->msg_controllen > 0) {
        reset_received_fds(msg);
    }
    return got;
}

/* A Unix socket gets an event for space at the receiver only if it is connected to that
 * receiver. */
static bool is_without_event(const struct msghdr *msg)
{
    const struct sockaddr *to = msg->msg_name;
    return to && msg->msg_namelen >= sizeof to->sa_family && to->sa_family == AF_UNIX;
}

ssize_t weft__message_send(int fd, const struct msghdr *msg, int flags, int64_t deadline)
{
    int err = check(fd, msg);
    struct weft__call call;
    weft__op_init(&call.op, fd, WEFT__OP_SENDMSG, WEFT__SIDE_OUT);
    call.op.flags = flags;
    call.op.msg = (struct msghdr *)(uintptr_t)msg;
    return err                     ? err
           : is_without_event(msg) ? weft__call_retry(&call.op, deadline, &send_kind)
                                   : weft__call_run(&call, deadline, &send_kind);
}

ssize_t weft_recvmsg(int fd, struct msghdr *msg, int flags, int64_t deadline)
{
    return flags & ~WEFT__RECV_FLAGS ? -EINVAL : weft__message_recv(fd, msg, flags, deadline);
}

ssize_t weft_sendmsg(int fd, const struct msghdr *msg, int flags, int64_t deadline)
{
    return flags & ~WEFT__SEND_FLAGS ? -EINVAL : weft__message_send(fd, msg, flags, deadline);
}

/* --- bytes and descriptors -------------------------------------------------------------------- */

union control {
    struct cmsghdr align;
    char bytes[CMSG_SPACE(WEFT_FDS_MAX * sizeof(int))];
};

ssize_t weft_send_fds(int fd, const void *buf, size_t n, const int *fds, int count,
                      int64_t deadline)
{
    struct iovec iov = {.iov_base = (void *)(uintptr_t)buf, .iov_len = n};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    union control control;
    if (count < 0 || count > WEFT_FDS_MAX || n == 0) {
        return -EINVAL;
    }
    size_t bytes = (size_t)count * sizeof *fds;
    if (count > 0) {
        memset(&control, 0, CMSG_SPACE(bytes));
        control.align.cmsg_level = SOL_SOCKET;
        control.align.cmsg_type = SCM_RIGHTS;
        control.align.cmsg_len = CMSG_LEN(bytes);
        memcpy(CMSG_DATA(&control.align), fds, bytes);
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_SPACE(bytes);
    }
    return weft__message_send(fd, &msg, 0, deadline);
}

/* Store the descriptors that fit, and close the rest. */
static int collect_fds(struct msghdr *msg, int *fds, int capacity)
{
    int taken = 0;
    for (struct cmsghdr *cmsg = CMSG_FIRSTHDR(msg); cmsg; cmsg = CMSG_NXTHDR(msg, cmsg)) {
        for (size_t i = 0; i < fds_in(cmsg); i++) {
            if (taken < capacity) {
                fds[taken++] = fd_at(cmsg, i);
            } else {
                weft_close(fd_at(cmsg, i));
            }
        }
    }
    return taken;
}

ssize_t weft_recv_fds(int fd, void *buf, size_t n, int *fds, int *count, int64_t deadline)
{
    struct iovec iov = {.iov_base = buf, .iov_len = n};
    struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
    union control control;
    int capacity = *count;
    if (capacity < 0 || capacity > WEFT_FDS_MAX) {
        return -EINVAL;
    }
    if (capacity > 0) {
        memset(&control, 0, sizeof control);
        msg.msg_control = &control;
        msg.msg_controllen = CMSG_LEN((size_t)capacity * sizeof *fds); /* no space for one more */
    }
    ssize_t got = weft__message_recv(fd, &msg, 0, deadline);
    if (got < 0) {
        return got;
    }
    *count = collect_fds(&msg, fds, capacity);
    if (msg.msg_flags & MSG_CTRUNC) {
        got = *count < capacity ? -EMFILE : -EMSGSIZE;
        while (*count > 0) {
            weft_close(fds[--*count]);
        }
    }
    return got;
}
