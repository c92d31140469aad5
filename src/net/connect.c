/* Connect a stream socket. */
#include <errno.h>
#include <sys/socket.h>

#include <weft/net.h>

#include "fdio/call.h"
#include "net/socket.h"

static const struct weft__wait_kind connect_kind = {.name = "connect", .descriptor = true};

int weft_connect(const struct weft_addr *addr, int64_t deadline)
{
    int fd = weft__socket_open(addr->storage.ss_family, SOCK_STREAM);
    if (fd < 0) {
        return fd;
    }
    struct weft__call call;
    weft__op_init(&call.op, fd, WEFT__OP_CONNECT, WEFT__SIDE_OUT);
    call.op.addr = (struct sockaddr *)(uintptr_t)&addr->storage;
    call.op.addr_len = addr->len;
    /* On a Unix socket connect succeeds or fails at once; no event reports that a full backlog has
     * space again. */
    int64_t err = addr->storage.ss_family == AF_UNIX
                      ? weft__call_retry(&call.op, deadline, &connect_kind)
                      : weft__call_run(&call, deadline, &connect_kind);
    if (err < 0) {
        weft_close(fd);
    }
    return err < 0 ? (int)err : fd;
}
