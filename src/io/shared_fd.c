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
#include "io/sigpipe.h"

#define TTY_SPACE 256 /* space a terminal has at least if poll reports it writable */
#define NONE (-1)

/* The reopened descriptors, by number: 0: not yet reopened; NONE: cannot be reopened; else the
 * descriptor + 1. They are few, so the records have no field for it. */
static _Atomic(_Atomic(int) *) pages[WEFT__FD_PAGES];

/* NULL: no memory, or (unless `make`) nothing was reopened yet. */
static _Atomic(int) *slot_of(const struct weft__fd *record, bool make)
{
    unsigned number = (unsigned)record->number;
    _Atomic(_Atomic(int) *) *at = &pages[number / WEFT__FD_PAGE];
    _Atomic(int) *page = atomic_load_explicit(at, memory_order_acquire); /* pairs: below */
    if (!page && make) {
        _Atomic(int) *new_page = weft__alloc(WEFT__FD_PAGE * sizeof *new_page);
        if (new_page && !atomic_compare_exchange_strong_explicit(
                            at, &page, new_page, memory_order_acq_rel, memory_order_acquire)) {
            weft__free(new_page);
        } else {
            page = new_page;
        }
    }
    return page ? page + number % WEFT__FD_PAGE : NULL;
}

int weft__fd_take_reopened(const struct weft__fd *record)
{
    _Atomic(int) *slot = slot_of(record, false);
    int reopened = slot ? atomic_exchange_explicit(slot, 0, memory_order_acq_rel) : 0;
    return reopened > 0 ? reopened - 1 : -1;
}

static bool can_reopen(int fd)
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
    if (mode < 0 || !can_reopen(fd)) {
        return NONE;
    }
    snprintf(name, sizeof name, "/proc/self/fd/%d", fd);
    int reopened = open(name, (mode & (O_ACCMODE | O_APPEND)) | O_NONBLOCK | O_NOCTTY | O_CLOEXEC);
    return reopened < 0 ? NONE : reopened + 1;
}

/* The descriptor is reopened before the latch is taken, because a latch is for short sections:
 * another caller may have reopened or closed it in the meantime. */
static int get_reopened(struct weft__fd *record, _Atomic(int) *slot)
{
    uint32_t generation = weft__fd_generation(record);
    int candidate = reopen(record->number), spare = 0;
    weft__latch_lock(&record->lock);
    int reopened = atomic_load_explicit(slot, memory_order_relaxed);
    if (reopened == 0 && weft__fd_is(record, WEFT__FD_REGISTERED) &&
        weft__fd_generation(record) == generation) {
        reopened = candidate;
        atomic_store_explicit(slot, reopened, memory_order_release); /* pairs: below */
    } else {
        spare = candidate;
    }
    weft__latch_unlock(&record->lock);
    if (spare > 0) {
        close(spare - 1);
    }
    return reopened;
}

static int64_t perform_on(struct weft__op *op, int fd, int flags)
{
    int original_fd = op->fd, original_flags = op->flags;
    op->fd = fd;
    op->flags = flags;
    struct weft__sigpipe_guard quiet;
    bool may_raise =
        op->code == WEFT__OP_WRITE && fd != original_fd; /* that number is not registered as a
                                                              pipe */
    if (may_raise) {
        weft__sigpipe_block(&quiet);
    }
    int64_t result = weft__op_perform(op);
    if (may_raise) {
        weft__sigpipe_restore(&quiet, result == -EPIPE);
    }
    op->fd = original_fd;
    op->flags = original_flags;
    return result;
}

/* Write only the beginning to a terminal or a pipe; a device may require the write as a whole. */
static int64_t write_prefix(struct weft__op *op)
{
    const struct iovec *iov = op->iov;
    int count = op->iov_count;
    struct iovec prefix = {0};
    for (int i = 0; i < count && prefix.iov_len == 0; i++) {
        prefix = iov[i];
    }
    prefix.iov_len = prefix.iov_len < TTY_SPACE ? prefix.iov_len : TTY_SPACE;
    op->iov = &prefix;
    op->iov_count = 1;
    int64_t result = weft__op_perform(op);
    op->iov = iov;
    op->iov_count = count;
    return result;
}

static int64_t poll_then_perform(struct weft__fd *record, struct weft__op *op)
{
    bool out = op->side == WEFT__SIDE_OUT;
    struct pollfd pfd = {.fd = op->fd, .events = out ? POLLOUT : POLLIN};
    int ready;
    while ((ready = poll(&pfd, 1, 0)) < 0 && errno == EINTR) {
    }
    if (ready <= 0) {
        return -EAGAIN;
    }
    return out && (weft__fd_is(record, WEFT__FD_STREAM) || isatty(op->fd)) ? write_prefix(op)
                                                                           : weft__op_perform(op);
}

int64_t weft__fd_perform_shared(struct weft__fd *record, struct weft__op *op)
{
    _Atomic(int) *slot = slot_of(record, false);
    /* pairs: get_reopened */
    int reopened = slot ? atomic_load_explicit(slot, memory_order_acquire) : 0;
    if (reopened == 0) {
        int64_t result = perform_on(op, op->fd, RWF_NOWAIT);
        if (result != -EOPNOTSUPP && result != -ENOSYS && result != -EINVAL) {
            return result;
        }
        slot = slot_of(record, true);
        reopened = slot ? get_reopened(record, slot) : 0;
    }
    return reopened > 0 ? perform_on(op, reopened - 1, 0) : poll_then_perform(record, op);
}
