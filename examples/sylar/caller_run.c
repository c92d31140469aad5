/* sylar's caller thread must call stop() to run tasks. In Weft it may also run fibers until one
 * fiber has ended (weft_pool_run), or until no fiber is ready (weft_pool_poll; see
 * host_epoll.c). */
#include <stdio.h>
#include <weft/weft.h>

static void *add(void *arg)
{
    int *sum = arg;
    weft_yield();
    (*sum)++;
    return sum;
}

static void *main_fiber(void *arg)
{
    for (int i = 0; i < 10; i++) {
        weft_fiber fiber;
        if (weft_spawn(&fiber, add, arg, NULL) == 0) {
            weft_join(fiber, NULL, WEFT_FOREVER);
        }
    }
    return arg;
}

int main(void)
{
    weft_pool *pool;
    void *result = NULL;
    int sum = 0;
    if (weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1, .caller = true}) ||
        weft_pool_start(pool)) {
        return 1;
    }
    weft_pool_run(pool, &result, main_fiber, &sum,
                  WEFT_FOREVER); /* returns when main_fiber has ended */
    bool by_run = result == &sum && sum == 10;

    weft_pool_submit(pool, add, &sum);
    weft_pool_poll(pool); /* returns when no fiber is ready */
    bool by_poll = sum == 11;

    weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_destroy(pool);
    printf("by run: %d, by poll: %d\n", by_run, by_poll);
    return by_run && by_poll ? 0 : 1;
}
