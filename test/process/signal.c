#include <weft/process.h>

#include <dirent.h>
#include <signal.h>

#include "base/thread.h"
#include "context/sanitizer.h"
#include "io/descriptors.h"
#include "pool/fixture.h"
#include "process/signal.h"
#include "sync/stackless.h"

#define MS INT64_C(1000000)

static weft_signal_set *open_set(const int *signals, size_t n)
{
    weft_signal_set *set = NULL;
    CHECK_EQ(weft_signal_open(&set, signals, n, &(struct weft_signal_opts){.name = "signals"}), 0);
    return set;
}

#define OPEN(...) open_set((const int[]){__VA_ARGS__}, sizeof(int[]){__VA_ARGS__} / sizeof(int))

static void *disposition(int signal)
{
    struct sigaction now;
    CHECK_EQ(sigaction(signal, NULL, &now), 0);
    return (void *)(uintptr_t)now.sa_handler;
}

static void send_self(int signal)
{
    CHECK_EQ(kill(getpid(), signal), 0);
}

/* ThreadSanitizer delays a signal until its thread makes a call that TSan knows to block, and
 * Weft's calls are unknown to it. Under TSan every thread blocks the signals, and all of them take
 * the other path. */
static bool all_blocked;

__attribute__((constructor)) static void block_for_checker(void)
{
    if (WEFT__TSAN) {
        sigset_t all;
        sigfillset(&all);
        pthread_sigmask(SIG_BLOCK, &all, NULL);
        all_blocked = true;
    }
}

/* --- one ----------------------------------------------------------------------------------- */

static void *take_one(void *arg)
{
    weft_signal_set *set = arg;
    struct weft_signal_info info;
    CHECK_EQ(weft_signal_wait(set, &info, 0), -ETIMEDOUT);
    CHECK_EQ(weft_signal_wait(set, &info, weft_after(2 * MS)), -ETIMEDOUT);
    send_self(SIGUSR1);
    CHECK_EQ(weft_signal_wait(set, &info, WEFT_FOREVER), 0);
    CHECK_EQ(info.signal, SIGUSR1);
    CHECK_EQ(info.count, 1);
    CHECK_EQ(info.code, SI_USER);
    CHECK_EQ(info.pid, getpid());
    CHECK_EQ(info.uid, getuid());
    /* A fiber may run on a pool's thread, which blocks signals sent to that thread. */
    bool by_thread = !all_blocked && weft_self() == WEFT_NO_FIBER;
    CHECK_EQ(by_thread ? raise(SIGUSR2) : kill(getpid(), SIGUSR2), 0);
    CHECK_EQ(weft_signal_wait(set, NULL, WEFT_FOREVER), 0);
    return NULL;
}

TEST(signal_ends_wait)
{
    weft_signal_set *set = OPEN(SIGUSR1, SIGUSR2);
    take_one(set); /* a plain thread */
    run_in_fiber(1, take_one, set);
    run_in_fiber(2, take_one, set);
    weft_signal_close(set);
}

TEST(signal_blocked_by_every_thread_ends_wait)
{
    sigset_t some, before;
    struct weft_signal_info info;
    sigemptyset(&some);
    sigaddset(&some, SIGUSR1);
    CHECK_EQ(pthread_sigmask(SIG_BLOCK, &some, &before), 0);
    weft_signal_set *set = OPEN(SIGUSR1);
    union sigval value = {.sival_int = 17};
    CHECK_EQ(sigqueue(getpid(), SIGUSR1, value), 0);
    CHECK_EQ(weft_signal_wait(set, &info, WEFT_FOREVER), 0);
    CHECK_EQ(info.code, SI_QUEUE);
    CHECK_EQ(info.value, 17);
    CHECK_EQ(info.pid, getpid());
    weft_signal_close(set);
    CHECK_EQ(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
}

TEST(queued_signals_and_sigchld_carry_details)
{
    struct weft_signal_info info;
    weft_signal_set *set = OPEN(SIGRTMIN + 2, SIGCHLD);
    CHECK_EQ(sigqueue(getpid(), SIGRTMIN + 2, (union sigval){.sival_int = 99}), 0);
    CHECK_EQ(weft_signal_wait(set, &info, WEFT_FOREVER), 0);
    CHECK_EQ(info.signal, SIGRTMIN + 2);
    CHECK_EQ(info.value, 99);
    pid_t pid = fork();
    if (pid == 0) {
        _exit(6);
    }
    CHECK_EQ(weft_signal_wait(set, &info, WEFT_FOREVER), 0);
    CHECK_EQ(info.signal, SIGCHLD);
    CHECK_EQ(info.pid, pid);
    CHECK_EQ(info.status, 6);
    CHECK_EQ(waitpid(pid, NULL, 0), pid); /* the program still has to reap it */
    weft_signal_close(set);
}

/* --- several ---------------------------------------------------------------------------------- */

TEST(pending_signals_are_counted_and_lowest_comes_first)
{
    struct weft_signal_info info;
    /* Sets are served from the youngest to the oldest: when these have a signal, the last set has
     * it too. */
    weft_signal_set *usr = OPEN(SIGUSR2), *queued = OPEN(SIGRTMIN + 3);
    weft_signal_set *set = OPEN(SIGUSR1, SIGUSR2, SIGRTMIN + 3);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(sigqueue(getpid(), SIGRTMIN + 3, (union sigval){.sival_int = i}), 0);
    }
    send_self(SIGUSR1);
    send_self(SIGUSR2);
    CHECK_EQ(weft_signal_wait(usr, &info, WEFT_FOREVER), 0); /* it arrives after SIGUSR1 */
    CHECK_EQ(info.signal, SIGUSR2);
    for (unsigned n = 0; n < 5; n += info.count) {
        CHECK_EQ(weft_signal_wait(queued, &info, WEFT_FOREVER), 0);
    }
    CHECK_EQ(weft_signal_wait(set, &info, WEFT_FOREVER), 0);
    CHECK_EQ(info.signal, SIGUSR1);
    CHECK_EQ(weft_signal_wait(set, &info, WEFT_FOREVER), 0);
    CHECK_EQ(info.signal, SIGUSR2);
    CHECK_EQ(weft_signal_wait(set, &info, WEFT_FOREVER), 0);
    CHECK_EQ(info.signal, SIGRTMIN + 3);
    CHECK_EQ(info.count, 5);
    CHECK_EQ(info.value, 4); /* signals with values arrive in order */
    CHECK_EQ(weft_signal_wait(set, &info, 0), -ETIMEDOUT);
    weft_signal_close(set);
    weft_signal_close(queued);
    weft_signal_close(usr);
}

static atomic_int taken;

static void *count_one(void *arg)
{
    int err = weft_signal_wait(arg, NULL, WEFT_FOREVER);
    if (!err) {
        atomic_fetch_add(&taken, 1);
    }
    return (void *)(intptr_t)err;
}

TEST(each_set_gets_signal_and_one_waiter_per_set_takes_signal)
{
    weft_signal_set *a = OPEN(SIGUSR1), *b = OPEN(SIGUSR1, SIGUSR2);
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    weft_fiber fibers[4];
    void *result;
    atomic_store(&taken, 0);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(weft_pool_spawn(pool, &fibers[i], count_one, i < 2 ? a : b, NULL), 0);
        await_state(fibers[i], WEFT_FIBER_WAITING);
    }
    send_self(SIGUSR1);
    CHECK_EQ(weft_join(fibers[0], &result, WEFT_FOREVER), 0); /* the first waiter */
    CHECK_EQ(weft_join(fibers[2], &result, WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&taken), 2);
    weft_signal_close(a);
    CHECK_EQ(weft_join(fibers[1], &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, -EPIPE);
    send_self(SIGUSR1); /* the other set still has it */
    CHECK_EQ(weft_join(fibers[3], &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, 0);
    weft_signal_close(b);
    pool_close(pool);
}

static void *end_wait(void *arg)
{
    bool cancel = arg != NULL;
    weft_signal_set *set = OPEN(SIGUSR1);
    weft_fiber fiber;
    void *result;
    CHECK_EQ(weft_spawn(&fiber, count_one, set, NULL), 0);
    await_state(fiber, WEFT_FIBER_WAITING);
    CHECK_EQ(cancel ? weft_cancel(fiber) : weft_fiber_interrupt(fiber), 0);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK_EQ((intptr_t)result, cancel ? -ECANCELED : -EINTR);
    send_self(SIGUSR1); /* it goes to the next waiter */
    CHECK_EQ(weft_signal_wait(set, NULL, WEFT_FOREVER), 0);
    weft_signal_close(set);
    return NULL;
}

TEST(cancel_and_interrupt_end_signal_wait_and_take_no_signal)
{
    run_in_fiber(1, end_wait, NULL);
    run_in_fiber(2, end_wait, &taken);
}

TEST(stackless_task_waits_for_signal)
{
    struct body body;
    struct weft_signal_info info = {0};
    weft_signal_set *set = OPEN(SIGUSR1), *probe = OPEN(SIGUSR1);
    body_arm(&body);
    body.node.item = &info;
    CHECK(weft__signal_arm(set, &body.node));
    send_self(SIGUSR1);
    while (!body_told(&body)) {
        weft_yield();
    }
    weft__signal_finish(set, &body.node);
    CHECK_EQ(info.signal, SIGUSR1);
    CHECK_EQ(weft_signal_wait(probe, NULL, WEFT_FOREVER), 0);

    body_arm(&body);
    body.node.item = &info;
    CHECK(weft__signal_arm(set, &body.node));
    CHECK(body_end(&body, WEFT__REASON_TIMEOUT));
    weft__signal_finish(set, &body.node);
    send_self(SIGUSR1);
    CHECK_EQ(weft_signal_wait(set, NULL, WEFT_FOREVER), 0);

    body_arm(&body);
    body.node.item = &info;
    CHECK(weft__signal_arm(set, &body.node));
    weft_signal_close(set); /* the node keeps the set alive */
    CHECK(body_told(&body));
    CHECK_EQ(body.node.status, -EPIPE);
    weft__signal_finish(set, &body.node);
    weft_signal_close(probe);
}

/* --- dispositions ----------------------------------------------------------------------------- */

static void nothing(int signal)
{
    (void)signal;
}

TEST(last_close_restores_previous_signal_disposition)
{
    struct sigaction mine = {.sa_handler = nothing}, before;
    CHECK_EQ(sigaction(SIGUSR1, &mine, &before), 0);
    weft_signal_set *a = OPEN(SIGUSR1), *b = OPEN(SIGUSR1);
    CHECK(disposition(SIGUSR1) != (void *)(uintptr_t)nothing);
    CHECK(disposition(SIGUSR2) == (void *)(uintptr_t)SIG_DFL); /* was not requested */
    weft_signal_close(a);
    CHECK(disposition(SIGUSR1) != (void *)(uintptr_t)nothing);
    weft_signal_close(b);
    CHECK(disposition(SIGUSR1) == (void *)(uintptr_t)nothing);

    a = OPEN(SIGUSR1); /* a disposition set by the program stays */
    CHECK(signal(SIGUSR1, SIG_DFL) != SIG_ERR);
    weft_signal_close(a);
    CHECK(disposition(SIGUSR1) == (void *)(uintptr_t)SIG_DFL);
    CHECK_EQ(sigaction(SIGUSR1, &before, NULL), 0);
}

TEST(ignored_signal_stays_ignored_unless_forced)
{
    weft_signal_set *set = NULL;
    const int hup[] = {SIGUSR2, SIGHUP};
    CHECK(signal(SIGHUP, SIG_IGN) != SIG_ERR);
    CHECK_EQ(weft_signal_open(&set, hup, 2, NULL), 0); /* without SIGHUP */
    CHECK(weft_signal_has(set, SIGUSR2));
    CHECK(!weft_signal_has(set, SIGHUP));
    CHECK(!weft_signal_has(set, SIGUSR1) && !weft_signal_has(set, 0) && !weft_signal_has(set, 65));
    CHECK(disposition(SIGHUP) == (void *)(uintptr_t)SIG_IGN);
    send_self(SIGHUP); /* nothing */
    send_self(SIGUSR2);
    struct weft_signal_info info;
    CHECK_EQ(weft_signal_wait(set, &info, WEFT_FOREVER), 0);
    CHECK_EQ(info.signal, SIGUSR2);
    weft_signal_close(set);
    CHECK_EQ(weft_signal_open(&set, hup + 1, 1, NULL), -EPERM); /* nothing is left */
    CHECK(disposition(SIGUSR2) == (void *)(uintptr_t)SIG_DFL);
    CHECK_EQ(weft_signal_open(&set, hup, 2, &(struct weft_signal_opts){.force = true}), 0);
    CHECK(weft_signal_has(set, SIGHUP));
    send_self(SIGHUP);
    CHECK_EQ(weft_signal_wait(set, NULL, WEFT_FOREVER), 0);
    weft_signal_close(set);
    CHECK(disposition(SIGHUP) == (void *)(uintptr_t)SIG_IGN);
    send_self(SIGHUP);
    CHECK(signal(SIGHUP, SIG_DFL) != SIG_ERR);
}

TEST(unwaitable_signals_are_rejected)
{
    static const int wrong[] = {SIGKILL, SIGSTOP, SIGSEGV, SIGABRT, 0, -1, 65, 1000, 32};
    weft_signal_set *set;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_EQ(weft_signal_open(&set, &wrong[i], 1, NULL), -EINVAL);
    }
    CHECK_EQ(weft_signal_open(&set, wrong, 0, NULL), -EINVAL);
    weft_signal_close(NULL);
}

/* --- descriptors ------------------------------------------------------------------------------ */

static int watchers(void)
{
    int n = 0;
    char path[300], name[32];
    DIR *dir = opendir("/proc/self/task");
    CHECK(dir);
    struct dirent *entry;
    while ((entry = readdir(dir))) {
        snprintf(path, sizeof path, "/proc/self/task/%s/comm", entry->d_name);
        FILE *file = fopen(path, "r");
        if (file) {
            n += fgets(name, sizeof name, file) && !strcmp(name, "weft_watch\n");
            fclose(file);
        }
    }
    closedir(dir);
    return n;
}

static void await_watchers(int n)
{
    while (watchers() != n) {
        usleep(1000);
    }
}

TEST(last_close_ends_watcher_and_closes_descriptors)
{
    weft_signal_set *a = OPEN(SIGUSR1), *b;
    await_watchers(1); /* the watcher thread has a name */
    weft_signal_close(a);
    await_watchers(0);
    int before = count_descriptors(); /* the pipe stays */
    a = OPEN(SIGUSR1);
    b = OPEN(SIGUSR2);
    CHECK(count_descriptors() > before);
    await_watchers(1);
    weft_signal_close(a);
    weft_signal_close(b);
    await_watchers(0);
    CHECK_EQ(count_descriptors(), before);
}

TEST(failed_signal_open_leaks_nothing)
{
    weft_signal_set *set = OPEN(SIGUSR1);
    const int usr[] = {SIGUSR1};
    await_watchers(1);
    weft_signal_close(set);
    await_watchers(0);
    int before = count_descriptors();
    weft__thread_fail_next(1);
    CHECK_EQ(weft_signal_open(&set, usr, 1, NULL), -EAGAIN);
    weft__thread_fail_next(0);
    CHECK(disposition(SIGUSR1) == (void *)(uintptr_t)SIG_DFL);
    CHECK_EQ(count_descriptors(), before);
}

static weft_signal_set *many_set;

/* --- many ------------------------------------------------------------------------------------- */

static void *send_many(void *arg)
{
    for (int i = 0; i < 2000; i++) {
        while (sigqueue(getpid(), SIGRTMIN + 4, (union sigval){.sival_int = i}) != 0) {
            usleep(100); /* the kernel's queue is full */
        }
    }
    return arg;
}

static void *count_all(void *arg)
{
    long *counted = arg;
    struct weft_signal_info info;
    while (*counted < 4000) {
        CHECK_EQ(weft_signal_wait(many_set, &info, WEFT_FOREVER), 0);
        *counted += info.count;
    }
    return NULL;
}

TEST(every_queued_signal_is_counted)
{
    long counted = 0;
    many_set = OPEN(SIGRTMIN + 4);
    pthread_t a = thread_open(send_many, NULL), b = thread_open(send_many, NULL);
    run_in_fiber(2, count_all, &counted);
    thread_close(a);
    thread_close(b);
    CHECK_EQ(counted, 4000);
    weft_signal_close(many_set);
}
