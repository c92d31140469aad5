/* What is known of each descriptor of the process: one record per number, in memory that is never
 * given back.
 *
 * Readiness. Each side counts the edges that its driver has reported. Whoever finds the descriptor
 * empty (or full) notes which count it had read *before* it tried: as long as the count is still
 * that, nothing has come since, and a next call need not be tried but waits. What comes after the
 * look makes a new edge, because interest is edge-triggered and stays. Two who use the same side
 * may overwrite each other's note, with an older one at worst: then a call is tried in vain.
 *
 *   user                                     driver, at an event
 *   1. e = edges                             1. lock
 *   2. try; would block (or a short read)    2. edges + 1
 *   3. empty_at = e                          3. complete whoever is linked
 *   4. lock; edges still e? link, unlock     4. unlock
 *      else unlock and try again
 *
 * Under the lock either 4 sees the edge, or the driver sees the link: no wake-up is lost.
 *
 * The number of a closed descriptor is used again. Whoever gets one from the kernel opens the
 * record, which forgets all that was known; events that are still under way name the generation
 * that they are for.
 *
 * A close may take long (SO_LINGER, a file system far away), and the kernel gives the number away
 * before it is through. So close(2) is called without the lock, and the record says SHUTTING
 * meanwhile:
 *
 *   who closes                      who got it from the kernel   who only has the number
 *   1. lock; forget; SHUTTING; g    1. lock                      1. g = generation
 *      unlock                       2. generation + 1,           2. looks what it is
 *   2. close(2)                        known anew                3. lock; SHUTTING? unlock, 3 again
 *   3. lock; generation still g?    3. unlock                    4. generation still g? it is known
 *      generation + 1,                                              else unlock and look again
 *      not SHUTTING
 *      unlock
 *
 * The second does not wait for the first, and 3 of the first leaves alone what is not its own any
 * more. The third cannot tell whether what it has looked at is what is being closed, and would wait
 * for what nobody reports any more: it waits until that is over, and so does another close, which
 * would else free the number while the first is about to close it. Neither is given the number by
 * the kernel, so they are late, or got it past us.
 */
#ifndef WEFT_IO_FD_H
#define WEFT_IO_FD_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/latch.h"
#include "io/op.h"

#define WEFT__CLOSED (-EBADFD)  /* what those who wait get when somebody closes the descriptor */
#define WEFT__MOVED (-ERESTART) /* nothing was done: it is to begin anew, with another driver */

enum {
    WEFT__FD_KNOWN = 1,      /* the rest is valid */
    WEFT__FD_SOCKET = 2,     /* calls are made with MSG_DONTWAIT: it may block or not */
    WEFT__FD_STREAM = 4,     /* less than was asked for means that there is no more for now */
    WEFT__FD_FILE = 8,       /* always ready, and slow: a file of a disk, a directory */
    WEFT__FD_HUNG = 16,      /* the peer has ended: no further edge may come */
    WEFT__FD_CLOSING = 32,   /* only this one: operations in flight still name the number */
    WEFT__FD_NONBLOCK = 64,  /* it has O_NONBLOCK; a socket without it may have that too */
    WEFT__FD_SHUTTING = 128, /* only this one: close(2) is being called */
    WEFT__FD_SHARED = 256,   /* it blocks, and stays so, because others have it too: io/shared.c */
    WEFT__FD_WATCHED = 512,  /* it has a home, which need not be told of each wait */
};

struct weft__fd_side {
    _Atomic(uint32_t) edges;    /* written under the lock */
    _Atomic(uint32_t) empty_at; /* edges when it was last found empty */
};

/* The first fiber that waits for readiness, or the first operation that a driver has in flight. It
 * is in the record, since mostly there is no other, and the stack it is on stays out of the caches
 * of the one who wakes it. Under the lock. */
struct weft__fd_place {
    _Atomic(void *) who; /* NULL: nobody. Atomic for those who prefetch by it */
    uint64_t ticket;     /* of a fiber; WEFT__FD_FLIES: it is a struct weft__op */
};

static inline void *weft__fd_who(const struct weft__fd_place *place)
{
    return atomic_load_explicit(&place->who, memory_order_relaxed);
}

static inline void weft__fd_set_who(struct weft__fd_place *place, void *who)
{
    atomic_store_explicit(&place->who, who, memory_order_relaxed);
}

#define WEFT__FD_FLIES UINT64_MAX /* tickets have 48 bits */

/* Further ones. Under the lock. */
struct weft__fd_list {
    struct weft__op *first, *last;
};

/* Told when nothing names the number any more; under the record's lock, which it may let go of for
 * a while. */
struct weft__fd_closer {
    void (*empty)(struct weft__fd_closer *closer, void *ready);
};

struct weft__fd {
    /* What a message needs that is read, answered, and the next waited for: one cache line. */
    alignas(64) struct weft__latch lock;
    _Atomic(uint16_t) flags;      /* WEFT__FD_...; written under the lock */
    bool listed;                  /* there is something in the lists; under the lock */
    _Atomic(uint32_t) generation; /* written under the lock */
    int number;
    struct weft__fd_side side[2];   /* by enum weft__side, as the next two */
    struct weft__fd_place place[2]; /* under the lock */
    /* The rest. */
    struct weft__driver *home; /* whose interest it is in; NULL: none yet; under the lock */
    struct weft__fd_list list[2];
    struct weft__fd_closer *closer;            /* under the lock */
    struct weft__fd *next_polled, **at_polled; /* the poll driver's, under its lock */
};

#ifndef WEFT_EXPLORE
_Static_assert(sizeof(struct weft__fd) == 128, "two cache lines");
_Static_assert(offsetof(struct weft__fd, home) == 64, "the first one");
#endif

/* Ends the wait of a fiber with this ticket; mostly under the record's lock. `near`: what it looks
 * at first, if it is a driver that tells of an edge, else NULL. False: it has ended. The
 * scheduler's. */
bool weft__io_fire(void *who, uint64_t ticket, const void *near, void *ready);

#define WEFT__FD_PAGE 512u /* records that are made together */
#define WEFT__FD_PAGES 8192u

extern _Atomic(struct weft__fd *) weft__fd_pages[WEFT__FD_PAGES];
struct weft__fd *weft__fd_page_make(unsigned index);

/* The record of a number. NULL: no memory, or the number is beyond what can be (4 million). */
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

/* NULL also if nothing was ever known about it: no memory is taken. */
struct weft__fd *weft__fd_find(int fd);

/* The number has just come from the kernel, by a call of ours: with these flags. -ENOMEM. */
int weft__fd_open(int fd, unsigned flags);
/* The record of a descriptor that is about to be used; one that came from elsewhere is looked at
 * first. -EBADF, -ENOMEM in *err. */
struct weft__fd *weft__fd_use_unknown(int fd, int *err);
/* The number has come from the kernel, by a call of ours, and nothing is known about it: it is
 * looked at when it is first used. */
void weft__fd_arrived(int fd);
/* A file that was closed past us, and the number is another's: it is looked at anew when it is used
 * next. False: not while an operation on the file still names the number. */
bool weft__fd_unlearn(struct weft__fd *record);
/* Sets O_NONBLOCK on a descriptor in use, for calls that know no flag for it. 0 or an errno. */
int weft__fd_unblock(struct weft__fd *record);
/* The flags for a descriptor that is opened by a call of ours, or comes from elsewhere. -EBADF.
 * Does not wait. */
int weft__fd_look(int fd, unsigned *flags);
/* As weft__op_perform, for any descriptor: a SHARED one is not made to block either. */
int64_t weft__fd_perform_shared(struct weft__fd *record, struct weft__op *op);
/* A SHARED one is given up: what was opened for ourselves, for the caller to close; -1: nothing. */
int weft__fd_leave_shared(const struct weft__fd *record);
/* Ends every wait with WEFT__CLOSED and forgets the descriptor. The caller then closes it, or hands
 * it on. True: not before the closer was told, because a driver still has operations that name the
 * number; they are ending. */
bool weft__fd_forget(struct weft__fd *record, struct weft__fd_closer *closer,
                     struct weft__driver *here, void *ready);
/* The same, and closes it; nobody comes to know the number in between, and waits for what is gone.
 * *err: of close(2). True: the closer closes it, by weft__fd_shut_locked. */
bool weft__fd_dispose(struct weft__fd *record, struct weft__fd_closer *closer,
                      struct weft__driver *here, void *ready, int *err);
/* Closes the number of a record that was forgotten; without the lock while the kernel is at it. */
int weft__fd_shut_locked(struct weft__fd *record);
/* As weft__fd_dispose, without waiting: now, or by whoever ends the last operation in flight.
 * -EBADF, -ENOMEM. */
int weft__fd_close(int fd, struct weft__driver *here, void *ready);
/* close(2), and nothing else. */
int weft__fd_close_number(int fd);
/* Its home is this driver from now on, or was before. -EBUSY: another one is; WEFT__CLOSED: it is
 * known no more. */
int weft__fd_claim(struct weft__fd *record, struct weft__driver *driver);

static inline bool weft__fd_is(const struct weft__fd *record, unsigned flag)
{
    return (atomic_load_explicit(&record->flags, memory_order_acquire) & flag) != 0;
}

/* Less than was asked for means that there is no more for now: of a stream, unless its end is
 * near. */
static inline bool weft__fd_runs_dry(const struct weft__fd *record)
{
    return (atomic_load_explicit(&record->flags, memory_order_relaxed) &
            (WEFT__FD_STREAM | WEFT__FD_HUNG)) == WEFT__FD_STREAM;
}

/* The flags of a new socket. Only of TCP is a short read the end of what is there: one from a Unix
 * socket also ends behind bytes that came with a descriptor. */
static inline unsigned weft__fd_of_socket(int family, int type)
{
    bool tcp = type == SOCK_STREAM && (family == AF_INET || family == AF_INET6);
    return WEFT__FD_SOCKET | (tcp ? WEFT__FD_STREAM : 0);
}

/* A pipe or FIFO: writing to one may raise SIGPIPE. */
static inline bool weft__fd_is_pipe(const struct weft__fd *record)
{
    uint32_t flags = atomic_load_explicit(&record->flags, memory_order_acquire);
    return (flags & (WEFT__FD_STREAM | WEFT__FD_SOCKET)) == WEFT__FD_STREAM;
}

/* No driver completes it: the kernel has no such operation, or none that raises no signal. Who
 * waits for readiness performs it. */
static inline bool weft__fd_performs(const struct weft__fd *record, const struct weft__op *op)
{
    return op->code == WEFT__OP_SENDFILE ||
           (op->code == WEFT__OP_WRITE && weft__fd_is_pipe(record));
}

static inline uint32_t weft__fd_generation(const struct weft__fd *record)
{
    return atomic_load_explicit(&record->generation, memory_order_relaxed);
}

/* The record of a number, if it is known and has these flags too; else NULL: weft__fd_use says
 * more. */
static inline struct weft__fd *weft__fd_peek(int fd, unsigned flags)
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
    flags |= WEFT__FD_KNOWN;
    /* pairs: open_locked */
    return (atomic_load_explicit(&record->flags, memory_order_acquire) & flags) == flags ? record
                                                                                         : NULL;
}

static inline struct weft__fd *weft__fd_use(int fd, int *err)
{
    struct weft__fd *record = weft__fd_record(fd);
    return __builtin_expect(record && weft__fd_is(record, WEFT__FD_KNOWN), 1)
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

/* Nothing has come since it was found empty. */
static inline bool weft__fd_empty_at(const struct weft__fd_side *side, uint32_t edges)
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

/* Links a wait, unless there was an edge after `edges`, or the number is no longer that of the
 * generation: then -EAGAIN, and the caller looks again. A record without a home gets this one: the
 * calling thread's. WEFT__CLOSED: it is known no more. Or the driver's error. */
int weft__fd_link(struct weft__fd *record, struct weft__op *op, uint32_t generation, uint32_t edges,
                  struct weft__driver *driver);
/* A fiber without an operation waits by weft__fd_wait (io/edge.h), and takes that back by this. */
void weft__fd_unwait(struct weft__fd *record, enum weft__side side, void *who, uint64_t ticket,
                     struct weft__driver *here);
/* Takes it back. False: it was completed. `here`: the calling thread's driver, or NULL, as
 * below. */
bool weft__fd_unlink(struct weft__fd *record, struct weft__op *op, struct weft__driver *here);

/* Under the lock. */
void weft__fd_push_locked(struct weft__fd *record, struct weft__op *op);
void weft__fd_remove_locked(struct weft__fd *record, struct weft__op *op);
/* The operations of a side, those in flight first: the one after `op`; NULL: the first. */
struct weft__op *weft__fd_next_locked(const struct weft__fd *record, enum weft__side side,
                                      const struct weft__op *op);
/* Does a fiber wait for readiness, by itself? */
static inline bool weft__fd_is_waited_locked(const struct weft__fd *record, enum weft__side side)
{
    return weft__fd_who(&record->place[side]) && record->place[side].ticket != WEFT__FD_FLIES;
}

/* The driver's thread goes away for a while: no record has it as its home any more, those who wait
 * for readiness try again, and operations in flight are asked to end with WEFT__MOVED. */
void weft__fd_evict(struct weft__driver *driver, void *ready);
/* The driver is about to go: no record has it as its home any more. */
void weft__fd_leave(struct weft__driver *driver);
/* In a forked child, where no driver is. */
void weft__fd_fork_child(void);

#endif
