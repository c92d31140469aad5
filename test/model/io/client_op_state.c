/* Clients of sched/op_state.h: a fiber whose wait may end before its operation, and the driver's
 * thread that completes the operation. The client provides the fiber's state word: it holds the
 * ticket of the fiber's wait until a thread fires it. */
#include "lock/futex.h"
#include "model/explore.h"
#include "sched/op_state.h"

#define FIRED 16u
#define RESULT 7

struct call {
    int result; /* plain on purpose: the completion orders it */
    struct weft__io_wait ending;
};

static struct call *call;
static _Atomic(uint32_t) fiber;

static bool fire(uint32_t ticket)
{
    return atomic_compare_exchange_strong_explicit(&fiber, &ticket, ticket | FIRED,
                                                   memory_order_acq_rel, memory_order_relaxed);
}

static struct weft__io_waiter *waiter(void)
{
    return (struct weft__io_waiter *)(void *)&fiber;
}

bool weft__io_waiter_fire(struct weft__io_waiter *who, uint64_t ticket, struct weft__chain *ready)
{
    (void)ready;
    X_ASSERT(who == waiter());
    bool won = fire((uint32_t)ticket);
    if (won) {
        weft__futex_wake(&fiber, 1);
    }
    return won;
}

static void setup(void)
{
    call = x_alloc(sizeof *call, true);
    call->result = 0;
    atomic_init(&fiber, 1);
    weft__op_state_init(&call->ending, waiter(), 1);
}

static void park(uint32_t ticket)
{
    while (atomic_load_explicit(&fiber, memory_order_acquire) == ticket) {
        weft__futex_wait(&fiber, ticket, INT64_MAX);
    }
}

/* As weft__call_abort: a deadline may come first, and then the fiber waits once more, for the
 * completion alone. */
static void owner(void)
{
    bool late = x_choose(2) && fire(1);
    if (late) {
        weft__op_state_stop_waiting(&call->ending, 1);
        atomic_store_explicit(&fiber, 2, memory_order_release);
        if (weft__op_state_wait(&call->ending, 2)) {
            park(2);
        }
    } else {
        park(1);
    }
    X_ASSERT(call->result == RESULT);
    x_free(call);
}

/* As frame/await_fd.c: a fiber that ends leaves the operation, unless it is finished. */
static void leaver(void)
{
    if (!fire(1)) {
        park(1);
        x_free(call);
        return;
    }
    weft__op_state_stop_waiting(&call->ending, 1);
    if (x_choose(2) && weft__op_state_is_finished(&call->ending)) {
        X_ASSERT(call->result == RESULT);
    }
    if (!weft__op_state_abandon(&call->ending)) {
        X_ASSERT(call->result == RESULT);
        x_free(call);
    }
}

static void driver(void)
{
    call->result = RESULT;
    if (weft__op_state_finish(&call->ending, NULL)) {
        x_free(call);
    }
}

static void completion_against_deadline(int i)
{
    if (i == 0) {
        owner();
    } else {
        driver();
    }
}

static void completion_against_leaving(int i)
{
    if (i == 0) {
        leaver();
    } else {
        driver();
    }
}

static void rest(void)
{
}

static const struct x_client clients[] = {
    X_CLIENT("completion_against_deadline", 2, setup, completion_against_deadline, rest,
             .ahead = true),
    X_CLIENT("completion_against_leaving", 2, setup, completion_against_leaving, rest,
             .ahead = true),
};

X_MAIN(clients)
