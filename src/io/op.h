/* An operation on a descriptor: what is to be done, with whose bytes, and whom to tell when it is
 * over.
 *
 * The memory is the caller's. From submit until `complete` is called it belongs to the driver that
 * took it, and with it the caller's buffer. A readiness wait (WEFT__OP_READY) on a driver that only
 * reports readiness is different: it is linked into the descriptor's record (io/fd.h), and whoever
 * linked it may take it back under the record's lock.
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
    WEFT__OP_READY, /* result: 0, the descriptor may be ready in `side` */
    WEFT__OP_READ,  /* iov of any descriptor that is no socket */
    WEFT__OP_WRITE,
    /* On files and paths, which are below `fd` (AT_FDCWD, or the record of a directory): slow,
     * never "not ready". */
    WEFT__OP_OPEN,     /* path, how */
    WEFT__OP_STAT,     /* path, statx, mask; flags: AT_... */
    WEFT__OP_SYNC,     /* flags: 1, data only */
    WEFT__OP_TRUNCATE, /* offset: the new length */
    WEFT__OP_RENAME,   /* path, to_fd, to; flags: RENAME_... */
    WEFT__OP_UNLINK,   /* path; flags: AT_... */
    WEFT__OP_MKDIR,    /* path, mask: the mode */
    WEFT__OP_RECV,     /* buf of a stream socket */
    WEFT__OP_SEND,
    WEFT__OP_RECVMSG, /* msg */
    WEFT__OP_SENDMSG,
    WEFT__OP_ACCEPT,   /* addr, if it is wanted; the new descriptor does not block and is closed by
                          exec */
    WEFT__OP_CONNECT,  /* addr */
    WEFT__OP_SENDFILE, /* count bytes of the file `from`, at offset; no driver completes it: it is
                          performed */
};

enum weft__side {
    WEFT__SIDE_IN,  /* read, accept */
    WEFT__SIDE_OUT, /* write, connect */
};

/* Whether its end is asked for: set under the driver's lock. Over: it is not to be asked for any
 * more. */
enum weft__op_fate { WEFT__OP_FREE, WEFT__OP_ASKED, WEFT__OP_OVER };

/* Of an operation that a fiber waits for: net/ending.h. */
struct weft__ending {
    _Atomic(uint64_t) word;
};

struct weft__op {
    /* Told once, when it is over and `result` is there; by the thread that polls, or that closes.
     * Short; it may be under the lock of the descriptor's record. `ready` is what was given to the
     * poll. */
    void (*complete)(struct weft__op *op, void *ready);
    int64_t result;
    struct weft__fd *record; /* of the descriptor, if it has one; the uring driver's */
    int fd;
    uint8_t code; /* enum weft__op_code */
    uint8_t side; /* enum weft__side */
    bool linked;  /* in the record, under its lock */
    bool late;    /* a thread does it: linked into the record, but in no driver */
    bool in_vain; /* of RECV: a first try would find nothing, as far as is known */
    /* The driver's. */
    _Atomic(uint8_t) fate; /* enum weft__op_fate */
    bool closed;           /* the descriptor is closed; under the record's lock */
    bool moved;            /* it is to begin anew elsewhere; under the record's lock */
    /* The uring driver's: */
    bool polls;      /* it would have blocked, and waits for readiness first */
    bool ending;     /* a cancel is under way */
    bool off_thread; /* one of the kernel's threads does it, without a first attempt */
    void *fiber;     /* who waits for it, and for what of it; the caller's */
    struct weft__ending end;
    /* So far what its end needs. */
    struct weft__op *next, *prev; /* of those that are listed in the record, under its lock */
    struct weft__driver *driver;  /* that has it, or whose interest it waits for */
    int flags; /* of the system call, besides those that are always there; READ, WRITE: RWF_... */
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
    int64_t offset; /* of READ and WRITE; -1: where the file is */

    struct weft__op *next_asked;            /* under the driver's lock */
    struct weft__op *next_kept, *prev_kept; /* the uring driver's: in its backlog, or cancelled */
};

/* The fields that every operation has; the rest is the code's own, and the driver's. */
static inline void weft__op_init(struct weft__op *op, int fd, enum weft__op_code code,
                                 enum weft__side side)
{
    op->fd = fd;
    op->code = (uint8_t)code;
    op->side = (uint8_t)side;
    op->flags = 0;
    op->offset = -1;
    op->late = op->linked = op->in_vain = false;
}

/* Does it now, without waiting. The result, or -EAGAIN. EINTR is not seen: the call is made again,
 * nor is SIGPIPE. For CONNECT it begins (-EINPROGRESS), and once the descriptor is writable
 * weft__op_connected says how it went; -EAGAIN is an error of it, for which no event comes. */
int64_t weft__op_perform(struct weft__op *op);

/* What a connect that was in progress has come to. */
int weft__op_connected(int fd) __attribute__((noinline)); /* asks for errno: as weft__plain_error */

#endif
