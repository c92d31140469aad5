/* Calls of blocking functions whose callers leave at any moment: every job is released once, every
 * function that was not skipped runs once, and no memory is used after it was freed.
 *
 * A normal run makes 10^4 calls; WEFT_STRESS=10000 makes 10^6. Waits have no time limits except
 * those under test.
 */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "check.h"
#include "stress/watchdog.h"

#define FIBERS 32

static weft_blocking_pool *blocking;
static atomic_long ran, made, released, timed_out, left_running;

struct job {
    struct weft_blocking_job job; /* first */
    long *numbers;
    bool slow;
};

static void job_run(struct weft_blocking_job *job)
{
    struct job *self = (struct job *)(void *)job;
    for (int i = 0; i < 64; i++) {
        self->numbers[i]++;
        if (i % 8 == 0 && self->slow) {
            sched_yield();
            usleep(5); /* so that a deadline may pass in the middle of it */
        }
    }
    atomic_fetch_add(&ran, 1);
}

static void job_release(struct weft_blocking_job *job)
{
    struct job *self = (struct job *)(void *)job;
    atomic_fetch_add(&released, 1);
    free(self->numbers);
    free(self);
}

static void *add(void *arg)
{
    ++*(long *)arg;
    atomic_fetch_add(&ran, 1);
    return arg;
}

static long detachable(uint64_t i)
{
    struct job *job = calloc(1, sizeof *job);
    CHECK(job != NULL);
    job->numbers = calloc(64, sizeof *job->numbers);
    CHECK(job->numbers != NULL);
    job->slow = (i >> 8) % 8 == 0;
    weft_blocking_job_init(&job->job, job_run, job_release);
    atomic_fetch_add(&made, 1);
    int err = weft_blocking_run(blocking, &job->job,
                                i % 3 ? weft_after((int64_t)(i * 7919 % 300000)) : WEFT_FOREVER);
    CHECK(err == 0 || err == -ETIMEDOUT);
    CHECK(err != 0 || (job->job.started && job->numbers[63] == 1));
    long expected = job->job.started;
    atomic_fetch_add(&timed_out, err != 0);
    atomic_fetch_add(&left_running, err != 0 && expected);
    weft_blocking_release(&job->job);
    return expected;
}

static long on_stack(uint64_t i)
{
    long number = 0;
    void *result = NULL;
    int err = weft_blocking_call(blocking, &result, add, &number,
                                 i % 3 ? weft_after((int64_t)(i * 7919 % 300000)) : WEFT_FOREVER);
    CHECK(err == 0 || err == -ETIMEDOUT);
    CHECK_EQ(number, err == 0);
    CHECK(err != 0 || result == &number);
    atomic_fetch_add(&timed_out, err != 0);
    return err == 0;
}

struct user {
    long calls;
    uint64_t seed;
};

static void *use(void *arg)
{
    struct user *user = arg;
    long expected = 0;
    for (long i = 0; i < user->calls; i++) {
        user->seed = user->seed * 6364136223846793005u + 1442695040888963407u;
        uint64_t dice = user->seed >> 33;
        expected += dice % 2 ? detachable(dice) : on_stack(dice);
        watchdog_progress();
    }
    return (void *)expected;
}

TEST(callers_abandoning_blocking_jobs_lose_nothing)
{
    static struct user users[FIBERS + 2];
    weft_fiber fibers[FIBERS];
    pthread_t threads[2];
    weft_pool *pool;
    void *result;
    watchdog_start("blocking");
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 2}), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    watchdog_watch(pool);
    /* Threads start and end all the time. */
    CHECK_EQ(weft_blocking_create(&blocking,
                                  &(struct weft_blocking_opts){.max_threads = 4, .idle_ns = 20000}),
             0);
    long calls = check_scale(10000) / (FIBERS + 2) + 1, expected = 0;
    for (int i = 0; i < FIBERS + 2; i++) {
        users[i] = (struct user){.calls = calls, .seed = check_seed() + (uint64_t)i};
    }
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_pool_spawn(pool, &fibers[i], use, &users[i], NULL), 0);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, use, &users[FIBERS + i]), 0);
    }
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_join(fibers[i], &result, WEFT_FOREVER), 0);
        expected += (long)result;
    }
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pthread_join(threads[i], &result), 0);
        expected += (long)result;
    }
    weft_blocking_dump(blocking, stdout);
    CHECK_EQ(weft_blocking_stop(blocking, WEFT_FOREVER), 0);
    weft_blocking_destroy(blocking);
    printf("     %ld calls, %ld ran, %ld timed out, %ld left running\n", calls * (FIBERS + 2),
           atomic_load(&ran), atomic_load(&timed_out), atomic_load(&left_running));
    CHECK_EQ(atomic_load(&ran), expected);
    CHECK_EQ(atomic_load(&released), atomic_load(&made));
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    watchdog_forget(pool);
    weft_pool_destroy(pool);
    watchdog_stop();
}
