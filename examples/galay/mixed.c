/* galay: an I/O coroutine hands a heavy computation to a compute scheduler and awaits an
 * AsyncWaiter; the I/O thread is not blocked. In Weft this is one call. `waiter` below spells out
 * galay's form. */
#include <stdio.h>
#include <weft/weft.h>

enum { STEPS = 1000000 };

static weft_pool_set *compute;

static void *heavy(void *arg)
{
    long result = 0;
    (void)arg;
    for (int i = 0; i < STEPS; i++) {
        result += i % 100;
    }
    return (void *)result;
}

/* AsyncWaiter<long>: a value, and the fiber to wake when the value is set. */
struct waiter {
    long value;
    weft_fiber fiber;
};

static void *heavy_with_waiter(void *arg)
{
    struct waiter *waiter = arg;
    waiter->value = (long)heavy(NULL);
    weft_fiber_unpark(waiter->fiber); /* waiter->notify(result) */
    return NULL;
}

static void *io_task(void *arg)
{
    void *result = NULL;
    struct waiter waiter = {.fiber = weft_self()};
    if (weft_pool_set_call(compute, &result, heavy, NULL, WEFT_FOREVER) != 0 ||
        weft_pool_set_submit(compute, heavy_with_waiter, &waiter) != 0) {
        return NULL;
    }
    weft_fiber_park(WEFT_FOREVER); /* co_await waiter.wait() */
    printf("compute result: %ld, by waiter: %ld\n", (long)result, waiter.value);
    return (long)result == waiter.value ? arg : NULL;
}

int main(void)
{
    weft_pool *io;
    weft_fiber fiber;
    void *ok = NULL;
    if (weft_pool_create(&io, &(struct weft_pool_opts){.name = "io", .workers = 1}) ||
        weft_pool_set_create(&compute, &(struct weft_pool_set_opts){.members = 1}) ||
        weft_pool_start(io) || weft_pool_set_start(compute) ||
        weft_pool_spawn(io, &fiber, io_task, &ok, NULL)) {
        return 1;
    }
    weft_join(fiber, &ok, WEFT_FOREVER);
    weft_pool_stop(io, WEFT_STOP_DRAIN, WEFT_FOREVER); /* first the pool that calls the other */
    weft_pool_set_stop(compute, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_destroy(io);
    weft_pool_set_destroy(compute);
    return ok ? 0 : 1;
}
