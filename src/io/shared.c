/* Blocking descriptors that are shared with other processes: the terminal of a shell, an inherited
 * pipe. O_NONBLOCK belongs to the open file, not to the descriptor: setting it would change the
 * mode for every process that has the file open, and they do not expect that. So it is never set.
 * Instead, in this order:
 *
 *   1. the call is made with RWF_NOWAIT: works for pipes, and for some devices on newer kernels;
 *   2. a terminal, or a pipe on an older kernel, is reopened by its name in /proc with O_NONBLOCK,
 *      for our use alone. That fails if it belongs to another user. (Reopening the master of a
 *      pseudo-terminal, or some other devices, would create a new one.)
 *   3. the descriptor is polled first, and then read or written. Another process may be faster:
 *      then the thread blocks until the next chance.
 *
 * With io_uring none of this is needed: the kernel waits, whatever the mode.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/alloc.h"
#include "io/fd.h"
#include "io/quiet.h"

#define LITTLE 256 /* space a terminal has at least if poll reports it writable */
#define NONE (-1)

/* The reopened descriptors, by number: 0: not yet reopened; NONE: cannot be reopened; else the
 * descriptor + 1. They are few, so the records have no field for it. */
static _Atomic(_Atomic(int) *) pages[WEFT__FD_PAGES];

/* NULL: no memory, or (unless `make`) nothing was reopened yet. */
static _Atomic(int) *place_of(const struct weft__fd *record, bool make)
{
    unsigned number = (unsigned)record->number;
    _Atomic(_Atomic(int) *) *at = &pages[number / WEFT__FD_PAGE];
    _Atomic(int) *page = atomic_load_explicit(at, memory_order_acquire); /* pairs: below */
    if (!page && make) {
        _Atomic(int) *fresh = weft__alloc(WEFT__FD_PAGE * sizeof *fresh);
        if (fresh && !atomic_compare_exchange_strong_explicit(
                         at, &page, fresh, memory_order_acq_rel, memory_order_acquire)) {
            weft__free(fresh);
        } else {
            page = fresh;
        }
    }
    return page ? page + number % WEFT__FD_PAGE : NULL;
}

int weft__fd_leave_shared(const struct weft__fd *record)
{
    _Atomic(int) *place = place_of(record, false);
    int own = place ? atomic_exchange_explicit(place, 0, memory_order_acq_rel) : 0;
    return own > 0 ? own - 1 : -1;
}

static bool is_named(int fd)
{
    struct stat st;
    int number;
    return fstat(fd, &st) == 0 &&
           (S_ISFIFO(st.st_mode) || (isatty(fd) && ioctl(fd, TIOCGPTN, &number) != 0));
}

static int reopen(int fd)
{
    char name[32];
    int mode = fcntl(fd, F_GETFL);
    if (mode < 0 || !is_named(fd)) {
        return NONE;
    }
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    int own = open(name, (mode & (O_ACCMODE | O_APPEND)) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return own < 0 ? NONE : own + 1;
}

/* The descriptor is reopened before the latch is taken, because a latch is for short sections:
 * another caller may have reopened or closed it in the meantime. */
static int own_of(struct weft__fd *record, _Atomic(int) *place)
{
    uint32_t generation = weft__fd_generation(record);
    int mine = reopen(record->number), spare = 0;
    weft__latch_take(&record->lock);
    int own = atomic_load_explicit(place, memory_order_relaxed);
    if (own == 0 && weft__fd_is(record, WEFT__FD_KNOWN) &&
        weft__fd_generation(record) == generation) {
        own = mine;
        atomic_store_explicit(place, own, memory_order_release); /* pairs: below */
    } else {
        spare = mine;
    }
    weft__latch_drop(&record->lock);
    if (spare > 0) {
        close(spare - 1);
    }
    return own;
}

static int64_t perform_on(struct weft__op *op, int fd, int flags)
{
    int asked = op->fd, plain = op->flags;
    op->fd = fd;
    op->flags = flags;
    struct weft__quiet quiet;
    bool loud = op->code == WEFT__OP_WRITE && fd != asked; /* that number is not registered as a
                                                              pipe */
    if (loud) {
        weft__quiet_begin(&quiet);
    }
    int64_t result = weft__op_perform(op);
    if (loud) {
        weft__quiet_end(&quiet, result == -EPIPE);
    }
    op->fd = asked;
    op->flags = plain;
    return result;
}

/* Write only the beginning to a terminal or a pipe; a device may require the write as a whole. */
static int64_t write_little(struct weft__op *op)
{
    const struct iovec *iov = op->iov;
    int count = op->iov_count;
    struct iovec little = {0};
    for (int i = 0; i < count && little.iov_len == 0; i++) {
        little = iov[i];
    }
    little.iov_len = little.iov_len < LITTLE ? little.iov_len : LITTLE;
    op->iov = &little;
    op->iov_count = 1;
    int64_t result = weft__op_perform(op);
    op->iov = iov;
    op->iov_count = count;
    return result;
}

static int64_t ask_first(struct weft__fd *record, struct weft__op *op)
{
    bool out = op->side == WEFT__SIDE_OUT;
    struct pollfd ask = {.fd = op->fd, .events = out ? POLLOUT : POLLIN};
    int ready;
    while ((ready = poll(&ask, 1, 0)) < 0 && errno == EINTR) {
    }
    if (ready <= 0) {
        return -EAGAIN;
    }
    return out && (weft__fd_is(record, WEFT__FD_STREAM) || isatty(op->fd)) ? write_little(op)
                                                                           : weft__op_perform(op);
}

int64_t weft__fd_perform_shared(struct weft__fd *record, struct weft__op *op)
{
    _Atomic(int) *place = place_of(record, false);
    /* pairs: own_of */
    int own = place ? atomic_load_explicit(place, memory_order_acquire) : 0;
    if (own == 0) {
        int64_t result = perform_on(op, op->fd, RWF_NOWAIT);
        if (result != -EOPNOTSUPP && result != -ENOSYS && result != -EINVAL) {
            return result;
        }
        place = place_of(record, true);
        own = place ? own_of(record, place) : 0;
    }
    return own > 0 ? perform_on(op, own - 1, 0) : ask_first(record, op);
}
