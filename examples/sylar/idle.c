/* sylar: idle() and tickle(). An idle thread of sylar's plain Scheduler spins; a Weft worker
 * searches for a few microseconds and then sleeps in the kernel until there is work, without
 * periodic wake-ups. */
#include <sched.h>
#include <stdio.h>
#include <time.h>
#include <weft/weft.h>

static int64_t cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static unsigned idle_workers(weft_pool *pool) /* m_idleThreadCount; hasIdleThreads() is > 0 */
{
    struct weft_pool_stats stats;
    weft_pool_stats(pool, &stats);
    return stats.idle;
}

static void *task(void *arg)
{
    return arg;
}

int main(void)
{
    weft_pool *pool;
    weft_fiber fiber;
    void *result = NULL;
    if (weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 2}) || weft_pool_start(pool)) {
        return 1;
    }
    while (idle_workers(pool) < 2) {
        sched_yield();
    }
    int64_t before = cpu_ns();
    nanosleep(&(struct timespec){.tv_nsec = 50000000}, NULL);
    int64_t burnt = cpu_ns() - before;

    weft_pool_spawn(pool, &fiber, task, pool, NULL); /* includes tickle() */
    weft_join(fiber, &result, WEFT_FOREVER);
    weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_destroy(pool);
    printf("50 ms idle: %.3f ms of CPU\n", (double)burnt / 1e6);
    return result == pool && burnt < 25000000 ? 0 : 1;
}
