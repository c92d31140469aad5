/* sylar: Scheduler sc(1, true). The caller is the only thread, so no task runs before stop(), and
 * all tasks run inside it. weft_pool_run and weft_pool_poll can run tasks earlier. */
#include <stdio.h>
#include <weft/weft.h>

static int ran; /* one thread: no atomics needed */

static void *task(void *again)
{
    ran++;
    if (again) {
        weft_spawn(NULL, task, NULL, NULL); /* a fiber may still spawn while the pool stops */
    }
    return NULL;
}

int main(void)
{
    weft_pool *pool;
    if (weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1, .caller = true}) ||
        weft_pool_start(pool)) {
        return 1;
    }
    weft_pool_submit(pool, task, NULL);
    weft_pool_submit(pool, task, &ran);
    int before = ran;
    int err = weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_destroy(pool);
    printf("before stop: %d, after: %d\n", before, ran);
    return err == 0 && before == 0 && ran == 3 ? 0 : 1;
}
