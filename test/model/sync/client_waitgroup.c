/* Clients of sync/waitgroup.c: the last counted thread notifies all waiters, which then see the
 * effects of all counted threads, and may free the group. */
#define FIBERS 3
#include <errno.h>

#include "model/fibers.h"
#include "sync/waitgroup.h"

static union {
    struct weft__waitgroup group;
    weft_waitgroup storage;
} place;
#define THE_GROUP (&place.storage)
static int published[FIBERS], result;

static void setup_of(int64_t count)
{
    fibers_setup();
    memset(&place, 0, sizeof place);
    weft_waitgroup_init(THE_GROUP, NULL);
    weft_waitgroup_add(THE_GROUP, count);
    memset(published, 0, sizeof published);
    result = 1;
    x_name(&place, sizeof place, "group");
}

static void setup(void)
{
    setup_of(1);
}

static void setup_two(void)
{
    setup_of(2);
}

static void rest(void)
{
    fibers_rest();
    X_ASSERT(!place.group.source.waiters.first);
    X_ASSERT(place.group.word == 0);
}

static void does(int i)
{
    published[i] = 1;
    weft_waitgroup_done(THE_GROUP);
}

static void wait_against_done(int i)
{
    if (i == 0) {
        X_ASSERT(weft_waitgroup_wait(THE_GROUP, WEFT_FOREVER) == 0);
        X_ASSERT(published[1] == 1);
    } else {
        does(i);
    }
}

/* In the waiter's frame: it is gone when wait has returned. */
static void freed_by_the_waiter(int i)
{
    if (i == 0) {
        X_ASSERT(weft_waitgroup_wait(THE_GROUP, WEFT_FOREVER) == 0);
        *(volatile char *)&place.group.source.lock = 0; /* races with any thread that still uses
                                                         * it */
    } else {
        weft_waitgroup_done(THE_GROUP);
    }
}

static void two_are_done(int i)
{
    if (i == 0) {
        X_ASSERT(weft_waitgroup_wait(THE_GROUP, WEFT_FOREVER) == 0);
        X_ASSERT(published[1] == 1 && published[2] == 1);
    } else {
        does(i);
    }
}

static void two_wait(int i)
{
    if (i < 2) {
        X_ASSERT(weft_waitgroup_wait(THE_GROUP, WEFT_FOREVER) == 0);
        X_ASSERT(published[2] == 1);
    } else {
        does(i);
    }
}

/* The thread adds another before it is done itself: the count is never zero between the two. */
static void one_more(int i)
{
    if (i == 0) {
        X_ASSERT(weft_waitgroup_wait(THE_GROUP, WEFT_FOREVER) == 0);
        X_ASSERT(published[1] == 1);
    } else {
        weft_waitgroup_add(THE_GROUP, 1);
        weft_waitgroup_done(THE_GROUP);
        does(i);
    }
}

static void done_against_deadline(int i)
{
    if (i == 0) {
        result = weft_waitgroup_wait(THE_GROUP, LATER);
        X_ASSERT(result == -ETIMEDOUT || (result == 0 && published[1] == 1));
    } else if (i == 1) {
        does(i);
    } else {
        fibers_expire(0);
    }
}

static void done_against_cancel(int i)
{
    if (i == 0) {
        result = weft_waitgroup_wait(THE_GROUP, WEFT_FOREVER);
        X_ASSERT(result == -ECANCELED || (result == 0 && published[1] == 1));
    } else if (i == 1) {
        does(i);
    } else {
        X_ASSERT(weft_cancel(HANDLE(0)) == 0);
    }
}

static const struct x_client clients[] = {
    X_CLIENT("wait_against_done", 2, setup, wait_against_done, rest, .preemptions = 3),
    X_CLIENT("freed_by_the_waiter", 2, setup, freed_by_the_waiter, NULL, .preemptions = 3),
    X_CLIENT("one_more", 2, setup, one_more, rest, .preemptions = 3),
    X_CLIENT("two_are_done", 3, setup_two, two_are_done, rest, .preemptions = 2, .stale = 1),
    X_CLIENT("done_against_deadline", 3, setup, done_against_deadline, rest, .preemptions = 2,
             .stale = 1),
    X_CLIENT("done_against_cancel", 3, setup, done_against_cancel, rest, .preemptions = 1,
             .stale = 1),
    X_CLIENT("two_wait", 3, setup, two_wait, rest, .preemptions = 1, .stale = 1),
};

X_MAIN(clients)
