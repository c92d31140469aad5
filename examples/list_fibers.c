/* A list of a program's own fibers, as ps lists processes: handle, name, state, size of the stack
 * and how much of it was used. The list holds a join right for each fiber, so an ended fiber stays
 * in the list until the list lets it go, even if another fiber has joined it already. One of the
 * fibers is a spare: created in advance, and discarded because it is not needed. */
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

enum { SPARE, WAITER, DEEP, ENDED, FIBERS };

static weft_event go;

static void *wait_for_event(void *arg)
{
    return weft_event_wait(&go, WEFT_FOREVER) ? NULL : arg;
}

/* Uses more of its stack. */
static void *wait_deep(void *arg)
{
    volatile char local[100 * 1024];
    for (size_t i = 0; i < sizeof local; i += 1024) {
        local[i] = 1;
    }
    return weft_event_wait(&go, WEFT_FOREVER) ? NULL : arg;
}

static void *end_at_once(void *arg)
{
    return arg;
}

/* Fibers start and end on other workers: waits until a fiber is where it is expected. */
static void await_state(weft_fiber fiber, enum weft_fiber_state expected)
{
    enum weft_fiber_state state;
    while (weft_fiber_state(fiber, &state) == 0 && state != expected) {
        weft_sleep(weft_after(WEFT_US(100)));
    }
}

static int print(weft_fiber fiber, enum weft_fiber_state expected)
{
    char name[16], handle[24];
    size_t size, used;
    enum weft_fiber_state state;
    weft_fiber_format(fiber, handle, sizeof handle);
    if (weft_fiber_name(fiber, name, sizeof name) || weft_fiber_state(fiber, &state) ||
        weft_fiber_stack(fiber, &size, &used)) {
        fprintf(stderr, "list_fibers: %s has gone\n", handle);
        return 1;
    }
    printf("%-8s %-8s %-8s %4zu KiB %4zu KiB used\n", handle, name, weft_fiber_state_name(state),
           size / 1024, used / 1024);
    bool has_stack = state == WEFT_FIBER_RUNNING || state == WEFT_FIBER_WAITING;
    return state != expected || used > size || has_stack != (size > 0);
}

static int spawn(weft_fiber *out, const char *name, weft_fn fn, size_t stack_bytes)
{
    static int result;
    const struct weft_fiber_opts opts = {.name = name, .stack_bytes = stack_bytes};
    int err = weft_spawn(out, fn, &result, &opts);
    return err ? err : weft_fiber_share(*out); /* the list's own right, besides the caller's */
}

static void *run(void *arg)
{
    weft_fiber fibers[FIBERS];
    void *result;
    int wrong = 0;
    if (weft_fiber_create(&fibers[SPARE], wait_for_event, NULL,
                          &(struct weft_fiber_opts){.name = "spare"}) ||
        spawn(&fibers[WAITER], "waiter", wait_for_event, 0) ||
        spawn(&fibers[DEEP], "deep", wait_deep, 256 * 1024) ||
        spawn(&fibers[ENDED], "ended", end_at_once, 0)) {
        return NULL;
    }
    await_state(fibers[WAITER], WEFT_FIBER_WAITING);
    await_state(fibers[DEEP], WEFT_FIBER_WAITING);
    weft_join(fibers[ENDED], NULL, WEFT_FOREVER); /* uses one of its two rights */

    wrong += print(weft_self(), WEFT_FIBER_RUNNING);
    wrong += print(fibers[SPARE], WEFT_FIBER_CREATED);
    wrong += print(fibers[WAITER], WEFT_FIBER_WAITING);
    wrong += print(fibers[DEEP], WEFT_FIBER_WAITING);
    wrong += print(fibers[ENDED], WEFT_FIBER_DONE);

    weft_event_set(&go);
    wrong += weft_fiber_discard(fibers[SPARE]) != 0; /* never ran, never will */
    weft_fiber_detach(fibers[ENDED]);                /* the list's right */
    for (int i = WAITER; i <= DEEP; i++) {
        wrong += weft_join(fibers[i], &result, WEFT_FOREVER) || !result;
        weft_fiber_detach(fibers[i]);
    }
    *(bool *)arg = wrong == 0;
    return NULL;
}

int main(void)
{
    bool well = false;
    int err = weft_run(NULL, run, &well, NULL, WEFT_FOREVER);
    if (err || !well) {
        fprintf(stderr, "list_fibers: %s, or a fiber in another state\n", weft_strerror(err));
        return 1;
    }
    return 0;
}
