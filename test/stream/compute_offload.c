/* Fibers that do I/O offload work to a compute pool, through a oneshot and through a channel, and
 * continue on their own pool. Plain requests are answered while the compute pool is saturated, on
 * every driver. */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "io/drivers.h"

enum { CLIENTS = 8, REQUESTS = 30, BURN = 20000 };

static weft_pool *compute;
static weft_chan *jobs;
static atomic_bool saturated;
static atomic_long computed, elsewhere;

struct job {
    uint64_t n, result;
    weft_oneshot done;
};

static uint64_t burn(uint64_t n)
{
    for (int i = 0; i < BURN; i++) {
        n = n * 6364136223846793005u + 1442695040888963407u;
    }
    return n;
}

static void *compute_one(void *arg)
{
    struct job *job = arg;
    if (weft_pool_self() != compute) {
        atomic_fetch_add(&elsewhere, 1);
    }
    job->result = burn(job->n);
    atomic_fetch_add(&computed, 1);
    CHECK_EQ(weft_oneshot_notify(&job->done, job), 0);
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

static void *saturates(void *arg)
{
    while (atomic_load(&saturated)) {
        burn(1);
        weft_yield();
    }
    return arg;
}

/* A server's fiber: in turn a plain request, one through a oneshot, one through a channel. */
static void *serve(void *arg)
{
    int fd = *(int *)arg;
    uint64_t n;
    weft_pool *home = weft_pool_self();
    for (int i = 0; weft_read_full(fd, &n, sizeof n, NULL, WEFT_FOREVER) == 0; i++) {
        struct job job = {.n = n, .result = n}, *sent = &job, *back = &job;
        weft_oneshot_init(&job.done, NULL);
        if (i % 3 == 1) {
            CHECK_EQ(weft_pool_submit(compute, compute_one, &job), 0);
        } else if (i % 3 == 2) {
            CHECK_EQ(weft_chan_send(jobs, &sent, WEFT_FOREVER), 0);
        }
        if (i % 3) {
            back = NULL;
            CHECK_EQ(weft_oneshot_wait(&job.done, (void **)&back, WEFT_FOREVER), 0);
        }
        CHECK(back == &job); /* the result of this fiber's job */
        CHECK(weft_pool_self() == home);
        CHECK_EQ(weft_write_all(fd, &job.result, sizeof job.result, NULL, WEFT_FOREVER), 0);
    }
    CHECK_EQ(weft_close(fd), 0);
    return NULL;
}

static void *ask(void *arg)
{
    int fd = *(int *)arg;
    for (uint64_t i = 0; i < REQUESTS; i++) {
        uint64_t n = i * 1000 + (uint64_t)fd, answer;
        CHECK_EQ(weft_write_all(fd, &n, sizeof n, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(weft_read_full(fd, &answer, sizeof answer, NULL, WEFT_FOREVER), 0);
        CHECK(answer == (i % 3 ? burn(n) : n));
    }
    CHECK_EQ(weft_close(fd), 0);
    return NULL;
}

static void *app(void *arg)
{
    int ends[CLIENTS][2];
    weft_fiber fibers[CLIENTS][2];
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends[i]), 0);
        CHECK_EQ(weft_spawn(&fibers[i][0], serve, &ends[i][0], NULL), 0);
        CHECK_EQ(weft_spawn(&fibers[i][1], ask, &ends[i][1], NULL), 0);
    }
    for (int i = 0; i < CLIENTS; i++) {
        CHECK_EQ(weft_join(fibers[i][0], NULL, WEFT_FOREVER), 0);
        CHECK_EQ(weft_join(fibers[i][1], NULL, WEFT_FOREVER), 0);
    }
    return arg;
}

EACH_DRIVER(offloaded_work_returns_to_original_io_worker)
{
    const struct weft_pool_opts io = {.workers = 2, .driver = driver};
    weft_fiber burner, computer;
    atomic_store(&computed, 0);
    atomic_store(&saturated, true);
    CHECK_EQ(
        weft_pool_create(
            &compute, &(struct weft_pool_opts){.name = "compute", .compute = true, .workers = 1}),
        0);
    CHECK_EQ(weft_pool_start(compute), 0);
    CHECK_EQ(weft_chan_create(&jobs, sizeof(struct job *), &(struct weft_chan_opts){.capacity = 4}),
             0);
    CHECK_EQ(weft_pool_spawn(compute, &computer, compute_all, NULL, NULL), 0);
    CHECK_EQ(weft_pool_spawn(compute, &burner, saturates, NULL, NULL), 0);
    CHECK_EQ(weft_run(NULL, app, NULL, &io, WEFT_FOREVER), 0);
    atomic_store(&saturated, false);
    weft_chan_close(jobs);
    CHECK_EQ(weft_join(burner, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_join(computer, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_pool_stop(compute, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_chan_destroy(jobs);
    weft_pool_destroy(compute);
    CHECK_EQ(atomic_load(&computed), CLIENTS * REQUESTS / 3 * 2);
    CHECK_EQ(atomic_load(&elsewhere), 0);
}
