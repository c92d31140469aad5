/* An operation on a descriptor: the system call to perform, its buffers, and who waits for it.
 *
 * The memory belongs to the caller. From submit until the driver's dispatch returns the operation
 * as finished (io/done.h), the operation and the caller's buffer belong to the driver that took it.
 * A readiness wait (WEFT__OP_READY) on a driver that only reports readiness is different: it is
 * linked into the descriptor's record (io/fd.h), and its owner may unlink it under the record's
 * lock.
 */
#ifndef WEFT_IO_OP_H
#define WEFT_IO_OP_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/types.h>
#include <sys/uio.h>

#include "base/atomic.h"

struct open_how;
struct statx;
struct weft__driver;
struct weft__fd;

enum weft__op_code {
    WEFT__OP_READY, /* result: 0, `side` of the descriptor may be ready */
    WEFT__OP_READ,  /* iov; for every descriptor that is not a socket */
    WEFT__OP_WRITE,
    /* Operations on files and on paths, relative to `fd` (AT_FDCWD, or the record of a directory).
     * They are slow and never "not ready". */
    WEFT__OP_OPEN,     /* path, how */
    WEFT__OP_STAT,     /* path, statx, mask; flags: AT_... */
    WEFT__OP_SYNC,     /* flags: 1, data only */
    WEFT__OP_TRUNCATE, /* offset: the new length */
    WEFT__OP_RENAME,   /* path, to_fd, to; flags: RENAME_... */
    WEFT__OP_UNLINK,   /* path; flags: AT_... */
    WEFT__OP_MKDIR,    /* path, mask: the mode */
    WEFT__OP_RECV,     /* buf; for sockets */
    WEFT__OP_SEND,
    WEFT__OP_RECVMSG, /* msg */
    WEFT__OP_SENDMSG,
    WEFT__OP_ACCEPT,   /* addr, or NULL; the new descriptor is non-blocking and close-on-exec */
    WEFT__OP_CONNECT,  /* addr */
    WEFT__OP_SENDFILE, /* `count` bytes of the file `from` at offset; no driver completes it: it
                          is performed by a system call */
};

enum weft__side {
    WEFT__SIDE_IN,  /* read, accept */
    WEFT__SIDE_OUT, /* write, connect */
};

/* Whether cancellation is requested: set under the driver's lock. FINISHED: cancellation must not
 * be requested any more. */
enum weft__op_cancel_state { WEFT__OP_CANCEL_NONE, WEFT__OP_CANCEL_REQUESTED, WEFT__OP_FINISHED };

/* What is woken with a ticket. This folder stores waiters and hands them back, and never
 * looks inside; the struct is defined nowhere: sched/io_wake.h converts tasks. */
struct weft__io_waiter;

/* One wait: a waiter and the ticket of its wait. */
struct weft__io_wait {
    struct weft__io_waiter *waiter;
    _Atomic(uint64_t) word; /* the ticket; if a driver completes the operation, the state of the
                               wait, which belongs to the waiter's side: sched/op_state.h */
};

struct weft__op_queue;

struct weft__op {
    struct weft__op_queue *queue; /* receives the operation when its wait for readiness has ended
                                     (io/op_queue.h); NULL: `wait` is woken */
    int64_t result;
    struct weft__fd *record; /* the descriptor's record, if it has one; used by the uring driver */
    int fd;
    uint8_t code;      /* enum weft__op_code */
    uint8_t side;      /* enum weft__side */
    bool linked;       /* in the record; under its lock */
    bool on_thread;    /* performed by a thread: linked into the record, but in no driver */
    bool likely_empty; /* RECV: a first try would probably find nothing */
    /* Set by the driver: */
    _Atomic(uint8_t) cancel_state; /* enum weft__op_cancel_state */
    bool closed;                   /* the descriptor is closed; under the record's lock */
    bool resubmit; /* to be submitted again to another driver; under the record's lock */
    /* Used by the uring driver: */
    bool awaits_ready; /* it would have blocked, and first waits for readiness */
    bool cancelling;   /* a cancellation was submitted */
    bool force_async;  /* submitted to the kernel's worker threads, without a non-blocking try
                        first */
    struct weft__io_wait wait; /* set by the caller */
    struct weft__op *next;     /* in the record's list, under its lock; then in a list of finished
                                  operations */
    /* The completion path needs the fields above only. */
    struct weft__op *prev;       /* in the record's list; under its lock */
    struct weft__driver *driver; /* the driver that has the operation, or that reports its
                                     readiness */
    int flags; /* flags of the system call, besides those that are always set; READ, WRITE:
                  RWF_... */
    union {
        struct {
            void *buf;
            size_t len;
        };
        struct {
            const struct iovec *iov;
            int iov_count;
        };
        struct msghdr *msg;
        struct {
            struct sockaddr *addr;
            socklen_t addr_len;
        };
        struct {
            int from;
            size_t count;
        };
        struct {
            const char *path;
            union {
                struct open_how *how;
                struct statx *statx;
                const char *to;
            };
            int to_fd;
            unsigned mask;
        };
    };
    int64_t offset; /* READ and WRITE; -1: the current file position */

    struct weft__op *next_cancel_request;       /* under the driver's lock */
    struct weft__op *next_queued, *prev_queued; /* used by the uring driver: in its backlog, or in
                                               its list of cancelled ones */
};

#ifndef WEFT_EXPLORE
_Static_assert(offsetof(struct weft__op, prev) == 64, "the completion path needs one cache line");
#endif

/* Initialise the fields that every operation has; the caller sets those of the code, the driver its
 * own. */
static inline void weft__op_init(struct weft__op *op, int fd, enum weft__op_code code,
                                 enum weft__side side)
{
    op->fd = fd;
    op->code = (uint8_t)code;
    op->side = (uint8_t)side;
    op->flags = 0;
    op->offset = -1;
    op->on_thread = op->linked = op->likely_empty = false;
    op->queue = NULL;
}

/* Perform the operation now, without waiting. Returns the result, or -EAGAIN. EINTR never occurs,
 * because the call is repeated, and neither does SIGPIPE. CONNECT is only begun (-EINPROGRESS), and
 * once the descriptor is writable weft__op_connect_result returns the outcome; -EAGAIN from it is
 * an error for which no event will come. */
int64_t weft__op_perform(struct weft__op *op);

/* The outcome of a connect that was in progress. */
int weft__op_connect_result(int fd)
    __attribute__((noinline)); /* reads errno: see weft__raw_errno */

#endif
