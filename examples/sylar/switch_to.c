/* sylar: switchTo(thread). The running fiber migrates to another worker or to another scheduler. */
#include <stdio.h>
#include <weft/weft.h>

static weft_pool *first, *second;

static void *move(void *arg)
{
    bool ok = weft_fiber_migrate(first, 1) == 0 && weft_worker_self() == 1;
    ok &= weft_fiber_migrate(first, 1) == 0; /* already there: a no-op */
    ok &= weft_fiber_migrate(second, WEFT_ANY_WORKER) == 0 && weft_pool_self() == second;
    ok &= weft_fiber_migrate(first, 99) < 0 && weft_pool_self() == second; /* an error: stays */
    return ok ? arg : NULL;
}

int main(void)
{
    weft_fiber fiber;
    void *ok = NULL;
    if (weft_pool_create(&first, &(struct weft_pool_opts){.name = "first", .workers = 2}) ||
        weft_pool_create(&second, &(struct weft_pool_opts){.name = "second", .workers = 1}) ||
        weft_pool_start(first) || weft_pool_start(second) ||
        weft_pool_spawn(first, &fiber, move, &ok, NULL)) {
        return 1;
    }
    weft_join(fiber, &ok, WEFT_FOREVER);
    weft_pool_stop(first, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_stop(second, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_destroy(first);
    weft_pool_destroy(second);
    printf("%s\n", ok ? "moved" : "failed");
    return ok ? 0 : 1;
}
