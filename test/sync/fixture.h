/* Shared by the tests of objects that fibers wait on: waiting fibers, and caller bugs. */
#ifndef WEFT_TEST_SYNC_FIXTURE_H
#define WEFT_TEST_SYNC_FIXTURE_H

#include "pool/fixture.h"

/* Returns a fiber that has reached its wait. */
__attribute__((unused)) static weft_fiber waiting_in(weft_fn fn, void *arg)
{
    weft_fiber fiber;
    CHECK_EQ(weft_spawn(&fiber, fn, arg, NULL), 0);
    await_state(fiber, WEFT_FIBER_WAITING);
    return fiber;
}

/* The fiber's return value, as a number. */
__attribute__((unused)) static intptr_t answer_of(weft_fiber fiber)
{
    void *result;
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    return (intptr_t)result;
}

__attribute__((unused)) static void joined(weft_fiber fiber, intptr_t answer)
{
    CHECK_EQ(answer_of(fiber), answer);
}

/* A cancel or an interrupt ends the fiber's wait, and the fiber returns the wait's result. */
__attribute__((unused)) static void end_wait(weft_fiber fiber, bool cancel)
{
    CHECK_EQ(cancel ? weft_cancel(fiber) : weft_fiber_interrupt(fiber), 0);
    joined(fiber, cancel ? -ECANCELED : -EINTR);
}

/* fn(arg) is a bug: it aborts the program, here a child, and its output contains this message. */
__attribute__((unused)) static void must_stop(void (*fn)(void *arg), void *arg, const char *message)
{
    char err[CHECK_ERR];
    int status = check_child(fn, arg, err, sizeof err);
    if (!strstr(err, message)) {
        fprintf(stderr, "not \"%s\" but: %s\n", message, err);
    }
    CHECK(WIFSIGNALED(status) && strstr(err, message));
}

struct in_fiber {
    weft_fn fn;
    void *arg;
};

__attribute__((unused)) static void run_it_in_fiber(void *arg)
{
    const struct in_fiber *bug = arg;
    run_in_fiber(1, bug->fn, bug->arg);
}

/* As above, for a function that runs in a fiber. */
__attribute__((unused)) static void must_stop_in_fiber(weft_fn fn, void *arg, const char *message)
{
    must_stop(run_it_in_fiber, &(struct in_fiber){fn, arg}, message);
}

__attribute__((unused)) static char use_by_thread[1]; /* any address */

/* use(NULL) creates an object named "mine" for the pool it runs in, and uses it there; with another
 * argument a plain thread uses the object as well. */
__attribute__((unused)) static void used_by_owner_only(weft_fn use)
{
    run_in_fiber(1, use, NULL);
    must_stop_in_fiber(use, use_by_thread,
                       "mine belongs to pool weft and was used from a plain thread");
}

#endif
