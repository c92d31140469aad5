/* Clients of io/fd.c and of the requests in io/driver.c: readiness against registration, closes and
 * reused descriptor numbers; a requested cancel against the completion of an operation. The kernel
 * is one word: what can be read, and whether the peer has closed. */
#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/alloc.h"
#include "io/driver.h"
#include "io/edge.h"
#include "io/statx.h"
#include "lock/futex.h"
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

/* A waiter holds the ticket of its wait, and FIRED once that wait was ended. Its memory stays, as
 * that of a task; the operation does not. */
#define FIRED 0x10000u
static _Atomic(uint32_t) waiters[4];
static struct weft__op first, second;
static _Atomic(uint32_t) kernel;
static uint32_t generation;
static int ended;

/* The scheduler: a wake whose wait has ended has no effect. Each thread has its own list. */
static struct weft__io_wake wakes[3][2];
static struct weft__io_done dones[3];

static void consume(struct weft__io_done *done)
{
    for (const struct weft__io_wake *wake = done->wakes; wake < done->next; wake++) {
        _Atomic(uint32_t) *waiter = (_Atomic(uint32_t) *)(void *)wake->waiter;
        uint32_t ticket = (uint32_t)wake->ticket;
        if (atomic_compare_exchange_strong_explicit(waiter, &ticket, ticket | FIRED,
                                                    memory_order_acq_rel, memory_order_relaxed)) {
            weft__futex_wake(waiter, 1);
        }
    }
    done->next = done->wakes;
}

/* The thread's index; the setup does its work as the first thread. */
static int me(void)
{
    return x_thread() < 0 ? 0 : x_thread();
}

static struct weft__io_done *begin(void)
{
    struct weft__io_done *done = &dones[me()];
    weft__io_done_init(done, wakes[me()], 2, consume);
    return done;
}

static struct weft__io_waiter *waiter_of(int i)
{
    return (struct weft__io_waiter *)(void *)&waiters[i];
}

static uint32_t arm(int i)
{
    uint32_t last = atomic_load_explicit(&waiters[i], memory_order_relaxed);
    uint32_t ticket = (last & ~FIRED) + 1;
    atomic_store_explicit(&waiters[i], ticket, memory_order_release);
    return ticket;
}

/* Waits with the lists' waiters: 2 for `first`, 3 for `second`. */
static int waiter_for(const struct weft__op *op)
{
    return op == &first ? 2 : 3;
}

static void wait_init(struct weft__op *op)
{
    memset(op, 0, sizeof *op);
    op->fd = FD;
    op->side = WEFT__SIDE_IN;
}

static uint32_t arm_op(struct weft__op *op)
{
    uint32_t ticket = arm(waiter_for(op));
    op->wait.waiter = waiter_of(waiter_for(op));
    atomic_store_explicit(&op->wait.word, ticket, memory_order_relaxed);
    return ticket;
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
    memset(waiters, 0, sizeof waiters);
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

/* --- the user, as in fdio/call.c -------------------------------------------------------------- */

/* 1: a byte, fewer than requested; 0: end of stream; -EAGAIN. */
static int try_read(void)
{
    uint32_t had = atomic_fetch_and_explicit(&kernel, ~DATA, memory_order_acq_rel);
    return had & DATA ? 1 : had & END ? 0 : -EAGAIN;
}

static void sleep_until_fired(int i, uint32_t ticket)
{
    while (atomic_load_explicit(&waiters[i], memory_order_acquire) == ticket) {
        weft__futex_wait(&waiters[i], ticket, INT64_MAX);
    }
}

static int user_reads(struct weft__op *op)
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
        uint32_t ticket = arm_op(op);
        int err = weft__fd_link(record, op, generation, edges, &here[x_thread()]);
        if (err == 0) {
            sleep_until_fired(waiter_for(op), ticket);
            err = (int)op->result;
        }
        if (err && err != -EAGAIN) {
            return err;
        }
    }
    return WEFT__CLOSED;
}

/* The same as a fiber does it: in the record, or in its list if the record has a waiter. */
static int fiber_reads(int i, struct weft__op *op, uint32_t mine)
{
    struct weft__fd_side *side = &record->side[WEFT__SIDE_IN];
    while (weft__fd_generation(record) == mine) {
        uint32_t edges = weft__fd_edges(side);
        int n = weft__fd_is_empty_at(side, edges) ? -EAGAIN : try_read();
        if (n != -EAGAIN) {
            return n;
        }
        weft__fd_note_empty(side, edges);
        uint32_t ticket = arm(i);
        int err = weft__fd_wait(record, WEFT__SIDE_IN, mine, edges, &here[x_thread()], waiter_of(i),
                                ticket);
        if (err == -EBUSY) {
            return user_reads(op);
        }
        if (err && err != -EAGAIN) {
            return err;
        }
        if (!err) {
            sleep_until_fired(i, ticket);
        }
    }
    return WEFT__CLOSED;
}

static void report(bool hung)
{
    struct weft__io_done *done = begin();
    weft__fd_report(record, generation, 1u << WEFT__SIDE_IN, hung, &here[x_thread()], done);
    consume(done);
}

static bool forget_it(struct weft__fd_closer *closer)
{
    struct weft__io_done *done = begin();
    bool pending = weft__fd_forget(record, closer, &here[me()], done);
    consume(done);
    return pending;
}

static bool close_it(int *err)
{
    struct weft__io_done *done = begin();
    bool pending = weft__fd_forget_and_close(record, NULL, &here[x_thread()], done, err);
    consume(done);
    return pending;
}

static void peer(uint32_t what, bool hung)
{
    atomic_fetch_or_explicit(&kernel, what, memory_order_acq_rel);
    report(hung);
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
        X_ASSERT(!forget_it(NULL));
    }
}

/* The same, and the number is reused. */
static void fiber_against_reopen(int i)
{
    if (i == 0) {
        X_ASSERT(fiber_reads(0, &first, generation) == WEFT__CLOSED);
    } else {
        X_ASSERT(!forget_it(NULL));
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
        X_ASSERT(!forget_it(NULL));
    }
}

/* A deadline: the waiter was fired, or it removes itself. */
static void unwait_against_edge(int i)
{
    if (i == 0) {
        uint32_t edges = weft__fd_edges(&record->side[WEFT__SIDE_IN]);
        uint32_t ticket = arm(0);
        if (weft__fd_wait(record, WEFT__SIDE_IN, generation, edges, &here[0], waiter_of(0),
                          ticket) == 0) {
            weft__fd_cancel_wait(record, WEFT__SIDE_IN, waiter_of(0), ticket, &here[0]);
        }
    } else {
        report(false);
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
        arm_op(&first);
        if (weft__fd_link(record, &first, generation, edges, &here[0]) != 0) {
            return;
        }
        weft__fd_unlink(record, &first,
                        &here[0]);       /* or the wake is on its way, and has no effect */
        memset(&first, 0, sizeof first); /* its memory is reused: no thread may touch it */
    } else {
        report(false);
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
        X_ASSERT(!forget_it(NULL));
    }
}

/* The same, and the number is reused. */
static void wait_against_reopen(int i)
{
    if (i == 0) {
        int n = user_reads(&first);
        X_ASSERT(n == WEFT__CLOSED);
    } else {
        X_ASSERT(!forget_it(NULL));
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
        X_ASSERT(!forget_it(NULL));
    }
}

/* The descriptor is not registered yet. */
static void setup_unknown(void)
{
    setup();
    X_ASSERT(!forget_it(NULL));
}

/* A thread that registers before the close is notified; a thread that comes later is refused. */
static void use_against_close(int i)
{
    int err = 0;
    if (i == 0) {
        const struct weft__fd *used = weft__fd_use_unknown(FD, &err);
        X_ASSERT(used ? used == record : err == -EBADF);
    } else {
        X_ASSERT(!close_it(&err) && err == 0);
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
    X_ASSERT(!close_it(&err));
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
        X_ASSERT(!close_it(&err) && err == 0);
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
        X_ASSERT(!close_it(&err) && err == 0);
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
        forget_it(NULL);
        X_ASSERT(weft__fd_open(FD, WEFT__FD_SOCKET) == 0);
        X_ASSERT(weft__fd_claim(record, &driver) == 0);
        uint32_t edges = weft__fd_edges(&record->side[WEFT__SIDE_IN]);
        arm_op(&first);
        X_ASSERT(weft__fd_link(record, &first, weft__fd_generation(record), edges, &here[0]) == 0);
        X_ASSERT(weft__fd_unlink(record, &first, &here[0]));
    } else {
        report(false);
    }
}

/* --- requests --------------------------------------------------------------------------------- */

static struct asked {
    struct weft__op op;
    _Atomic(uint32_t) completed;
} * asked;

static void setup_request(void)
{
    setup();
    asked = x_alloc(sizeof *asked, true);
    wait_init(&asked->op);
    atomic_init(&asked->completed, 0);
}

static void sleep_until_completed(void)
{
    while (atomic_load_explicit(&asked->completed, memory_order_acquire) == 0) {
        weft__futex_wait(&asked->completed, 0, INT64_MAX);
    }
}

/* The fiber: a deadline, then the completion, then its frame is gone. The driver: the completion,
 * and a check of the requests. */
static void cancel_against_completion(int i)
{
    if (i == 0) {
        weft__driver_request_cancel(&driver, &asked->op);
        sleep_until_completed();
        x_free(asked);
    } else {
        struct weft__op *op;
        if (x_choose(2) && (op = weft__driver_next_cancel(&driver))) {
            op->cancelling = true;
            weft__driver_drop_cancel(&driver, op);
        }
        weft__driver_op_finished(&driver, &asked->op);
        atomic_store_explicit(&asked->completed, 1, memory_order_release);
        weft__futex_wake(&asked->completed, 1);
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

static void number_is_free(struct weft__fd_closer *closer)
{
    (void)closer;
    X_ASSERT(!record->listed && !weft__fd_slot_waiter(&record->slot[WEFT__SIDE_IN]));
    ended++;
}
static struct weft__fd_closer closer = {.drained = number_is_free};

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
    X_ASSERT(weft__fd_slot_op(&record->slot[WEFT__SIDE_IN]) == flights[0] && record->listed);
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
            weft__fd_end_op(record, op);
            X_ASSERT(!closes || op->closed);
            weft__driver_op_finished(&ring, op);
            x_free(op);
        }
    } else if (!forget_it(&closer)) {
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
        weft__fd_end_op(record, flights[0]);
        x_free(flights[0]);
        weft__fd_end_op(record, flights[1]);
        x_free(flights[1]);
    } else {
        report(false);
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
