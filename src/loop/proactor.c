/* Operations with a completion handler. With a driver that does not complete operations, they are
 * performed here: tried at the next turn, in the order in which they were started, linked if they
 * would block, and tried again at an edge. A cancel is one more try, after which the operation does
 * not wait: so data that arrived before the cancel counts, as it does when the kernel performs the
 * operation.
 *
 * The kernel does not preserve the order of two reads of one socket: only the first operation of a
 * side is submitted to it, and the others queue after that one.
 */
#include <weft/loop.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/nonnull.h"
#include "loop/loop.h"

enum state { IDLE, IN_PROGRESS, ENDED };

struct op {
    int64_t result; /* these two are public */
    void *arg;
    struct weft__loop_item item;
    weft_op_fn fn;
    struct iovec iov;       /* READ and WRITE */
    struct weft_addr *peer; /* ACCEPT */
    uint16_t kind;          /* ACCEPT: the flags of the accepted socket, WEFT__FD_... */
    struct weft__list link; /* in todo, done or hand */
    uint64_t sequence;      /* counts the starts */
    struct op *queue_next;  /* the next in the queue, not yet submitted */
    struct op *queue_prev;  /* the previous in the queue; NULL: this one was submitted */
    uint32_t generation;    /* of the descriptor's record at the start */
    uint8_t state;          /* enum state */
    bool connecting;        /* a connect in progress */
    bool cancelling;        /* cancelled */
};
_Static_assert(sizeof(struct op) <= sizeof(weft_op), "an operation fits");
_Static_assert(offsetof(struct op, result) == offsetof(weft_op, result) &&
                   offsetof(struct op, arg) == offsetof(weft_op, arg),
               "the public fields");

static struct op *of(weft_op *op)
{
    return (struct op *)(void *)op;
}

static struct op *of_link(struct weft__list *link)
{
    return link ? WEFT__LIST_OF(link, struct op, link) : NULL;
}

static struct op *of_item(struct weft__loop_item *item)
{
    return (struct op *)(void *)((char *)item - offsetof(struct op, item));
}

static void woken(struct weft__loop_item *item);

void weft_op_init(weft_op *op, weft_loop *loop, weft_op_fn fn, void *arg)
{
    *of(op) = (struct op){
        .item = {.op = {.queue = &loop->woken}, .loop = loop, .woken = woken},
        .fn = fn,
        .arg = arg,
    };
    weft__list_init(&of(op)->link);
}

/* --- completion ------------------------------------------------------------------------- */

static int64_t accepted(struct op *op, int64_t fd)
{
    int err = weft__fd_open((int)fd, op->kind);
    if (err) {
        close((int)fd);
        return err;
    }
    if (op->peer) {
        op->peer->len = op->item.op.addr_len;
    }
    return fd;
}

static void finish(struct op *op, int64_t result)
{
    if (op->item.op.code == WEFT__OP_ACCEPT && result >= 0) {
        result = accepted(op, result);
    } else if (op->item.op.code == WEFT__OP_READY && result == 0) {
        result = op->item.op.side == WEFT__SIDE_IN ? WEFT_READABLE : WEFT_WRITABLE;
    }
    op->result = result;
    op->state = ENDED;
    weft__list_push(&op->item.loop->done, &op->link);
}

static bool is_closed(const struct op *op)
{
    return weft__fd_generation(weft__fd_record(op->item.op.fd)) != op->generation;
}

static void submit(struct op *op)
{
    weft_loop *loop = op->item.loop;
    loop->dirty = true;
    weft__loop_submit(loop, &op->item.op);
}

/* The next operation in the queue takes its place. */
static void leave_queue(struct op *op)
{
    if (op->queue_prev) {
        op->queue_prev->queue_next = op->queue_next;
    }
    if (op->queue_next) {
        op->queue_next->queue_prev = op->queue_prev;
    }
    op->queue_prev = op->queue_next = NULL;
}

static void end(struct op *op, int64_t result)
{
    struct op *next = op->queue_next;
    leave_queue(op);
    finish(op, result);
    while ((op = next) && is_closed(op)) {
        next = op->queue_next;
        leave_queue(op);
        finish(op, WEFT__CLOSED);
    }
    if (op) {
        submit(op);
    }
}

/* The first of this loop's operations that the driver has on the same side of the descriptor, not
 * counting waits for readiness; NULL: none. */
static struct op *first_in_queue(const struct op *op)
{
    struct weft__fd *record = weft__fd_record(op->item.op.fd);
    weft__latch_lock(&record->lock);
    enum weft__side side = (enum weft__side)op->item.op.side;
    struct weft__op *at = weft__fd_next_locked(record, side, NULL);
    while (at && (at->queue != &op->item.loop->woken || at->code == WEFT__OP_READY)) {
        at = weft__fd_next_locked(record, side, at);
    }
    weft__latch_unlock(&record->lock);
    return at ? of_item((struct weft__loop_item *)(void *)at) : NULL;
}

/* --- with drivers that report readiness --------------------------------------------------- */

static int64_t poll_side(const struct weft__op *op)
{
    struct pollfd pfd = {.fd = op->fd,
                         .events = op->side == WEFT__SIDE_IN ? POLLIN | POLLRDHUP : POLLOUT};
    int n = poll(&pfd, 1, 0);
    int sides = n > 0 ? weft__loop_sides(pfd.revents) : 0;
    return sides < 0 ? sides : sides & 1 << op->side ? 0 : -EAGAIN;
}

static int64_t perform(struct op *op)
{
    if (op->item.op.code == WEFT__OP_READY) {
        return poll_side(&op->item.op);
    }
    if (op->item.op.code != WEFT__OP_CONNECT) {
        return weft__fd_perform(weft__fd_record(op->item.op.fd), &op->item.op);
    }
    if (op->connecting) {
        int64_t writable = poll_side(&op->item.op);
        return writable ? writable : weft__op_connect_result(op->item.op.fd);
    }
    int64_t result = weft__fd_perform(weft__fd_record(op->item.op.fd), &op->item.op);
    op->connecting = result == -EINPROGRESS;
    return op->connecting ? -EAGAIN : result;
}

/* Whether earlier operations are waiting. Sequence numbers do not wrap during the life of a
 * loop. */
static bool has_to_queue(const struct op *op)
{
    const struct op *first = op->item.op.code == WEFT__OP_READY ? NULL : first_in_queue(op);
    return first && first->sequence < op->sequence;
}

static void attempt(struct op *op)
{
    struct weft__fd *record = weft__fd_record(op->item.op.fd);
    int err = 0;
    do {
        if (is_closed(op)) {
            end(op, WEFT__CLOSED);
            return;
        }
        uint32_t edges = weft__fd_edges(&record->side[op->item.op.side]);
        int64_t result = has_to_queue(op) ? -EAGAIN : perform(op);
        if (result != -EAGAIN) {
            end(op, result);
            return;
        }
        if (op->cancelling) {
            end(op, -ECANCELED);
            return;
        }
        err = weft__loop_claim(op->item.loop, record);
        err =
            err ? err : weft__loop_link(op->item.loop, record, &op->item.op, op->generation, edges);
        if (!err) {
            return;
        }
    } while (err == -EAGAIN);
    end(op, err);
}

static void woken(struct weft__loop_item *item)
{
    struct op *op = of_item(item);
    if (item->loop->completes || item->op.result != 0) {
        end(op, item->op.result);
    } else {
        attempt(op);
    }
}

void weft__proactor_try(weft_loop *loop)
{
    struct weft__list now;
    struct op *op;
    weft__list_take(&now, &loop->todo);
    while ((op = of_link(weft__list_pop(&now)))) {
        attempt(op);
    }
}

/* --- start ---------------------------------------------------------------------------------- */

/* Accept and connect have no flag for non-blocking mode. */
static int make_nonblocking(const struct weft__op *op)
{
    if (op->code != WEFT__OP_ACCEPT && op->code != WEFT__OP_CONNECT) {
        return 0;
    }
    int mode = fcntl(op->fd, F_GETFL);
    return mode < 0 || (!(mode & O_NONBLOCK) && fcntl(op->fd, F_SETFL, mode | O_NONBLOCK) != 0)
               ? -errno
               : 0;
}

/* False: there is no queue. */
static bool join_queue(struct op *op)
{
    struct op *last = first_in_queue(op);
    if (!last) {
        return false;
    }
    while (last->queue_next) {
        last = last->queue_next;
    }
    last->queue_next = op;
    op->queue_prev = last;
    return true;
}

static int start(struct op *op, enum weft__op_code code, enum weft__side side, int fd)
{
    weft_loop *loop = op->item.loop;
    int err = 0;
    struct weft__fd *record = weft__fd_use(fd, &err);
    if (!record) {
        return err;
    }
    op->item.op.fd = fd;
    op->item.op.code = (uint8_t)code;
    op->item.op.side = (uint8_t)side;
    op->item.op.result = 0;
    op->generation = weft__fd_generation(record);
    op->queue_next = op->queue_prev = NULL;
    op->connecting = op->cancelling = false;
    op->kind = WEFT__FD_SOCKET | (weft__fd_is(record, WEFT__FD_STREAM) ? WEFT__FD_STREAM : 0);
    err = loop->completes ? 0 : make_nonblocking(&op->item.op);
    if (err) {
        return err;
    }
    op->state = IN_PROGRESS;
    loop->ops++;
    op->sequence = loop->started++;
    if (!loop->completes) {
        weft__list_push(&loop->todo, &op->link);
    } else if (code == WEFT__OP_READY || !join_queue(op)) {
        submit(op);
    }
    return 0;
}

static struct weft__op *require_idle(weft_op *op)
{
    WEFT__REQUIRE(of(op)->state == IDLE, "an operation is started again before it was delivered");
    return &of(op)->item.op;
}

static int start_vector(weft_op *op, enum weft__op_code code, enum weft__side side, int fd,
                        const void *buf, size_t n, int64_t offset)
{
    struct weft__op *inner = require_idle(op);
    of(op)->iov = (struct iovec){.iov_base = (void *)(uintptr_t)buf, .iov_len = n};
    inner->iov = &of(op)->iov;
    inner->iov_count = 1;
    inner->offset = offset;
    inner->flags = 0;
    return start(of(op), code, side, fd);
}

static int start_socket(weft_op *op, enum weft__op_code code, enum weft__side side, int fd,
                        const void *buf, size_t n, int flags)
{
    struct weft__op *inner = require_idle(op);
    inner->buf = (void *)(uintptr_t)buf;
    inner->len = n;
    inner->flags = flags;
    return start(of(op), code, side, fd);
}

static bool is_socket(int fd)
{
    int err;
    const struct weft__fd *record = weft__fd_use(fd, &err);
    return record && weft__fd_is(record, WEFT__FD_SOCKET);
}

/* Sockets are called with flags that prevent blocking and signals, whatever their mode. */
static int start_transfer(weft_op *op, enum weft__side side, int fd, const void *buf, size_t n,
                          int64_t offset, int flags)
{
    bool in = side == WEFT__SIDE_IN;
    if (is_socket(fd)) {
        return offset != -1
                   ? offset < -1 ? -EINVAL : -ESPIPE
                   : start_socket(op, in ? WEFT__OP_RECV : WEFT__OP_SEND, side, fd, buf, n, flags);
    }
    return offset < -1 || flags
               ? -EINVAL
               : start_vector(op, in ? WEFT__OP_READ : WEFT__OP_WRITE, side, fd, buf, n, offset);
}

int weft_op_read(weft_op *op, int fd, void *buf, size_t n, int64_t offset, int flags)
{
    return start_transfer(op, WEFT__SIDE_IN, fd, buf, n, offset, flags);
}

int weft_op_write(weft_op *op, int fd, const void *buf, size_t n, int64_t offset, int flags)
{
    return start_transfer(op, WEFT__SIDE_OUT, fd, buf, n, offset, flags);
}

int weft_op_accept(weft_op *op, int fd, struct weft_addr *peer)
{
    struct weft__op *inner = require_idle(op);
    of(op)->peer = peer;
    inner->addr = peer ? (struct sockaddr *)&peer->storage : NULL;
    inner->addr_len = peer ? sizeof peer->storage : 0;
    return start(of(op), WEFT__OP_ACCEPT, WEFT__SIDE_IN, fd);
}

int weft_op_connect(weft_op *op, int fd, const struct weft_addr *addr)
{
    struct weft__op *inner = require_idle(op);
    inner->addr = (struct sockaddr *)(uintptr_t)&addr->storage;
    inner->addr_len = addr->len;
    return start(of(op), WEFT__OP_CONNECT, WEFT__SIDE_OUT, fd);
}

int weft_op_poll(weft_op *op, int fd, int events)
{
    require_idle(op);
    if (events != WEFT_READABLE && events != WEFT_WRITABLE) {
        return -EINVAL;
    }
    return start(of(op), WEFT__OP_READY, events == WEFT_READABLE ? WEFT__SIDE_IN : WEFT__SIDE_OUT,
                 fd);
}

int weft_op_socket(const struct weft_addr *addr)
{
    int fd = socket(addr->storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) {
        return -errno;
    }
    int err = weft__fd_open(fd, weft__fd_socket_flags(addr->storage.ss_family, SOCK_STREAM));
    if (err) {
        close(fd);
    }
    return err ? err : fd;
}

/* --- cancel and deliver ----------------------------------------------------------------------- */

int weft_op_cancel(weft_op *public)
{
    struct op *op = of(public);
    weft_loop *loop = op->item.loop;
    if (op->state != IN_PROGRESS) {
        return op->state == ENDED ? -EALREADY : -ENOENT;
    }
    if (op->cancelling) {
        return 0;
    }
    op->cancelling = true;
    if (op->queue_prev) {
        leave_queue(op);
        finish(op, -ECANCELED);
    } else if (loop->completes) {
        loop->dirty = true;
        weft__driver_request_cancel(loop->driver, &op->item.op);
    } else if (weft__fd_unlink(weft__fd_record(op->item.op.fd), &op->item.op,
                               weft__loop_here(loop))) {
        weft__list_push(&loop->todo, &op->link);
    } /* else it is tried in this turn or the next anyway */
    return 0;
}

int weft__proactor_deliver(weft_loop *loop)
{
    struct weft__list now;
    struct op *op;
    int n = 0;
    weft__list_take(&now, &loop->done);
    while ((op = of_link(weft__list_pop(&now)))) {
        n++;
        if (!op->fn) {
            weft__list_push(&loop->completed, &op->link);
            continue;
        }
        op->state = IDLE;
        loop->ops--;
        op->fn((weft_op *)(void *)op, op->result, op->arg); /* op may be freed */
    }
    return n;
}

weft_op *weft_loop_poll_completion(weft_loop *loop)
{
    WEFT__NONNULL(loop);
    struct op *op = of_link(weft__list_pop(&loop->completed));
    if (op) {
        op->state = IDLE;
        loop->ops--;
    }
    return (weft_op *)(void *)op;
}
