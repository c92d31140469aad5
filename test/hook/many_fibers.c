/* Many fibers on several workers that use only blocking calls: bytes through sockets and pipes, a
 * queue with a mutex and a condition variable, and descriptors whose numbers are reused. */
/* not under: tsan */
#include <pthread.h>
#include <sys/socket.h>

#include "hook/hooked.h"

enum { WORKERS = 4, PAIRS = 60, ROUNDS = 40 };

struct channel {
    pthread_mutex_t mutex;
    pthread_cond_t filled, emptied;
    long items[8];
    unsigned count;
};

static struct channel channel = {.mutex = PTHREAD_MUTEX_INITIALIZER,
                                 .filled = PTHREAD_COND_INITIALIZER,
                                 .emptied = PTHREAD_COND_INITIALIZER};
static _Atomic(long) sum;

static void put(long item)
{
    CHECK_EQ(pthread_mutex_lock(&channel.mutex), 0);
    while (channel.count == 8) {
        CHECK_EQ(pthread_cond_wait(&channel.emptied, &channel.mutex), 0);
    }
    channel.items[channel.count++] = item;
    CHECK_EQ(pthread_mutex_unlock(&channel.mutex), 0);
    CHECK_EQ(pthread_cond_signal(&channel.filled), 0);
}

static long take(void)
{
    CHECK_EQ(pthread_mutex_lock(&channel.mutex), 0);
    while (channel.count == 0) {
        CHECK_EQ(pthread_cond_wait(&channel.filled, &channel.mutex), 0);
    }
    long item = channel.items[--channel.count];
    CHECK_EQ(pthread_cond_signal(&channel.emptied), 0);
    CHECK_EQ(pthread_mutex_unlock(&channel.mutex), 0);
    return item;
}

static void *answers(void *arg)
{
    int fd = (int)(intptr_t)arg;
    long n;
    while (recv(fd, &n, sizeof n, MSG_WAITALL) == sizeof n) {
        n = -n;
        CHECK_EQ(send(fd, &n, sizeof n, 0), sizeof n);
    }
    CHECK_EQ(close(fd), 0);
    return NULL;
}

static void *asks(void *arg)
{
    long me = (long)(intptr_t)arg, rounds = check_scale(ROUNDS);
    for (long i = 1; i <= rounds; i++) {
        int ends[2], pipes[2];
        weft_fiber fiber;
        long n = me * 1000 + i, back;
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
        CHECK_EQ(weft_spawn(&fiber, answers, (void *)(intptr_t)ends[1],
                            &(struct weft_fiber_opts){.hooked = true}),
                 0);
        CHECK_EQ(write(ends[0], &n, sizeof n), sizeof n);
        CHECK_EQ(read(ends[0], &back, sizeof back), sizeof back);
        CHECK_EQ(back, -n);
        CHECK_EQ(close(ends[0]), 0);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(pipe(pipes), 0);
        CHECK_EQ(write(pipes[1], &n, sizeof n), sizeof n);
        CHECK_EQ(read(pipes[0], &back, sizeof back), sizeof back);
        CHECK_EQ(back, n);
        close(pipes[0]);
        close(pipes[1]);
        put(i);
        sum += take();
    }
    return NULL;
}

EACH_DRIVER(many_hooked_fibers_receive_their_own_data)
{
    weft_pool *pool;
    weft_fiber fibers[PAIRS];
    long rounds = check_scale(ROUNDS);
    sum = 0;
    const struct weft_pool_opts opts = {.workers = WORKERS, .driver = driver, .hog_ns = -1};
    CHECK_EQ(weft_pool_create(&pool, &opts), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    for (long i = 0; i < PAIRS; i++) {
        CHECK_EQ(weft_pool_spawn(pool, &fibers[i], asks, (void *)(intptr_t)i,
                                 &(struct weft_fiber_opts){.hooked = true}),
                 0);
    }
    for (int i = 0; i < PAIRS; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    CHECK_EQ(sum, PAIRS * rounds * (rounds + 1) / 2);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
}
