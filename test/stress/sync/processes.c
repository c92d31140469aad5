/* Children and signals, with waits that end for all reasons at once: every child is reaped, every
 * status is the expected one, every sent signal is counted once.
 *
 * A normal run uses 200 children and 4000 signals.
 */
/* not under: qemu */
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/wait.h>

#include <weft/weft.h>

#include "check.h"
#include "context/sanitizer.h"
#include "stress/watchdog.h"

static weft_pool *open_pool(void)
{
    weft_pool *pool;
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 2}), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    watchdog_watch(pool);
    return pool;
}

static void close_pool(weft_pool *pool)
{
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    watchdog_forget(pool);
    weft_pool_destroy(pool);
}

/* --- children ------------------------------------------------------------------------ */

static void *wait_a_little(void *arg)
{
    int err = weft_process_wait(arg, NULL, weft_after(300000));
    CHECK(err == 0 || err == -ETIMEDOUT || err == -EPIPE);
    return NULL;
}

static void one_child(uint32_t dice)
{
    static const char *const quick[] = {"true", NULL}, *const slow[] = {"sleep", "1000", NULL};
    struct weft_process_status status = {.code = -1};
    weft_process *process;
    weft_fiber other;
    bool sleeps = dice % 2;
    CHECK_EQ(weft_process_spawn(&process, sleeps ? slow : quick, NULL), 0);
    CHECK_EQ(weft_spawn(&other, wait_a_little, process, NULL), 0);
    int err = weft_process_wait(process, &status, weft_after(dice % 1000000));
    CHECK(err == 0 || err == -ETIMEDOUT);
    CHECK(err == -ETIMEDOUT || !sleeps);
    if (sleeps) {
        CHECK_EQ(weft_process_kill(process, SIGKILL), 0);
    }
    if (dice % 4 < 2) {
        CHECK_EQ(weft_process_wait(process, &status, WEFT_FOREVER), 0);
        CHECK_EQ(status.signal, sleeps ? SIGKILL : 0);
        CHECK_EQ(status.code, 0);
        CHECK_EQ(weft_process_kill(process, SIGKILL), -ESRCH);
    }
    CHECK_EQ(weft_join(other, NULL, WEFT_FOREVER), 0); /* before the close: it has begun its wait */
    weft_process_close(process);
    watchdog_progress();
}

static void *use_children(void *arg)
{
    uint64_t seed = check_seed() + (uint64_t)(uintptr_t)arg;
    for (long i = 0; i < check_scale(200) / 10 + 1; i++) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        one_child((uint32_t)(seed >> 33));
    }
    return NULL;
}

TEST(child_processes_are_reaped_however_waits_end)
{
    watchdog_start("children");
    weft_pool *pool = open_pool();
    weft_fiber fibers[10];
    for (uintptr_t i = 0; i < 10; i++) {
        CHECK_EQ(weft_pool_spawn(pool, &fibers[i], use_children, (void *)i, NULL), 0);
    }
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    close_pool(pool);
    siginfo_t info;
    while (waitid(P_ALL, 0, &info, WEXITED | WNOHANG | WNOWAIT) == 0) {
        usleep(1000); /* the last of the children whose handles were closed */
    }
    watchdog_stop();
}

/* --- signals --------------------------------------------------------------------------- */

static weft_signal_set *set;
static atomic_long counted;
static long expected;

static void *count_signals(void *arg)
{
    uint64_t seed = check_seed() + (uint64_t)(uintptr_t)arg;
    struct weft_signal_info info;
    while (atomic_load(&counted) < expected) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        int err = weft_signal_wait(set, &info, weft_after((int64_t)(seed >> 44) % 200000));
        CHECK(err == 0 || err == -ETIMEDOUT);
        if (err == 0) {
            atomic_fetch_add(&counted, info.count);
            watchdog_progress();
        }
    }
    return NULL;
}

static void *send_signals(void *arg)
{
    for (long i = 0; i < expected / 2; i++) {
        while (sigqueue(getpid(), SIGRTMIN + 5, (union sigval){.sival_int = (int)i}) != 0) {
            usleep(100); /* the kernel's queue is full */
        }
    }
    return arg;
}

TEST(signals_are_counted_once_however_waits_end)
{
    pthread_t threads[2];
    weft_fiber fibers[8];
    sigset_t mask;
    expected = check_scale(4000) / 2 * 2 + 2;
    sigemptyset(&mask);
    sigaddset(&mask, SIGRTMIN + 5);
    if (WEFT__TSAN) { /* TSan keeps one of each signal per thread, and drops the others */
        CHECK_EQ(pthread_sigmask(SIG_BLOCK, &mask, NULL), 0);
    }
    watchdog_start("signals");
    weft_pool *pool = open_pool();
    CHECK_EQ(weft_signal_open(&set, (const int[]){SIGRTMIN + 5}, 1, NULL), 0);
    for (uintptr_t i = 0; i < 8; i++) {
        CHECK_EQ(weft_pool_spawn(pool, &fibers[i], count_signals, (void *)i, NULL), 0);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, send_signals, NULL), 0);
    }
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
    }
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    CHECK_EQ(atomic_load(&counted), expected);
    weft_signal_close(set);
    close_pool(pool);
    watchdog_stop();
}
