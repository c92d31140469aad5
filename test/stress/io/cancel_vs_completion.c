/* Cancel against completion: a read races with the peer's write, and with a deadline, a cancel or
 * an interrupt that arrives at about the same time. The buffer is on the fiber's stack and must be
 * unused once the call has returned: under a sanitizer it is poisoned then, and its bytes are
 * checked a little later. No byte is lost or received twice.
 *
 * A normal run makes 20,000 races on each driver in fibers, and as many in loops; WEFT_STRESS=5000
 * makes 10^6.
 */
#include <errno.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/socket.h>

#include "base/cpu.h"
#include "base/rand.h"
#include "io/drivers.h"
#include "stress/watchdog.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#else
#define ASAN_POISON_MEMORY_REGION(at, n) ((void)(at), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(at, n) ((void)(at), (void)(n))
#endif

#define PAIRS 8
#define BYTES 64
#define GRAVES 64

struct pair {
    int ends[2];
    long rounds;
    _Atomic(uint64_t) got; /* bytes, and the value of the next byte */
    uint64_t put;
    weft_fiber reader;
    struct weft__rand rand;
    long timeouts, cancels, reads;
};

static struct pair pairs[PAIRS];

static void linger(struct weft__rand *rand)
{
    uint32_t n = weft__rand_next(rand) % 64;
    for (uint32_t i = 0; i < n; i++) {
        weft__cpu_pause();
    }
    if (n % 8 == 0) {
        weft_yield();
    }
}

static uint64_t got(struct pair *pair)
{
    return atomic_load_explicit(&pair->got, memory_order_relaxed);
}

static void check_bytes(struct pair *pair, const char *buf, ssize_t n)
{
    for (ssize_t i = 0; i < n; i++) {
        CHECK_EQ((uint8_t)buf[i], (uint8_t)(got(pair) + (uint64_t)i));
    }
    atomic_store_explicit(&pair->got, got(pair) + (uint64_t)n, memory_order_relaxed);
}

/* The buffer is in this function's frame. */
static __attribute__((noinline)) ssize_t read_once(struct pair *pair)
{
    char buf[BYTES];
    uint32_t dice = weft__rand_next(&pair->rand);
    int64_t deadline = dice % 4 == 0 ? WEFT_FOREVER : weft_after((int64_t)(dice >> 8) % 60000);
    memset(buf, 0x5a, sizeof buf);
    ssize_t n = weft_read(pair->ends[0], buf, sizeof buf, deadline);
    char copy[BYTES];
    memcpy(copy, buf, sizeof copy);
    ASAN_POISON_MEMORY_REGION(buf, sizeof buf); /* a write after this point is too late */
    weft_yield();
    ASAN_UNPOISON_MEMORY_REGION(buf, sizeof buf);
    CHECK(memcmp(copy, buf, sizeof copy) == 0);
    check_bytes(pair, copy, n > 0 ? n : 0);
    return n;
}

static void *reads(void *arg)
{
    struct pair *pair = arg;
    for (;;) {
        ssize_t n = read_once(pair);
        if (n == 0) {
            break;
        }
        watchdog_progress();
        pair->timeouts += n == -ETIMEDOUT;
        pair->cancels += n == -EINTR;
        pair->reads += n > 0;
        CHECK(n > 0 || n == -ETIMEDOUT || n == -EINTR);
    }
    return NULL;
}

static void *writes(void *arg)
{
    struct pair *pair = arg;
    struct weft__rand rand;
    weft__rand_seed(&rand, check_seed() + (uint64_t)(pair - pairs));
    for (long i = 0; i < pair->rounds; i++) {
        uint8_t bytes[4];
        uint32_t n = 1 + weft__rand_next(&rand) % sizeof bytes;
        for (uint32_t j = 0; j < n; j++) {
            bytes[j] = (uint8_t)(pair->put + j);
        }
        linger(&rand);
        CHECK_EQ(weft_write_all(pair->ends[1], bytes, n, NULL, WEFT_FOREVER), 0);
        pair->put += n;
        if (i % 3 == 0) {
            linger(&rand);
            CHECK_EQ(weft_fiber_interrupt(pair->reader), 0);
        }
        while (got(pair) != pair->put) { /* the next race starts with an empty socket */
            weft_yield();
        }
    }
    CHECK_EQ(weft_shutdown(pair->ends[1], SHUT_WR), 0);
    return NULL;
}

static void *race(void *arg)
{
    weft_fiber writers[PAIRS];
    for (int i = 0; i < PAIRS; i++) {
        CHECK_EQ(weft_spawn(&pairs[i].reader, reads, &pairs[i], NULL), 0);
        CHECK_EQ(weft_spawn(&writers[i], writes, &pairs[i], NULL), 0);
    }
    for (int i = 0; i < PAIRS; i++) {
        CHECK_EQ(weft_join(writers[i], NULL, WEFT_FOREVER), 0);
        CHECK_EQ(weft_join(pairs[i].reader, NULL, WEFT_FOREVER), 0);
    }
    return arg;
}

static void connect_ends(int ends[2])
{
    struct sockaddr_in addr = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t len = sizeof addr;
    int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(bind(listener, (struct sockaddr *)&addr, len), 0);
    CHECK_EQ(listen(listener, 1), 0);
    CHECK_EQ(getsockname(listener, (struct sockaddr *)&addr, &len), 0);
    ends[1] = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK_EQ(connect(ends[1], (struct sockaddr *)&addr, len), 0);
    ends[0] = accept(listener, NULL, NULL);
    CHECK(ends[0] >= 0);
    CHECK_EQ(close(listener), 0);
}

/* With TCP a short read means that there is no more data, with a Unix socket it does not. */
static void open_pairs(long rounds)
{
    memset(pairs, 0, sizeof pairs);
    for (int i = 0; i < PAIRS; i++) {
        if (i % 2) {
            connect_ends(pairs[i].ends);
        } else {
            CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, pairs[i].ends), 0);
        }
        pairs[i].rounds = rounds / PAIRS + 1;
        weft__rand_seed(&pairs[i].rand, check_seed() + 1000 + (uint64_t)i);
    }
}

static void close_pairs(const char *what)
{
    long timeouts = 0, cancels = 0, all = 0;
    for (int i = 0; i < PAIRS; i++) {
        CHECK_EQ(got(&pairs[i]), pairs[i].put);
        timeouts += pairs[i].timeouts;
        cancels += pairs[i].cancels;
        all += pairs[i].reads;
    }
    printf("  %s: %ld reads, %ld timed out, %ld cancelled\n", what, all, timeouts, cancels);
    CHECK(all > 0);
}

EACH_DRIVER(read_racing_with_cancel_or_timeout_loses_no_byte)
{
    open_pairs(check_scale(20000));
    watchdog_start("read_racing_with_cancel_or_timeout_loses_no_byte");
    const struct weft_pool_opts opts = {.workers = 2, .driver = driver};
    CHECK_EQ(weft_run(NULL, race, NULL, &opts, WEFT_FOREVER), 0);
    for (int i = 0; i < PAIRS; i++) {
        CHECK_EQ(weft_close(pairs[i].ends[0]), 0);
        CHECK_EQ(weft_close(pairs[i].ends[1]), 0);
    }
    watchdog_stop();
    close_pairs("fibers");
}

/* --- the same with loop operations; the buffer is freed at delivery --------------------------- */

struct read {
    weft_op op;
    char buf[BYTES];
};

static weft_loop *loop;
static struct read *under_way[PAIRS];
static int open_ends;

static void read_ended(weft_op *op, int64_t n, void *arg);

/* Kernel writes bypass the sanitizer: the last buffers are kept for a while and must stay
 * unmodified. */
static void bury(struct read *one)
{
    static struct read *graves[GRAVES];
    static unsigned next;
    struct read *old = graves[next];
    for (int i = 0; old && i < BYTES; i++) {
        CHECK_EQ(old->buf[i], 0x5a);
    }
    free(old);
    if (one) {
        memset(one->buf, 0x5a, sizeof one->buf);
    }
    graves[next] = one;
    next = (next + 1) % GRAVES;
}

static void start_read(int i)
{
    struct read *one = malloc(sizeof *one);
    CHECK(one);
    under_way[i] = one;
    weft_op_init(&one->op, loop, read_ended, (void *)(intptr_t)i);
    CHECK_EQ(weft_op_read(&one->op, pairs[i].ends[0], one->buf, sizeof one->buf, -1, 0), 0);
}

static void read_ended(weft_op *op, int64_t n, void *arg)
{
    int i = (int)(intptr_t)arg;
    struct pair *pair = &pairs[i];
    CHECK(op == &under_way[i]->op);
    CHECK(n >= 0 || n == -ECANCELED);
    check_bytes(pair, under_way[i]->buf, n > 0 ? (ssize_t)n : 0);
    bury(under_way[i]);
    under_way[i] = NULL;
    watchdog_progress();
    pair->cancels += n < 0;
    pair->reads += n > 0;
    open_ends -= n == 0;
    if (n != 0) {
        start_read(i);
    }
}

static void *writes_from_outside(void *arg)
{
    struct weft__rand rand;
    (void)arg;
    weft__rand_seed(&rand, check_seed() + 77);
    for (long round = 0; round < pairs[0].rounds * PAIRS; round++) {
        struct pair *pair = &pairs[weft__rand_next(&rand) % PAIRS];
        while (got(pair) != pair->put) {
            sched_yield();
        }
        uint8_t byte = (uint8_t)pair->put++;
        CHECK_EQ(send(pair->ends[1], &byte, 1, MSG_NOSIGNAL), 1);
    }
    for (int i = 0; i < PAIRS; i++) {
        CHECK_EQ(shutdown(pairs[i].ends[1], SHUT_WR), 0);
    }
    return NULL;
}

EACH_DRIVER(proactor_operation_racing_with_cancel_loses_no_byte)
{
    pthread_t thread;
    struct weft__rand rand;
    weft__rand_seed(&rand, check_seed() + 78);
    open_pairs(check_scale(20000));
    watchdog_start("proactor_operation_racing_with_cancel_loses_no_byte");
    CHECK_EQ(weft_loop_create(&loop, &(struct weft_loop_opts){.driver = driver}), 0);
    for (int i = 0; i < PAIRS; i++) {
        start_read(i);
    }
    open_ends = PAIRS;
    CHECK_EQ(pthread_create(&thread, NULL, writes_from_outside, NULL), 0);
    while (open_ends > 0) {
        int i = (int)(weft__rand_next(&rand) % PAIRS);
        if (under_way[i] && weft__rand_next(&rand) % 4 == 0) {
            int err = weft_op_cancel(&under_way[i]->op);
            CHECK(err == 0 || err == -EALREADY);
        }
        weft_loop_turn(loop, 0);
    }
    CHECK_EQ(pthread_join(thread, NULL), 0);
    for (int i = 0; i < PAIRS; i++) {
        CHECK_EQ(weft_loop_close(loop, pairs[i].ends[0]), 0);
        CHECK_EQ(weft_loop_close(loop, pairs[i].ends[1]), 0);
    }
    weft_loop_destroy(loop);
    for (int i = 0; i < GRAVES; i++) {
        bury(NULL);
    }
    watchdog_stop();
    close_pairs("loop");
}
