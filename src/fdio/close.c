#include <errno.h>

#include <weft/io.h>

#include "base/assert.h"
#include "fdio/fd_exhaustion.h"
#include "io/fd.h"
#include "sched/io_wake.h"
#include "wait/waiter.h"
#include "worker/worker.h"

static const struct weft__wait_kind close_kind = {.name = "close"};

/* A number that operations in flight still use must not be reused before they have ended. */
struct closer {
    struct weft__fd_closer base; /* must be first */
    struct weft__waiter waiter;
};

static void drained(struct weft__fd_closer *base)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__waiter_fire(&((struct closer *)(void *)base)->waiter, WEFT__REASON_DONE, &ready);
    weft__place_all(&ready, WEFT__FRONT);
}

/* True: done, without waiting. */
static bool end_now(struct weft__fd *record, struct weft__fd_closer *closer)
{
    struct weft__driver *here = weft__worker_peek_driver(weft__worker_self());
    struct weft__io_batch batch;
    weft__io_batch_init(&batch);
    int err = 0;
    bool in_flight = closer->closes
                         ? weft__fd_forget_and_close(record, closer, here, &batch.done, &err)
                         : weft__fd_forget(record, closer, here, &batch.done);
    if (!in_flight) { /* else the closer belongs to the last operation */
        closer->err = err;
    }
    weft__io_batch_place(&batch);
    return !in_flight;
}

/* The wait is short and nothing ends it early: the operations were cancelled. */
static int end(struct weft__fd *record, bool closes)
{
    struct closer closer = {.base = {.closes = closes, .drained = drained}};
    weft__waiter_arm(&closer.waiter,
                     WEFT__WAIT_OBJECT | WEFT__WAIT_SHIELDED | WEFT__WAIT_UNABORTABLE);
    if (end_now(record, &closer.base)) {
        enum weft__reason none = weft__waiter_disarm(&closer.waiter);
        WEFT__ASSERT(none == WEFT__REASON_NONE);
        return closer.base.err;
    }
    enum weft__reason reason = weft__waiter_park(&closer.waiter, WEFT_FOREVER, &close_kind, 0);
    WEFT__ASSERT(reason == WEFT__REASON_DONE);
    return closer.base.err;
}

static bool on_base_context(void)
{
    const struct weft__worker *w = weft__worker_self();
    return w && !weft__current(w);
}

/* A callback on a worker cannot wait. */
static int close_from_callback(int fd)
{
    struct weft__io_batch batch;
    weft__io_batch_init(&batch);
    int err = weft__fd_close(fd, weft__worker_peek_driver(weft__worker_self()), &batch.done);
    weft__io_batch_place(&batch);
    weft__fd_exhaustion_notify();
    return err;
}

int weft_close(int fd)
{
    struct weft__fd *record = weft__fd_find(fd);
    if (record && on_base_context()) {
        return close_from_callback(fd);
    }
    int err = record ? end(record, true) : weft__fd_close_number(fd);
    weft__fd_exhaustion_notify();
    return err;
}

int weft_fd_release(int fd)
{
    struct weft__fd *record = weft__fd_find(fd);
    if (!record || !weft__fd_is(record, WEFT__FD_REGISTERED)) {
        return -EBADF;
    }
    WEFT__REQUIRE(!on_base_context(), "weft_fd_release in a callback on a worker");
    return end(record, false);
}
