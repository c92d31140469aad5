/* galay: class SchedulerPool, N single-thread schedulers and a round-robin index over them, which
 * users write themselves. A weft_pool_set is that class; it can also pick the least loaded
 * member. */
#include <stdatomic.h>
#include <stdio.h>
#include <weft/weft.h>

enum { SCHEDULERS = 4, TASKS = 100 };

static atomic_int done;
static atomic_uint seen; /* one bit per member that ran a task */

static void *compute(void *arg)
{
    weft_pool_set *pool = arg;
    for (unsigned i = 0; i < weft_pool_set_size(pool); i++) {
        if (weft_pool_set_member(pool, i) == weft_pool_self()) {
            atomic_fetch_or(&seen, 1u << i);
        }
    }
    atomic_fetch_add(&done, 1);
    return NULL;
}

int main(void)
{
    weft_pool_set *pool;
    struct weft_pool_set_opts opts = {.members = SCHEDULERS, .placement = WEFT_ROUND_ROBIN};
    if (weft_pool_set_create(&pool, &opts) || weft_pool_set_start(pool)) {
        return 1;
    }
    for (int i = 0; i < TASKS; i++) {
        weft_pool_set_submit(pool, compute, pool);
    }
    weft_pool_set_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_set_destroy(pool);
    printf("%d tasks on members %#x\n", atomic_load(&done), atomic_load(&seen));
    return atomic_load(&done) == TASKS && atomic_load(&seen) == 0xf ? 0 : 1;
}
