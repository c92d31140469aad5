/* Watches on a pool: when the callback runs, and how a watch ends. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdatomic.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/cpu.h"
#include "base/rand.h"
#include "io/drivers.h"

static weft_pool *pool;
static int ends[2]; /* the first one is watched */

/* Above the numbers that the runtime opens itself. */
static void connect_pair(void)
{
    int pair[2];
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, pair), 0);
    ends[0] = fcntl(pair[0], F_DUPFD, 500);
    ends[1] = pair[1];
    CHECK(ends[0] >= 0);
    close(pair[0]);
}

/* The events that the callbacks have seen. */
static atomic_int calls, running, most, last;
static weft_sem called;

static void create(enum weft_driver driver, unsigned workers)
{
    const struct weft_pool_opts opts = {.workers = workers, .driver = driver};
    CHECK_EQ(weft_pool_create(&pool, &opts), 0);
    connect_pair();
    atomic_store(&calls, 0);
    atomic_store(&most, 0);
    atomic_store(&last, 0);
    weft_sem_init(&called, 0, NULL);
}

static void begin_with(enum weft_driver driver, unsigned workers)
{
    create(driver, workers);
    CHECK_EQ(weft_pool_start(pool), 0);
}

static void begin(enum weft_driver driver)
{
    begin_with(driver, 2);
}

static void finish(void)
{
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
    weft_close(ends[0]);
    close(ends[1]);
    weft_sem_deinit(&called);
}

static void await_call(void)
{
    CHECK_EQ(weft_sem_acquire(&called, 1, WEFT_FOREVER), 0);
}

static void put(char byte)
{
    CHECK_EQ(write(ends[1], &byte, 1), 1);
}

static void note(int event)
{
    int now = atomic_fetch_add(&running, 1) + 1;
    if (now > atomic_load(&most)) {
        atomic_store(&most, now);
    }
    atomic_store(&last, event);
    atomic_fetch_add(&calls, 1);
}

static void leave(void)
{
    atomic_fetch_sub(&running, 1);
    weft_sem_release(&called, 1);
}

/* --- calls ------------------------------------------------------------------------------------ */

static void take_byte(int fd, int event, void *arg)
{
    char byte;
    note(event);
    CHECK(arg == &ends);
    CHECK(weft_self() != WEFT_NO_FIBER);
    CHECK(weft_pool_self() == pool);
    if (event > 0) {
        CHECK_EQ(weft_read(fd, &byte, 1, WEFT_FOREVER), 1);
    }
    leave();
}

EACH_DRIVER(watch_calls_back_in_fiber_each_time_fd_is_readable)
{
    begin(driver);
    CHECK_EQ(weft_pool_watch_add(pool, ends[0], WEFT_READABLE, take_byte, &ends), 0);
    for (int i = 0; i < 10; i++) {
        put('x');
        await_call();
        CHECK_EQ(atomic_load(&last), WEFT_READABLE);
    }
    CHECK_EQ(atomic_load(&calls), 10);
    CHECK_EQ(weft_pool_watch_cancel(pool, ends[0], WEFT_READABLE), 0);
    await_call();
    CHECK_EQ(atomic_load(&last), -ECANCELED);
    finish();
    CHECK_EQ(atomic_load(&calls), 11);
}

/* Does not read for a while, and waits in between. */
static void take_late(int fd, int event, void *arg)
{
    note(event);
    weft_sleep(weft_after(WEFT_US(100)));
    if (event > 0 && atomic_load(&calls) >= 5) {
        char byte;
        CHECK_EQ(weft_read(fd, &byte, 1, WEFT_FOREVER), 1);
        CHECK_EQ(weft_pool_watch_remove(pool, fd, WEFT_READABLE), -EINPROGRESS);
    }
    (void)arg;
    leave();
}

EACH_DRIVER(unread_readiness_calls_back_again_one_at_a_time)
{
    begin(driver);
    put('x');
    CHECK_EQ(weft_pool_watch_add(pool, ends[0], WEFT_READABLE, take_late, NULL), 0);
    for (int i = 0; i < 5; i++) {
        await_call();
    }
    finish(); /* the callback has removed the watch: nothing is left to drain */
    CHECK_EQ(atomic_load(&calls), 5);
    CHECK_EQ(atomic_load(&most), 1);
}

static void *count_turns(void *arg)
{
    for (int i = 0; i < 1000; i++) {
        weft_yield();
    }
    weft_event_set(arg);
    return NULL;
}

static void ignore(int fd, int event, void *arg)
{
    (void)fd, (void)event, (void)arg;
    atomic_fetch_add(&calls, 1);
}

EACH_DRIVER(always_ready_watch_does_not_starve_fibers)
{
    weft_event over;
    begin_with(driver, 1);
    weft_event_init(&over, NULL);
    CHECK_EQ(weft_pool_watch_add(pool, ends[0], WEFT_WRITABLE, ignore, NULL), 0);
    while (atomic_load(&calls) < 10) {
        sched_yield();
    }
    CHECK_EQ(weft_pool_submit(pool, count_turns, &over), 0);
    CHECK_EQ(weft_event_wait(&over, WEFT_FOREVER), 0);
    CHECK_EQ(weft_pool_watch_cancel_all(pool, -1), 1);
    finish();
    weft_event_deinit(&over);
}

EACH_DRIVER(fd_has_separate_read_and_write_watches)
{
    begin(driver);
    CHECK_EQ(weft_pool_watch_add(pool, ends[0], WEFT_READABLE, take_byte, &ends), 0);
    CHECK_EQ(weft_pool_watch_add(pool, ends[0], WEFT_READABLE, take_byte, &ends), -EEXIST);
    CHECK_EQ(weft_pool_watch_add(pool, ends[0], WEFT_WRITABLE, ignore, NULL), 0);
    CHECK_EQ(weft_pool_watch_cancel_all(pool, ends[1]), -ENOENT);
    CHECK_EQ(weft_pool_watch_cancel_all(pool, ends[0]), 2);
    await_call();
    CHECK_EQ(atomic_load(&last), -ECANCELED);
    CHECK_EQ(weft_pool_watch_cancel_all(pool, -1), -ENOENT);
    finish();
}

/* --- ends ------------------------------------------------------------------------------------- */

EACH_DRIVER(removed_watch_is_not_called_again)
{
    begin(driver);
    CHECK_EQ(weft_pool_watch_add(pool, ends[0], WEFT_READABLE, take_byte, &ends), 0);
    put('x');
    await_call();
    int err = weft_pool_watch_remove(pool, ends[0], WEFT_READABLE);
    CHECK(err == 0 || err == -EINPROGRESS); /* the callback posts before it returns */
    CHECK_EQ(weft_pool_watch_remove(pool, ends[0], WEFT_READABLE), -ENOENT);
    CHECK_EQ(weft_pool_watch_cancel(pool, ends[0], WEFT_READABLE), -ENOENT);
    put('y');
    finish();
    CHECK_EQ(atomic_load(&calls), 1);
}

EACH_DRIVER(watch_added_after_removal_gets_next_event)
{
    begin(driver);
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(weft_pool_watch_add(pool, ends[0], WEFT_READABLE, take_byte, &ends), 0);
        if (i % 2) {
            sched_yield();
        }
        CHECK_EQ(weft_pool_watch_remove(pool, ends[0], WEFT_READABLE), 0);
    }
    CHECK_EQ(weft_pool_watch_add(pool, ends[0], WEFT_READABLE, take_byte, &ends), 0);
    put('x');
    await_call();
    CHECK_EQ(weft_pool_watch_cancel(pool, ends[0], WEFT_READABLE), 0);
    finish();
    CHECK_EQ(atomic_load(&calls), 2);
}

EACH_DRIVER(close_of_fd_ends_watch_with_ebadfd)
{
    begin(driver);
    CHECK_EQ(weft_pool_watch_add(pool, ends[0], WEFT_READABLE, take_byte, &ends), 0);
    CHECK_EQ(weft_close(ends[0]), 0);
    await_call();
    CHECK_EQ(atomic_load(&last), -EBADFD);
    CHECK_EQ(weft_pool_watch_remove(pool, ends[0], WEFT_READABLE), -ENOENT);
    finish();
}

/* The fiber of the first watch need not have noticed the close. */
EACH_DRIVER(reused_fd_can_be_watched_at_once)
{
    begin(driver);
    int number = ends[0];
    CHECK_EQ(weft_pool_watch_add(pool, number, WEFT_READABLE, take_byte, &ends), 0);
    CHECK_EQ(weft_close(number), 0);
    close(ends[1]);
    connect_pair();
    CHECK_EQ(ends[0], number);
    CHECK_EQ(weft_pool_watch_add(pool, number, WEFT_READABLE, take_byte, &ends), 0);
    put('x');
    await_call(); /* the close of the old descriptor and the byte of the new one, in either order */
    await_call();
    CHECK_EQ(weft_pool_watch_cancel(pool, number, WEFT_READABLE), 0);
    finish();
    CHECK_EQ(atomic_load(&calls), 3);
}

EACH_DRIVER(cancelling_pool_stop_ends_its_watches)
{
    begin(driver);
    CHECK_EQ(weft_pool_watch_add(pool, ends[0], WEFT_READABLE, take_byte, &ends), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_CANCEL, WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&last), -ECANCELED);
    CHECK_EQ(weft_pool_watch_cancel_all(pool, -1), -ENOENT);
    finish();
}

/* The cancel interrupts the wait of the watch, never a wait of its callback. */
static void wait_undisturbed(int fd, int event, void *arg)
{
    (void)arg;
    CHECK_EQ(weft_sleep(weft_after(WEFT_US(50))), 0);
    note(event);
    char byte;
    if (event > 0) {
        weft_read(fd, &byte, 1, 0);
    }
    leave();
}

EACH_DRIVER(watch_cancel_is_reported_once_and_interrupts_no_callback)
{
    struct weft__rand rand;
    int cancels = 0;
    begin(driver);
    weft__rand_seed(&rand, check_seed());
    for (long i = check_scale(300); i > 0; i--) {
        CHECK_EQ(weft_pool_watch_add(pool, ends[0], WEFT_READABLE, wait_undisturbed, NULL), 0);
        uint32_t dice = weft__rand_next(&rand);
        if (dice % 2) {
            put('x');
        }
        for (uint32_t n = dice / 2 % 4096; n > 0; n--) {
            weft__cpu_pause();
        }
        CHECK_EQ(weft_pool_watch_cancel(pool, ends[0], WEFT_READABLE), 0);
        do {
            await_call();
        } while (atomic_load(&last) != -ECANCELED);
        atomic_store(&last, 0);
        cancels++;
    }
    CHECK(cancels > 0);
    finish();
    CHECK_EQ(atomic_load(&most), 1);
}

/* --- invalid descriptors ---------------------------------------------------------------------- */

TEST(watch_of_fd_without_readiness_is_refused)
{
    begin(WEFT_DRIVER_AUTO);
    weft_pool *compute;
    int file = open("/dev/null", O_RDONLY), both = WEFT_READABLE | WEFT_WRITABLE;
    CHECK_EQ(weft_pool_create(&compute, &(struct weft_pool_opts){.workers = 1, .compute = true}),
             0);
    CHECK_EQ(weft_pool_watch_add(compute, ends[0], WEFT_READABLE, ignore, NULL), -EOPNOTSUPP);
    weft_pool_destroy(compute);
    CHECK_EQ(weft_pool_watch_add(pool, ends[0], both, ignore, NULL), -EINVAL);
    CHECK_EQ(weft_pool_watch_add(pool, ends[0], 0, ignore, NULL), -EINVAL);
    CHECK_EQ(weft_pool_watch_add(pool, -1, WEFT_READABLE, ignore, NULL), -EBADF);
    CHECK_EQ(weft_pool_watch_remove(pool, -1, WEFT_READABLE), -ENOENT);
    close(file);
    file = open("/proc/self/exe", O_RDONLY);
    CHECK(file >= 0);
    CHECK_EQ(weft_pool_watch_add(pool, file, WEFT_READABLE, ignore, NULL), -EPERM);
    weft_close(file);
    finish();
}

TEST(watch_on_stopped_pool_is_refused)
{
    begin(WEFT_DRIVER_AUTO);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    CHECK_EQ(weft_pool_watch_add(pool, ends[0], WEFT_READABLE, ignore, NULL), -ESHUTDOWN);
    CHECK_EQ(weft_pool_watch_remove(pool, ends[0], WEFT_READABLE), -ENOENT);
    finish();
}

/* Every allocation fails in turn, until none is left to fail. The pool is started after that, so
 * that no other thread allocates meanwhile. */
TEST(watch_without_memory_is_refused_without_leak)
{
    create(WEFT_DRIVER_AUTO, 1);
    int err, refused = 0;
    for (long k = 1;; k++) {
        weft__alloc_fail_after(k, false);
        err = weft_pool_watch_add(pool, ends[0], WEFT_READABLE, take_byte, &ends);
        bool reached = weft__alloc_requests() >= k;
        weft__alloc_fail_after(0, false);
        if (!err && !reached) {
            break;
        }
        refused += err == -ENOMEM;
        CHECK(err == -ENOMEM || err == 0);
        CHECK_EQ(weft_pool_watch_remove(pool, ends[0], WEFT_READABLE), err ? -ENOENT : 0);
    }
    CHECK(refused > 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    put('x');
    await_call();
    CHECK_EQ(weft_pool_watch_cancel(pool, ends[0], WEFT_READABLE), 0);
    finish();
}
