/* Plain requests while another pool computes, as in examples/mixed.c: fibers of one worker on CPU 0
 * serve 4 connections, and a compute pool of one worker on CPU 1 gets more jobs than it can
 * process, from fibers of the first pool that wait for each: half of them through a waiter, half
 * through a channel. The limit is the same requests without computing; the two alternate.
 * `mixed_slack` is the share of that time in which the compute pool did not compute. */
#include "program.h"

#include <sys/socket.h>

enum { CLIENTS = 4, ROUNDS = 20, REQUESTS = 2500, JOBBERS = 8, BURN = 300000, MESSAGE = 64 };

static weft_pool *compute;
static weft_chan *jobs;
static atomic_bool saturate;
static uint64_t computed_ns; /* written by the compute worker */

struct job {
    uint64_t n;
    weft_oneshot done;
};

static void *compute_one(void *arg)
{
    struct job *job = arg;
    uint64_t start = now_ns(), x = job->n;
    for (int i = 0; i < BURN; i++)
        x = x * 6364136223846793005u + 1442695040888963407u;
    job->n = x;
    computed_ns += now_ns() - start;
    weft_oneshot_notify(&job->done, NULL); /* the job may be gone now */
    return NULL;
}

static void *compute_all(void *arg)
{
    struct job *job;
    while (weft_chan_recv(jobs, &job, WEFT_FOREVER) == 0) {
        compute_one(job);
        weft_yield();
    }
    return arg;
}

/* Submits one job after the other. */
static void *jobber(void *by_channel)
{
    while (atomic_load_explicit(&saturate, memory_order_relaxed)) {
        struct job job = {.n = 1}, *sent = &job;
        weft_oneshot_init(&job.done, NULL);
        if (by_channel)
            must(weft_chan_send(jobs, &sent, WEFT_FOREVER), "weft_chan_send");
        else
            must(weft_pool_submit(compute, compute_one, &job), "weft_pool_submit");
        must(weft_oneshot_wait(&job.done, NULL, WEFT_FOREVER), "weft_oneshot_wait");
    }
    return NULL;
}

static void *serve(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char message[MESSAGE];
    while (weft_read_full(fd, message, sizeof message, NULL, WEFT_FOREVER) == 0)
        must(weft_write_all(fd, message, sizeof message, NULL, WEFT_FOREVER), "weft_write_all");
    must(weft_close(fd), "weft_close");
    return NULL;
}

struct client {
    int fd;
    uint64_t *ns;
};

static void *ask(void *arg)
{
    struct client *client = arg;
    char message[MESSAGE] = "";
    for (int i = 0; i < REQUESTS; i++) {
        uint64_t start = now_ns();
        must(weft_write_all(client->fd, message, sizeof message, NULL, WEFT_FOREVER),
             "weft_write_all");
        must(weft_read_full(client->fd, message, sizeof message, NULL, WEFT_FOREVER),
             "weft_read_full");
        client->ns[i] = now_ns() - start;
    }
    return NULL;
}

static void ask_all(struct client *clients, uint64_t *ns)
{
    weft_fiber asking[CLIENTS];
    for (int i = 0; i < CLIENTS; i++) {
        clients[i].ns = ns + i * REQUESTS;
        must(weft_spawn(&asking[i], ask, &clients[i], NULL), "weft_spawn");
    }
    for (int i = 0; i < CLIENTS; i++)
        must(weft_join(asking[i], NULL, WEFT_FOREVER), "weft_join");
}

/* Returns the share of the time in which the compute pool did not compute. */
static double ask_beside_computing(struct client *clients, uint64_t *ns)
{
    weft_fiber busy[JOBBERS];
    atomic_store(&saturate, true);
    computed_ns = 0;
    uint64_t start = now_ns();
    for (long i = 0; i < JOBBERS; i++)
        must(weft_spawn(&busy[i], jobber, (void *)(i % 2), NULL), "weft_spawn");
    ask_all(clients, ns);
    atomic_store(&saturate, false);
    for (int i = 0; i < JOBBERS; i++)
        must(weft_join(busy[i], NULL, WEFT_FOREVER), "weft_join");
    return 1 - (double)computed_ns / ns_since(start); /* the joins order the reads */
}

static void *compare(void *arg)
{
    enum { EACH = CLIENTS * REQUESTS };
    uint64_t *idle = calloc(2u * ROUNDS * EACH, sizeof *idle), *mixed = idle + ROUNDS * EACH;
    struct client clients[CLIENTS];
    weft_fiber serving[CLIENTS], computer;
    double slack = 0;
    must(weft_pool_spawn(compute, &computer, compute_all, NULL, NULL), "weft_pool_spawn");
    for (int i = 0; i < CLIENTS; i++) {
        int ends[2];
        if (!idle || socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends))
            exit(1);
        clients[i].fd = ends[0];
        must(weft_spawn(&serving[i], serve, (void *)(intptr_t)ends[1], NULL), "weft_spawn");
    }
    ask_all(clients, idle); /* warm-up */
    for (int i = 0; i < ROUNDS; i++) {
        ask_all(clients, idle + i * EACH);
        slack += ask_beside_computing(clients, mixed + i * EACH) / ROUNDS;
    }
    report_latency("limit-idle", "mixed", idle, ROUNDS * EACH);
    report_latency("weft", "mixed", mixed, ROUNDS * EACH);
    report("weft", "mixed", "_slack", slack, "part");
    for (int i = 0; i < CLIENTS; i++) {
        must(weft_close(clients[i].fd), "weft_close");
        must(weft_join(serving[i], NULL, WEFT_FOREVER), "weft_join");
    }
    weft_chan_close(jobs);
    must(weft_join(computer, NULL, WEFT_FOREVER), "weft_join");
    free(idle);
    return arg;
}

int main(void)
{
    static const int first = 0, second = 1;
    const struct weft_pool_opts computing = {.name = "compute",
                                             .compute = true,
                                             .workers = 1,
                                             .cpus = &second,
                                             .cpu_count = 1,
                                             .hog_ns = -1};
    const struct weft_pool_opts io = {
        .name = "io", .workers = 1, .cpus = &first, .cpu_count = 1, .hog_ns = -1};
    const struct weft_chan_opts queue = {.name = "jobs", .capacity = 64};
    must(weft_pool_create(&compute, &computing), "weft_pool_create");
    must(weft_pool_start(compute), "weft_pool_start");
    must(weft_chan_create(&jobs, sizeof(struct job *), &queue), "weft_chan_create");
    must(weft_run(NULL, compare, NULL, &io, WEFT_FOREVER), "weft_run");
    must(weft_pool_stop(compute, WEFT_STOP_DRAIN, WEFT_FOREVER), "weft_pool_stop");
    weft_chan_destroy(jobs);
    weft_pool_destroy(compute);
}
