/* galay: belongScheduler. The first spawn fixes a coroutine's scheduler; a coroutine that ran
 * elsewhere for a computation is spawned back to it. In Weft a fiber has a home pool: wakes queue
 * it there, and a scoped migration ends there. */
#include <stdio.h>
#include <weft/weft.h>

static weft_pool_set *compute;

static void *owned(void *arg)
{
    weft_pool *home = weft_pool_self(); /* coro.belongScheduler() */
    struct weft_migration migration;
    bool ok = true;
    for (unsigned i = 0; i < weft_pool_set_size(compute); i++) {
        weft_pool *member = weft_pool_set_member(compute, i);
        if (weft_migration_enter(&migration, member, WEFT_ANY_WORKER) != 0) {
            return NULL;
        }
        ok &= weft_pool_self() == member;
        weft_migration_leave(&migration); /* belong_scheduler->spawn(std::move(coro)) */
        ok &= weft_pool_self() == home;
    }
    return ok ? arg : NULL;
}

int main(void)
{
    int token;
    void *ok = NULL;
    if (weft_pool_set_create(&compute, &(struct weft_pool_set_opts){.members = 2}) ||
        weft_pool_set_start(compute)) {
        return 1;
    }
    int err = weft_run(&ok, owned, &token, NULL, WEFT_FOREVER);
    weft_pool_set_stop(compute, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_set_destroy(compute);
    printf("%s\n", ok ? "always back home" : "failed");
    return err == 0 && ok ? 0 : 1;
}
