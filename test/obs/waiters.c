/* Fibers that wait in functions with names of their own, and one that runs: what test/obs/gdb looks at with a
 * debugger, stopped in `look_now`. */
#include "fiber/stack.h"
#include "sched/fixture.h"

static weft_fiber first;
static weft_event gate = WEFT_EVENT_INIT;

__attribute__((noinline)) static int wait_for_gate(int depth)
{
    int local = depth * 2;
    int err = depth > 0 ? wait_for_gate(depth - 1) : weft_event_wait(&gate, WEFT_FOREVER);
    __asm__ volatile("" : "+r"(local), "+r"(err)); /* no tail call */
    return err;
}

static void *guest(void *arg)
{
    CHECK_EQ(wait_for_gate(3), 0);
    return arg;
}

static void *friend_of_guest(void *arg)
{
    CHECK_EQ(weft_join(first, NULL, WEFT_FOREVER), 0);
    return arg;
}

__attribute__((noinline)) static void look_now(void)
{
    __asm__ volatile("" ::: "memory");
}

static void *host(void *arg)
{
    weft_fiber second;
    CHECK_EQ(weft_spawn(&first, guest, NULL, &(struct weft_fiber_opts){.name = "guest"}), 0);
    CHECK_EQ(
        weft_spawn(&second, friend_of_guest, NULL, &(struct weft_fiber_opts){.name = "friend"}), 0);
    await_state(first, WEFT_FIBER_WAITING);
    await_state(second, WEFT_FIBER_WAITING);
    look_now();
    weft_event_set(&gate);
    CHECK_EQ(weft_join(second, NULL, WEFT_FOREVER), 0);
    return arg;
}

TEST(waiting_fibers_to_look_at)
{
    weft__stack_limit_guard(WEFT__GUARD_MPROTECT); /* gdb's gcore does not get past markers */
    run_in_fiber(2, host, NULL);
}
