/* I/O and computing in two pools. A server's fibers do I/O in one pool and CPU-bound work runs in
 * another. A fiber that needs a computation continues on its own worker when the result is ready:
 *
 *   by a waiter   the fiber submits the job to the compute pool with a one-shot on its own stack,
 *                 and waits on the one-shot;
 *   by a channel  many fibers send jobs through one channel to one computing fiber, which notifies
 *                 each of them.
 *
 * The program measures plain requests without other load, and again while the compute pool is
 * saturated: with one core per pool the times hardly differ.
 *
 * usage: mixed [REQUESTS]
 */
#include <sched.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <weft/weft.h>

enum { CLIENTS = 4, JOBS = 20, BURN = 300000 };

static weft_pool *compute;
static weft_chan *jobs;
static long requests = 2000;

struct job {
    uint64_t n, result;
    weft_oneshot done;
};

/* A computation that takes a while. */
static uint64_t burn(uint64_t n)
{
    uint64_t x = n;
    for (int i = 0; i < BURN; i++) {
        x = x * 6364136223846793005u + 1442695040888963407u;
    }
    return x;
}

/* --- the compute pool ------------------------------------------------------------------- */

static void *compute_one(void *arg)
{
    struct job *job = arg;
    job->result = burn(job->n);
    weft_oneshot_notify(&job->done, job); /* the waiter may have freed the job by now */
    return NULL;
}

static void *compute_all(void *arg)
{
    struct job *job;
    while (weft_chan_recv(jobs, &job, WEFT_FOREVER) == 0) {
        compute_one(job);
        weft_yield(); /* let other jobs run */
    }
    return arg;
}

/* --- the I/O pool -------------------------------------------------------------------------- */

/* The kinds of request. */
enum { PLAIN = 'p', BY_WAITER = 'w', BY_CHANNEL = 'c', BYE = 'b' };

struct message {
    char kind;
    uint64_t n;
};

static int answer(struct message *message)
{
    struct job job = {.n = message->n};
    struct job *sent = &job;
    int err = 0;
    weft_oneshot_init(&job.done, NULL);
    switch (message->kind) {
    case BY_WAITER:
        err = weft_pool_submit(compute, compute_one, &job);
        break;
    case BY_CHANNEL:
        err = weft_chan_send(jobs, &sent, WEFT_FOREVER);
        break;
    default:
        message->n++;
        return 0;
    }
    /* The job is on this stack, so the wait has no deadline. */
    err = err ? err : weft_oneshot_wait(&job.done, NULL, WEFT_FOREVER);
    message->n = job.result;
    return err;
}

static void *serve(void *arg)
{
    int fd = *(int *)arg;
    struct message message;
    while (weft_read_full(fd, &message, sizeof message, NULL, WEFT_FOREVER) == 0) {
        if (message.kind == BYE || answer(&message) != 0 ||
            weft_write_all(fd, &message, sizeof message, NULL, WEFT_FOREVER) != 0) {
            break;
        }
    }
    return NULL;
}

/* --- a client -------------------------------------------------------------------------------- */

struct client {
    int ends[2];
    char kind;
    long count;
    int64_t *times; /* time of each request, unless NULL */
    long wrong;
    weft_fiber server, self;
};

static void *ask(void *arg)
{
    struct client *client = arg;
    for (long i = 0; i < client->count; i++) {
        struct message message = {.kind = client->kind, .n = (uint64_t)i};
        int64_t begin = weft_now();
        if (weft_write_all(client->ends[1], &message, sizeof message, NULL, WEFT_FOREVER) != 0 ||
            weft_read_full(client->ends[1], &message, sizeof message, NULL, WEFT_FOREVER) != 0) {
            client->wrong++;
            break;
        }
        uint64_t right = client->kind == PLAIN ? (uint64_t)i + 1 : burn((uint64_t)i);
        client->wrong += message.n != right;
        if (client->times) {
            client->times[i] = weft_now() - begin;
        }
    }
    struct message bye = {.kind = BYE};
    weft_write_all(client->ends[1], &bye, sizeof bye, NULL, WEFT_FOREVER);
    return NULL;
}

static int start(struct client *client, char kind, long count, int64_t *times)
{
    *client = (struct client){.kind = kind, .count = count, .times = times};
    if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, client->ends) != 0) {
        return -1;
    }
    int err = weft_spawn(&client->server, serve, &client->ends[0], NULL);
    return err ? err : weft_spawn(&client->self, ask, client, NULL);
}

static long finish(struct client *client)
{
    weft_join(client->self, NULL, WEFT_FOREVER);
    weft_join(client->server, NULL, WEFT_FOREVER);
    weft_close(client->ends[0]);
    weft_close(client->ends[1]);
    return client->wrong;
}

/* --- measurement ------------------------------------------------------------------------------ */

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* Sends plain requests from a few clients. Returns their p99 in us; < 0: a request failed. */
static double measure(const char *when)
{
    int64_t *times = calloc((size_t)requests * CLIENTS, sizeof *times);
    struct client clients[CLIENTS];
    long wrong = 0, n = requests * CLIENTS;
    for (long i = 0; i < CLIENTS; i++) {
        if (start(&clients[i], PLAIN, requests, times + i * requests) != 0) {
            return -1;
        }
    }
    for (int i = 0; i < CLIENTS; i++) {
        wrong += finish(&clients[i]);
    }
    qsort(times, (size_t)n, sizeof *times, by_size);
    double p50 = (double)times[n / 2] / 1e3, p99 = (double)times[n * 99 / 100] / 1e3;
    printf("%-10s p50 %.1f us, p99 %.1f us\n", when, p50, p99);
    free(times);
    return wrong ? -1 : p99;
}

static atomic_bool saturate;

/* Keeps the compute pool saturated until it is told to stop. */
static void *saturates(void *arg)
{
    while (atomic_load(&saturate)) {
        burn(1);
        weft_yield();
    }
    return arg;
}

static void *app(void *arg)
{
    struct client waiter, channel;
    weft_fiber burners[2], computer;
    long wrong = 0;
    if (weft_pool_spawn(compute, &computer, compute_all, NULL, NULL) != 0) {
        return (void *)1;
    }
    double idle = measure("idle");
    atomic_store(&saturate, true);
    for (int i = 0; i < 2; i++) {
        weft_pool_spawn(compute, &burners[i], saturates, NULL, NULL);
    }
    double busy = measure("saturated");
    atomic_store(&saturate, false);
    weft_join(burners[0], NULL, WEFT_FOREVER);
    weft_join(burners[1], NULL, WEFT_FOREVER);
    printf("p99 beside computing: %.2f x of idle\n", busy / idle);

    if (start(&waiter, BY_WAITER, JOBS, NULL) != 0 ||
        start(&channel, BY_CHANNEL, JOBS, NULL) != 0) {
        return (void *)1;
    }
    wrong += finish(&waiter) + finish(&channel);
    printf("%d jobs by waiter, %d by channel: %ld wrong\n", JOBS, JOBS, wrong);
    weft_chan_close(jobs);
    weft_join(computer, NULL, WEFT_FOREVER);
    return idle < 0 || busy < 0 || wrong ? (void *)1 : arg;
}

int main(int argc, char **argv)
{
    static const int first = 0, second = 1;
    cpu_set_t cpus;
    void *failed = NULL;
    requests = argc > 1 ? strtol(argv[1], NULL, 10) : requests;
    /* One core per pool, if there are two. */
    CPU_ZERO(&cpus);
    sched_getaffinity(0, sizeof cpus, &cpus);
    size_t pin = CPU_ISSET(0, &cpus) && CPU_ISSET(1, &cpus) ? 1 : 0;
    const struct weft_pool_opts computing = {
        .name = "compute", .compute = true, .workers = 1, .cpus = &second, .cpu_count = pin};
    const struct weft_pool_opts io = {.name = "io", .workers = 1, .cpus = &first, .cpu_count = pin};
    const struct weft_chan_opts queue = {.name = "jobs", .capacity = 64};
    int err = weft_pool_create(&compute, &computing);
    err = err ? err : weft_pool_start(compute);
    err = err ? err : weft_chan_create(&jobs, sizeof(struct job *), &queue);
    err = err ? err : weft_run(&failed, app, NULL, &io, WEFT_FOREVER);
    err = err ? err : weft_pool_stop(compute, WEFT_STOP_DRAIN, WEFT_FOREVER);
    if (!err) {
        weft_chan_destroy(jobs);
        weft_pool_destroy(compute);
    }
    return err || failed ? 1 : 0;
}
