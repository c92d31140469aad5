/* galay: AsyncWaiter<int> waiter; compute->spawn(heavyCompute(&waiter)); int result = co_await
 * waiter.wait(); weft_oneshot is that object, on the waiter's stack: the wait suspends the fiber,
 * not its thread. A notify before the wait is kept, a second notify is refused. Weft adds a
 * deadline, a cancel, and a close for the case that no notify will come. */
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

struct schedulers {
    weft_pool *io, *compute;
};

static void *heavy_compute(void *waiter)
{
    long result = 0;
    for (int i = 0; i < 1000000; i++) {
        result += i % 100;
    }
    weft_oneshot_notify(waiter, (void *)result);
    return NULL;
}

static void *gives_up(void *waiter)
{
    weft_oneshot_close(waiter); /* no result will come */
    return NULL;
}

static void *io_task(void *arg)
{
    const struct schedulers *both = arg;
    weft_oneshot waiter = WEFT_ONESHOT_INIT;
    void *result = NULL;
    if (weft_pool_submit(both->compute, heavy_compute, &waiter) ||
        weft_oneshot_wait(&waiter, &result, WEFT_FOREVER)) {
        return NULL;
    }
    printf("compute result: %ld, back on pool %s\n", (long)result,
           weft_pool_name(weft_pool_self()));

    /* Notifies before the wait, and a second time. */
    weft_oneshot early = WEFT_ONESHOT_INIT;
    int first = weft_oneshot_notify(&early, NULL), second = weft_oneshot_notify(&early, NULL);
    int kept = weft_oneshot_wait(&early, NULL, WEFT_FOREVER);

    weft_oneshot broken = WEFT_ONESHOT_INIT;
    int err = weft_pool_submit(both->compute, gives_up, &broken);
    int closed = err ? err : weft_oneshot_wait(&broken, NULL, WEFT_FOREVER);
    bool good = first == 0 && second == -EALREADY && kept == 0 && closed == -EPIPE;
    return good ? result : NULL;
}

int main(void)
{
    struct schedulers both;
    weft_fiber task;
    void *result = NULL;
    if (weft_pool_create(&both.io, &(struct weft_pool_opts){.workers = 1, .name = "io"}) ||
        weft_pool_create(
            &both.compute,
            &(struct weft_pool_opts){.workers = 1, .name = "compute", .compute = true}) ||
        weft_pool_start(both.io) || weft_pool_start(both.compute) ||
        weft_pool_spawn(both.io, &task, io_task, &both, NULL) ||
        weft_join(task, &result, WEFT_FOREVER)) {
        return 1;
    }
    weft_pool_stop(both.io, WEFT_STOP_DRAIN, WEFT_FOREVER); /* first the pool that waits */
    weft_pool_stop(both.compute, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_destroy(both.io);
    weft_pool_destroy(both.compute);
    return (long)result == 49500000 ? 0 : 1;
}
