/* Descriptors are closed while a fiber waits on them, and their numbers are reused at once, with
 * children that hold copies of all descriptors that were open when they were forked: a copy keeps
 * the kernel's registration of the old descriptor alive, and its events must not be reported for
 * the new one.
 *
 * A normal run makes 10^4 rounds on each driver, 10^5 with WEFT_STRESS=1000. The test is about a
 * close while another thread is in a call on the descriptor, which a thread checker calls a race.
 */
/* not under: qemu valgrind tsan */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "base/rand.h"
#include "io/drivers.h"
#include "stress/watchdog.h"

#define CHILDREN 4
#define FORK_EVERY 256

static long rounds;
static pid_t children[CHILDREN];
static _Atomic(long) forks, closed, got;

struct wait {
    int fd;
    ssize_t result;
};

static void *waits(void *arg)
{
    char byte;
    struct wait *wait = arg;
    wait->result = weft_read(wait->fd, &byte, 1, WEFT_FOREVER);
    return NULL;
}

/* Holds the currently open descriptors until it is told to exit. */
static void fork_child(void)
{
    long n = atomic_fetch_add(&forks, 1);
    pid_t *child = &children[n % CHILDREN];
    if (*child > 0) {
        CHECK_EQ(kill(*child, SIGKILL), 0);
        CHECK_EQ(waitpid(*child, NULL, 0), *child);
    }
    *child = fork();
    CHECK(*child >= 0);
    if (*child == 0) {
        for (;;) {
            pause();
        }
    }
}

static void one(struct weft__rand *rand)
{
    char byte;
    int ends[2];
    uint32_t dice = weft__rand_next(rand);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    CHECK_EQ(weft_read(ends[0], &byte, 1, 0), -ETIMEDOUT); /* nothing of an earlier descriptor */
    struct wait wait = {.fd = ends[0]};
    weft_fiber fiber;
    CHECK_EQ(weft_spawn(&fiber, waits, &wait, NULL), 0);
    for (uint32_t i = dice % 4; i > 0; i--) {
        weft_yield();
    }
    if (dice & 16) {
        CHECK_EQ(weft_write(ends[1], "x", 1, WEFT_FOREVER), 1);
    }
    if (dice & 32) {
        weft_yield();
    }
    if (!(dice & 16) || (dice & 64)) {
        CHECK_EQ(weft_close(ends[0]), 0);
        ends[0] = -1;
    }
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    /* -EBADF: the wait had not begun. */
    bool ended = wait.result == -EBADFD || wait.result == -EBADF;
    CHECK(wait.result == 1 ? (dice & 16) != 0 : ended && ends[0] < 0);
    atomic_fetch_add(wait.result == 1 ? &got : &closed, 1);
    CHECK(ends[0] < 0 || weft_close(ends[0]) == 0);
    CHECK_EQ(weft_close(ends[1]), 0);
}

static void *storms(void *arg)
{
    struct weft__rand rand;
    weft__rand_seed(&rand, check_seed());
    for (long i = 0; i < rounds; i++) {
        one(&rand);
        watchdog_progress();
        if (i % FORK_EVERY == FORK_EVERY / 2) {
            fork_child();
        }
    }
    return arg;
}

EACH_DRIVER(reused_fd_gets_no_event_of_closed_fd)
{
    atomic_store(&forks, 0);
    atomic_store(&closed, 0);
    atomic_store(&got, 0);
    rounds = check_scale(10000);
    watchdog_start("reused_fd_gets_no_event_of_closed_fd");
    for (unsigned workers = 1; workers <= 2; workers++) {
        const struct weft_pool_opts opts = {
            .workers = workers, .driver = driver, .hog_ns = -1, .deadlock_off = true};
        CHECK_EQ(weft_run(NULL, storms, NULL, &opts, WEFT_FOREVER), 0);
    }
    watchdog_stop();
    for (int i = 0; i < CHILDREN; i++) {
        if (children[i] > 0) {
            CHECK_EQ(kill(children[i], SIGKILL), 0);
            CHECK_EQ(waitpid(children[i], NULL, 0), children[i]);
            children[i] = 0;
        }
    }
    printf("  %ld read, %ld closed, %ld children\n", atomic_load(&got), atomic_load(&closed),
           atomic_load(&forks));
}

/* --- a wait that begins during the close ------------------------------------------------------ */

struct meeting {
    struct wait wait;
    _Atomic(int) there; /* arrivals of the two sides */
};

static void meet(struct meeting *meeting)
{
    atomic_fetch_add(&meeting->there, 1);
    for (int i = 0; atomic_load(&meeting->there) < 2; i++) {
        if (i > 1000) {
            sched_yield();
        }
    }
}

static void *waits_at_once(void *arg)
{
    struct meeting *meeting = arg;
    meet(meeting);
    return waits(&meeting->wait);
}

/* After the first wait the driver has all its descriptors: otherwise one of them might get the
 * number that was closed. */
static void wait_once(weft_pool *pool)
{
    int ends[2];
    weft_fiber fiber;
    enum weft_fiber_state state;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    struct wait wait = {.fd = ends[0]};
    CHECK_EQ(weft_pool_spawn(pool, &fiber, waits, &wait, NULL), 0);
    do {
        sched_yield();
        CHECK_EQ(weft_fiber_state(fiber, &state), 0);
    } while (state != WEFT_FIBER_WAITING);
    CHECK_EQ(write(ends[1], "x", 1), 1);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(wait.result, 1);
    CHECK_EQ(weft_close(ends[0]), 0);
    CHECK_EQ(weft_close(ends[1]), 0);
}

/* A thread closes the descriptor, and nothing is opened after that: a wait that misses the close is
 * never notified. */
EACH_DRIVER(wait_starting_during_close_ends)
{
    struct weft__rand rand;
    weft_pool *pool;
    long n = check_scale(5000), told = 0;
    /* Without a watchdog, which reads /proc and opens files there. */
    const struct weft_pool_opts opts = {
        .workers = 1, .driver = driver, .hog_ns = -1, .deadlock_off = true};
    weft__rand_seed(&rand, check_seed());
    CHECK_EQ(weft_pool_create(&pool, &opts), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    wait_once(pool);
    for (long i = 0; i < n; i++) {
        int ends[2];
        weft_fiber fiber;
        struct meeting meeting = {0};
        CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        meeting.wait.fd = ends[0];
        CHECK_EQ(weft_pool_spawn(pool, &fiber, waits_at_once, &meeting, NULL), 0);
        meet(&meeting);
        for (uint32_t spin = weft__rand_next(&rand) % 100; spin > 0; spin--) {
            atomic_load(&meeting.there);
        }
        CHECK_EQ(weft_close(ends[0]), 0);
        CHECK_EQ(weft_join(fiber, NULL, weft_after(INT64_C(300000000000))), 0);
        told += meeting.wait.result == -EBADFD;
        if (meeting.wait.result != -EBADFD && meeting.wait.result != -EBADF) {
            check_fail(__FILE__, __LINE__, "round %ld: %zd", i, meeting.wait.result);
        }
        CHECK_EQ(weft_close(ends[1]), 0);
    }
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
    printf("  %ld of %ld were told\n", told, n);
}
