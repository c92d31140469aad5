/* sylar: Scheduler sc(3, true, "demo"); sc.start(); sc.schedule(...); sc.stop(); Three workers, one
 * of which is the caller; functions and fibers are scheduled alike. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

static atomic_int ran, elsewhere;

static void *task(void *arg)
{
    weft_pool *pool = weft_pool_self(); /* Scheduler::GetThis() */
    if (strcmp(weft_pool_name(pool), "demo") != 0) {
        atomic_fetch_add(&elsewhere, 1);
    }
    atomic_fetch_add(&ran, 1);
    return arg;
}

int main(void)
{
    weft_pool *pool;
    weft_fiber fiber;
    struct weft_pool_opts opts = {.workers = 3, .caller = true, .name = "demo"};
    if (weft_pool_create(&pool, &opts) || weft_pool_start(pool)) {
        return 1;
    }
    for (int i = 0; i < 10; i++) {
        weft_pool_submit(pool, task, NULL); /* a function */
    }
    if (weft_fiber_create(&fiber, task, NULL, NULL)) { /* Fiber::ptr fiber(new Fiber(task)) */
        return 1;
    }
    weft_fiber_submit(fiber, pool, WEFT_ANY_WORKER); /* a fiber */
    weft_fiber_detach(fiber);

    weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_destroy(pool);
    printf("%d tasks ran\n", atomic_load(&ran));
    return atomic_load(&ran) == 11 && atomic_load(&elsewhere) == 0 ? 0 : 1;
}
