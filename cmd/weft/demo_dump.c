#include "demo_dump.h"

#include <sched.h>
#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

#include "terminal.h"

#define GUESTS 5

struct kitchen {
    weft_event table; /* set when the meal is served */
    weft_fiber cook, waiter;
};

static __attribute__((noinline)) void wait_for_delivery(void)
{
    weft_fiber_park(WEFT_FOREVER);
    __asm__ volatile("" ::: "memory"); /* keeps the function on the stack: no tail call */
}

static void *cook(void *arg)
{
    wait_for_delivery();
    return arg;
}

static void *serve(void *arg)
{
    struct kitchen *kitchen = arg;
    weft_join(kitchen->cook, NULL, WEFT_FOREVER);
    weft_event_set(&kitchen->table);
    return NULL;
}

static void *eat(void *arg)
{
    struct kitchen *kitchen = arg;
    weft_event_wait(&kitchen->table, WEFT_FOREVER);
    return NULL;
}

static void await_waiting(weft_fiber fiber)
{
    enum weft_fiber_state state;
    while (weft_fiber_state(fiber, &state) == 0 && state != WEFT_FIBER_WAITING) {
        weft_yield();
    }
}

static int start(weft_fiber *out, weft_fn fn, struct kitchen *kitchen, const char *name)
{
    int err = weft_spawn(out, fn, kitchen, &(struct weft_fiber_opts){.name = name});
    if (err) {
        terminal_warn("weft_spawn: %s", weft_strerror(err));
        return err;
    }
    await_waiting(*out);
    return 0;
}

struct dump {
    struct weft_dump_opts opts;
    weft_fiber caller;
    int err;
};

/* The first backtrace reads the program's symbols: not on a worker. Begins when its caller waits,
 * so that the dump shows the same each time. */
static void *write_dump(void *arg)
{
    struct dump *dump = arg;
    enum weft_fiber_state state;
    while (weft_fiber_state(dump->caller, &state) == 0 && state != WEFT_FIBER_WAITING) {
        sched_yield();
    }
    dump->err = weft_dump(stdout, &dump->opts);
    return NULL;
}

int demo_dump(int number)
{
    struct kitchen kitchen = {.waiter = WEFT_NO_FIBER};
    weft_fiber guests[GUESTS];
    int seated = 0;
    weft_event_init(&kitchen.table, &(struct weft_sync_opts){.name = "table"});
    terminal_heading("%d. Who waits for what: %d guests, a waiter and a cook, in a dump", number,
                     GUESTS);
    if (start(&kitchen.cook, cook, &kitchen, "cook") != 0) {
        return 1;
    }
    int err = start(&kitchen.waiter, serve, &kitchen, "waiter");
    while (!err && seated < GUESTS && !(err = start(&guests[seated], eat, &kitchen, "guest"))) {
        seated++;
    }
    fflush(stdout);
    struct dump dump = {.opts = {.pool = weft_pool_self(), .max_shown = 3}, .caller = weft_self()};
    /* Fails if there is no thread. */
    int unmade = weft_blocking_call(NULL, NULL, write_dump, &dump, WEFT_FOREVER);
    int failed = unmade ? weft_dump(stdout, &dump.opts) : dump.err;
    if (failed) {
        terminal_warn("weft_dump: %s", weft_strerror(failed));
    }
    weft_fiber_unpark(kitchen.cook);
    if (weft_join(kitchen.waiter, NULL, WEFT_FOREVER) != 0) { /* the waiter was not started */
        weft_join(kitchen.cook, NULL, WEFT_FOREVER);
        weft_event_set(&kitchen.table);
    }
    while (seated > 0) {
        weft_join(guests[--seated], NULL, WEFT_FOREVER);
    }
    weft_event_deinit(&kitchen.table);
    return err || failed ? 1 : 0;
}
