/* libuv: a list under a mutex, drained whole by one uv_async, the usual way to post into a loop.
 * Timers by uv_timer_start and uv_timer_stop, on the loop's thread, as libuv requires.
 * Echo: the callback that read a message writes it by uv_try_write.
 * Usage: libuv crosspost|wake|timer_bulk|timer_once|echo PORT
 */
#include "../../measure.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <uv.h>

enum { POSTS = 1000000, WAKES = 2000, TIMERS = 1000000, PAIRS = 20000000 };

struct job {
    struct job *next;
    uint64_t posted;
};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct job *first, **last = &first;
static uv_async_t bell;
static atomic_long ran;
static uint64_t latency[WAKES];

static void post(uint64_t posted)
{
    struct job *job = malloc(sizeof *job);
    job->next = NULL;
    job->posted = posted;
    pthread_mutex_lock(&lock);
    *last = job;
    last = &job->next;
    pthread_mutex_unlock(&lock);
    uv_async_send(&bell);
}

static struct job *take_all(void)
{
    pthread_mutex_lock(&lock);
    struct job *jobs = first;
    first = NULL;
    last = &first;
    pthread_mutex_unlock(&lock);
    return jobs;
}

static void count_jobs(uv_async_t *async)
{
    (void)async;
    for (struct job *job = take_all(), *next; job; job = next) {
        next = job->next;
        free(job);
        atomic_fetch_add_explicit(&ran, 1, memory_order_release);
    }
}

static void time_jobs(uv_async_t *async)
{
    (void)async;
    for (struct job *job = take_all(), *next; job; job = next) {
        next = job->next;
        latency[atomic_load(&ran)] = now_ns() - job->posted;
        free(job);
        atomic_fetch_add(&ran, 1);
    }
}

static void *run_loop(void *pinned)
{
    if (pinned)
        pin_to(0);
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
    return NULL;
}

static void start_loop(uv_async_cb on_bell, int pinned)
{
    pthread_t thread;
    uv_async_init(uv_default_loop(), &bell, on_bell);
    if (pinned)
        pin_to(1);
    pthread_create(&thread, NULL, run_loop, pinned ? &bell : NULL);
    usleep(10000);
}

static void await(long jobs)
{
    while (atomic_load(&ran) != jobs)
        sched_yield();
}

static void crosspost(void)
{
    start_loop(count_jobs, 1);
    uint64_t start = now_ns();
    for (int i = 0; i < POSTS; i++)
        post(0);
    await(POSTS);
    report("libuv", "crosspost1", "", POSTS * 1e3 / ns_since(start), "Mtask/s");
}

static void wake(void)
{
    start_loop(time_jobs, 0);
    for (int i = 0; i < WAKES; i++) {
        usleep(500);
        post(now_ns());
        await(i + 1);
    }
    report_latency("libuv", "wake", latency, WAKES);
}

static void nothing(uv_timer_t *timer)
{
    (void)timer;
}

static void timer_bulk(void)
{
    uv_timer_t *timers = calloc(TIMERS, sizeof *timers);
    uint64_t *delays_ms = calloc(TIMERS, sizeof *delays_ms), seed = 1;
    for (int i = 0; i < TIMERS; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        delays_ms[i] = 1000 + (seed >> 33) % 59000;
        uv_timer_init(uv_default_loop(), &timers[i]);
    }
    uint64_t start = now_ns();
    for (int i = 0; i < TIMERS; i++)
        uv_timer_start(&timers[i], nothing, delays_ms[i], 0);
    for (int i = 0; i < TIMERS; i++)
        uv_timer_stop(&timers[i]);
    report("libuv", "timer_bulk", "", ns_since(start) / TIMERS, "ns");
}

static void timer_once(void)
{
    uv_timer_t timer;
    uv_timer_init(uv_default_loop(), &timer);
    uint64_t start = now_ns();
    for (int i = 0; i < PAIRS; i++) {
        uv_timer_start(&timer, nothing, 10000 + (uint64_t)i % 1000, 0);
        uv_timer_stop(&timer);
    }
    report("libuv", "timer_once", "", ns_since(start) / PAIRS, "ns");
}

/* ---- echo ---- */

static void on_closed(uv_handle_t *handle)
{
    free(handle);
}

static void lend_buffer(uv_handle_t *handle, size_t wanted, uv_buf_t *out)
{
    static char buffer[4096];
    (void)handle;
    (void)wanted;
    *out = uv_buf_init(buffer, sizeof buffer);
}

static void on_bytes(uv_stream_t *stream, ssize_t n, const uv_buf_t *bytes)
{
    uv_buf_t reply = uv_buf_init(bytes->base, (unsigned)n);
    if (n == 0)
        return;
    if (n < 0 || uv_try_write(stream, &reply, 1) != (int)n)
        uv_close((uv_handle_t *)stream, on_closed);
}

static void on_connection(uv_stream_t *listener, int status)
{
    uv_tcp_t *connection = malloc(sizeof *connection);
    uv_tcp_init(uv_default_loop(), connection);
    if (status || uv_accept(listener, (uv_stream_t *)connection))
        abort();
    uv_tcp_nodelay(connection, 1);
    uv_read_start((uv_stream_t *)connection, lend_buffer, on_bytes);
}

static void echo(int port)
{
    static uv_tcp_t listener;
    struct sockaddr_in address;
    uv_ip4_addr("127.0.0.1", port, &address);
    uv_tcp_init(uv_default_loop(), &listener);
    int error = uv_tcp_bind(&listener, (struct sockaddr *)&address, 0);
    if (!error)
        error = uv_listen((uv_stream_t *)&listener, 4096, on_connection);
    if (error) {
        fprintf(stderr, "listen: %s\n", uv_strerror(error));
        _exit(1);
    }
    uv_run(uv_default_loop(), UV_RUN_DEFAULT);
}

int main(int argc, char **argv)
{
    if (argc > 1 && !strcmp(argv[1], "timer_bulk"))
        timer_bulk();
    else if (argc > 1 && !strcmp(argv[1], "timer_once"))
        timer_once();
    else if (argc > 2 && !strcmp(argv[1], "echo"))
        echo(atoi(argv[2]));
    else if (argc > 1 && !strcmp(argv[1], "crosspost"))
        crosspost();
    else
        wake();
    _exit(0); /* the loop never ends */
}
