/* Operations by io_uring. Submissions are batched until the thread waits, or until the queue is
 * full; one system call submits them, waits, and collects completions.
 *
 * A cancellation can miss. While the kernel is about to retry a receive, because another reader
 * took the bytes that had made the descriptor ready, it finds no such operation (-ENOENT), or one
 * that a kernel thread is working on (-EALREADY). The kernel then arms the operation again, and
 * nothing would end it. So operations stay in a list from their cancellation to their completion,
 * and after a miss all operations in that list are cancelled again. */
#include <errno.h>
#include <liburing.h>
#include <poll.h>
#include <pthread.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "io/driver.h"
#include "io/edge.h"

#define PREFETCH 3             /* distance in completions */
#define BUSY_NS 1000000        /* retry interval when the kernel has no memory */
#define MISSED_NS 250000       /* delay after a cancellation that missed; doubles */
#define MISSED_MAX_NS 64000000 /* up to this */
#define NEEDED (IORING_FEAT_NODROP | IORING_FEAT_FAST_POLL | IORING_FEAT_EXT_ARG)

/* User data of our own entries, distinct from any operation's address. */
enum { NOP = 0, WAKE = 1, CANCEL = 2 };

struct uring_driver {
    struct weft__driver base;
    struct io_uring ring;
    bool any_thread;                  /* in a host's loop, which waits on the ring itself between
                                         two turns */
    bool wake_armed;                  /* the kernel watches wake_fd for us */
    bool cancels_unsent;              /* some requested cancellations could not be submitted yet */
    bool poll_first;                  /* the kernel supports IORING_RECVSEND_POLL_FIRST */
    struct weft__op *backlog, **last; /* operations for which the submission queue had no space */
    struct weft__op *cancelled;       /* cancelled operations that are not finished yet */
    int64_t cancel_again; /* when to cancel those again; INT64_MAX: no cancellation missed */
    int64_t missed_ns;    /* the current delay before that */
};

static struct uring_driver *of(struct weft__driver *driver)
{
    return (struct uring_driver *)(void *)driver;
}

struct weft__uring_sizes weft__uring_sizes = {.submissions = 512, .completions = 4096};

/* --- set up ----------------------------------------------------------------------------------- */

static int ring_init(struct io_uring *ring, unsigned flags)
{
    struct io_uring_params params = {.flags = flags | IORING_SETUP_CQSIZE,
                                     .cq_entries = weft__uring_sizes.completions};
    int err = io_uring_queue_init_params(weft__uring_sizes.submissions, ring, &params);
    if (!err && (params.features & NEEDED) != NEEDED) {
        io_uring_queue_exit(ring);
        err = -EOPNOTSUPP;
    }
    return err;
}

/* Use the best setup flags that this kernel supports. */
static int ring_init_best(struct io_uring *ring, bool any_thread, bool *has_poll_first)
{
    int err = -EINVAL;
    *has_poll_first = true;
    if (!any_thread) {
        err = ring_init(ring, IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN |
                                  IORING_SETUP_TASKRUN_FLAG);
    }
    if (err == -EINVAL) {
        err = ring_init(ring, IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG);
    }
    if (err == -EINVAL) {
        *has_poll_first = false;
        err = ring_init(ring, 0);
    }
    return err;
}

static const char *probe_result;

static bool has_operations(struct io_uring *ring)
{
    static const int needed[] = {
        IORING_OP_READV,  IORING_OP_WRITEV,       IORING_OP_SENDMSG,  IORING_OP_RECVMSG,
        IORING_OP_ACCEPT, IORING_OP_ASYNC_CANCEL, IORING_OP_CONNECT,  IORING_OP_SEND,
        IORING_OP_RECV,   IORING_OP_READ,         IORING_OP_POLL_ADD, IORING_OP_OPENAT2,
        IORING_OP_STATX,  IORING_OP_FSYNC,        IORING_OP_RENAMEAT, IORING_OP_UNLINKAT};
    struct io_uring_probe *probe = io_uring_get_probe_ring(ring);
    bool all = probe != NULL;
    for (unsigned i = 0; all && i < sizeof needed / sizeof *needed; i++) {
        all = io_uring_opcode_supported(probe, needed[i]);
    }
    io_uring_free_probe(probe);
    return all;
}

/* Whether a later io_uring_enter may succeed: nothing is wrong with the ring itself. */
static bool is_transient(int err)
{
    return err == -EINTR || err == -ETIME || err == -EBUSY || err == -EAGAIN || err == -ENOMEM;
}

/* A seccomp filter may allow io_uring_setup and deny io_uring_enter. */
static int try_to_enter(struct io_uring *ring)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(ring);
    io_uring_prep_nop(sqe);
    io_uring_sqe_set_data64(sqe, NOP);
    int n = io_uring_submit(ring);
    return n >= 0 || is_transient(n) ? 0 : n;
}

static const char *try_ring(struct io_uring *ring)
{
    if (!has_operations(ring)) {
        return "the kernel's io_uring is too old";
    }
    int err = try_to_enter(ring);
    return err == 0                          ? NULL
           : err == -EPERM || err == -EACCES ? "io_uring_enter is not permitted (EPERM)"
           : err == -ENOSYS                  ? "io_uring_enter is not available (ENOSYS)"
                                             : "io_uring_enter fails";
}

static void probe_once(void)
{
    struct io_uring ring;
    bool has_poll_first;
    int err = ring_init_best(&ring, true, &has_poll_first);
    if (err == 0) {
        probe_result = try_ring(&ring);
        io_uring_queue_exit(&ring);
    } else if (err == -EPERM || err == -EACCES) {
        probe_result = "io_uring is not permitted (EPERM)";
    } else if (err == -ENOSYS) {
        probe_result = "the kernel has no io_uring (ENOSYS)";
    } else if (err == -EOPNOTSUPP || err == -EINVAL) {
        probe_result = "the kernel's io_uring is too old";
    } else if (err == -ENOMEM) {
        probe_result = "not enough memory for io_uring (ENOMEM)";
    } else {
        probe_result = "io_uring could not be set up";
    }
}

const char *weft__uring_probe(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, probe_once);
    return probe_result;
}

static int uring_open(struct weft__driver *driver, bool any_thread)
{
    struct uring_driver *d = of(driver);
    int err = ring_init_best(&d->ring, any_thread, &d->poll_first);
    d->last = &d->backlog;
    d->any_thread = any_thread;
    d->cancel_again = INT64_MAX;
    d->missed_ns = MISSED_NS;
    if (!err) {
        err = try_to_enter(&d->ring); /* it may have been forbidden since the probe */
        if (err) {
            io_uring_queue_exit(&d->ring);
        }
    }
    driver->poll_fd = err ? -1 : d->ring.ring_fd;
    return err;
}

static void uring_close(struct weft__driver *driver)
{
    io_uring_queue_exit(&of(driver)->ring);
}

/* Nothing to register: every operation names its descriptor. */
static int uring_watch(struct weft__driver *driver, struct weft__fd *record)
{
    (void)driver, (void)record;
    return 0;
}

static void uring_forget(struct weft__driver *driver, struct weft__fd *record)
{
    (void)driver, (void)record;
}

/* --- submit ----------------------------------------------------------------------------------- */

static int check(const struct uring_driver *d, int result)
{
    if (__builtin_expect(result < 0 && !is_transient(result), 0)) {
        weft__driver_panic(&d->base, "io_uring_enter", d->ring.ring_fd, -result);
    }
    return result;
}

static __attribute__((noinline)) struct io_uring_sqe *entry_when_full(struct uring_driver *d)
{
    return check(d, io_uring_submit(&d->ring)) > 0 ? io_uring_get_sqe(&d->ring) : NULL;
}

/* NULL: the queue is full, and the kernel accepts no more entries until completions are
 * consumed. */
static inline struct io_uring_sqe *entry(struct uring_driver *d)
{
    struct io_uring_sqe *sqe = io_uring_get_sqe(&d->ring);
    return __builtin_expect(sqe != NULL, 1) ? sqe : entry_when_full(d);
}

static void prepare_any(struct io_uring_sqe *sqe, struct weft__op *op)
{
    if (op->awaits_ready || op->code == WEFT__OP_READY) {
        io_uring_prep_poll_add(sqe, op->fd,
                               op->side == WEFT__SIDE_IN ? POLLIN | POLLRDHUP : POLLOUT);
        return;
    }
    switch ((enum weft__op_code)op->code) {
    case WEFT__OP_READY:
        break;
    case WEFT__OP_READ:
        io_uring_prep_readv(sqe, op->fd, op->iov, (unsigned)op->iov_count, (uint64_t)op->offset);
        break;
    case WEFT__OP_WRITE:
        io_uring_prep_writev(sqe, op->fd, op->iov, (unsigned)op->iov_count, (uint64_t)op->offset);
        break;
    case WEFT__OP_OPEN:
        io_uring_prep_openat2(sqe, op->fd, op->path, op->how);
        break;
    case WEFT__OP_STAT:
        io_uring_prep_statx(sqe, op->fd, op->path, op->flags, op->mask, op->statx);
        break;
    case WEFT__OP_SYNC:
        io_uring_prep_fsync(sqe, op->fd, op->flags ? IORING_FSYNC_DATASYNC : 0);
        break;
    case WEFT__OP_RENAME:
        io_uring_prep_renameat(sqe, op->fd, op->path, op->to_fd, op->to, (unsigned)op->flags);
        break;
    case WEFT__OP_UNLINK:
        io_uring_prep_unlinkat(sqe, op->fd, op->path, op->flags);
        break;
    case WEFT__OP_TRUNCATE: /* performed by a thread (fdio/file_op.c): older kernels lack these
                               operations */
    case WEFT__OP_MKDIR:
        io_uring_prep_nop(sqe);
        break;
    case WEFT__OP_RECV: /* see prepare */
    case WEFT__OP_SEND:
        break;
    case WEFT__OP_RECVMSG:
        io_uring_prep_recvmsg(sqe, op->fd, op->msg, (unsigned)op->flags | MSG_CMSG_CLOEXEC);
        break;
    case WEFT__OP_SENDMSG:
        io_uring_prep_sendmsg(sqe, op->fd, op->msg, (unsigned)op->flags | MSG_NOSIGNAL);
        break;
    case WEFT__OP_ACCEPT:
        io_uring_prep_accept(sqe, op->fd, op->addr, op->addr ? &op->addr_len : NULL,
                             SOCK_NONBLOCK | SOCK_CLOEXEC);
        break;
    case WEFT__OP_CONNECT:
        io_uring_prep_connect(sqe, op->fd, op->addr, op->addr_len);
        break;
    case WEFT__OP_SENDFILE: /* performed by a system call when the descriptor is ready */
        break;
    }
}

/* Limit a length to that of a system call. An entry's length has 32 bits: 4 GiB would become 0, and
 * a result of 0 means end of file. */
static inline size_t clamp_length(size_t n)
{
    const size_t most = 0x7ffff000;
    return n < most ? n : most;
}

/* Most operations are recv and send on streams. */
static inline void prepare(const struct uring_driver *d, struct io_uring_sqe *sqe,
                           struct weft__op *op)
{
    if (op->awaits_ready || (op->code != WEFT__OP_RECV && op->code != WEFT__OP_SEND)) {
        prepare_any(sqe, op);
    } else if (op->code == WEFT__OP_RECV) {
        io_uring_prep_recv(sqe, op->fd, op->buf, clamp_length(op->len), op->flags);
        sqe->ioprio = op->likely_empty && d->poll_first ? IORING_RECVSEND_POLL_FIRST : 0;
    } else {
        io_uring_prep_send(sqe, op->fd, op->buf, clamp_length(op->len), op->flags | MSG_NOSIGNAL);
    }
}

/* False: no space in the queue now. */
static inline __attribute__((always_inline)) bool push(struct uring_driver *d, struct weft__op *op)
{
    struct io_uring_sqe *sqe = entry(d);
    if (sqe) {
        prepare(d, sqe, op);
        sqe->flags |= op->force_async ? IOSQE_ASYNC : 0;
        io_uring_sqe_set_data(sqe, op);
    }
    return sqe != NULL;
}

static inline void push_or_queue(struct uring_driver *d, struct weft__op *op)
{
    if (d->backlog || !push(d, op)) {
        op->next_queued = NULL;
        *d->last = op;
        d->last = &op->next_queued;
    }
}

/* False: the descriptor is no longer registered. */
static inline bool link_known(struct weft__fd *record, struct weft__op *op)
{
    weft__latch_lock(&record->lock);
    bool known = weft__fd_is(record, WEFT__FD_REGISTERED);
    if (known) {
        weft__fd_begin_op_locked(record, op);
    }
    weft__latch_unlock(&record->lock);
    return known;
}

static bool uring_submit(struct weft__driver *driver, struct weft__op *op)
{
    struct weft__fd *record = weft__fd_record(op->fd);
    op->driver = driver;
    op->record = record;
    atomic_store_explicit(&op->cancel_state, WEFT__OP_CANCEL_NONE, memory_order_relaxed);
    op->closed = op->resubmit = op->cancelling = op->force_async = false;
    op->awaits_ready = record && weft__fd_must_perform(record, op);
    if (record && !link_known(record, op)) {
        /* The kernel would keep the closed file in use, and nothing would end the operation. A
         * cancel must not be requested either. */
        atomic_store_explicit(&op->cancel_state, WEFT__OP_FINISHED, memory_order_relaxed);
        return false;
    }
    weft__driver_count(driver, 1);
    push_or_queue(of(driver), op);
    return true;
}

static void push_backlog(struct uring_driver *d)
{
    struct weft__op *op;
    while ((op = d->backlog) && push(d, op)) {
        d->backlog = op->next_queued;
        d->last = d->backlog ? d->last : &d->backlog;
    }
}

/* --- cancel ----------------------------------------------------------------------------------- */

static bool push_cancel(struct uring_driver *d, struct weft__op *op)
{
    struct io_uring_sqe *sqe = entry(d);
    if (sqe) {
        io_uring_prep_cancel(sqe, op, 0);
        io_uring_sqe_set_data64(sqe, CANCEL);
    }
    return sqe != NULL;
}

static void link_cancelled(struct uring_driver *d, struct weft__op *op)
{
    op->cancelling = true;
    op->prev_queued = NULL;
    op->next_queued = d->cancelled;
    if (d->cancelled) {
        d->cancelled->prev_queued = op;
    }
    d->cancelled = op;
}

static void unlink_cancelled(struct uring_driver *d, const struct weft__op *op)
{
    *(op->prev_queued ? &op->prev_queued->next_queued : &d->cancelled) = op->next_queued;
    if (op->next_queued) {
        op->next_queued->prev_queued = op->prev_queued;
    }
    if (!d->cancelled) {
        d->cancel_again = INT64_MAX;
        d->missed_ns = MISSED_NS;
    }
}

/* False: some cancellations could not be submitted and stay requested. The backlog comes first,
 * because the kernel must know an operation before it can cancel it. */
static bool push_cancels(struct uring_driver *d)
{
    struct weft__op *op;
    while (!d->backlog && (op = weft__driver_next_cancel(&d->base))) {
        if (!push_cancel(d, op)) {
            return false;
        }
        if (!op->cancelling) {
            link_cancelled(d, op);
        }
        weft__driver_drop_cancel(&d->base, op);
    }
    return !d->backlog;
}

/* The completion of a cancellation. It need not be matched with its operation, which is in the list
 * or finished. */
static void handle_cancel_result(struct uring_driver *d, int result)
{
    bool missed = result == -ENOENT || result == -EALREADY;
    if (missed && d->cancelled && d->cancel_again == INT64_MAX) {
        d->cancel_again = weft__clock_ns() + d->missed_ns;
        d->missed_ns = d->missed_ns < MISSED_MAX_NS ? 2 * d->missed_ns : MISSED_MAX_NS;
    }
}

/* If the queue has no space for all of them, they stay due. */
static void resubmit_missed_cancels(struct uring_driver *d)
{
    if (__builtin_expect(d->cancel_again == INT64_MAX, 1) || weft__clock_ns() < d->cancel_again) {
        return;
    }
    for (struct weft__op *op = d->cancelled; op; op = op->next_queued) {
        if (!push_cancel(d, op)) {
            return;
        }
    }
    d->cancel_again = INT64_MAX;
}

static void push_wake(struct uring_driver *d)
{
    struct io_uring_sqe *sqe = d->wake_armed ? NULL : entry(d);
    if (sqe) {
        io_uring_prep_poll_add(sqe, d->base.wake_fd, POLLIN);
        io_uring_sqe_set_data64(sqe, WAKE);
        d->wake_armed = true;
    }
}

/* --- wait ------------------------------------------------------------------------------------- */

static bool kernel_has_work(const struct io_uring *ring)
{
    return (atomic_load_explicit((const _Atomic(unsigned) *)(const void *)ring->sq.kflags,
                                 memory_order_relaxed) &
            (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) != 0;
}

static void enter_without_waiting(struct uring_driver *d)
{
    if (io_uring_sq_ready(&d->ring) > 0) {
        check(d, io_uring_submit_and_get_events(&d->ring));
    } else if (kernel_has_work(&d->ring)) {
        check(d, io_uring_get_events(&d->ring));
    }
}

static void sleep_until(struct uring_driver *d, int64_t deadline)
{
    struct io_uring_cqe *cqe;
    struct timespec left = weft__clock_remaining(deadline);
    if (left.tv_sec == 0 && left.tv_nsec == 0) {
        enter_without_waiting(d);
        return;
    }
    struct __kernel_timespec timeout = {.tv_sec = left.tv_sec, .tv_nsec = left.tv_nsec};
    int n = io_uring_submit_and_wait_timeout(&d->ring, &cqe, 1,
                                             deadline == INT64_MAX ? NULL : &timeout, NULL);
    check(d, n);
    if ((n == -EBUSY || n == -EAGAIN || n == -ENOMEM) && io_uring_cq_ready(&d->ring) == 0) {
        struct pollfd wake = {.fd = d->base.wake_fd, .events = POLLIN};
        poll(&wake, 1, BUSY_NS / 1000000);
    }
}

static void uring_wait(struct weft__driver *driver, int64_t deadline)
{
    struct uring_driver *d = of(driver);
    push_backlog(d);
    bool all = push_cancels(d);
    d->cancels_unsent = !all;
    resubmit_missed_cancels(d);
    push_wake(d);
    if (__builtin_expect((!all || !d->wake_armed) && deadline != 0, 0)) {
        /* The kernel accepted nothing a moment ago; entries that it does not have yet must not wait
         * for those that it has. */
        int64_t soon = weft__clock_ns() + BUSY_NS;
        deadline = soon < deadline ? soon : deadline;
    }
    deadline = d->cancel_again < deadline ? d->cancel_again : deadline;
    if (deadline == 0 || io_uring_cq_ready(&d->ring) > 0) {
        enter_without_waiting(d);
    } else {
        sleep_until(d, deadline);
    }
}

/* --- completions ------------------------------------------------------------------------------ */

/* A path without a descriptor, or an operation on a file: no event ever reports it ready. */
static bool on_file(const struct weft__op *op)
{
    const struct weft__fd *record = weft__fd_record(op->fd);
    return !record || weft__fd_is(record, WEFT__FD_FILE);
}

/* ECANCELED that was not requested here: the thread that submitted the operation has ended. EAGAIN:
 * the descriptor is non-blocking, and an older kernel honours that. */
static bool must_resubmit(const struct weft__op *op, int result)
{
    if (op->cancelling) {
        return false;
    }
    if (op->code == WEFT__OP_READY || result == -ECANCELED) {
        return result == -ECANCELED;
    }
    if (result == -EAGAIN && on_file(op)) {
        /* O_NONBLOCK on a file: always "ready", and yet the data is not available at once. */
        return !op->force_async && (op->code == WEFT__OP_READ || op->code == WEFT__OP_WRITE);
    }
    return op->awaits_ready ? result >= 0 : result == -EINTR || result == -EAGAIN;
}

/* If not yet, a request made after this will find the operation. */
static bool is_closed_or_resubmit(const struct weft__op *op)
{
    struct weft__fd *record = weft__fd_record(op->fd);
    weft__latch_lock(&record->lock);
    bool ends = op->closed || op->resubmit;
    weft__latch_unlock(&record->lock);
    return ends;
}

/* True: the operation was submitted again and is not finished. */
static bool resubmit_if_needed(struct uring_driver *d, struct weft__op *op, int result)
{
    if (!must_resubmit(op, result)) {
        return false;
    }
    if (op->linked && is_closed_or_resubmit(op)) {
        return false;
    }
    if (result == -EAGAIN && on_file(op)) {
        op->force_async = true;
    } else if (result != -ECANCELED) {
        op->awaits_ready = result == -EAGAIN;
    }
    push_or_queue(d, op);
    return true;
}

static int final_result(const struct weft__op *op, int result)
{
    if (op->awaits_ready && result >= 0) {
        result = -ECANCELED; /* it was about to be submitted again */
    }
    if (result == -EAGAIN && !op->cancelling && !op->closed && !op->resubmit) {
        return result; /* an error of the file itself */
    }
    /* -EINTR, -EAGAIN: handled alike. */
    if (result == -ECANCELED || result == -EINTR || result == -EAGAIN) {
        return op->closed ? WEFT__CLOSED : op->resubmit ? WEFT__RESUBMIT : -ECANCELED;
    }
    return op->code == WEFT__OP_READY && result >= 0 ? 0 : result;
}

/* An operation that a kernel thread was about to restart completes with an internal error number:
 * ERESTARTSYS (512) to ERESTART_RESTARTBLOCK (516). */
static int normalize_result(int result)
{
    return result <= -512 && result >= -516 ? -EINTR : result;
}

/* Perform an operation that the kernel does not complete, now that the descriptor is ready. True:
 * it was not ready after all, and waits again. */
static bool perform_ready(struct uring_driver *d, struct weft__op *op, int *result)
{
    struct weft__fd *record = weft__fd_record(op->fd);
    if (*result < 0 || op->cancelling || !op->awaits_ready || !record ||
        !weft__fd_must_perform(record, op) || is_closed_or_resubmit(op)) {
        return false;
    }
    *result = (int)weft__fd_perform(record, op);
    if (*result == -EAGAIN) {
        push_or_queue(d, op);
        return true;
    }
    op->awaits_ready = false;
    return false;
}

/* The kernel has performed the operation, and nothing else needs checking: nearly always. */
static bool is_plain(const struct weft__op *op, int result)
{
    return result >= 0 && !op->awaits_ready && op->code != WEFT__OP_READY;
}

static void complete_op(struct uring_driver *d, struct weft__op *op, int result,
                        struct weft__io_done *done)
{
    bool plain = __builtin_expect(is_plain(op, result), 1);
    if (!plain) {
        result = normalize_result(result);
        if (perform_ready(d, op, &result) || resubmit_if_needed(d, op, result)) {
            return;
        }
    }
    if (op->linked) {
        weft__fd_end_op(op->record, op);
    }
    if (__builtin_expect(op->cancelling, 0)) {
        unlink_cancelled(d, op);
    }
    weft__driver_op_finished(&d->base, op);
    weft__driver_count(&d->base, -1);
    op->result = plain ? result : final_result(op, result);
    weft__io_done_op(done, op);
}

/* With many connections the operations are on stacks that are in no nearby cache: they are loaded
 * while earlier completions are delivered. The slot after the last completion holds an old entry,
 * whose address is harmless to prefetch. */
static inline __attribute__((always_inline)) void prefetch_op(const struct io_uring *ring,
                                                              unsigned head)
{
    const struct io_uring_cqe *cqe = &ring->cq.cqes[(head + PREFETCH) & *ring->cq.kring_mask];
    const char *op = (const char *)(uintptr_t)cqe->user_data;
    __builtin_prefetch(op, 1);
    __builtin_prefetch(op + offsetof(struct weft__op, next), 1);
}

/* The driver is not polled again until its host is woken: entries that the kernel does not accept
 * now must not wait for that. */
static void hand_to_host(struct uring_driver *d)
{
    push_wake(d);
    if (io_uring_sq_ready(&d->ring) > 0) {
        check(d, io_uring_submit(&d->ring));
    }
    bool all =
        !d->backlog && !d->cancels_unsent && d->wake_armed && io_uring_sq_ready(&d->ring) == 0;
    int64_t again = all ? INT64_MAX : weft__clock_ns() + BUSY_NS;
    again = d->cancel_again < again ? d->cancel_again : again;
    atomic_store_explicit(&d->base.repoll_at, again, memory_order_relaxed);
}

static unsigned uring_dispatch(struct weft__driver *driver, struct weft__driver *here,
                               struct weft__io_done *done)
{
    (void)here; /* always this driver's own thread */
    struct uring_driver *d = of(driver);
    struct io_uring_cqe *cqe;
    unsigned head, n = 0, events = 0;
    uint64_t count;
    io_uring_for_each_cqe(&d->ring, head, cqe)
    {
        n++;
        prefetch_op(&d->ring, head);
        if (cqe->user_data == WAKE) {
            d->wake_armed = false;
            if (read(driver->wake_fd, &count, sizeof count) < 0) {
                /* No write since the last read. */
            }
        } else if (cqe->user_data == CANCEL) {
            handle_cancel_result(d, cqe->res);
        } else if (cqe->user_data != NOP) {
            events++;
            complete_op(d, (struct weft__op *)(uintptr_t)cqe->user_data, cqe->res, done);
        }
    }
    io_uring_cq_advance(&d->ring, n);
    if (d->any_thread) {
        hand_to_host(d);
    }
    return events;
}

const struct weft__driver_kind weft__driver_uring = {
    .name = "uring",
    .bytes = sizeof(struct uring_driver),
    .completes = true,
    .open = uring_open,
    .close = uring_close,
    .watch = uring_watch,
    .forget = uring_forget,
    .submit = uring_submit,
    .wait = uring_wait,
    .dispatch = uring_dispatch,
};
