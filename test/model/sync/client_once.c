/* Clients of sync/once.c: the function runs once, and every caller that returns sees all of its
 * effects. */
#define FIBERS 3
#include <errno.h>

#include "model/holders.h"
#include "sync/once.h"

static union {
    struct weft__once once;
    weft_once storage;
} place;
#define THE_ONCE (&place.storage)
static int calls, results[FIBERS];

static void setup(void)
{
    fibers_setup();
    memset(&place, 0, sizeof place);
    weft_once_init(THE_ONCE, NULL);
    calls = 0;
    memset(results, 0, sizeof results);
    x_name(&place, sizeof place, "once");
}

static void rest(void)
{
    fibers_rest();
    X_ASSERT(!place.once.source.waiters.first && calls == 1);
}

static void called(void *arg)
{
    (void)arg;
    calls++; /* plain: no other thread is here */
}

static void calls_it(int i)
{
    X_ASSERT(weft_once_call(THE_ONCE, called, NULL, WEFT_FOREVER) == 0);
    X_ASSERT(calls == 1);
    (void)i;
}

static void checks_first(int i)
{
    if (i == 1 && weft_once_is_done(THE_ONCE)) {
        X_ASSERT(calls == 1);
    } else {
        calls_it(i);
    }
}

/* T1 may be the thread that calls the function: then nothing ends its wait. */
static void call_against_deadline(int i)
{
    if (i == 2) {
        fibers_expire(1);
        return;
    }
    results[i] = weft_once_call(THE_ONCE, called, NULL, i == 1 ? LATER : WEFT_FOREVER);
    X_ASSERT(results[i] == 0 || (i == 1 && results[i] == -ETIMEDOUT));
    X_ASSERT(results[i] != 0 || calls == 1);
}

static void call_against_cancel(int i)
{
    if (i == 2) {
        X_ASSERT(weft_cancel(HANDLE(1)) == 0);
        return;
    }
    results[i] = weft_once_call(THE_ONCE, called, NULL, WEFT_FOREVER);
    X_ASSERT(results[i] == 0 || (i == 1 && results[i] == -ECANCELED));
    X_ASSERT(results[i] != 0 || calls == 1);
}

static const struct x_client clients[] = {
    X_CLIENT("two_call", 2, setup, calls_it, rest, .preemptions = 3),
    X_CLIENT("checks_first", 2, setup, checks_first, rest, .preemptions = 3),
    X_CLIENT("call_against_deadline", 3, setup, call_against_deadline, rest, .preemptions = 2,
             .stale = 1),
    X_CLIENT("call_against_cancel", 3, setup, call_against_cancel, rest, .preemptions = 2,
             .stale = 1),
    X_CLIENT("three_call", 3, setup, calls_it, rest, .preemptions = 2, .stale = 1),
};

X_MAIN(clients)
