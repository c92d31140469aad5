/* With 1,000 fibers on each worker that yield for ever, an echo is answered within 3 ms. */
/* serial */
/* not under: valgrind qemu */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "io/drivers.h"

#define YIELDERS 1000
#define ROUNDS 40
#define ATTEMPTS 20

/* The bound is for a build that is not slowed down on purpose. */
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

static void *yields(void *arg)
{
    while (!atomic_load_explicit(&over, memory_order_relaxed)) {
        weft_yield();
    }
    return arg;
}

static void *echoes(void *arg)
{
    char byte;
    while (weft_read(ends[0], &byte, 1, WEFT_FOREVER) == 1) {
        CHECK_EQ(weft_write(ends[0], &byte, 1, WEFT_FOREVER), 1);
    }
    return arg;
}

static int by_size(const void *a, const void *b)
{
    int64_t x = *(const int64_t *)a, y = *(const int64_t *)b;
    return (x > y) - (x < y);
}

/* The median of some: what a busy machine does now and then is not the question. */
static int64_t measure(void)
{
    int64_t took[ROUNDS];
    for (int i = 0; i < ROUNDS; i++) {
        char byte = 'x';
        int64_t began = weft_now();
        CHECK_EQ(send(ends[1], &byte, 1, 0), 1);
        CHECK_EQ(recv(ends[1], &byte, 1, 0), 1);
        took[i] = weft_now() - began;
    }
    qsort(took, ROUNDS, sizeof took[0], by_size);
    return took[ROUNDS / 2];
}

static void *asks(void *arg)
{
    for (int i = 0; i < ATTEMPTS && !fair; i++) {
        int64_t median = measure();
        printf("  %lld us\n", (long long)median / 1000);
        fair = median <= BOUND_NS;
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
        /* Half of them stay where they are, the others may be stolen. */
        CHECK_EQ(weft_spawn(NULL, yields, NULL, i % 2 ? &opts : NULL), 0);
    }
    CHECK_EQ(weft_spawn(NULL, echoes, NULL, NULL), 0);
    CHECK_EQ(pthread_create(&thread, NULL, asks, NULL), 0);
    yields(NULL);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    return arg;
}

EACH_DRIVER(an_echo_among_fibers_that_yield)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        atomic_store(&over, false);
        fair = false;
        const struct weft_pool_opts opts = {.workers = workers, .driver = driver};
        CHECK_EQ(weft_run(crowd, NULL, NULL, &opts), 0);
        CHECK(fair);
        CHECK_EQ(weft_close(ends[0]), 0);
        CHECK_EQ(weft_close(ends[1]), 0);
    }
}
