#include "io/done.h"

#include "base/assert.h"
#include "base/atomic.h"

static _Atomic(void (*)(struct weft__io_done *done)) waker;

void weft__io_set_waker(void (*consume)(struct weft__io_done *done))
{
    atomic_store_explicit(&waker, consume, memory_order_relaxed);
}

/* A waiter in a record was put there by the scheduler that has set the waker, and was found under
 * the record's lock: the waker is visible. */
static void consume_foreign(struct weft__io_done *done)
{
    void (*consume)(struct weft__io_done *) = atomic_load_explicit(&waker, memory_order_relaxed);
    WEFT__ASSERT(consume);
    consume(done);
}

void weft__io_done_init_foreign(struct weft__io_done *done, struct weft__io_wake *wakes, unsigned n)
{
    weft__io_done_init(done, wakes, n, consume_foreign);
}

void weft__io_done_wake_foreign(struct weft__io_done *done)
{
    if (done->next != done->wakes) {
        done->consume(done);
    }
}
