/* Clients of sync/barrier.c: a phase completes for all of its parties or for none, whatever ends
 * the waits. */
#define FIBERS 3
#include <errno.h>

#include "model/fibers.h"
#include "sync/barrier.h"

static union {
    struct weft__barrier barrier;
    weft_barrier storage;
} place;
#define THE_BARRIER (&place.storage)
static int published[FIBERS], results[FIBERS];

static void setup_of(uint32_t parties)
{
    fibers_setup();
    memset(&place, 0, sizeof place);
    weft_barrier_init(THE_BARRIER, parties, NULL);
    memset(published, 0, sizeof published);
    for (int i = 0; i < FIBERS; i++) {
        results[i] = 2;
    }
    x_name(&place, sizeof place, "barrier");
}

static void setup(void)
{
    setup_of(2);
}

static void setup_three(void)
{
    setup_of(3);
}

static void rest(void)
{
    fibers_rest();
    X_ASSERT(!place.barrier.source.waiters.first && place.barrier.arrived == 0);
}

/* Exactly one of the parties was the last. */
static void all_met(void)
{
    rest();
    int last = 0;
    for (uint32_t i = 0; i < place.barrier.parties; i++) {
        X_ASSERT(results[i] == 0 || results[i] == 1);
        last += results[i];
    }
    X_ASSERT(last == 1);
}

/* Two parties: both were part of the phase, or neither. */
static void both_or_neither(void)
{
    X_ASSERT((results[0] >= 0) == (results[1] >= 0));
    if (results[0] >= 0) {
        all_met();
    } else {
        rest();
    }
}

static void meet(int i)
{
    published[i] = 1;
    results[i] = weft_barrier_wait(THE_BARRIER, WEFT_FOREVER);
    for (uint32_t k = 0; k < place.barrier.parties; k++) {
        X_ASSERT(published[k] == 1); /* plain: everything that happened before the phase */
    }
}

/* The first party to return to the barrier does not enter the phase that it has left. */
static void meet_twice(int i)
{
    X_ASSERT(weft_barrier_wait(THE_BARRIER, WEFT_FOREVER) >= 0);
    published[i] = 1;
    results[i] = weft_barrier_wait(THE_BARRIER, WEFT_FOREVER);
    X_ASSERT(published[!i] == 1);
}

/* T1 meets T0 or does not wait; T2 ends the wait of T0. */
static void try_to_meet(int i)
{
    results[i] = weft_barrier_wait(THE_BARRIER, i == 0 ? WEFT_FOREVER : 0);
}

static void last_against_cancel(int i)
{
    if (i < 2) {
        try_to_meet(i);
    } else {
        X_ASSERT(weft_cancel(HANDLE(0)) == 0);
    }
}

static void last_against_interrupt(int i)
{
    if (i < 2) {
        try_to_meet(i);
    } else {
        X_ASSERT(weft_fiber_interrupt(HANDLE(0)) == 0);
    }
}

/* The interrupt ended the wait, or is still pending. */
static void interrupt_is_kept(void)
{
    both_or_neither();
    bool left = weft__ident_flags(&tasks[0]) & WEFT__IDENT_INTERRUPT;
    X_ASSERT(left == (results[0] >= 0));
}

static const struct x_client clients[] = {
    X_CLIENT("two_meet", 2, setup, meet, all_met, .preemptions = 3),
    X_CLIENT("meet_twice", 2, setup, meet_twice, all_met, .preemptions = 2, .stale = 1),
    X_CLIENT("last_against_cancel", 3, setup, last_against_cancel, both_or_neither,
             .preemptions = 2, .stale = 1),
    X_CLIENT("last_against_interrupt", 3, setup, last_against_interrupt, interrupt_is_kept,
             .preemptions = 2, .stale = 1),
    X_CLIENT("three_meet", 3, setup_three, meet, all_met, .preemptions = 1, .stale = 1),
};

X_MAIN(clients)
