/* sylar: schedule(begin, end). Many tasks with one lock and one wake-up; on an error, none of them
 * runs. */
#include <stdatomic.h>
#include <stdio.h>
#include <weft/weft.h>

enum { JOBS = 1000 };

static atomic_int ran;

static void *job(void *arg)
{
    atomic_fetch_add(&ran, 1);
    return arg;
}

int main(void)
{
    weft_pool *pool;
    struct weft_job jobs[JOBS];
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = (struct weft_job){.fn = job};
    }
    if (weft_pool_create(&pool, NULL) || weft_pool_start(pool) ||
        weft_pool_submit_batch(pool, jobs, JOBS)) {
        return 1;
    }
    weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_destroy(pool);
    printf("%d of %d ran\n", atomic_load(&ran), JOBS);
    return atomic_load(&ran) == JOBS ? 0 : 1;
}
