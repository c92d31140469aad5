/* Clients of fdio/call.c and fdio/fd_exhaustion.c: whatever was delivered to a wait is returned by
 * that wait, or stays for the next. Conservation: interrupts in = -EINTR out + still pending,
 * whatever else ends the wait at the same moment: an edge, a close, a completion, a free
 * descriptor. Two fibers wait on one side of a descriptor: one in the record's own waiter field,
 * the other in its list. */
#include <errno.h>
#include <string.h>

#define FIBERS 2
#include "base/alloc.h"
#include "model/fibers.h"

#include "fdio/call.h"
#include "fdio/fd_exhaustion.h"
#include "io/driver.h"
#include "io/edge.h"
#include "io/statx.h"
#include "task/fork.h"

#define FD 3

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

int weft__fd_take_reopened(const struct weft__fd *which)
{
    (void)which;
    return -1;
}

int weft__statx(int dir, const char *path, int flags, unsigned mask, struct statx *out)
{
    (void)dir, (void)path, (void)flags, (void)mask, (void)out;
    X_ASSERT(false);
    return -1;
}

int weft__fd_close_number(int fd)
{
    (void)fd;
    return 0;
}

int64_t weft__fd_perform_shared(struct weft__fd *which, struct weft__op *op)
{
    (void)which, (void)op;
    return -EAGAIN;
}

int64_t weft__op_perform(struct weft__op *op)
{
    (void)op;
    return -EAGAIN;
}

int weft__op_connect_result(int fd)
{
    (void)fd;
    return 0;
}

void weft__fork_once_slow(struct weft__fork_once *once, void (*fn)(void))
{
    (void)once, (void)fn;
}

void weft__fork_hook(struct weft__fork_hook *hook)
{
    (void)hook;
}

struct weft__driver *weft__worker_open_driver(struct weft__worker *w, int *err)
{
    (void)w;
    *err = -ENOMEM;
    return NULL;
}

bool weft__io_waiter_fire(struct weft__io_waiter *waiter, uint64_t ticket,
                          struct weft__chain *ready)
{
    struct weft__task *task = weft__io_waiter_task(waiter);
    enum weft__fire fire = weft__task_fire(task, ticket, WEFT__REASON_DONE);
    if (fire == WEFT__FIRE_ENQUEUE) {
        weft__chain_push(ready, &task->link);
    }
    return fire != WEFT__FIRE_LOST;
}

static int watch(struct weft__driver *driver, struct weft__fd *which)
{
    (void)driver, (void)which;
    return 0;
}

static void forget(struct weft__driver *driver, struct weft__fd *which)
{
    (void)driver, (void)which;
}

static struct weft__call call;
static _Atomic(bool) submitted;

static bool submit(struct weft__driver *driver, struct weft__op *op)
{
    (void)driver, (void)op;
    atomic_store_explicit(&submitted, true, memory_order_release);
    return true;
}

/* As sched/worker_io.c: one thread at a time dispatches or closes here. */
struct batch {
    struct weft__io_done done;
    struct weft__chain ready;
    struct weft__io_wake wakes[1]; /* one, so that a second wake finds the array full */
};

static void consume(struct weft__io_done *done)
{
    struct batch *batch = (struct batch *)(void *)done;
    for (const struct weft__io_wake *wake = done->wakes; wake < done->next; wake++) {
        weft__io_waiter_fire(wake->waiter, wake->ticket, &batch->ready);
    }
    done->next = done->wakes;
}

static void batch_init(struct batch *batch)
{
    weft__io_done_init(&batch->done, batch->wakes, 1, consume);
    weft__chain_init(&batch->ready);
}

static void batch_place(struct batch *batch)
{
    consume(&batch->done);
    weft__place_all(&batch->ready, WEFT__FRONT);
}

static const struct weft__driver_kind readiness = {.watch = watch, .forget = forget},
                                      completion = {.completes = true, .submit = submit};
static struct weft__io_counters counters[FIBERS];
static struct weft__driver drivers[FIBERS];
static struct weft__fd *record;
static struct weft__fd_snapshot seen;
static int results[FIBERS];
static const struct weft__wait_kind kind = {.name = "test", .descriptor = true};

static void setup_with(const struct weft__driver_kind *driver)
{
    fibers_setup();
    twin_event_reset();
    record = weft__fd_record(FD);
    memset(record, 0, sizeof *record);
    memset(drivers, 0, sizeof drivers);
    memset(counters, 0, sizeof counters);
    record->number = FD;
    for (int i = 0; i < FIBERS; i++) {
        drivers[i].kind = driver;
        drivers[i].counters = &counters[i];
        drivers[i].wake_fd = TWIN_EVENT_FD;
        atomic_init(&workers[i].driver, &drivers[i]);
        results[i] = 1;
    }
    x_name(record, sizeof *record, "record");
}

/* The home worker is set, as after the first wait of all. */
static void setup(void)
{
    setup_with(&readiness);
    X_ASSERT(weft__fd_open(FD, WEFT__FD_SOCKET) == 0);
    X_ASSERT(weft__fd_claim(record, &drivers[0]) == 0);
    seen = weft__call_observe(record, WEFT__SIDE_IN);
}

static void edge(void)
{
    struct batch batch;
    batch_init(&batch);
    weft__fd_report(record, seen.generation, 1u << WEFT__SIDE_IN, false, NULL, &batch.done);
    batch_place(&batch);
}

static bool interrupt_left(int i)
{
    return weft__ident_flags(&tasks[i]) & WEFT__IDENT_INTERRUPT;
}

static void rest(void)
{
    fibers_rest();
    X_ASSERT(!record->listed && !weft__fd_slot_waiter(&record->slot[WEFT__SIDE_IN]));
}

/* --- two fibers that wait for an edge ----------------------------------------------------- */

static int waits(void)
{
    return weft__call_wait_edge(record, WEFT__SIDE_IN, seen, WEFT_FOREVER, &kind);
}

/* Until the edge has come, whichever fiber tries in between. */
static void waits_for_edge(int i)
{
    results[i] = waits();
    X_ASSERT(results[i] == 0 || results[i] == -EINTR);
}

static void two_against_interrupt(int i)
{
    if (i < FIBERS) {
        waits_for_edge(i);
    } else {
        X_ASSERT(weft_fiber_interrupt(HANDLE(1)) == 0);
        edge();
    }
}

/* The second fiber was interrupted once, the first never. */
static void conserved(void)
{
    rest();
    X_ASSERT(results[0] != -EINTR && !interrupt_left(0));
    X_ASSERT((results[1] == -EINTR) + interrupt_left(1) == 1);
    struct weft__rare *rare = weft__task_rare(&tasks[1]);
    X_ASSERT(results[1] != -EINTR || (rare->ended.kind == &kind && rare->ended.on == FD));
}

/* The edge comes from another thread. */
static void edge_against_interrupt(int i)
{
    if (i == 0) {
        edge();
        results[0] = 0;
    } else if (i == 1) {
        waits_for_edge(i);
    } else {
        X_ASSERT(weft_fiber_interrupt(HANDLE(1)) == 0);
    }
}

/* Both are cancelled: the cancel ends the wait, and stays pending. */
static void two_against_cancel(int i)
{
    if (i < FIBERS) {
        results[i] = waits();
        X_ASSERT(results[i] == 0 || results[i] == -ECANCELED);
    } else {
        X_ASSERT(weft_cancel(HANDLE(1)) == 0);
        edge();
    }
}

static void cancel_stays(void)
{
    rest();
    X_ASSERT(results[0] == 0 && (weft__ident_flags(&tasks[1]) & WEFT__IDENT_CANCEL));
}

/* The call fails: the interrupt stays for the next call. */
static void close_against_interrupt(int i)
{
    if (i == 0) {
        struct batch batch;
        batch_init(&batch);
        X_ASSERT(!weft__fd_forget(record, NULL, &drivers[0], &batch.done));
        batch_place(&batch);
        results[0] = 0;
    } else if (i == 1) {
        /* The event that it has seen may belong to a descriptor that is already closed: then the
         * call fails. */
        struct weft__fd_snapshot late = weft__call_observe(record, WEFT__SIDE_IN);
        results[1] = weft__call_wait_edge(record, WEFT__SIDE_IN, late, WEFT_FOREVER, &kind);
        X_ASSERT(results[1] == 0 || results[1] == -EINTR || results[1] == WEFT__CLOSED);
    } else {
        X_ASSERT(weft_fiber_interrupt(HANDLE(1)) == 0);
    }
}

/* --- an operation in flight ----------------------------------------------------------------- */

enum { RESULT = 7 };

static void setup_flight(void)
{
    setup_with(&completion);
    atomic_init(&submitted, false);
    memset(&call, 0, sizeof call);
    weft__op_init(&call.op, FD, WEFT__OP_RECV, WEFT__SIDE_IN);
}

static void drive(void)
{
    struct weft__chain ready;
    bool asked;
    while (!atomic_load_explicit(&submitted, memory_order_acquire)) {
        x_spin();
    }
    struct weft__op *op = weft__driver_next_cancel(&drivers[1]);
    asked = op != NULL;
    if (asked) {
        weft__driver_drop_cancel(&drivers[1], op);
    }
    call.op.result = asked ? -ECANCELED : RESULT;
    weft__driver_op_finished(&drivers[1], &call.op);
    weft__chain_init(&ready);
    X_ASSERT(!weft__op_state_finish(&call.op.wait, &ready));
    weft__place_all(&ready, WEFT__FRONT);
    results[0] = 0;
}

static void completion_against_interrupt(int i)
{
    if (i == 0) {
        drive();
    } else if (i == 1) {
        results[1] = (int)weft__call_complete(&drivers[1], &call, WEFT_FOREVER, &kind);
        X_ASSERT(results[1] == RESULT || results[1] == -EINTR);
    } else {
        X_ASSERT(weft_fiber_interrupt(HANDLE(1)) == 0);
    }
}

static void conserved_flight(void)
{
    fibers_rest();
    X_ASSERT((results[1] == -EINTR) + interrupt_left(1) == 1);
}

/* --- a free descriptor ----------------------------------------------------------------------- */

static uint64_t closed;

static void setup_room(void)
{
    setup_with(&readiness);
    weft__fd_exhaustion_reset();
    closed = weft__fd_exhaustion_close_count();
    weft__fd_exhaustion_enter();
}

static void fd_exhaustion_against_interrupt(int i)
{
    if (i == 0) {
        weft__fd_exhaustion_notify();
        results[0] = 0;
    } else if (i == 1) {
        results[1] = weft__fd_exhaustion_wait(closed, WEFT_FOREVER);
        X_ASSERT(results[1] == 0 || results[1] == -EINTR);
    } else {
        X_ASSERT(weft_fiber_interrupt(HANDLE(1)) == 0);
    }
}

static void conserved_room(void)
{
    weft__fd_exhaustion_leave();
    fibers_rest();
    X_ASSERT((results[1] == -EINTR) + interrupt_left(1) == 1);
}

static const struct x_client clients[] = {
    X_CLIENT("edge_against_interrupt", 3, setup, edge_against_interrupt, conserved,
             .preemptions = 2, .stale = 1),
    X_CLIENT("two_against_interrupt", 3, setup, two_against_interrupt, conserved, .preemptions = 2,
             .stale = 1),
    X_CLIENT("two_against_cancel", 3, setup, two_against_cancel, cancel_stays, .preemptions = 2,
             .stale = 1),
    X_CLIENT("close_against_interrupt", 3, setup, close_against_interrupt, conserved,
             .preemptions = 2, .stale = 1),
    X_CLIENT("completion_against_interrupt", 3, setup_flight, completion_against_interrupt,
             conserved_flight, .preemptions = 2, .stale = 1),
    X_CLIENT("fd_exhaustion_against_interrupt", 3, setup_room, fd_exhaustion_against_interrupt,
             conserved_room, .preemptions = 2, .stale = 1),
};

X_MAIN(clients)
