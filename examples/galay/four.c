/* galay: ComputeScheduler cs1, cs2, cs3, cs4; and a switch (i % 4) that distributes tasks.
 * Members of a pool set are pools, so they can also be addressed individually. */
#include <stdatomic.h>
#include <stdio.h>
#include <weft/weft.h>

enum { SCHEDULERS = 4, TASKS = 100 };

static atomic_int done[SCHEDULERS];

static void *task(void *arg)
{
    atomic_fetch_add((atomic_int *)arg, 1);
    return NULL;
}

int main(void)
{
    weft_pool_set *pools;
    bool even = true;
    if (weft_pool_set_create(&pools, &(struct weft_pool_set_opts){.members = SCHEDULERS}) ||
        weft_pool_set_start(pools)) {
        return 1;
    }
    for (unsigned i = 0; i < TASKS; i++) {
        unsigned turn = i % SCHEDULERS;
        weft_pool_submit(weft_pool_set_member(pools, turn), task, &done[turn]);
    }
    weft_pool_set_stop(pools, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_set_destroy(pools);
    for (int i = 0; i < SCHEDULERS; i++) {
        printf("scheduler %d: %d tasks\n", i, atomic_load(&done[i]));
        even &= atomic_load(&done[i]) == TASKS / SCHEDULERS;
    }
    return even ? 0 : 1;
}
