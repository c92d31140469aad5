/* sylar: Fiber::GetThis, YieldToReady, YieldToHold, getState. INIT is created, READY ready, EXEC
 * running, HOLD waiting, TERM done; there is no EXCEPT, because C has no exceptions. */
#include <stdio.h>
#include <weft/weft.h>

static bool is(weft_fiber fiber, enum weft_fiber_state state)
{
    enum weft_fiber_state now;
    return weft_fiber_state(fiber, &now) == 0 && now == state;
}

static void *held(void *arg)
{
    weft_yield();                            /* Fiber::YieldToReady() */
    int err = weft_fiber_park(WEFT_FOREVER); /* Fiber::YieldToHold(), until the unpark */
    return err == 0 && is(weft_self(), WEFT_FIBER_RUNNING) ? arg : NULL; /* Fiber::GetThis() */
}

static void *watch(void *arg)
{
    weft_fiber fiber;
    void *ok = NULL;
    if (weft_fiber_create(&fiber, held, arg, &(struct weft_fiber_opts){.name = "held"}) != 0) {
        return NULL;
    }
    bool seen = is(fiber, WEFT_FIBER_CREATED);
    weft_fiber_submit(fiber, weft_pool_self(), WEFT_ANY_WORKER);
    while (!is(fiber, WEFT_FIBER_WAITING)) {
        weft_yield();
    }
    weft_fiber_unpark(fiber); /* sylar: schedule(fiber) of a fiber in HOLD */
    while (!is(fiber, WEFT_FIBER_DONE)) {
        weft_yield();
    }
    weft_join(fiber, &ok, WEFT_FOREVER);
    return seen && ok && weft_fiber_unpark(fiber) < 0 ? arg : NULL; /* the handle is stale */
}

int main(void)
{
    int token;
    void *ok = NULL;
    int err = weft_run(&ok, watch, &token, NULL, WEFT_FOREVER);
    printf("%s\n", ok ? "created, ready, running, waiting, done" : "failed");
    return err == 0 && ok ? 0 : 1;
}
