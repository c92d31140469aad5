/* Thread-locals and errno under forced migration: fibers move from worker to worker with
 * weft_fiber_migrate, each time between a failed call and the read of its errno.
 *
 * The rule for code like this is in docs/thread-locals.md: a thread-local, errno and pthread_self()
 * are read in a separate function that is never inlined and that the compiler cannot see through.
 * With GATE_NAIVE the same program breaks the rule and must fail: tools/tls-gate builds it both
 * ways, with every compiler and optimization level, so that a passing run is known to be able to
 * fail.
 *
 *   WEFT_MIGRATIONS  number of migrations; default 30,000, scaled like all tests
 */
/* labels: migration valgrind */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <weft/weft.h>

#include "check.h"

#define WORKERS 4
#define FIBERS 16

static _Thread_local int last_worker = -1;

/* --- the rule ------------------------------------------------------------------ */

#ifdef GATE_NAIVE
#define OPAQUE static inline __attribute__((always_inline))
#define HIDE(value) ((void)0)
#else
#define OPAQUE static __attribute__((noinline))
#define HIDE(value) __asm__ volatile("" : "+r"(value)::"memory")
#endif

OPAQUE int read_errno(void)
{
    int value = errno;
    HIDE(value);
    return value;
}

OPAQUE void write_errno(int value)
{
    HIDE(value);
    errno = value;
}

OPAQUE int *local_worker(void)
{
    int *value = &last_worker;
    HIDE(value);
    return value;
}

OPAQUE pthread_t this_thread(void)
{
    pthread_t value = pthread_self();
    HIDE(value);
    return value;
}

/* --- facts about a worker's thread ----------------------------------------------- */

static struct {
    weft_pool *pool;
    int tids[WORKERS];
    pthread_t threads[WORKERS];
    long each;
    atomic_long moved;
} play;

static void learn(int worker)
{
    struct weft_worker_stats stats;
    CHECK_EQ(weft_worker_stats(play.pool, &stats, (unsigned)worker), 0);
    play.tids[worker] = (int)syscall(SYS_gettid);
    play.threads[worker] = this_thread();
    CHECK_EQ(stats.tid, play.tids[worker]);
    *local_worker() = worker;
}

static void *learn_main(void *arg)
{
    for (int worker = 0; worker < WORKERS; worker++) {
        CHECK_EQ(weft_fiber_migrate(play.pool, worker), 0);
        learn(worker);
    }
    return arg;
}

/* A call that fails, and its errno. */
static int fail(long n)
{
    switch (n % 4) {
    case 0:
        CHECK(close(-1) == -1);
        return EBADF;
    case 1:
        CHECK(kill(getpid(), 12345) == -1);
        return EINVAL;
    case 2:
        CHECK(access("", F_OK) == -1);
        return ENOENT;
    default:
        write_errno(100000 + (int)n);
        return 100000 + (int)n;
    }
}

/* --- the probes: everything in one function, where a compiler would like to fold -------------- */

__attribute__((noinline)) static void probe_errno(long n, int to)
{
    int expected = fail(n);
    CHECK_EQ(read_errno(), expected);
    CHECK_EQ(weft_fiber_migrate(play.pool, to), 0);
    CHECK_EQ(read_errno(), expected);
    weft_yield();
    CHECK_EQ(read_errno(), expected);
}

__attribute__((noinline)) void probe_worker(int to);
__attribute__((noinline)) void probe_worker(int to)
{
    int before = weft_worker_self();
    CHECK_EQ(play.tids[before], syscall(SYS_gettid));
    CHECK_EQ(*local_worker(), before);
    CHECK(pthread_equal(this_thread(), play.threads[before]));
    CHECK_EQ(weft_fiber_migrate(play.pool, to), 0);
    int after = weft_worker_self();
    CHECK_EQ(after, to);
    CHECK_EQ(play.tids[after], syscall(SYS_gettid));
    CHECK_EQ(*local_worker(), after);
    CHECK(pthread_equal(this_thread(), play.threads[after]));
}

/* Two moves per round, each to another worker. */
static void *bounce(void *arg)
{
    int number = (int)(intptr_t)arg, at = number % WORKERS;
    CHECK_EQ(weft_fiber_migrate(play.pool, at), 0);
    for (long n = 0; n < play.each; n += 2) {
        at = (at + 1 + (int)(n / 2 % (WORKERS - 1))) % WORKERS;
        probe_errno(n / 2 + number, at);
        at = (at + 1) % WORKERS;
        probe_worker(at);
    }
    atomic_fetch_add(&play.moved, play.each);
    return NULL;
}

TEST(errno_and_thread_locals_are_correct_after_forced_migration)
{
    weft_fiber fibers[FIBERS];
    const char *text = getenv("WEFT_MIGRATIONS");
    long total = text ? atol(text) : check_scale(30000);
    struct weft_pool_opts opts = {.name = "gate", .workers = WORKERS};
    play.each = (total / FIBERS + 1) & ~1L;
    CHECK_EQ(weft_pool_create(&play.pool, &opts), 0);
    CHECK_EQ(weft_pool_start(play.pool), 0);
    CHECK_EQ(weft_pool_call(play.pool, NULL, 0, learn_main, NULL, WEFT_FOREVER), 0);
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_pool_spawn(play.pool, &fibers[i], bounce, (void *)(intptr_t)i, NULL), 0);
    }
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    CHECK_EQ(weft_pool_stop(play.pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(play.pool);
    printf("     %ld migrations\n", atomic_load(&play.moved));
}

/* --- not forced: wherever a thief or a waker moves the fiber ---------------------------------- */

static atomic_long drifted;

__attribute__((noinline)) static void drift_once(long n)
{
    int expected = 200000 + (int)(n % 1000);
    int before = weft_worker_self();
    write_errno(expected);
    weft_yield();
    int after = weft_worker_self();
    CHECK_EQ(read_errno(), expected);
    struct weft_worker_stats stats;
    CHECK_EQ(weft_worker_stats(play.pool, &stats, (unsigned)after), 0);
    CHECK_EQ(stats.tid, syscall(SYS_gettid));
    if (before != after) {
        atomic_fetch_add_explicit(&drifted, 1, memory_order_relaxed);
    }
}

static void *drift(void *arg)
{
    for (long n = check_scale(500); n > 0; n--) {
        drift_once(n);
    }
    return arg;
}

TEST(errno_and_thread_locals_are_correct_after_random_migration)
{
    weft_fiber fibers[FIBERS];
    struct weft_pool_opts opts = {.name = "drift", .workers = WORKERS, .ring_slots = 4};
    CHECK_EQ(weft_pool_create(&play.pool, &opts), 0);
    CHECK_EQ(weft_pool_start(play.pool), 0);
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_pool_spawn(play.pool, &fibers[i], drift, NULL, NULL), 0);
    }
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    CHECK_EQ(weft_pool_stop(play.pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(play.pool);
    printf("     %ld migrations\n", atomic_load(&drifted));
}
