/* The registry of the process's descriptors: one record per number, in memory that is never freed.
 *
 * Readiness. Each side counts the edges that its driver has reported. A caller that finds the
 * descriptor empty (or full) stores the edge count that it had read *before* the try: as long as
 * the count has not changed, no data has arrived since, and the next call waits without trying
 * first. Data that arrives after the try produces a new edge, because the interest is
 * edge-triggered and permanent. Two users of the same side may overwrite each other's note, at
 * worst with an older one: that costs one try in vain.
 *
 *   user                                     driver, at an event
 *   1. e = edges                             1. lock
 *   2. try; would block (or a short read)    2. edges + 1
 *   3. empty_at = e                          3. unlink every wait, to be woken (io/done.h)
 *   4. lock; edges still e? link, unlock     4. unlock
 *      else unlock and try again
 *
 * Under the lock either step 4 sees the edge, or the driver sees the link: no wake-up is lost.
 *
 * The kernel reuses the number of a closed descriptor. A caller that gets a number from the kernel
 * opens its record, which resets all that was known; events in flight carry the generation that
 * they are for.
 *
 * A close may take long (SO_LINGER, a remote file system), and the kernel reuses the number before
 * close(2) returns. So close(2) is called without the lock, and the record is marked IN_CLOSE in
 * the meantime:
 *
 *   closer                          got the number from kernel   only has the number
 *   1. lock; forget; IN_CLOSE; g    1. lock                      1. g = generation
 *      unlock                       2. generation + 1,           2. inspect the descriptor
 *   2. close(2)                        registered again          3. lock; IN_CLOSE? unlock, redo 3
 *   3. lock; generation still g?    3. unlock                    4. generation still g? register it
 *      generation + 1,                                              else unlock and repeat from 1
 *      not IN_CLOSE
 *      unlock
 *
 * The second column does not wait for the first, and step 3 of the first does not touch a record
 * that has been registered again. The third column cannot tell whether the descriptor it inspected
 * is the one being closed, and might wait for events that are no longer reported: it waits until
 * the close is over. So does another close, which otherwise could free the number while the first
 * is about to close it. Neither of these two got the number from the kernel, so they use it late,
 * or got it without our knowledge.
 */
#ifndef WEFT_IO_FD_H
#define WEFT_IO_FD_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "io/done.h"
#include "io/op.h"
#include "lock/latch.h"

#define WEFT__CLOSED (-EBADFD)     /* result of a wait when the descriptor is closed */
#define WEFT__RESUBMIT (-ERESTART) /* nothing was done: submit it again, to another driver */

enum {
    WEFT__FD_REGISTERED = 1,     /* registered: the other flags are valid */
    WEFT__FD_SOCKET = 2,         /* calls use MSG_DONTWAIT: O_NONBLOCK does not matter */
    WEFT__FD_STREAM = 4,         /* a short transfer means that nothing more is available for now */
    WEFT__FD_FILE = 8,           /* always ready, and slow: a file, block device or directory */
    WEFT__FD_HUNG_UP = 16,       /* the peer has hung up: no further edge may come */
    WEFT__FD_CLOSE_PENDING = 32, /* set alone: operations in flight still use the number */
    WEFT__FD_NONBLOCK = 64,  /* O_NONBLOCK is set; for a socket it may be set without this flag */
    WEFT__FD_IN_CLOSE = 128, /* set alone: close(2) is being called */
    WEFT__FD_SHARED = 256,   /* a blocking descriptor shared with other processes, which stays
                                blocking: io/shared_fd.c */
    WEFT__FD_WATCHED = 512,  /* it has a driver that need not be notified of each wait */
};

struct weft__fd_side {
    _Atomic(uint32_t) edges;    /* written under the lock */
    _Atomic(uint32_t) empty_at; /* value of edges when the side was last found empty */
};

/* The first waiter for readiness, or the first operation that a driver has in flight. It is stored
 * in the record because usually there is no other; so the waker need not load the waiter's stack
 * into its cache. Under the lock. */
struct weft__fd_slot {
    _Atomic(struct weft__io_waiter *) waiter; /* NULL: none. Atomic because drivers prefetch it
                                                 without the lock */
    uint64_t ticket; /* the waiter's; WEFT__FD_IN_FLIGHT: the pointer is a struct weft__op */
};

#define WEFT__FD_IN_FLIGHT UINT64_MAX /* not a ticket: those have 48 bits */

static inline struct weft__io_waiter *weft__fd_slot_waiter(const struct weft__fd_slot *slot)
{
    return atomic_load_explicit(&slot->waiter, memory_order_relaxed);
}

static inline void weft__fd_slot_set(struct weft__fd_slot *slot, struct weft__io_waiter *waiter,
                                     uint64_t ticket)
{
    atomic_store_explicit(&slot->waiter, waiter, memory_order_relaxed);
    slot->ticket = ticket;
}

static inline void weft__fd_slot_clear(struct weft__fd_slot *slot)
{
    atomic_store_explicit(&slot->waiter, NULL, memory_order_relaxed);
}

static inline struct weft__op *weft__fd_slot_op(const struct weft__fd_slot *slot)
{
    return slot->ticket == WEFT__FD_IN_FLIGHT
               ? (struct weft__op *)(void *)weft__fd_slot_waiter(slot)
               : NULL;
}

static inline bool weft__fd_slot_has_op(const struct weft__fd_slot *slot, struct weft__op *op)
{
    return weft__fd_slot_waiter(slot) == (struct weft__io_waiter *)(void *)op;
}

static inline void weft__fd_slot_set_op(struct weft__fd_slot *slot, struct weft__op *op)
{
    weft__fd_slot_set(slot, (struct weft__io_waiter *)(void *)op, WEFT__FD_IN_FLIGHT);
}

/* The further operations of a side. Under the lock. */
struct weft__fd_list {
    struct weft__op *first, *last;
};

/* A close that has to wait until no operation uses the number any more. */
struct weft__fd_closer {
    bool closes; /* close the number then; false: it is only unregistered */
    int err;     /* the result of close(2) */
    /* Called at the end, on the thread that ended the last operation, without locks. The closer may
     * be freed. */
    void (*drained)(struct weft__fd_closer *closer);
};

struct weft__fd {
    /* The fields that one round of read, response and next wait needs: one cache line. */
    alignas(64) struct weft__latch lock;
    _Atomic(uint16_t) flags;      /* WEFT__FD_...; written under the lock */
    bool listed;                  /* at least one of the lists is not empty; under the lock */
    _Atomic(uint32_t) generation; /* written under the lock */
    int number;
    struct weft__fd_side side[2]; /* indexed by enum weft__side, as are the next two */
    struct weft__fd_slot slot[2]; /* under the lock */
    /* Less frequently used fields. */
    struct weft__driver *driver; /* reports its readiness; NULL: none yet; under the lock */
    struct weft__fd_list list[2];
    struct weft__fd_closer *closer;              /* under the lock */
    struct weft__fd *next_watched, **at_watched; /* used by the poll driver, under its lock */
};

#ifndef WEFT_EXPLORE
_Static_assert(sizeof(struct weft__fd) == 128, "two cache lines");
_Static_assert(offsetof(struct weft__fd, driver) == 64, "the first one");
#endif

#define WEFT__FD_PAGE 512u /* records that are allocated together */
#define WEFT__FD_PAGES 8192u

extern _Atomic(struct weft__fd *) weft__fd_pages[WEFT__FD_PAGES];
struct weft__fd *weft__fd_page_make(unsigned index);

/* The record of a number. NULL: no memory, or the number is beyond the table (4 million). */
static inline struct weft__fd *weft__fd_record(int fd)
{
    unsigned index = (unsigned)fd / WEFT__FD_PAGE;
    if (__builtin_expect(index >= WEFT__FD_PAGES, 0)) {
        return NULL;
    }
    struct weft__fd *page = atomic_load_explicit(&weft__fd_pages[index], memory_order_acquire);
    page = __builtin_expect(page != NULL, 1) ? page : weft__fd_page_make(index);
    return page ? page + (unsigned)fd % WEFT__FD_PAGE : NULL;
}

/* As weft__fd_record, but NULL if the page of the number was never used: allocates nothing. */
struct weft__fd *weft__fd_find(int fd);

/* Register a number that a call of ours has just got from the kernel, with these flags. -ENOMEM. */
int weft__fd_open(int fd, unsigned flags);
/* The record of a descriptor about to be used; a descriptor that Weft did not create is inspected
 * and registered first. NULL with -EBADF or -ENOMEM in *err. */
struct weft__fd *weft__fd_use_unknown(int fd, int *err);
/* A call of ours has got this number from the kernel without knowing its kind: reset the record, so
 * that the descriptor is inspected at its first use. */
void weft__fd_reset_unknown(int fd);
/* A file was closed without our knowledge and its number is reused: reset the record, so that the
 * descriptor is inspected again at its next use. False: an operation on the file still uses the
 * number. */
bool weft__fd_invalidate(struct weft__fd *record);
/* Set O_NONBLOCK on a registered descriptor, for system calls that have no flag for it. 0 or an
 * errno. */
int weft__fd_unblock(struct weft__fd *record);
/* Inspect a descriptor and get its flags. -EBADF. Does not wait. */
int weft__fd_inspect(int fd, unsigned *flags);
/* As weft__op_perform, for a SHARED descriptor: does not block on it either. */
int64_t weft__fd_perform_shared(struct weft__fd *record, struct weft__op *op);
/* Give up a SHARED descriptor. Returns the descriptor that was reopened for our own use, for the
 * caller to close; -1: none. */
int weft__fd_take_reopened(const struct weft__fd *record);
/* End every wait with WEFT__CLOSED and unregister the descriptor, which the caller then closes or
 * hands to other code. True: only after the closer was called, because drivers still have
 * operations that use the number; these are being cancelled. */
bool weft__fd_forget(struct weft__fd *record, struct weft__fd_closer *closer,
                     struct weft__driver *here, struct weft__io_done *done);
/* As weft__fd_forget, and close the descriptor; no other caller can register the number in between
 * and then wait for events that never come. *err: of close(2). True: it is closed when the last
 * operation has ended, if the closer says so. */
bool weft__fd_forget_and_close(struct weft__fd *record, struct weft__fd_closer *closer,
                               struct weft__driver *here, struct weft__io_done *done, int *err);
/* As weft__fd_forget_and_close, without waiting: closes now, or when the last operation in flight
 * ends. -EBADF, -ENOMEM. */
int weft__fd_close(int fd, struct weft__driver *here, struct weft__io_done *done);
/* close(2), and nothing else. */
int weft__fd_close_number(int fd);
/* Make this driver the one that reports the descriptor's readiness. -EBUSY: it has another driver;
 * WEFT__CLOSED: it is no longer registered. */
int weft__fd_claim(struct weft__fd *record, struct weft__driver *driver);

static inline bool weft__fd_is(const struct weft__fd *record, unsigned flag)
{
    return (atomic_load_explicit(&record->flags, memory_order_acquire) & flag) != 0;
}

/* Whether a short transfer means that nothing more is available for now: on a stream whose peer has
 * not hung up. */
static inline bool weft__fd_short_means_empty(const struct weft__fd *record)
{
    return (atomic_load_explicit(&record->flags, memory_order_relaxed) &
            (WEFT__FD_STREAM | WEFT__FD_HUNG_UP)) == WEFT__FD_STREAM;
}

/* The flags of a new socket. Only on TCP does a short read mean that the socket is empty: a read
 * from a Unix socket also stops after bytes that carry a descriptor. */
static inline unsigned weft__fd_socket_flags(int family, int type)
{
    bool tcp = type == SOCK_STREAM && (family == AF_INET || family == AF_INET6);
    return WEFT__FD_SOCKET | (tcp ? WEFT__FD_STREAM : 0);
}

/* A pipe or FIFO: writing to it may raise SIGPIPE. */
static inline bool weft__fd_is_pipe(const struct weft__fd *record)
{
    uint32_t flags = atomic_load_explicit(&record->flags, memory_order_acquire);
    return (flags & (WEFT__FD_STREAM | WEFT__FD_SOCKET)) == WEFT__FD_STREAM;
}

/* Whether no driver completes the operation, because the kernel has none or only one that raises a
 * signal. The operation is then performed by a system call once the descriptor is ready. */
static inline bool weft__fd_must_perform(const struct weft__fd *record, const struct weft__op *op)
{
    return op->code == WEFT__OP_SENDFILE ||
           (op->code == WEFT__OP_WRITE && weft__fd_is_pipe(record));
}

static inline uint32_t weft__fd_generation(const struct weft__fd *record)
{
    return atomic_load_explicit(&record->generation, memory_order_relaxed);
}

/* The record of a number if it is registered and has all of these flags; else NULL: weft__fd_use
 * gives the details. */
static inline struct weft__fd *weft__fd_find_registered(int fd, unsigned flags)
{
    unsigned index = (unsigned)fd / WEFT__FD_PAGE;
    if (__builtin_expect(index >= WEFT__FD_PAGES, 0)) {
        return NULL;
    }
    struct weft__fd *page = atomic_load_explicit(&weft__fd_pages[index], memory_order_acquire);
    if (__builtin_expect(!page, 0)) {
        return NULL;
    }
    struct weft__fd *record = page + (unsigned)fd % WEFT__FD_PAGE;
    flags |= WEFT__FD_REGISTERED;
    /* pairs: open_locked */
    return (atomic_load_explicit(&record->flags, memory_order_acquire) & flags) == flags ? record
                                                                                         : NULL;
}

static inline struct weft__fd *weft__fd_use(int fd, int *err)
{
    struct weft__fd *record = weft__fd_record(fd);
    return __builtin_expect(record && weft__fd_is(record, WEFT__FD_REGISTERED), 1)
               ? record
               : weft__fd_use_unknown(fd, err);
}

static inline int64_t weft__fd_perform(struct weft__fd *record, struct weft__op *op)
{
    return (op->code == WEFT__OP_READ || op->code == WEFT__OP_WRITE) &&
                   weft__fd_is(record, WEFT__FD_SHARED)
               ? weft__fd_perform_shared(record, op)
               : weft__op_perform(op);
}

/* Nothing has arrived since the side was found empty. */
static inline bool weft__fd_is_empty_at(const struct weft__fd_side *side, uint32_t edges)
{
    return atomic_load_explicit(&side->empty_at, memory_order_relaxed) == edges;
}

static inline uint32_t weft__fd_edges(const struct weft__fd_side *side)
{
    return atomic_load_explicit(&side->edges, memory_order_acquire); /* pairs: weft__fd_report */
}

static inline void weft__fd_note_empty(struct weft__fd_side *side, uint32_t edges)
{
    atomic_store_explicit(&side->empty_at, edges, memory_order_relaxed);
}

/* Link a wait, unless there was an edge after `edges`, or the generation of the number has changed:
 * then -EAGAIN, and the caller tries again. A record without a driver gets `driver`, the calling
 * thread's. WEFT__CLOSED: the descriptor is no longer registered. Or the driver's error. */
int weft__fd_link(struct weft__fd *record, struct weft__op *op, uint32_t generation, uint32_t edges,
                  struct weft__driver *driver);
/* Undo weft__fd_wait (io/edge.h), by which a fiber waits without an operation. */
void weft__fd_cancel_wait(struct weft__fd *record, enum weft__side side,
                          const struct weft__io_waiter *waiter, uint64_t ticket,
                          struct weft__driver *here);
/* Undo weft__fd_link. False: the wait was completed. `here`: the calling thread's driver, or NULL,
 * here and below. */
bool weft__fd_unlink(struct weft__fd *record, struct weft__op *op, struct weft__driver *here);

/* Under the lock. */
void weft__fd_push_locked(struct weft__fd *record, struct weft__op *op);
void weft__fd_remove_locked(struct weft__fd *record, struct weft__op *op);
/* Iterate over the operations of a side, those in flight first: the one after `op`; op NULL: the
 * first. */
struct weft__op *weft__fd_next_locked(const struct weft__fd *record, enum weft__side side,
                                      const struct weft__op *op);
/* Whether a fiber waits for readiness without an operation. */
static inline bool weft__fd_is_waited_locked(const struct weft__fd *record, enum weft__side side)
{
    return weft__fd_slot_waiter(&record->slot[side]) &&
           record->slot[side].ticket != WEFT__FD_IN_FLIGHT;
}

/* The driver's thread stops for a while: detach all records from the driver, make its readiness
 * waits try again, and cancel its operations in flight with WEFT__RESUBMIT. */
void weft__fd_evict(struct weft__driver *driver, struct weft__io_done *done);
/* The driver is about to be closed: detach all records from it. */
void weft__fd_detach_driver(struct weft__driver *driver);
/* In a forked child, which has no drivers. */
void weft__fd_fork_child(void);

#endif
