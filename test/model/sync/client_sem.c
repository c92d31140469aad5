/* Clients of sync/sem.c: no permit is lost or invented, whatever ends the waits. */
#define FIBERS 3
#include <errno.h>

#include "model/holders.h"
#include "sync/sem.h"

static union {
    struct weft__sem sem;
    weft_sem storage;
} place;
#define THE_SEM (&place.storage)
static int published, results[FIBERS];

static void setup(void)
{
    fibers_setup();
    memset(&place, 0, sizeof place);
    weft_sem_init(THE_SEM, 0, NULL);
    published = 0;
    memset(results, 0, sizeof results);
    x_name(&place, sizeof place, "sem");
}

static void rest(uint64_t permits)
{
    fibers_rest();
    X_ASSERT(!place.sem.source.waiters.first);
    X_ASSERT(place.sem.word == permits * 2);
}

static void none_left(void)
{
    rest(0);
}

static void acquire_against_release(int i)
{
    if (i == 0) {
        X_ASSERT(weft_sem_acquire(THE_SEM, 1, WEFT_FOREVER) == 0);
        X_ASSERT(published == 1);
    } else {
        published = 1;
        weft_sem_release(THE_SEM, 1);
    }
}

/* A completion in the waiter's frame: it is gone when acquire has returned. */
static void freed_by_the_waiter(int i)
{
    if (i == 0) {
        X_ASSERT(weft_sem_acquire(THE_SEM, 1, WEFT_FOREVER) == 0);
        *(volatile char *)&place.sem.source.lock = 0; /* races with any thread that still uses it */
    } else {
        weft_sem_release(THE_SEM, 1);
    }
}

static void two_release(int i)
{
    if (i == 0) {
        X_ASSERT(weft_sem_acquire(THE_SEM, 2, WEFT_FOREVER) == 0);
    } else {
        weft_sem_release(THE_SEM, 1);
    }
}

static void two_acquire(int i)
{
    if (i < 2) {
        X_ASSERT(weft_sem_acquire(THE_SEM, 1, WEFT_FOREVER) == 0);
    } else {
        weft_sem_release(THE_SEM, 1);
        weft_sem_release(THE_SEM, 1);
    }
}

/* 0 wants two permits, is cancelled, and may have been queued before 1, for which there are
 * enough. */
static void release_against_cancel(int i)
{
    if (i == 0) {
        results[0] = weft_sem_acquire(THE_SEM, 2, WEFT_FOREVER);
        X_ASSERT(results[0] == -ECANCELED);
    } else if (i == 1) {
        X_ASSERT(weft_sem_acquire(THE_SEM, 1, WEFT_FOREVER) == 0);
    } else {
        weft_sem_release(THE_SEM, 1);
        X_ASSERT(weft_cancel(HANDLE(0)) == 0);
    }
}

static void release_against_deadline(int i)
{
    if (i == 0) {
        results[0] = weft_sem_acquire(THE_SEM, 1, LATER);
        X_ASSERT(results[0] == 0 || results[0] == -ETIMEDOUT);
    } else if (i == 1) {
        weft_sem_release(THE_SEM, 1);
    } else {
        fibers_expire(0);
    }
}

static void kept_or_taken(void)
{
    rest(results[0] == 0 ? 0 : 1);
}

static const struct x_client clients[] = {
    X_CLIENT("acquire_against_release", 2, setup, acquire_against_release, none_left,
             .preemptions = 3),
    X_CLIENT("freed_by_the_waiter", 2, setup, freed_by_the_waiter, NULL, .preemptions = 3),
    X_CLIENT("release_against_deadline", 3, setup, release_against_deadline, kept_or_taken,
             .preemptions = 2, .stale = 1),
    X_CLIENT("two_release", 3, setup, two_release, none_left, .preemptions = 2, .stale = 1),
    X_CLIENT("release_against_cancel", 3, setup, release_against_cancel, none_left,
             .preemptions = 1, .stale = 1),
    X_CLIENT("two_acquire", 3, setup, two_acquire, none_left, .preemptions = 1, .stale = 1),
};

X_MAIN(clients)
