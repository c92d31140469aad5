/* A queue with two priorities, for two kinds of workers: a general worker takes urgent jobs before
 * normal ones, and the express worker takes urgent jobs only. Each priority has its own condition,
 * so a job wakes only a worker that may take it: a general worker waits for either condition, the
 * express worker for one of them. */
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

enum priority { URGENT, NORMAL, PRIORITIES };
enum { JOBS = 200, GENERAL_WORKERS = 3 };

struct queue {
    weft_mutex mutex; /* guards the fields below */
    weft_cond added[PRIORITIES];
    int waiting[PRIORITIES]; /* jobs; a job has no content here */
    int wakes[PRIORITIES];   /* ends of waits, by the condition that ended them */
    bool closed;
};

static void queue_init(struct queue *queue)
{
    static const char *const names[PRIORITIES] = {"urgent job", "normal job"};
    *queue = (struct queue){.closed = false};
    weft_mutex_init(&queue->mutex, &(struct weft_sync_opts){.name = "queue", .rank = 1});
    for (int i = 0; i < PRIORITIES; i++) {
        weft_cond_init(&queue->added[i], &(struct weft_sync_opts){.name = names[i]});
    }
}

static void queue_deinit(struct queue *queue)
{
    for (int i = 0; i < PRIORITIES; i++) {
        weft_cond_deinit(&queue->added[i]);
    }
    weft_mutex_deinit(&queue->mutex);
}

static int queue_put(struct queue *queue, enum priority priority)
{
    int err = weft_mutex_lock(&queue->mutex, WEFT_FOREVER);
    if (err) {
        return err;
    }
    queue->waiting[priority]++;
    weft_mutex_unlock(&queue->mutex);
    weft_cond_signal(&queue->added[priority]); /* the state has changed; the lock is not needed */
    return 0;
}

static void queue_close(struct queue *queue)
{
    weft_mutex_lock(&queue->mutex, WEFT_FOREVER);
    queue->closed = true;
    weft_mutex_unlock(&queue->mutex);
    for (int i = 0; i < PRIORITIES; i++) {
        weft_cond_broadcast(&queue->added[i]);
    }
}

/* Takes the most urgent job of the first `allowed` priorities. Returns its priority; -EPIPE if the
 * queue is closed and has no such job; an error of the wait. */
static int queue_take(struct queue *queue, unsigned allowed, int64_t deadline)
{
    weft_cond *const conds[PRIORITIES] = {&queue->added[URGENT], &queue->added[NORMAL]};
    int err = weft_mutex_lock(&queue->mutex, deadline);
    if (err) {
        return err;
    }
    for (;;) {
        for (unsigned i = 0; i < allowed; i++) {
            if (queue->waiting[i]) {
                queue->waiting[i]--;
                weft_mutex_unlock(&queue->mutex);
                return (int)i;
            }
        }
        unsigned which;
        err = queue->closed ? -EPIPE
                            : weft_cond_wait_any(&which, conds, allowed, &queue->mutex, deadline);
        if (err) {
            weft_mutex_unlock(&queue->mutex);
            return err;
        }
        queue->wakes[which]++; /* another worker may have been faster: look again */
    }
}

/* --- usage ------------------------------------------------------------------------------ */

struct worker {
    struct queue *queue;
    unsigned allowed;
    int done[PRIORITIES];
};

static int work(void *arg)
{
    struct worker *worker = arg;
    int job;
    while ((job = queue_take(worker->queue, worker->allowed, WEFT_FOREVER)) >= 0) {
        worker->done[job]++;
        weft_yield(); /* the job */
    }
    return job == -EPIPE ? 0 : job;
}

static void *run(void *arg)
{
    struct queue queue;
    struct worker workers[GENERAL_WORKERS + 1];
    weft_scope scope;
    int done[PRIORITIES] = {0};
    int err = weft_scope_open(&scope, NULL);
    queue_init(&queue);
    for (int i = 0; i <= GENERAL_WORKERS && !err; i++) {
        workers[i] = (struct worker){&queue, i == GENERAL_WORKERS ? 1 : PRIORITIES, {0}};
        err = weft_scope_spawn(&scope, NULL, work, &workers[i], NULL);
    }
    for (int i = 0; i < JOBS && !err; i++) {
        err = queue_put(&queue, i % 4 == 0 ? URGENT : NORMAL);
        if (i % 10 == 0) {
            weft_yield(); /* let the workers wait from time to time */
        }
    }
    queue_close(&queue);
    int failure = weft_scope_close(&scope, WEFT_FOREVER);
    if (err || failure) {
        fprintf(stderr, "priority_queue: %s\n", weft_strerror(err ? err : failure));
        return NULL;
    }
    for (int i = 0; i <= GENERAL_WORKERS; i++) {
        printf("%-7s worker: %3d urgent jobs, %3d normal jobs\n",
               i == GENERAL_WORKERS ? "express" : "general", workers[i].done[URGENT],
               workers[i].done[NORMAL]);
        done[URGENT] += workers[i].done[URGENT];
        done[NORMAL] += workers[i].done[NORMAL];
    }
    printf("waits ended by urgent jobs: %d, by normal jobs: %d\n", queue.wakes[URGENT],
           queue.wakes[NORMAL]);
    queue_deinit(&queue);
    *(bool *)arg = done[URGENT] == JOBS / 4 && done[NORMAL] == JOBS - JOBS / 4;
    return NULL;
}

int main(void)
{
    bool all_done = false;
    int err = weft_run(NULL, run, &all_done, NULL, WEFT_FOREVER);
    if (err || !all_done) {
        fprintf(stderr, "priority_queue: not every job was done once\n");
        return 1;
    }
    return 0;
}
