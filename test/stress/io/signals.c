/* Signals a thousand times a second, with and without SA_RESTART, while connections are made, used
 * and closed: no call fails because of them. They hit the program's own thread, which is a worker
 * here, another of its threads, and the runtime's workers, on which a fiber has unblocked them. */
/* not under: valgrind */
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/time.h>

#include "io/drivers.h"

/* For each driver and way; connect, accept, read and write count one each. */
#define OPERATIONS 60000
#define WORKERS 2
#define PERIOD_US 1000

static atomic_int hits;
static atomic_bool stop;
static atomic_int workers_known;
static pid_t worker_ids[WORKERS];
static long rounds;

static void hit(int number)
{
    (void)number;
    atomic_fetch_add_explicit(&hits, 1, memory_order_relaxed);
}

/* --- signal sources --------------------------------------------------------------------------- */

static void alarm_every(long us)
{
    const struct itimerval timer = {.it_interval.tv_usec = us, .it_value.tv_usec = us};
    CHECK_EQ(setitimer(ITIMER_REAL, &timer, NULL), 0);
}

/* Signals each worker in turn, a thousand times a second each. */
static void *pesters(void *arg)
{
    const struct timespec period = {.tv_nsec = PERIOD_US * 1000};
    while (!atomic_load(&stop)) {
        for (int i = 0; i < atomic_load(&workers_known); i++) {
            CHECK_EQ(syscall(SYS_tgkill, getpid(), worker_ids[i], SIGALRM), 0);
        }
        nanosleep(&period, NULL);
    }
    return arg;
}

/* Bound to a worker: from here on its thread accepts the signal. */
static void *lets_in(void *arg)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGALRM);
    CHECK_EQ(pthread_sigmask(SIG_UNBLOCK, &set, NULL), 0);
    worker_ids[(intptr_t)arg] = (pid_t)syscall(SYS_gettid);
    return NULL;
}

/* --- targets ---------------------------------------------------------------------------------- */

static void *echoes(void *arg)
{
    int fd = (int)(intptr_t)arg;
    char buf[64];
    ssize_t n;
    while ((n = weft_read(fd, buf, sizeof buf, WEFT_FOREVER)) > 0) {
        CHECK_EQ(weft_write_all(fd, buf, (size_t)n, NULL, WEFT_FOREVER), 0);
    }
    CHECK(n == 0 || n == -ECONNRESET);
    CHECK_EQ(weft_close(fd), 0);
    return NULL;
}

static void *accepts(void *arg)
{
    int listener = (int)(intptr_t)arg, fd;
    while ((fd = weft_accept(listener, NULL, WEFT_FOREVER)) >= 0) {
        CHECK_EQ(weft_spawn(NULL, echoes, (void *)(intptr_t)fd, NULL), 0);
    }
    CHECK(fd == -EBADFD || fd == -EBADF); /* during the wait, or just before it */
    return NULL;
}

/* One connection: 1 connect and accept, and a write and a read at each end. */
static void *talks(void *arg)
{
    struct weft_addr *addr = arg;
    char in[3];
    for (long i = 0; i < rounds; i++) {
        int fd = weft_connect(addr, WEFT_FOREVER);
        CHECK(fd >= 0);
        CHECK_EQ(weft_write_all(fd, "abc", 3, NULL, weft_after(300000000000)), 0);
        CHECK_EQ(weft_read_full(fd, in, 3, NULL, weft_after(300000000000)), 0);
        CHECK(memcmp(in, "abc", 3) == 0);
        CHECK_EQ(weft_set_linger(fd, 0), 0); /* leaves no port in TIME_WAIT */
        CHECK_EQ(weft_close(fd), 0);
    }
    return NULL;
}

static void *pumps(void *arg)
{
    static char block[4096];
    int fd = *(int *)arg;
    for (long i = 0; i < rounds; i++) {
        CHECK_EQ(weft_write_all(fd, block, sizeof block, NULL, WEFT_FOREVER), 0);
    }
    CHECK_EQ(weft_close(fd), 0);
    return NULL;
}

static void *drains(void *arg)
{
    static char block[3000];
    size_t got = 0;
    ssize_t n;
    while ((n = weft_read(*(int *)arg, block, sizeof block, WEFT_FOREVER)) > 0) {
        got += (size_t)n;
    }
    CHECK_EQ(n, 0);
    CHECK_EQ(got, (size_t)rounds * 4096);
    return NULL;
}

/* As above, on a thread of the program's own, where the calls block. */
static pthread_t plain;
static weft_event plain_done;

static void *talks_plainly(void *arg)
{
    talks(arg);
    weft_event_set(&plain_done);
    return NULL;
}

static void *run(void *arg)
{
    static struct weft_addr tcp, local;
    weft_fiber fibers[6], acceptors[2];
    int pipes[2];
    for (int i = 0; i < WORKERS; i++) {
        const struct weft_fiber_opts bound = {.bound = true, .worker = i};
        CHECK_EQ(weft_spawn(&fibers[0], lets_in, (void *)(intptr_t)i, &bound), 0);
        CHECK_EQ(weft_join(fibers[0], NULL, WEFT_FOREVER), 0);
    }
    atomic_store(&workers_known, WORKERS);
    int listeners[2] = {weft_listen("127.0.0.1:0", NULL), weft_listen("unix:@", NULL)};
    CHECK_EQ(weft_addr_local(listeners[0], &tcp), 0);
    CHECK_EQ(weft_addr_local(listeners[1], &local), 0);
    CHECK_EQ(pipe2(pipes, O_CLOEXEC), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_spawn(&acceptors[i], accepts, (void *)(intptr_t)listeners[i], NULL), 0);
        CHECK_EQ(weft_spawn(&fibers[2 * i], talks, &tcp, NULL), 0);
        CHECK_EQ(weft_spawn(&fibers[2 * i + 1], talks, &local, NULL), 0);
    }
    CHECK_EQ(pthread_create(&plain, NULL, talks_plainly, &tcp), 0);
    CHECK_EQ(weft_spawn(&fibers[4], pumps, &pipes[1], NULL), 0);
    CHECK_EQ(weft_spawn(&fibers[5], drains, &pipes[0], NULL), 0);
    for (int i = 0; i < 6; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    CHECK_EQ(weft_event_wait(&plain_done, WEFT_FOREVER), 0);
    CHECK_EQ(pthread_join(plain, NULL), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_close(listeners[i]), 0);
        CHECK_EQ(weft_join(acceptors[i], NULL, WEFT_FOREVER), 0);
    }
    CHECK_EQ(weft_close(pipes[0]), 0);
    atomic_store(&workers_known, 0); /* their threads are about to end */
    atomic_store(&stop, true);
    return arg;
}

static void under_signals(enum weft_driver driver, int flags)
{
    struct sigaction action = {.sa_handler = hit, .sa_flags = flags}, old;
    pthread_t thread;
    const struct weft_pool_opts opts = {.workers = WORKERS, .driver = driver};
    rounds = check_scale(OPERATIONS) / 6 / 4 + 1;
    atomic_store(&stop, false);
    atomic_store(&hits, 0);
    weft_event_init(&plain_done, NULL);
    CHECK_EQ(sigaction(SIGALRM, &action, &old), 0);
    CHECK_EQ(pthread_create(&thread, NULL, pesters, NULL), 0);
    alarm_every(PERIOD_US);
    CHECK_EQ(weft_run(NULL, run, NULL, &opts, WEFT_FOREVER), 0);
    alarm_every(0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(sigaction(SIGALRM, &old, NULL), 0);
    printf("    %d signals\n", atomic_load(&hits));
    CHECK(atomic_load(&hits) > 0);
}

EACH_DRIVER(io_succeeds_under_signals_with_sa_restart)
{
    under_signals(driver, SA_RESTART);
}

EACH_DRIVER(io_succeeds_under_signals_without_sa_restart)
{
    under_signals(driver, 0);
}
