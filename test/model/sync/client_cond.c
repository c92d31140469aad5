/* Clients of sync/cond.c: no signal is lost to a deadline, to a cancel or to a wait for two
 * conditions. */
#define FIBERS 3
#include <errno.h>

#include "model/holders.h"
#include "sync/cond.h"
#include "sync/mutex.h"

static union {
    struct weft__cond cond;
    weft_cond storage;
} first, second;
static union {
    struct weft__mutex mutex;
    weft_mutex storage;
} place;
#define THE_MUTEX (&place.storage)
static int ready; /* under the mutex */

static void setup(void)
{
    fibers_setup();
    memset(&first, 0, sizeof first);
    memset(&second, 0, sizeof second);
    memset(&place, 0, sizeof place);
    weft_cond_init(&first.storage, NULL);
    weft_cond_init(&second.storage, NULL);
    weft_mutex_init(THE_MUTEX, NULL);
    ready = 0;
    x_name(&first, sizeof first, "first");
    x_name(&second, sizeof second, "second");
    x_name(&place, sizeof place, "mutex");
}

static void rest(void)
{
    fibers_rest();
    X_ASSERT(!first.cond.source.waiters.first && !second.cond.source.waiters.first);
    X_ASSERT(!place.mutex.source.waiters.first && place.mutex.word == 0);
}

static void wait_until_ready(void)
{
    X_ASSERT(weft_mutex_lock(THE_MUTEX, WEFT_FOREVER) == 0);
    while (!ready) {
        X_ASSERT(weft_cond_wait(&first.storage, THE_MUTEX, WEFT_FOREVER) == 0);
    }
    ready--;
    weft_mutex_unlock(THE_MUTEX);
}

static void make_ready(int n)
{
    X_ASSERT(weft_mutex_lock(THE_MUTEX, WEFT_FOREVER) == 0);
    ready += n;
    weft_mutex_unlock(THE_MUTEX);
}

static void wait_against_signal(int i)
{
    if (i == 0) {
        wait_until_ready();
    } else {
        make_ready(1);
        weft_cond_signal(&first.storage);
    }
}

static void two_against_broadcast(int i)
{
    if (i < 2) {
        wait_until_ready();
    } else {
        make_ready(2);
        weft_cond_broadcast(&first.storage);
    }
}

/* A signal without a waiter is lost, as specified: it is sent when both wait. */
static void await_both(void)
{
    while (weft__task_state(&tasks[0]) != WEFT__TASK_WAITING ||
           weft__task_state(&tasks[1]) != WEFT__TASK_WAITING) {
        x_spin();
    }
}

/* 0 is cancelled: the one signal reaches 1, or 0 gets it and passes it on. */
static void signal_against_cancel(int i)
{
    if (i == 0) {
        int result = weft_cond_wait(&first.storage, NULL, WEFT_FOREVER);
        X_ASSERT(result == 0 || result == -ECANCELED);
        if (result == 0) {
            weft_cond_signal(&first.storage); /* to 1 */
        }
    } else if (i == 1) {
        X_ASSERT(weft_cond_wait(&first.storage, NULL, WEFT_FOREVER) == 0);
    } else {
        await_both();
        X_ASSERT(weft_cancel(HANDLE(0)) == 0);
        weft_cond_signal(&first.storage);
    }
}

/* A wait for two conditions: of two signals it consumes one, the other goes to the second
 * waiter. */
static void two_conditions(int i)
{
    weft_cond *both[] = {&first.storage, &second.storage};
    unsigned which = 9;
    if (i == 0) {
        X_ASSERT(weft_cond_wait_any(&which, both, 2, NULL, WEFT_FOREVER) == 0);
        X_ASSERT(which < 2);
        weft_cond_signal(both[which]); /* if 1 waits for the one that was consumed */
    } else if (i == 1) {
        X_ASSERT(weft_cond_wait(&second.storage, NULL, WEFT_FOREVER) == 0);
    } else {
        await_both();
        weft_cond_signal(&first.storage);
        weft_cond_signal(&second.storage);
    }
}

static void which_one(int i)
{
    weft_cond *both[] = {&first.storage, &second.storage};
    unsigned which = 9;
    if (i == 0) {
        X_ASSERT(weft_cond_wait_any(&which, both, 2, NULL, WEFT_FOREVER) == 0);
        X_ASSERT(which == 1);
    } else {
        while (weft__task_state(&tasks[0]) != WEFT__TASK_WAITING) {
            x_spin();
        }
        weft_cond_signal(&second.storage);
    }
}

static const struct x_client clients[] = {
    X_CLIENT("which_one", 2, setup, which_one, rest, .preemptions = 1, .stale = 1),
    X_CLIENT("wait_against_signal", 2, setup, wait_against_signal, rest, .preemptions = 2,
             .stale = 1),
    X_CLIENT("signal_against_cancel", 3, setup, signal_against_cancel, rest, .preemptions = 1,
             .stale = 1),
    X_CLIENT("two_conditions", 3, setup, two_conditions, rest, .preemptions = 1, .stale = 1),
    X_CLIENT("two_against_broadcast", 3, setup, two_against_broadcast, rest, .preemptions = 1,
             .stale = 1),
};

X_MAIN(clients)
