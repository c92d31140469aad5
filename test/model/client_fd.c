/* Clients of io/fd.c and of the requests in io/driver.c: readiness against registration, closes and
 * reused descriptor numbers; a requested cancel against the completion of an operation. The kernel
 * is one word: what can be read, and whether the peer has closed. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "base/futex.h"
#include "io/driver.h"
#include "io/edge.h"
#include "io/statx.h"
#include "model/explore.h"
#include "model/twins.h"

#define FD 3
#define DATA 1u
#define END 2u

/* --- the environment -------------------------------------------------------------------- */

const struct weft__driver_kind weft__driver_epoll, weft__driver_poll;

static struct weft__fd page[512];

void *weft__map(size_t bytes)
{
    X_ASSERT(bytes == sizeof page);
    return page;
}

void weft__unmap(void *memory, size_t bytes)
{
    (void)memory, (void)bytes;
}

/* No descriptor here is shared with other processes. */
int weft__fd_take_reopened(const struct weft__fd *record)
{
    (void)record;
    return -1;
}

enum { OPEN, ABOUT_TO_CLOSE, FREE };
static _Atomic(uint32_t) number;
static bool first_lingers;
static _Atomic(uint32_t) through; /* the event that the close lingers for */

/* With SO_LINGER, the close takes until another thread is done with the number. */
int weft__fd_close_number(int fd)
{
    (void)fd;
    uint32_t was = atomic_exchange_explicit(&number, ABOUT_TO_CLOSE, memory_order_relaxed);
    X_ASSERT(was != ABOUT_TO_CLOSE);
    atomic_store_explicit(&number, FREE, memory_order_release);
    while (first_lingers && x_thread() == 0 &&
           !atomic_load_explicit(&through, memory_order_relaxed)) {
        weft__futex_wait(&through, 0, INT64_MAX);
    }
    return was == FREE ? -EBADF : 0;
}

int weft__statx(int fd, const char *path, int flags, unsigned mask, struct statx *out)
{
    (void)fd, (void)path, (void)flags, (void)mask;
    if (atomic_load_explicit(&number, memory_order_relaxed) == FREE) {
        errno = EBADF;
        return -1;
    }
    *out = (struct statx){.stx_mode = S_IFREG};
    return 0;
}

static int watch(struct weft__driver *driver, struct weft__fd *record)
{
    (void)driver, (void)record;
    return 0;
}

static void forget(struct weft__driver *driver, struct weft__fd *record)
{
    (void)driver, (void)record;
}

static const struct weft__driver_kind kind = {.watch = watch, .forget = forget};
static struct weft__io_counters
    counters[4]; /* each thread has a driver; the last is the one that reports */
static struct weft__driver here[3], driver;
static struct weft__fd *record;

struct wait {
    struct weft__op op;
    _Atomic(uint32_t) completed;
};
static struct wait first, second;
static _Atomic(uint32_t) kernel;
static uint32_t generation;
static int ended;

static void complete(struct weft__op *op, void *ready)
{
    struct wait *wait = (struct wait *)(void *)op;
    (void)ready;
    X_ASSERT(atomic_exchange_explicit(&wait->completed, 1, memory_order_release) == 0);
    weft__futex_wake(&wait->completed, 1);
}

/* A fiber that waits in the record itself: a word that is set when the fiber is fired. */
static _Atomic(uint32_t) fibers[2];

bool weft__io_fire(void *who, uint64_t ticket, const void *near, void *ready)
{
    _Atomic(uint32_t) *fiber = who;
    (void)near;
    (void)ready;
    X_ASSERT(ticket == 5);
    X_ASSERT(atomic_exchange_explicit(fiber, 1, memory_order_release) == 0);
    weft__futex_wake(fiber, 1);
    return true;
}

static void wait_init(struct wait *wait)
{
    memset(wait, 0, sizeof *wait);
    wait->op.complete = complete;
    wait->op.fd = FD;
    wait->op.side = WEFT__SIDE_IN;
}

static void setup(void)
{
    twin_event_reset();
    record = weft__fd_record(FD);
    memset(record, 0, sizeof *record);
    record->number = FD;
    memset(&driver, 0, sizeof driver);
    memset(here, 0, sizeof here);
    memset(counters, 0, sizeof counters);
    for (int i = 0; i < 3; i++) {
        here[i].kind = &kind;
        here[i].counters = &counters[i];
    }
    driver.kind = &kind;
    driver.counters = &counters[3];
    memset(fibers, 0, sizeof fibers);
    driver.wake_fd = TWIN_EVENT_FD;
    wait_init(&first);
    wait_init(&second);
    kernel = 0;
    number = OPEN;
    first_lingers = false;
    through = 0;
    ended = 0;
    X_ASSERT(weft__fd_open(FD, WEFT__FD_SOCKET | WEFT__FD_STREAM) == 0);
    X_ASSERT(weft__fd_claim(record, &driver) == 0);
    generation = weft__fd_generation(record);
    x_name(record, sizeof *record, "record");
    x_name(&kernel, sizeof kernel, "kernel");
}

static void rest(void)
{
    X_ASSERT(!record->list[WEFT__SIDE_IN].first && !record->list[WEFT__SIDE_IN].last);
    X_ASSERT(!record->listed && !weft__fd_slot_waiter(&record->slot[WEFT__SIDE_IN]));
    int64_t linked = 0;
    for (int i = 0; i < 4; i++) {
        linked += atomic_load_explicit(&counters[i].linked, memory_order_relaxed);
    }
    X_ASSERT(linked == 0);
    X_ASSERT(weft__fd_is(record, WEFT__FD_REGISTERED) || !record->driver);
}

/* --- the user, as in net/call.c -------------------------------------------------------------- */

/* 1: a byte, fewer than requested; 0: end of stream; -EAGAIN. */
static int try_read(void)
{
    uint32_t had = atomic_fetch_and_explicit(&kernel, ~DATA, memory_order_acq_rel);
    return had & DATA ? 1 : had & END ? 0 : -EAGAIN;
}

static void sleep_until_completed(struct wait *wait)
{
    while (atomic_load_explicit(&wait->completed, memory_order_acquire) == 0) {
        weft__futex_wait(&wait->completed, 0, INT64_MAX);
    }
    atomic_store_explicit(&wait->completed, 0, memory_order_relaxed);
}

static int user_reads(struct wait *wait)
{
    struct weft__fd_side *side = &record->side[WEFT__SIDE_IN];
    while (weft__fd_generation(record) == generation) {
        uint32_t edges = weft__fd_edges(side);
        if (!weft__fd_is_empty_at(side, edges)) {
            int n = try_read();
            if (n == 1 && !weft__fd_is(record, WEFT__FD_HUNG_UP)) {
                weft__fd_note_empty(side, edges); /* a short read */
            }
            if (n != -EAGAIN) {
                return n;
            }
            weft__fd_note_empty(side, edges);
        }
        int err = weft__fd_link(record, &wait->op, generation, edges, &here[x_thread()]);
        if (err == 0) {
            sleep_until_completed(wait);
            err = (int)wait->op.result;
        }
        if (err && err != -EAGAIN) {
            return err;
        }
    }
    return WEFT__CLOSED;
}

/* The same as a fiber does it: in the record, or in its list if the record has a waiter. */
static int fiber_reads(int i, struct wait *wait, uint32_t mine)
{
    struct weft__fd_side *side = &record->side[WEFT__SIDE_IN];
    while (weft__fd_generation(record) == mine) {
        uint32_t edges = weft__fd_edges(side);
        int n = weft__fd_is_empty_at(side, edges) ? -EAGAIN : try_read();
        if (n != -EAGAIN) {
            return n;
        }
        weft__fd_note_empty(side, edges);
        int err =
            weft__fd_wait(record, WEFT__SIDE_IN, mine, edges, &here[x_thread()], &fibers[i], 5);
        if (err == -EBUSY) {
            return user_reads(wait);
        }
        if (err && err != -EAGAIN) {
            return err;
        }
        while (!err && atomic_load_explicit(&fibers[i], memory_order_acquire) == 0) {
            weft__futex_wait(&fibers[i], 0, INT64_MAX);
        }
        atomic_store_explicit(&fibers[i], 0, memory_order_relaxed);
    }
    return WEFT__CLOSED;
}

static void peer(uint32_t what, bool hung)
{
    atomic_fetch_or_explicit(&kernel, what, memory_order_acq_rel);
    weft__fd_report(record, generation, 1u << WEFT__SIDE_IN, hung, &here[x_thread()], NULL);
}

/* --- clients ---------------------------------------------------------------------------------- */

static void wait_against_edge(int i)
{
    if (i == 0) {
        X_ASSERT(user_reads(&first) == 1);
    } else {
        peer(DATA, false);
    }
}

static void two_bytes(int i)
{
    if (i == 0) {
        X_ASSERT(user_reads(&first) == 1);
        x_count(0);
    } else if (i == 1) {
        X_ASSERT(user_reads(&second) == 1);
        x_count(0);
    } else {
        peer(DATA, false);
        while (x_counted(0) == 0) { /* one word holds one byte */
            x_spin();
        }
        peer(DATA, false);
    }
}

static void fiber_against_edge(int i)
{
    if (i == 0) {
        X_ASSERT(fiber_reads(0, &first, generation) == 1);
    } else {
        peer(DATA, false);
    }
}

/* One reader waits in the record, the other in the list; or the first takes the byte twice. */
static void two_fibers(int i)
{
    if (i < 2) {
        X_ASSERT(fiber_reads(i, i ? &second : &first, generation) == 1);
        x_count(0);
    } else {
        peer(DATA, false);
        while (x_counted(0) == 0) {
            x_spin();
        }
        peer(DATA, false);
    }
}

static void fiber_against_close(int i)
{
    if (i == 0) {
        X_ASSERT(fiber_reads(0, &first, generation) == WEFT__CLOSED);
    } else {
        X_ASSERT(!weft__fd_forget(record, NULL, &here[1], NULL));
    }
}

/* The same, and the number is reused. */
static void fiber_against_reopen(int i)
{
    if (i == 0) {
        X_ASSERT(fiber_reads(0, &first, generation) == WEFT__CLOSED);
    } else {
        X_ASSERT(!weft__fd_forget(record, NULL, &here[1], NULL));
        X_ASSERT(weft__fd_open(FD, WEFT__FD_SOCKET | WEFT__FD_STREAM) == 0);
        X_ASSERT(weft__fd_claim(record, &driver) == 0);
    }
}

/* A descriptor that was found registered, and is removed before the call begins. */
static void file_op_against_close(int i)
{
    if (i == 0) {
        if (weft__fd_is(record, WEFT__FD_REGISTERED)) {
            X_ASSERT(fiber_reads(0, &first, weft__fd_generation(record)) == WEFT__CLOSED);
        }
    } else {
        X_ASSERT(!weft__fd_forget(record, NULL, &here[1], NULL));
    }
}

/* A deadline: the waiter was fired, or it removes itself. */
static void unwait_against_edge(int i)
{
    if (i == 0) {
        uint32_t edges = weft__fd_edges(&record->side[WEFT__SIDE_IN]);
        if (weft__fd_wait(record, WEFT__SIDE_IN, generation, edges, &here[0], &fibers[0], 5) == 0) {
            weft__fd_cancel_wait(record, WEFT__SIDE_IN, &fibers[0], 5, &here[0]);
        }
    } else {
        weft__fd_report(record, generation, 1u << WEFT__SIDE_IN, false, &here[1], NULL);
    }
}

/* The end of stream comes with the last data, and no edge comes after it. */
static void short_read_at_the_end(int i)
{
    if (i == 0) {
        X_ASSERT(user_reads(&first) == 1);
        X_ASSERT(user_reads(&first) == 0);
    } else {
        peer(DATA | END, true);
    }
}

/* A deadline: exactly one of the two ends the wait. */
static void unlink_against_edge(int i)
{
    if (i == 0) {
        uint32_t edges = weft__fd_edges(&record->side[WEFT__SIDE_IN]);
        if (weft__fd_link(record, &first.op, generation, edges, &here[0]) != 0) {
            return;
        }
        if (!weft__fd_unlink(record, &first.op, &here[0])) {
            X_ASSERT(atomic_load_explicit(&first.completed, memory_order_acquire) == 1);
        } else {
            memset(&first, 0, sizeof first); /* its memory is reused: no thread may touch it */
        }
    } else {
        weft__fd_report(record, generation, 1u << WEFT__SIDE_IN, false, &here[1], NULL);
    }
}

static void wait_against_close(int i)
{
    if (i == 0) {
        int n = user_reads(&first);
        X_ASSERT(n == WEFT__CLOSED || n == 1);
    } else if (i == 1) {
        peer(DATA, false);
    } else {
        X_ASSERT(!weft__fd_forget(record, NULL, &here[x_thread()], NULL));
    }
}

/* The same, and the number is reused. */
static void wait_against_reopen(int i)
{
    if (i == 0) {
        int n = user_reads(&first);
        X_ASSERT(n == WEFT__CLOSED);
    } else {
        X_ASSERT(!weft__fd_forget(record, NULL, &here[x_thread()], NULL));
        X_ASSERT(weft__fd_open(FD, WEFT__FD_SOCKET | WEFT__FD_STREAM) == 0);
        X_ASSERT(weft__fd_claim(record, &driver) == 0);
    }
}

static void claim_against_close(int i)
{
    if (i == 0) {
        int err = weft__fd_claim(record, &here[0]);
        X_ASSERT(err == -EBUSY || err == WEFT__CLOSED);
    } else {
        X_ASSERT(!weft__fd_forget(record, NULL, &here[1], NULL));
    }
}

/* The descriptor is not registered yet. */
static void setup_unknown(void)
{
    setup();
    X_ASSERT(!weft__fd_forget(record, NULL, &here[0], NULL));
}

/* A thread that registers before the close is notified; a thread that comes later is refused. */
static void use_against_close(int i)
{
    int err = 0;
    if (i == 0) {
        const struct weft__fd *used = weft__fd_use_unknown(FD, &err);
        X_ASSERT(used ? used == record : err == -EBADF);
    } else {
        X_ASSERT(!weft__fd_forget_and_close(record, NULL, &here[1], NULL, &err) && err == 0);
    }
}

static void is_unknown(void)
{
    X_ASSERT(!weft__fd_is(record, WEFT__FD_REGISTERED));
    rest();
}

/* One of them closes it before the other tries. */
static void close_against_close(int i)
{
    int err = 0;
    X_ASSERT(!weft__fd_forget_and_close(record, NULL, &here[i], NULL, &err));
    X_ASSERT(err == 0 || err == -EBADF);
    if (err == 0) {
        x_count(1);
    }
}

static void one_has_closed_it(void)
{
    X_ASSERT(x_counted(1) == 1);
    X_ASSERT(!weft__fd_is(record, WEFT__FD_IN_CLOSE));
    is_unknown();
}

static void setup_linger(void)
{
    setup();
    first_lingers = true;
}

/* The kernel frees the number before the close returns. */
static void take_the_number(void)
{
    uint32_t is = FREE;
    while (!atomic_compare_exchange_strong_explicit(&number, &is, OPEN, memory_order_acq_rel,
                                                    memory_order_relaxed)) {
        is = FREE;
        x_spin();
    }
    X_ASSERT(weft__fd_open(FD, WEFT__FD_SOCKET | WEFT__FD_STREAM) == 0);
}

static void end_the_linger(void)
{
    atomic_store_explicit(&through, 1, memory_order_relaxed);
    weft__futex_wake(&through, 1);
}

static void linger_against_reopen(int i)
{
    int err = 0;
    if (i == 0) {
        X_ASSERT(!weft__fd_forget_and_close(record, NULL, &here[0], NULL, &err) && err == 0);
    } else {
        take_the_number();
        X_ASSERT(weft__fd_claim(record, &driver) == 0);
        end_the_linger();
    }
}

static void it_is_the_new_one(void)
{
    rest();
    X_ASSERT(weft__fd_is(record, WEFT__FD_REGISTERED) && record->driver == &driver);
    X_ASSERT(!weft__fd_is(record, WEFT__FD_IN_CLOSE));
}

/* The new descriptor is closed too before the old one's close returns, and another thread uses it
 * as long as it can. */
static void linger_against_another_close(int i)
{
    int err = 0;
    if (i == 1) {
        take_the_number();
        end_the_linger();
    }
    if (i < 2) {
        X_ASSERT(!weft__fd_forget_and_close(record, NULL, &here[i], NULL, &err) && err == 0);
    } else {
        const struct weft__fd *used = weft__fd_use_unknown(FD, &err);
        X_ASSERT(used ? used == record : err == -EBADF);
    }
}

static void nobody_closes_it(void)
{
    X_ASSERT(!weft__fd_is(record, WEFT__FD_IN_CLOSE));
    is_unknown();
}

/* An event that was in flight when the number was reused. */
static void stale_event_for_reused_fd(int i)
{
    if (i == 0) {
        weft__fd_forget(record, NULL, &here[x_thread()], NULL);
        X_ASSERT(weft__fd_open(FD, WEFT__FD_SOCKET) == 0);
        X_ASSERT(weft__fd_claim(record, &driver) == 0);
        uint32_t edges = weft__fd_edges(&record->side[WEFT__SIDE_IN]);
        X_ASSERT(weft__fd_link(record, &first.op, weft__fd_generation(record), edges, &here[0]) ==
                 0);
        X_ASSERT(weft__fd_unlink(record, &first.op, &here[0]));
    } else {
        weft__fd_report(record, generation, 1u << WEFT__SIDE_IN, false, &here[1], NULL);
    }
}

/* --- requests --------------------------------------------------------------------------------- */

static struct wait *asked;

static void setup_request(void)
{
    setup();
    asked = x_alloc(sizeof *asked, true);
    wait_init(asked);
}

/* The fiber: a deadline, then the completion, then its frame is gone. The driver: the completion,
 * and a check of the requests. */
static void cancel_against_completion(int i)
{
    if (i == 0) {
        weft__driver_request_cancel(&driver, &asked->op);
        sleep_until_completed(asked);
        x_free(asked);
    } else {
        struct weft__op *op;
        if (x_choose(2) && (op = weft__driver_next_cancel(&driver))) {
            op->cancelling = true;
            weft__driver_drop_cancel(&driver, op);
        }
        weft__driver_op_finished(&driver, &asked->op);
        complete(&asked->op, NULL);
        while ((op = weft__driver_next_cancel(&driver))) {
            op->cancelling = true;
            weft__driver_drop_cancel(&driver, op);
        }
        ended = 1;
    }
}

/* A late request is not lost either: the operation is over. */
static void nothing_is_asked(void)
{
    X_ASSERT(ended && !driver.cancel_requests);
}

/* --- operations in flight --------------------------------------------------------------------- */

static const struct weft__driver_kind completing = {
    .completes = true, .watch = watch, .forget = forget};
static struct weft__driver ring;
static struct weft__op *flights[2]; /* one in the record's own field, one in the list */

static void number_is_free(struct weft__fd_closer *closer, void *ready)
{
    (void)closer, (void)ready;
    X_ASSERT(!record->listed && !weft__fd_slot_waiter(&record->slot[WEFT__SIDE_IN]));
    ended++;
}
static struct weft__fd_closer closer = {.empty = number_is_free};

static void setup_flights(void)
{
    setup();
    memset(&ring, 0, sizeof ring);
    ring.kind = &completing;
    ring.wake_fd = TWIN_EVENT_FD;
    for (int i = 0; i < 2; i++) {
        flights[i] = x_alloc(sizeof *flights[i], true);
        memset(flights[i], 0, sizeof *flights[i]);
        weft__op_init(flights[i], FD, WEFT__OP_RECV, WEFT__SIDE_IN);
        flights[i]->driver = &ring;
        weft__fd_begin_op_locked(record, flights[i]);
    }
    X_ASSERT(weft__fd_slot_waiter(&record->slot[WEFT__SIDE_IN]) == flights[0] && record->listed);
}

/* The driver completes them, in any order, and then they are gone; a close requests their cancel,
 * and waits for the last. */
static void in_flight_against_close(int i)
{
    if (i == 0) {
        int first_one = x_choose(2);
        for (int n = 0; n < 2; n++) {
            struct weft__op *op = flights[n ^ first_one];
            bool closes = weft__fd_generation(record) != generation;
            weft__fd_end_op(record, op, NULL);
            X_ASSERT(!closes || op->closed);
            weft__driver_op_finished(&ring, op);
            x_free(op);
        }
    } else if (!weft__fd_forget(record, &closer, &here[1], NULL)) {
        ended++;
    }
}

static void number_was_freed(void)
{
    rest();
    X_ASSERT(ended == 1 && !ring.cancel_requests && !record->closer);
    X_ASSERT(!weft__fd_is(record, WEFT__FD_CLOSE_PENDING));
}

/* An edge is for fibers that wait for readiness: it does not affect operations in flight. */
static void in_flight_against_edge(int i)
{
    if (i == 0) {
        weft__fd_end_op(record, flights[0], NULL);
        x_free(flights[0]);
        weft__fd_end_op(record, flights[1], NULL);
        x_free(flights[1]);
    } else {
        weft__fd_report(record, generation, 1u << WEFT__SIDE_IN, false, &here[1], NULL);
    }
}

static const struct x_client clients[] = {
    X_CLIENT("wait_against_edge", 2, setup, wait_against_edge, rest),
    X_CLIENT("short_read_at_the_end", 2, setup, short_read_at_the_end, rest),
    X_CLIENT("fiber_against_edge", 2, setup, fiber_against_edge, rest),
    X_CLIENT("fiber_against_close", 2, setup, fiber_against_close, rest),
    X_CLIENT("fiber_against_reopen", 2, setup, fiber_against_reopen, rest, .preemptions = 3),
    X_CLIENT("file_op_against_close", 2, setup, file_op_against_close, rest),
    X_CLIENT("unwait_against_edge", 2, setup, unwait_against_edge, rest),
    X_CLIENT("unlink_against_edge", 2, setup, unlink_against_edge, rest),
    X_CLIENT("stale_event_for_reused_fd", 2, setup, stale_event_for_reused_fd, rest),
    X_CLIENT("claim_against_close", 2, setup, claim_against_close, rest),
    X_CLIENT("use_against_close", 2, setup_unknown, use_against_close, is_unknown),
    X_CLIENT("close_against_close", 2, setup, close_against_close, one_has_closed_it),
    X_CLIENT("linger_against_reopen", 2, setup_linger, linger_against_reopen, it_is_the_new_one),
    X_CLIENT("linger_against_another_close", 3, setup_linger, linger_against_another_close,
             nobody_closes_it, .preemptions = 2, .stale = 1),
    X_CLIENT("wait_against_close", 3, setup, wait_against_close, rest, .preemptions = 2,
             .stale = 1),
    X_CLIENT("wait_against_reopen", 2, setup, wait_against_reopen, rest, .preemptions = 3),
    X_CLIENT("two_bytes", 3, setup, two_bytes, rest, .preemptions = 2, .stale = 1),
    X_CLIENT("two_fibers", 3, setup, two_fibers, rest, .preemptions = 2, .stale = 1),
    X_CLIENT("cancel_against_completion", 2, setup_request, cancel_against_completion,
             nothing_is_asked),
    X_CLIENT("in_flight_against_close", 2, setup_flights, in_flight_against_close,
             number_was_freed),
    X_CLIENT("in_flight_against_edge", 2, setup_flights, in_flight_against_edge, rest),
};

X_MAIN(clients)
