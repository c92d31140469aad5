/* Clients of sync/mutex.c: lock and unlock against each other, a deadline, a cancel, and the
 * hand-off. */
#define FIBERS 3
#include <errno.h>

#include "model/holders.h"
#include "sync/mutex.h"

static union {
    struct weft__mutex mutex;
    weft_mutex storage;
} place;
#define THE_MUTEX (&place.storage)
static int inside, got; /* plain: the lock must order them */

static void setup(void)
{
    fibers_setup();
    memset(&place, 0, sizeof place);
    weft_mutex_init(THE_MUTEX, NULL);
    inside = got = 0;
    x_name(&place, sizeof place, "mutex");
}

/* Fiber 0 holds it. */
static void setup_held(void)
{
    setup();
    atomic_init(&place.mutex.word, HOLDER(0));
    tasks[0].held = &place.mutex.held;
    place.mutex.held.below = NULL;
}

static void rest(void)
{
    fibers_rest();
    X_ASSERT(!place.mutex.source.waiters.first);
    X_ASSERT(place.mutex.word == 0);
    for (int i = 0; i < FIBERS; i++) {
        X_ASSERT(!tasks[i].held);
    }
}

static void section(void)
{
    X_ASSERT(inside == 0);
    inside = 1;
    got++;
    inside = 0;
    weft_mutex_unlock(THE_MUTEX);
}

static void lock_surely(void)
{
    X_ASSERT(weft_mutex_lock(THE_MUTEX, WEFT_FOREVER) == 0);
    section();
}

/* A waiter that waits for the hand-off and is never woken to retry. */
static int lock_by_hand(int i, int64_t deadline)
{
    struct weft__waiter waiter;
    struct weft__node node;
    enum weft__reason reason = WEFT__REASON_DONE;
    static const struct weft__wait_kind kind = {.name = "hand"};
    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT);
    weft__node_init(&node, &waiter, 0);
    if (weft__mutex_arm(&place.mutex, &node, HOLDER(i))) {
        reason = weft__waiter_park(&waiter, deadline, &kind, 0);
        weft__mutex_finish(&place.mutex, &node);
    } else {
        (void)!weft__waiter_disarm(&waiter); /* a cancel has no effect any more */
    }
    if (weft__reason_is_done(reason)) {
        X_ASSERT(weft__mutex_is_mine(THE_MUTEX));
    }
    return weft__reason_errno(reason);
}

static void two_lock(int i)
{
    (void)i;
    lock_surely();
}

static void three_lock(int i)
{
    if (i == 0) {
        section();
    } else {
        lock_surely();
    }
}

static void two_got(void)
{
    rest();
    X_ASSERT(got == 2);
}

static void three_got(void)
{
    rest();
    X_ASSERT(got == 3);
}

static void unlock_against_deadline(int i)
{
    if (i == 0) {
        section();
    } else if (i == 1) {
        int err = weft_mutex_lock(THE_MUTEX, LATER);
        X_ASSERT(err == 0 || err == -ETIMEDOUT);
        if (err == 0) {
            section();
        }
    } else {
        fibers_expire(1);
    }
}

/* No thread unlocks. */
static void cancel_alone(int i)
{
    if (i == 0) {
        X_ASSERT(weft_cancel(HANDLE(1)) == 0);
    } else {
        X_ASSERT(weft_mutex_lock(THE_MUTEX, WEFT_FOREVER) == -ECANCELED);
    }
}

static void nobody_waits(void)
{
    fibers_rest();
    X_ASSERT(!place.mutex.source.waiters.first);
    X_ASSERT(place.mutex.word == HOLDER(0));
}

/* Whatever happens to the cancelled waiter, the other gets the lock. */
static void unlock_against_cancel(int i)
{
    if (i == 0) {
        X_ASSERT(weft_cancel(HANDLE(1)) == 0);
        section();
    } else if (i == 1) {
        int err = weft_mutex_lock(THE_MUTEX, WEFT_FOREVER);
        X_ASSERT(err == 0 || err == -ECANCELED);
        if (err == 0) {
            section();
        }
    } else {
        lock_surely();
    }
}

static void handed_against_cancel(int i)
{
    if (i == 0) {
        X_ASSERT(weft_cancel(HANDLE(1)) == 0);
        section();
    } else if (i == 1) {
        int err = lock_by_hand(1, WEFT_FOREVER);
        X_ASSERT(err == 0 || err == -ECANCELED);
        if (err == 0) {
            section();
        }
    } else {
        lock_surely();
    }
}

static void handed(int i)
{
    if (i == 0) {
        section();
    } else {
        X_ASSERT(lock_by_hand(i, WEFT_FOREVER) == 0);
        section();
    }
}

static void handed_and_taken(int i)
{
    if (i == 0) {
        section();
        lock_surely();
    } else {
        X_ASSERT(lock_by_hand(i, WEFT_FOREVER) == 0);
        section();
    }
}

/* The second holder destroys the mutex as soon as it has it: no earlier unlock may touch it
 * then. */
static void freed_by_the_next(int i)
{
    if (i == 0) {
        section();
    } else {
        X_ASSERT((x_choose(2) ? lock_by_hand(i, WEFT_FOREVER)
                              : weft_mutex_lock(THE_MUTEX, WEFT_FOREVER)) == 0);
        section();
        char *byte = (char *)&place.mutex.source.lock; /* races with any thread that still uses
                                                        * it */
        *(volatile char *)byte = 0;
    }
}

static const struct x_client clients[] = {
    X_CLIENT("two_lock", 2, setup, two_lock, two_got, .preemptions = 3, .stale = 1),
    X_CLIENT("handed", 2, setup_held, handed, two_got, .preemptions = 3),
    X_CLIENT("handed_and_taken", 2, setup_held, handed_and_taken, three_got, .preemptions = 2,
             .stale = 1),
    X_CLIENT("freed_by_the_next", 2, setup_held, freed_by_the_next, NULL, .preemptions = 2),
    X_CLIENT("cancel_alone", 2, setup_held, cancel_alone, nobody_waits, .preemptions = 2),
    X_CLIENT("unlock_against_deadline", 3, setup_held, unlock_against_deadline, rest,
             .preemptions = 2, .stale = 1),
    X_CLIENT("unlock_against_cancel", 3, setup_held, unlock_against_cancel, rest, .preemptions = 1,
             .stale = 1),
    X_CLIENT("handed_against_cancel", 3, setup_held, handed_against_cancel, rest, .preemptions = 1,
             .stale = 1),
    X_CLIENT("three_lock", 3, setup_held, three_lock, three_got, .preemptions = 1, .stale = 1),
};

X_MAIN(clients)
