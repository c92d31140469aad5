/* Clients of idle/parker.h. T0 is the owner that parks, the others wake it. */
#include "idle/parker.h"
#include "model/explore.h"
#include "model/twins.h"

static struct weft__parker parker;
static int published[2]; /* plain, read by the owner after a wake */
static _Atomic(int) flags[2];
static bool woken[2];

static void setup(void)
{
    weft__parker_init(&parker);
    twin_event_reset();
    x_name(&parker, sizeof parker, "parker");
    for (int i = 0; i < 2; i++) {
        published[i] = 0;
        atomic_init(&flags[i], 0);
        woken[i] = false;
    }
    x_name(published, sizeof published, "published");
    x_name(flags, sizeof flags, "flags");
}

static void is_empty(void)
{
    X_ASSERT(parker.word == WEFT__PARKER_EMPTY && parker.host_fd == -1);
}

/* ---- a wake hands over what was published before it ---- */

static void publish_and_wake(int i)
{
    published[i] = 1;
    woken[i] = weft__parker_wake(&parker);
}

static void one_wake(int i)
{
    if (i == 0) {
        X_ASSERT(weft__parker_park(&parker, INT64_MAX));
        X_ASSERT(published[0] == 1);
    } else {
        publish_and_wake(0);
    }
}

/* One wake per park, kept if it comes early. */
static void wake_before_park(int i)
{
    if (i == 0) {
        for (int n = 0; n < 2; n++) {
            while (atomic_load_explicit(&flags[n], memory_order_relaxed) == 0) {
                weft__parker_park(&parker, INT64_MAX);
            }
        }
    } else {
        for (int n = 0; n < 2; n++) {
            atomic_store_explicit(&flags[n], 1, memory_order_relaxed);
            weft__parker_wake(&parker);
        }
    }
}

/* Each waker publishes relaxed and wakes; the owner sleeps until it has seen both: none is lost. */
static void two_wakers(int i)
{
    if (i == 0) {
        while (atomic_load_explicit(&flags[0], memory_order_relaxed) == 0 ||
               atomic_load_explicit(&flags[1], memory_order_relaxed) == 0) {
            weft__parker_park(&parker, INT64_MAX);
        }
    } else {
        atomic_store_explicit(&flags[i - 1], 1, memory_order_relaxed);
        weft__parker_wake(&parker);
    }
}

/* Two wakes count once: the second finds the first, and only one has a sleeper to wake. */
static void count_once(int i)
{
    if (i == 0) {
        X_ASSERT(weft__parker_park(&parker, INT64_MAX));
    } else {
        publish_and_wake(i - 1);
    }
}

static void at_most_one_woke(void)
{
    X_ASSERT(!woken[0] || !woken[1]);
}

/* ---- deadlines ---- */

/* Whatever the deadline does, the wake is not lost: it ends this park or the next. */
static void timed(int i)
{
    if (i == 0) {
        if (!weft__parker_park(&parker, 1)) {
            X_ASSERT(weft__parker_park(&parker, INT64_MAX));
        }
        X_ASSERT(published[0] == 1);
    } else {
        publish_and_wake(0);
    }
}

static void timed_alone(int i)
{
    (void)i;
    X_ASSERT(!weft__parker_park(&parker, 1));
    X_ASSERT(!weft__parker_wake(&parker));
    X_ASSERT(weft__parker_park(&parker, 1));
}

/* ---- a host's loop ---- */

static void host_waits(void)
{
    if (weft__parker_enter_host(&parker, TWIN_EVENT_FD)) {
        twin_event_read();
        weft__parker_leave_host(&parker);
    }
}

static void host(int i)
{
    if (i == 0) {
        host_waits();
        X_ASSERT(published[0] == 1);
    } else {
        publish_and_wake(0);
    }
}

/* First in a host's loop, then in the kernel: each wake goes to where the owner sleeps. */
static void host_then_park(int i)
{
    if (i == 0) {
        host_waits();
        while (atomic_load_explicit(&flags[0], memory_order_relaxed) == 0 ||
               atomic_load_explicit(&flags[1], memory_order_relaxed) == 0) {
            weft__parker_park(&parker, INT64_MAX);
        }
    } else {
        atomic_store_explicit(&flags[i - 1], 1, memory_order_relaxed);
        weft__parker_wake(&parker);
    }
}

/* The same in the other order. */
static void park_then_host(int i)
{
    if (i == 0) {
        weft__parker_park(&parker, INT64_MAX);
        while (atomic_load_explicit(&flags[0], memory_order_relaxed) == 0 ||
               atomic_load_explicit(&flags[1], memory_order_relaxed) == 0) {
            host_waits();
        }
    } else {
        atomic_store_explicit(&flags[i - 1], 1, memory_order_relaxed);
        weft__parker_wake(&parker);
    }
}

static const struct x_client clients[] = {
    X_CLIENT("one_wake", 2, setup, one_wake, is_empty, .spurious = 2),
    X_CLIENT("wake_before_park", 2, setup, wake_before_park, NULL, .spurious = 1),
    X_CLIENT("two_wakers", 3, setup, two_wakers, NULL, .spurious = 1),
    X_CLIENT("count_once", 3, setup, count_once, at_most_one_woke),
    X_CLIENT("timed", 2, setup, timed, is_empty, .spurious = 1),
    X_CLIENT("timed_alone", 1, setup, timed_alone, is_empty),
    X_CLIENT("host", 2, setup, host, is_empty),
    X_CLIENT("host_then_park", 3, setup, host_then_park, NULL),
    X_CLIENT("park_then_host", 3, setup, park_then_host, NULL),
};

X_MAIN(clients)
