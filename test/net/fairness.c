/* With 1,000 fibers on each worker that yield for ever, an echo is answered within 3 ms, or, where
 * other processes use the CPUs, before every worker has had twenty rounds. */
/* serial */
/* not under: valgrind qemu */
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "io/drivers.h"

#define YIELDERS 1000
#define ROUNDS 40
#define ATTEMPTS 20

/* The bound holds for a build without instrumentation. */
#if defined(CHECK_CHAOS) || defined(WEFT_CHAOS) || defined(__SANITIZE_ADDRESS__)
#define BOUND_NS 60000000
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
#define BOUND_NS 60000000
#endif
#endif
#ifndef BOUND_NS
#define BOUND_NS 3000000
#endif

static int ends[2];
static _Atomic(bool) over;
static bool fair;

#define WORKERS 2
#define BOUND_TURNS (20 * YIELDERS * WORKERS) /* all of them may be on one worker */

/* Rounds by worker. A worker whose thread is preempted has none. */
static _Atomic(long) turns[WORKERS];
static _Atomic(long) before[WORKERS]; /* when the request was sent */
static _Atomic(long) waited;          /* rounds of the worker with the fewest, until the request was
                                       * seen */

static void *yields(void *arg)
{
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        atomic_fetch_add_explicit(&turns[weft_worker_self()], 1, memory_order_relaxed);
        weft_yield();
    }
    return arg;
}

static long turns_since(void)
{
    long fewest = LONG_MAX;
    for (unsigned i = 0; i < weft_pool_workers(weft_pool_self()); i++) {
        long n = atomic_load_explicit(&turns[i], memory_order_relaxed) -
                 atomic_load_explicit(&before[i], memory_order_relaxed);
        fewest = n < fewest ? n : fewest;
    }
    return fewest;
}

static void *echoes(void *arg)
{
    char byte;
    while (weft_read(ends[0], &byte, 1, WEFT_FOREVER) == 1) {
        atomic_store(&waited, turns_since());
        CHECK_EQ(weft_write(ends[0], &byte, 1, WEFT_FOREVER), 1);
    }
    return arg;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The median of several attempts, because a busy machine delays single ones. */
static bool measure(void)
{
    int64_t took[ROUNDS], others[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        char byte = 'x';
        for (int n = 0; n < WORKERS; n++) {
            atomic_store(&before[n], atomic_load_explicit(&turns[n], memory_order_relaxed));
        }
        int64_t began = weft_now();
        CHECK_EQ(send(ends[1], &byte, 1, 0), 1);
        CHECK_EQ(recv(ends[1], &byte, 1, 0), 1);
        took[i] = weft_now() - began;
        others[i] = atomic_load(&waited);
    }
    qsort(took, ROUNDS, sizeof took[0], by_size);
    qsort(others, ROUNDS, sizeof others[0], by_size);
    printf("  %lld us, %lld turns\n", (long long)took[ROUNDS / 2] / 1000,
           (long long)others[ROUNDS / 2]);
    return took[ROUNDS / 2] <= BOUND_NS || others[ROUNDS / 2] <= BOUND_TURNS;
}

static void *asks(void *arg)
{
    for (int i = 0; i < ATTEMPTS && !fair; i++) {
        fair = measure();
    }
    atomic_store(&over, true);
    CHECK_EQ(shutdown(ends[1], SHUT_WR), 0);
    return arg;
}

static void *crowd(void *arg)
{
    pthread_t thread;
    unsigned workers = weft_pool_workers(weft_pool_self());
    for (unsigned i = 0; i < workers * YIELDERS; i++) {
        const struct weft_fiber_opts opts = {.bound = true, .worker = (int)(i % workers)};
        /* Half of the fibers are pinned, the others may be stolen. */
        CHECK_EQ(weft_spawn(NULL, yields, NULL, i % 2 ? &opts : NULL), 0);
    }
    CHECK_EQ(weft_spawn(NULL, echoes, NULL, NULL), 0);
    CHECK_EQ(pthread_create(&thread, NULL, asks, NULL), 0);
    yields(NULL);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    return arg;
}

EACH_DRIVER(echo_among_yielding_fibers_is_not_starved)
{
    for (unsigned workers = 1; workers <= WORKERS; workers++) {
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        atomic_store(&over, false);
        fair = false;
        const struct weft_pool_opts opts = {.workers = workers, .driver = driver};
        CHECK_EQ(weft_run(NULL, crowd, NULL, &opts, WEFT_FOREVER), 0);
        CHECK(fair);
        CHECK_EQ(weft_close(ends[0]), 0);
        CHECK_EQ(weft_close(ends[1]), 0);
    }
}
