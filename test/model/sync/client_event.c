/* Clients of sync/event.c and sync/source.c: set against wait, deadline, cancel and interrupt. */
#include <errno.h>

#include "model/fibers.h"
#include "sync/event.h"

static union {
    struct weft__event event;
    weft_event storage;
} place;
#define THE_EVENT (&place.storage)
static int published, result;

static void setup(void)
{
    fibers_setup();
    memset(&place, 0, sizeof place);
    weft_event_init(THE_EVENT, NULL);
    published = 0;
    result = 1;
    x_name(&place, sizeof place, "event");
}

static void rest(void)
{
    fibers_rest();
    X_ASSERT(!place.event.source.waiters.first);
}

static void wait_against_set(int i)
{
    if (i == 0) {
        X_ASSERT(weft_event_wait(THE_EVENT, WEFT_FOREVER) == 0);
        X_ASSERT(published == 1);
    } else {
        published = 1;
        weft_event_set(THE_EVENT);
    }
}

static void two_wait(int i)
{
    if (i < 2) {
        X_ASSERT(weft_event_wait(THE_EVENT, WEFT_FOREVER) == 0);
    } else {
        weft_event_set(THE_EVENT);
    }
}

static void set_against_deadline(int i)
{
    if (i == 0) {
        result = weft_event_wait(THE_EVENT, LATER);
        X_ASSERT(result == 0 || result == -ETIMEDOUT);
    } else if (i == 1) {
        weft_event_set(THE_EVENT);
    } else {
        fibers_expire(0);
    }
}

static void set_against_interrupt(int i)
{
    if (i == 0) {
        result = weft_event_wait(THE_EVENT, WEFT_FOREVER);
        X_ASSERT(result == 0 || result == -EINTR);
    } else if (i == 1) {
        weft_event_set(THE_EVENT);
    } else {
        X_ASSERT(weft_fiber_interrupt(HANDLE(0)) == 0);
    }
}

/* The interrupt ended the wait, or is still pending. */
static void interrupt_is_kept(void)
{
    rest();
    bool left = weft__ident_flags(&tasks[0]) & WEFT__IDENT_INTERRUPT;
    X_ASSERT(left == (result == 0));
}

/* A shield holds a cancel back, whenever it comes. */
static void shielded(int i)
{
    if (i == 0) {
        weft_fiber_shield_enter();
        X_ASSERT(weft_event_wait(THE_EVENT, WEFT_FOREVER) == 0);
        weft_fiber_shield_leave();
    } else if (i == 1) {
        weft_event_set(THE_EVENT);
    } else {
        X_ASSERT(weft_cancel(HANDLE(0)) == 0);
    }
}

static const struct x_client clients[] = {
    X_CLIENT("wait_against_set", 2, setup, wait_against_set, rest),
    X_CLIENT("set_against_deadline", 3, setup, set_against_deadline, rest, .preemptions = 2,
             .stale = 1),
    X_CLIENT("set_against_interrupt", 3, setup, set_against_interrupt, interrupt_is_kept,
             .preemptions = 2),
    X_CLIENT("shielded", 3, setup, shielded, rest, .preemptions = 2),
    X_CLIENT("two_wait", 3, setup, two_wait, rest, .preemptions = 2, .stale = 1),
};

X_MAIN(clients)
