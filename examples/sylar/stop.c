/* sylar: start() and stop(). Where sylar asserts, Weft returns an error, and a stop may have a
 * deadline. */
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <weft/weft.h>

static weft_pool *pool;
static int answer[2];

static void *wait_for_ever(void *arg)
{
    return weft_fiber_park(WEFT_FOREVER) == -ECANCELED ? arg : NULL;
}

/* Runs on a plain thread that is not the caller: the pool's only worker is another thread. */
static void *stop_from_outside(void *arg)
{
    answer[0] = weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER);
    return arg;
}

/* Runs in a fiber of the pool: the stop has begun, but this fiber cannot wait for its own end. */
static void *stop_from_inside(void *arg)
{
    answer[1] = weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER);
    return arg;
}

static bool caller_only(void)
{
    pthread_t thread;
    if (weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1, .caller = true}) ||
        weft_pool_start(pool) || weft_pool_submit(pool, stop_from_inside, NULL) ||
        pthread_create(&thread, NULL, stop_from_outside, NULL)) {
        return false;
    }
    pthread_join(thread, NULL);
    int late = weft_pool_submit(pool, wait_for_ever, NULL);
    int err = weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER);
    weft_pool_destroy(pool);
    printf("outside: %d, inside: %d, late submit: %d\n", answer[0], answer[1], late);
    return answer[0] == -EDEADLK && answer[1] == -EINPROGRESS && late == -ESHUTDOWN && err == 0;
}

static bool with_deadline(void)
{
    weft_fiber fiber;
    void *cancelled = NULL;
    if (weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 2}) || weft_pool_start(pool) ||
        weft_pool_start(pool) || /* twice: a no-op */
        weft_pool_spawn(pool, &fiber, wait_for_ever, &pool, NULL)) {
        return false;
    }
    /* sylar would wait forever for a fiber in HOLD. Weft cancels it after 10 ms. */
    int err = weft_pool_stop(pool, WEFT_STOP_DRAIN, weft_after(WEFT_MS(10)));
    while (err == -EBUSY) { /* busy machine: not ended within a second */
        err = weft_pool_stop(pool, WEFT_STOP_CANCEL, WEFT_FOREVER);
    }
    weft_join(fiber, &cancelled, WEFT_FOREVER);
    bool again = weft_pool_start(pool) == 0; /* a stopped pool may start again */
    again &= weft_pool_stop(pool, WEFT_STOP_CANCEL, WEFT_FOREVER) == 0;
    weft_pool_destroy(pool);
    return err == 0 && cancelled && again;
}

int main(void)
{
    return caller_only() && with_deadline() ? 0 : 1;
}
