/* galay: workerLoop and stop(). galay's loop waits for a task for 100 ms at a time, to check
 * whether it should end, and runs the remaining tasks before it ends. A Weft worker sleeps until it
 * is woken, and a stop also drains; it may have a deadline. A drain also waits for fibers that
 * tasks spawn meanwhile. */
#include <stdatomic.h>
#include <stdio.h>
#include <weft/weft.h>

enum { TASKS = 50 };

static atomic_int done;

static void *follow_up(void *arg)
{
    atomic_fetch_add(&done, 1);
    return arg;
}

static void *task(void *arg)
{
    weft_yield(); /* an unfinished coroutine returns to its scheduler's queue */
    weft_spawn(NULL, follow_up, arg, NULL);
    return follow_up(arg);
}

int main(void)
{
    weft_pool_set *pools;
    if (weft_pool_set_create(&pools, &(struct weft_pool_set_opts){.members = 1})) {
        return 1;
    }
    for (int i = 0; i < TASKS; i++) {
        weft_pool_set_submit(pools, task, NULL); /* before start: the tasks wait for it */
    }
    if (weft_pool_set_start(pools) || weft_pool_set_stop(pools, WEFT_STOP_DRAIN, WEFT_FOREVER)) {
        return 1;
    }
    weft_pool_set_destroy(pools);
    printf("%d of %d done\n", atomic_load(&done), 2 * TASKS);
    return atomic_load(&done) == 2 * TASKS ? 0 : 1;
}
