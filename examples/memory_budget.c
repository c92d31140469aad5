/* Jobs of different sizes within one memory budget. A semaphore counts the free kilobytes: a job
 * acquires all that it needs before it starts and releases it at its end. Jobs are served in order
 * of arrival, so a stream of small jobs cannot starve a big one. The budget can grow while jobs
 * wait: a release need not follow an acquire. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <weft/weft.h>

enum { JOBS = 40, SMALL_BUDGET = 32, BUDGET = 64 }; /* kilobytes */

static weft_sem budget;
static weft_waitgroup unfinished;
static atomic_int used, peak, failures;

/* Sizes from 4 to 48 kilobytes: some need more than the small budget. */
static int size_of_job(int number)
{
    return 4 + number % 12 * 4;
}

static void note_use(int kilobytes)
{
    int now = atomic_fetch_add(&used, kilobytes) + kilobytes, most = atomic_load(&peak);
    while (now > most && !atomic_compare_exchange_weak(&peak, &most, now)) {
    }
}

static void work(int kilobytes)
{
    size_t bytes = (size_t)kilobytes * 1024;
    char *image = malloc(bytes);
    note_use(kilobytes);
    if (image) {
        memset(image, kilobytes, bytes);
        weft_yield(); /* other jobs run meanwhile */
    }
    atomic_fetch_add(&failures, !image || image[bytes - 1] != kilobytes);
    free(image);
    atomic_fetch_sub(&used, kilobytes);
}

static void *job(void *arg)
{
    int kilobytes = size_of_job((int)(intptr_t)arg);
    int err = weft_sem_acquire(&budget, (uint64_t)kilobytes, WEFT_FOREVER);
    if (!err) {
        work(kilobytes);
        weft_sem_release(&budget, (uint64_t)kilobytes);
    }
    atomic_fetch_add(&failures, err != 0);
    weft_waitgroup_done(&unfinished);
    return NULL;
}

static void *run(void *arg)
{
    for (int i = 0; i < JOBS; i++) {
        weft_waitgroup_add(&unfinished, 1);
        if (weft_spawn(NULL, job, (void *)(intptr_t)i, NULL)) {
            weft_waitgroup_done(&unfinished);
            atomic_fetch_add(&failures, 1);
        }
    }
    /* The budget is still too small for one of the jobs, and for those that came after it. */
    int err = weft_waitgroup_wait(&unfinished, weft_after(WEFT_MS(2)));
    printf("budget %d KiB: %s, %d of %d jobs left\n", SMALL_BUDGET, weft_strerror(err),
           (int)weft_waitgroup_count(&unfinished), JOBS);
    *(bool *)arg = err == -ETIMEDOUT;

    weft_sem_release(&budget, BUDGET - SMALL_BUDGET);
    err = weft_waitgroup_wait(&unfinished, WEFT_FOREVER);
    printf("budget %d KiB: all jobs done, at most %d KiB in use\n", BUDGET, atomic_load(&peak));

    /* Deadline 0 only tries. All or nothing: what is not enough is not acquired. */
    *(bool *)arg &= err == 0 && weft_sem_acquire(&budget, BUDGET + 1, 0) == -ETIMEDOUT;
    return NULL;
}

int main(void)
{
    bool well = false;
    weft_sem_init(&budget, SMALL_BUDGET, &(struct weft_sync_opts){.name = "memory budget"});
    int err = weft_run(NULL, run, &well, NULL, WEFT_FOREVER);
    uint64_t left = weft_sem_permits(&budget);
    weft_sem_deinit(&budget);
    weft_waitgroup_deinit(&unfinished);
    if (err || !well || atomic_load(&failures) || left != BUDGET || atomic_load(&peak) > BUDGET) {
        fprintf(stderr, "memory_budget: %d failures, %d KiB left, peak %d\n",
                atomic_load(&failures), (int)left, atomic_load(&peak));
        return 1;
    }
    return 0;
}
