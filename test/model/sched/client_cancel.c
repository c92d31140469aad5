/* Clients of fiber/cancel.c: interrupts that are delivered once and never lost, shields, aborts,
 * and waits that not even an abort ends. */
#include <errno.h>

#include "fiber/cancel.h"
#include "model/fibers.h"
#include "sync/event.h"

static union {
    struct weft__event event;
    weft_event storage;
} place;
#define THE_EVENT (&place.storage)
#define ABORT (WEFT__IDENT_CANCEL | WEFT__IDENT_ABORT)
static int results[2];
static bool cleared;

static const struct weft__wait_kind test_kind = {.name = "test"};

static void setup(void)
{
    fibers_setup();
    memset(&place, 0, sizeof place);
    weft_event_init(THE_EVENT, NULL);
    results[0] = results[1] = 1;
    cleared = false;
    x_name(&place, sizeof place, "event");
}

static void rest(void)
{
    fibers_rest();
    X_ASSERT(!place.event.source.waiters.first);
}

static bool interrupt_left(void)
{
    return weft__ident_flags(&tasks[0]) & WEFT__IDENT_INTERRUPT;
}

/* ---- interrupts ---- */

/* The second call only polls. */
static void two_interrupts(int i)
{
    if (i == 0) {
        X_ASSERT(weft_event_wait(THE_EVENT, WEFT_FOREVER) == -EINTR);
        results[1] = weft_event_wait(THE_EVENT, TWIN_NOW);
        X_ASSERT(results[1] == -EINTR || results[1] == -ETIMEDOUT);
    } else {
        X_ASSERT(weft_fiber_interrupt(HANDLE(0)) == 0);
    }
}

/* Two interrupts count once or twice, never three times. */
static void not_doubled(void)
{
    rest();
    X_ASSERT(results[1] != -EINTR || !interrupt_left());
}

static void one_interrupt_one_wait(int i)
{
    if (i == 0) {
        results[0] = weft_event_wait(THE_EVENT, TWIN_NOW);
        results[1] = weft_event_wait(THE_EVENT, TWIN_NOW);
    } else {
        X_ASSERT(weft_fiber_interrupt(HANDLE(0)) == 0);
    }
}

static void clear_against_interrupt(int i)
{
    if (i == 0) {
        results[0] = weft_event_wait(THE_EVENT, TWIN_NOW);
        cleared = weft_fiber_clear_interrupt();
    } else {
        X_ASSERT(weft_fiber_interrupt(HANDLE(0)) == 0);
    }
}

static void counted_once(void)
{
    rest();
    X_ASSERT((results[0] == -EINTR) + (results[1] == -EINTR) + cleared + interrupt_left() == 1);
}

/* The interrupt ended the wait, or is still pending. */
static void delivered_or_left(void)
{
    rest();
    X_ASSERT(interrupt_left() == (results[0] != -EINTR));
}

static void set_against_interrupt(int i)
{
    if (i == 0) {
        results[0] = weft_event_wait(THE_EVENT, WEFT_FOREVER);
        X_ASSERT(results[0] == 0 || results[0] == -EINTR);
    } else if (i == 1) {
        weft_event_set(THE_EVENT);
    } else {
        X_ASSERT(weft_fiber_interrupt(HANDLE(0)) == 0);
    }
}

static void cancel_against_interrupt(int i)
{
    if (i == 0) {
        results[0] = weft_event_wait(THE_EVENT, WEFT_FOREVER);
        X_ASSERT(results[0] == -ECANCELED || results[0] == -EINTR);
    } else if (i == 1) {
        X_ASSERT(weft_cancel(HANDLE(0)) == 0);
    } else {
        X_ASSERT(weft_fiber_interrupt(HANDLE(0)) == 0);
    }
}

/* ---- shields ---- */

static void interrupt_against_shield(int i)
{
    if (i == 0) {
        weft_fiber_shield_enter();
        X_ASSERT(weft_event_wait(THE_EVENT, TWIN_NOW) == -ETIMEDOUT);
        weft_fiber_shield_leave();
        results[0] = weft_event_wait(THE_EVENT, TWIN_NOW);
    } else {
        X_ASSERT(weft_fiber_interrupt(HANDLE(0)) == 0);
    }
}

static void cancel_against_shield(int i)
{
    if (i == 0) {
        weft_fiber_shield_enter();
        X_ASSERT(weft_event_wait(THE_EVENT, TWIN_NOW) == -ETIMEDOUT);
        weft_fiber_shield_leave();
        X_ASSERT(weft_event_wait(THE_EVENT, WEFT_FOREVER) == -ECANCELED);
    } else {
        X_ASSERT(weft_cancel(HANDLE(0)) == 0);
    }
}

static void abort_through_shield(int i)
{
    if (i == 0) {
        weft_fiber_shield_enter();
        X_ASSERT(weft_event_wait(THE_EVENT, WEFT_FOREVER) == -ECANCELED);
        weft_fiber_shield_leave();
    } else {
        X_ASSERT(weft__cancel(HANDLE(0), ABORT, NULL) == 0);
    }
}

/* Only its own event ends the wait. */
static void firm_wait(int i)
{
    if (i == 0) {
        struct weft__waiter waiter;
        struct weft__node node;
        weft_fiber_shield_enter();
        weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT | WEFT__WAIT_UNABORTABLE);
        weft__node_init(&node, &waiter, 0);
        if (weft__event_arm(&place.event, &node)) {
            X_ASSERT(weft__waiter_park(&waiter, WEFT_FOREVER, &test_kind, 0) == WEFT__REASON_DONE);
            weft__event_finish(&place.event, &node);
        } else {
            X_ASSERT(weft__waiter_disarm(&waiter) == WEFT__REASON_NONE);
        }
        weft_fiber_shield_leave();
    } else if (i == 1) {
        weft_event_set(THE_EVENT);
    } else {
        X_ASSERT(weft__cancel(HANDLE(0), ABORT, NULL) == 0);
    }
}

static const struct x_client clients[] = {
    X_CLIENT("one_interrupt_one_wait", 2, setup, one_interrupt_one_wait, counted_once),
    X_CLIENT("clear_against_interrupt", 2, setup, clear_against_interrupt, counted_once),
    X_CLIENT("interrupt_against_shield", 2, setup, interrupt_against_shield, counted_once),
    X_CLIENT("cancel_against_shield", 2, setup, cancel_against_shield, rest),
    X_CLIENT("abort_through_shield", 2, setup, abort_through_shield, rest),
    X_CLIENT("firm_wait", 3, setup, firm_wait, rest, .preemptions = 2),
    X_CLIENT("set_against_interrupt", 3, setup, set_against_interrupt, delivered_or_left,
             .preemptions = 2, .stale = 1),
    X_CLIENT("cancel_against_interrupt", 3, setup, cancel_against_interrupt, delivered_or_left,
             .preemptions = 2),
    X_CLIENT("two_interrupts", 3, setup, two_interrupts, not_doubled, .preemptions = 2, .stale = 1),
};

X_MAIN(clients)
