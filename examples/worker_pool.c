/* A worker pool: a few fibers process many jobs. The scope waits for them, and cancels all of them
 * when one fails. Each job's result is a future; a caller that wants only some results need not
 * wait for the others. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <weft/weft.h>

enum { WORKERS = 4, JOBS = 100 };

struct job {
    long n, square;
    weft_future *done; /* completed when the job is done */
};

struct jobs {
    struct job list[JOBS];
    atomic_int next;
};

static int work(void *arg)
{
    struct jobs *jobs = arg;
    int i;
    while ((i = atomic_fetch_add(&jobs->next, 1)) < JOBS) {
        struct job *job = &jobs->list[i];
        int err = weft_sleep(weft_after(WEFT_US(1))); /* simulates work; a cancel ends this wait */
        if (err) {
            return err;
        }
        job->square = job->n * job->n;
        weft_future_complete(job->done, job);
    }
    return 0;
}

static int prepare(struct jobs *jobs)
{
    for (int i = 0; i < JOBS; i++) {
        int err = weft_future_create(&jobs->list[i].done, NULL);
        if (err) {
            return err;
        }
        jobs->list[i].n = i;
    }
    return 0;
}

static void *run(void *arg)
{
    struct jobs *jobs = arg;
    weft_scope workers;
    int err = prepare(jobs);
    weft_scope_open(&workers, &(struct weft_scope_opts){.name = "workers", .fail_fast = true});
    for (int i = 0; i < WORKERS && !err; i++) {
        err = weft_scope_spawn(&workers, NULL, work, jobs, NULL);
    }
    void *seventh;
    if (!err && weft_future_get(jobs->list[7].done, &seventh, WEFT_FOREVER) == 0) {
        printf("7 * 7 = %ld\n", ((struct job *)seventh)->square);
    }
    int failure = weft_scope_close(&workers, WEFT_FOREVER);
    long sum = 0;
    for (int i = 0; i < JOBS; i++) {
        sum += jobs->list[i].square;
        weft_future_unref(jobs->list[i].done);
    }
    printf("%d jobs, sum %ld\n", JOBS, sum);
    return (void *)(intptr_t)(err || failure ? -1 : sum);
}

int main(void)
{
    static struct jobs jobs;
    void *sum = NULL;
    int err = weft_run(&sum, run, &jobs, NULL, WEFT_FOREVER);
    return err == 0 && (intptr_t)sum == (JOBS - 1L) * JOBS * (2 * JOBS - 1L) / 6 ? 0 : 1;
}
