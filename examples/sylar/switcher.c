/* sylar: { SchedulerSwitcher s(&target); ... }. A block runs on another scheduler, then the fiber
 * returns to the previous one. In C the end of the block is a call, and a bound fiber returns to
 * the same worker. A cancel does not skip that call: it ends waits with -ECANCELED, and the code
 * after them runs. */
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

static weft_pool *home, *target;

static void *visit(void *arg)
{
    struct weft_migration migration;
    if (weft_migration_enter(&migration, target, WEFT_ANY_WORKER) != 0) {
        return NULL;
    }
    bool ok = weft_pool_self() == target;
    weft_cancel(weft_self());
    ok &= weft_fiber_park(WEFT_FOREVER) == -ECANCELED;
    weft_migration_leave(&migration);
    ok &= weft_pool_self() == home && weft_worker_self() == 1;
    return ok ? arg : NULL;
}

int main(void)
{
    weft_fiber fiber;
    void *ok = NULL;
    struct weft_fiber_opts bound = {.bound = true, .worker = 1};
    if (weft_pool_create(&home, &(struct weft_pool_opts){.name = "home", .workers = 2}) ||
        weft_pool_create(&target, &(struct weft_pool_opts){.name = "target", .workers = 1}) ||
        weft_pool_start(home) || weft_pool_start(target) ||
        weft_pool_spawn(home, &fiber, visit, &ok, &bound)) {
        return 1;
    }
    weft_join(fiber, &ok, WEFT_FOREVER);
    weft_pool_stop(home, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_stop(target, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_destroy(home);
    weft_pool_destroy(target);
    printf("%s\n", ok ? "there and back" : "failed");
    return ok ? 0 : 1;
}
