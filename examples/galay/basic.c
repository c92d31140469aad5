/* galay: ComputeScheduler scheduler; scheduler.start(); scheduler.spawn(computeTask(i));
 * scheduler.stop(); A pool set of one member is that scheduler. There is no sleep of five seconds
 * at the end: stop drains. (galay's task makes 1,000,000 steps; this one makes fewer.) */
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <weft/weft.h>

enum { TASKS = 10, STEPS = 20000 };

static atomic_int done;

static void *compute(void *arg)
{
    double result = 0;
    for (int i = 0; i < STEPS; i++) {
        result += sin(i) * cos(i);
    }
    printf("task %ld done: %f\n", (long)arg, result);
    atomic_fetch_add(&done, 1);
    return NULL;
}

int main(void)
{
    weft_pool_set *scheduler;
    if (weft_pool_set_create(&scheduler, &(struct weft_pool_set_opts){.members = 1}) ||
        weft_pool_set_start(scheduler)) {
        return 1;
    }
    for (long i = 0; i < TASKS; i++) {
        weft_pool_set_submit(scheduler, compute, (void *)i);
    }
    weft_pool_set_stop(scheduler, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_set_destroy(scheduler);
    return atomic_load(&done) == TASKS ? 0 : 1;
}
