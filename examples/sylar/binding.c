/* sylar: schedule(cb, thread). A bound task runs on its thread; in sylar it loses the binding at
 * its first wait, in Weft it keeps the binding for life. Workers are identified by index, 0 .. n-1,
 * not by kernel thread id. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <weft/weft.h>

enum { WORKERS = 3, TURNS = 100 };

static atomic_int strayed;

static void *stay(void *arg)
{
    int mine = (int)(long)arg;
    for (int i = 0; i < TURNS; i++) {
        if (weft_worker_self() != mine) {
            atomic_fetch_add(&strayed, 1);
        }
        weft_yield();
    }
    return NULL;
}

/* YieldToHold(), then the same as stay. */
static void *hold(void *arg)
{
    return weft_fiber_park(WEFT_FOREVER) == 0 ? stay(arg) : arg;
}

int main(void)
{
    weft_pool *pool;
    weft_fiber late, held;
    if (weft_pool_create(&pool, &(struct weft_pool_opts){.workers = WORKERS}) ||
        weft_pool_start(pool)) {
        return 1;
    }
    for (int i = 0; i < WORKERS; i++) { /* schedule(stay, thread) */
        struct weft_fiber_opts bound = {.bound = true, .worker = i};
        weft_pool_spawn(pool, NULL, stay, (void *)(long)i, &bound);
    }
    /* schedule(fiber, thread) */
    if (weft_fiber_create(&late, stay, (void *)1L, NULL) || weft_fiber_submit(late, pool, 1)) {
        return 1;
    }
    weft_fiber_detach(late);
    /* schedule(fiber, thread) of a fiber in HOLD; returns -EBUSY until the fiber is parked. */
    if (weft_pool_spawn(pool, &held, hold, (void *)2L, NULL)) {
        return 1;
    }
    while (weft_fiber_unpark_on(held, pool, 2) == -EBUSY) {
        weft_sleep(weft_after(WEFT_US(100)));
    }
    weft_fiber_detach(held);
    weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_destroy(pool);
    printf("strayed: %d of %d turns\n", atomic_load(&strayed), (WORKERS + 2) * TURNS);
    return atomic_load(&strayed);
}
