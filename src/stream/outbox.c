/* An outbox: a buffer chain under a small lock, and an event for the fiber that writes it.
 *
 * A poster that finds the chain empty sets the event after it has released the lock; the writer
 * resets the event under the lock, when it finds the chain empty. So the event is set whenever the
 * chain has buffers that the writer has not seen, and at worst once too often.
 */
#include <errno.h>
#include <linux/sockios.h>
#include <string.h>
#include <sys/ioctl.h>

#include <weft/stream.h>

#include "base/assert.h"
#include "base/nonnull.h"
#include "lock/lock.h"
#include "stream/drain.h"

#define HIGH_WATER ((size_t)1 << 20)

struct __attribute__((may_alias)) overlay {
    struct weft__lock lock;
};
_Static_assert(sizeof(struct overlay) == sizeof(struct weft__outbox_lock), "the public storage");

static struct weft__lock *lock_of(weft_outbox *outbox)
{
    return &((struct overlay *)(void *)&outbox->weft_lock)->lock;
}

void weft_outbox_init(weft_outbox *outbox, int fd, const struct weft_outbox_opts *opts)
{
    WEFT__NONNULL(outbox);
    memset(outbox, 0, sizeof *outbox);
    weft_event_init(&outbox->weft_nonempty, &(struct weft_sync_opts){.name = "outbox"});
    if (opts) {
        outbox->weft_opts = *opts;
    }
    if (!outbox->weft_opts.high_water) {
        outbox->weft_opts.high_water = HIGH_WATER;
    }
    outbox->weft_fd = fd;
}

void weft_outbox_deinit(weft_outbox *outbox)
{
    WEFT__NONNULL(outbox);
    weft_event_deinit(&outbox->weft_nonempty);
    weft_bufs_free(&outbox->weft_buffered);
}

/* --- posting -------------------------------------------------------------------------------- */

int weft_outbox_post(weft_outbox *outbox, weft_buf *buf)
{
    WEFT__NONNULL(outbox);
    int err = 0;
    bool first = false;
    weft__lock(lock_of(outbox));
    if (outbox->weft_closed) {
        err = -EPIPE;
    } else if (outbox->weft_pending >= outbox->weft_opts.high_water) {
        err = -EAGAIN;
    } else if (buf->len > 0) {
        first = outbox->weft_buffered.bytes == 0;
        outbox->weft_pending += buf->len;
        weft_bufs_append(&outbox->weft_buffered, buf);
        buf = NULL;
    }
    weft__unlock(lock_of(outbox));
    if (first) {
        weft_event_set(&outbox->weft_nonempty);
    }
    if (!err) {
        weft_buf_free(buf); /* an empty buffer */
    }
    return err;
}

size_t weft_outbox_post_all(weft_outbox *const *outboxes, size_t n, const weft_buf *frame,
                            bool *refused)
{
    size_t took = 0;
    for (size_t i = 0; i < n; i++) {
        weft_buf *share = weft_buf_share(frame);
        bool taken = share && weft_outbox_post(outboxes[i], share) == 0;
        if (!taken) {
            weft_buf_free(share);
        }
        if (refused) {
            refused[i] = !taken;
        }
        took += taken;
    }
    return took;
}

void weft_outbox_close(weft_outbox *outbox)
{
    WEFT__NONNULL(outbox);
    weft__lock(lock_of(outbox));
    outbox->weft_closed = true;
    weft__unlock(lock_of(outbox));
    weft_event_set(&outbox->weft_nonempty);
}

size_t weft_outbox_pending(weft_outbox *outbox)
{
    WEFT__NONNULL(outbox);
    weft__lock(lock_of(outbox));
    size_t pending = outbox->weft_pending;
    weft__unlock(lock_of(outbox));
    return pending;
}

/* --- writing ---------------------------------------------------------------------------------- */

/* Move the whole chain to the batch. 1: the batch has bytes; 0: the outbox is closed and empty;
 * -EAGAIN: there is nothing yet. */
static int collect(weft_outbox *outbox, weft_bufs *batch)
{
    weft__lock(lock_of(outbox));
    weft_bufs_join(batch, &outbox->weft_buffered);
    int state = batch->bytes ? 1 : outbox->weft_closed ? 0 : -EAGAIN;
    if (state == -EAGAIN) {
        weft_event_reset(&outbox->weft_nonempty);
    }
    weft__unlock(lock_of(outbox));
    return state;
}

static void subtract_written(weft_outbox *outbox, size_t n)
{
    weft__lock(lock_of(outbox));
    outbox->weft_pending -= n;
    weft__unlock(lock_of(outbox));
}

/* Put unwritten buffers back at the front. After a failed write they stay there for good, so
 * further posts are refused. */
static void put_back(weft_outbox *outbox, weft_bufs *batch, bool failed)
{
    weft__lock(lock_of(outbox));
    weft_bufs_join(batch, &outbox->weft_buffered);
    outbox->weft_buffered = *batch;
    outbox->weft_closed = outbox->weft_closed || failed;
    weft__unlock(lock_of(outbox));
}

static bool is_repeatable(ssize_t err)
{
    return err == -ETIMEDOUT || err == -ECANCELED || err == -EINTR;
}

static ssize_t drain(weft_outbox *outbox, weft_bufs *batch, int64_t deadline)
{
    const struct weft_outbox_opts *opts = &outbox->weft_opts;
    return weft__drain(batch, outbox->weft_fd, opts->writev, opts->arg, deadline);
}

/* Bytes that the peer's kernel has not acknowledged; 0: unknown. */
static int unacknowledged(const weft_outbox *outbox)
{
    int queued = 0;
    return !outbox->weft_opts.writev && ioctl(outbox->weft_fd, SIOCOUTQ, &queued) == 0 ? queued : 0;
}

/* The socket becomes writable only when much of the send buffer has drained: a peer that does not
 * make it writable may still have acknowledged something. */
static ssize_t drain_unless_stalled(weft_outbox *outbox, weft_bufs *batch, int64_t deadline)
{
    ssize_t n = drain(outbox, batch, 0);
    for (int before = unacknowledged(outbox), now; n == -ETIMEDOUT; before = now) {
        int64_t stalled = weft_after(outbox->weft_opts.stall_ns);
        n = drain(outbox, batch, stalled < deadline ? stalled : deadline);
        now = unacknowledged(outbox);
        if (n == -ETIMEDOUT && weft_now() >= deadline) {
            break;
        }
        if (n == -ETIMEDOUT && now >= before) {
            weft_yield(); /* gives a peer on this worker, which may be late itself, a turn */
            now = unacknowledged(outbox);
        }
        if (n == -ETIMEDOUT && now >= before) {
            return -ETIME;
        }
    }
    return n;
}

int weft_outbox_run(weft_outbox *outbox, int64_t deadline)
{
    WEFT__NONNULL(outbox);
    weft_bufs batch = {0};
    int state;
    while ((state = collect(outbox, &batch)) != 0) {
        ssize_t n = state == -EAGAIN             ? weft_event_wait(&outbox->weft_nonempty, deadline)
                    : outbox->weft_opts.stall_ns ? drain_unless_stalled(outbox, &batch, deadline)
                                                 : drain(outbox, &batch, deadline);
        if (n < 0) {
            put_back(outbox, &batch, !is_repeatable(n));
            return (int)n;
        }
        subtract_written(outbox, state == -EAGAIN ? 0 : (size_t)n);
    }
    return 0;
}
