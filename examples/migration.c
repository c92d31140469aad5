/* A fiber migrates between pools: permanently, for a block, or for one function. */
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

static weft_pool *front, *heavy;

static bool is_on(weft_pool *pool)
{
    printf("on pool %s, worker %d\n", weft_pool_name(weft_pool_self()), weft_worker_self());
    return weft_pool_self() == pool;
}

static void *count_bits(void *arg)
{
    unsigned long n = (unsigned long)arg;
    long bits = is_on(heavy) ? 0 : -1000;
    for (; n; n &= n - 1) {
        bits++;
    }
    return (void *)bits;
}

static void *travel(void *arg)
{
    bool ok = is_on(front);

    /* Run one function on another pool and get its result here. */
    void *bits = NULL;
    ok &= weft_pool_call(heavy, &bits, WEFT_ANY_WORKER, count_bits, (void *)0xf0f0, WEFT_FOREVER) ==
          0;
    ok &= (long)bits == 8 && is_on(front);

    /* Run a block on worker 1 of another pool. */
    struct weft_migration migration;
    if (weft_migration_enter(&migration, heavy, 1) == 0) {
        ok &= is_on(heavy) && weft_worker_self() == 1;
        weft_migration_leave(&migration);
    }
    ok &= is_on(front);

    /* Migrate permanently. */
    ok &= weft_fiber_migrate(heavy, WEFT_ANY_WORKER) == 0 && is_on(heavy);
    return ok ? arg : NULL;
}

int main(void)
{
    void *ok = NULL;
    weft_fiber fiber;
    if (weft_pool_create(&front, &(struct weft_pool_opts){.name = "front", .workers = 1}) ||
        weft_pool_create(
            &heavy, &(struct weft_pool_opts){.name = "heavy", .workers = 2, .compute = true}) ||
        weft_pool_start(front) || weft_pool_start(heavy) ||
        weft_pool_spawn(front, &fiber, travel, &ok, NULL)) {
        return 1;
    }
    weft_join(fiber, &ok, WEFT_FOREVER);
    weft_pool_stop(front, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_stop(heavy, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_destroy(front);
    weft_pool_destroy(heavy);
    return ok ? 0 : 1;
}
