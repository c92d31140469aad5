/* Time for fibers: the clock of all deadlines, and sleeping until a deadline. */
#include <weft/fiber.h>

#include "base/clock.h"
#include "wait/waiter.h"
#include "worker/worker.h"

int64_t weft_now(void)
{
    return weft__clock_ns();
}

int64_t weft_now_cached(void)
{
    const struct weft__worker *w = weft__worker_self();
    return w ? w->now : weft__clock_ns();
}

int64_t weft_after(int64_t ns)
{
    int64_t now = weft__clock_ns();
    if (ns <= 0) {
        return now;
    }
    return weft__clock_add(now, ns);
}

static const struct weft__wait_kind sleep_kind = {.name = "sleep"};

int weft_sleep(int64_t deadline)
{
    struct weft__waiter waiter;
    /* Linked into no source: only time, a cancel or an interrupt ends it. */
    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT | WEFT__WAIT_EXTERNAL);
    enum weft__reason reason = weft__waiter_park(&waiter, deadline, &sleep_kind, 0);
    return reason == WEFT__REASON_TIMEOUT ? 0 : weft__reason_errno(reason);
}
