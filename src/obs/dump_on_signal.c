/* A dump on a signal. The handler counts and wakes a futex; a thread that was created in advance
 * writes the dump, so that the dump needs nothing from a program that may be stuck. All its memory
 * is mapped in advance. */
#include <errno.h>
#include <pthread.h>
#include <signal.h>

#include "base/thread.h"
#include "lock/futex.h"
#include "lock/lock.h"
#include "obs/dump.h"
#include "task/fork.h"
#include "wait/wake_source.h"

static struct weft__lock control_lock;
/* under `control_lock` */
static bool on;
static int used_signal;
static struct sigaction before;
static pthread_t thread;

/* immutable while the thread runs */
static struct weft__dump *dump;
static int dump_fd;

static _Atomic(uint32_t) request_count; /* number of requests; the lowest bit: exit */

static void on_signal(int signal)
{
    (void)signal;
    atomic_fetch_add_explicit(&request_count, 2, memory_order_relaxed);
    weft__futex_wake(&request_count, 1);
}

static void *serve(void *arg)
{
    uint32_t served = 0;
    (void)arg;
    weft__wake_source_ignore_thread();
    for (;;) {
        uint32_t now = atomic_load_explicit(&request_count, memory_order_relaxed);
        if (now >> 1 != served >> 1) {
            served = now;
            weft__dump_run(dump, NULL, dump_fd);
        } else if (now & 1) {
            weft__wake_source_unignore_thread();
            return NULL;
        } else {
            weft__futex_wait(&request_count, now, WEFT_FOREVER);
        }
    }
}

static int start_thread(void)
{
    int err = weft__thread_create(&thread, NULL, serve, NULL);
    if (!err) {
        pthread_setname_np(thread, "weft_dump");
    }
    return err;
}

static void stop_thread(void)
{
    atomic_fetch_or_explicit(&request_count, 1, memory_order_relaxed);
    weft__futex_wake(&request_count, 1);
    pthread_join(thread, NULL);
}

static int start_locked(int signal, int fd, const struct weft_dump_opts *opts)
{
    if (on) {
        return -EBUSY;
    }
    if (sigaction(signal, NULL, &before) != 0) {
        return -EINVAL;
    }
    if ((before.sa_flags & SA_SIGINFO) || before.sa_handler != SIG_DFL) {
        return -EBUSY;
    }
    if (!(dump = weft__dump_create(opts))) {
        return -ENOMEM;
    }
    dump_fd = fd;
    used_signal = signal;
    atomic_store_explicit(&request_count, 0, memory_order_relaxed);
    int err = start_thread();
    if (!err) {
        struct sigaction ours = {.sa_handler = on_signal, .sa_flags = SA_RESTART | SA_ONSTACK};
        sigfillset(&ours.sa_mask);
        weft__wake_source_ignore_handler((uintptr_t)on_signal);
        if (sigaction(signal, &ours, NULL) != 0) {
            stop_thread();
            err = -EINVAL;
        }
    }
    if (err) {
        weft__dump_destroy(dump);
    }
    on = err == 0;
    return err;
}

static void restore_signal_locked(void)
{
    struct sigaction present;
    if (sigaction(used_signal, NULL, &present) == 0 && !(present.sa_flags & SA_SIGINFO) &&
        present.sa_handler == on_signal) {
        sigaction(used_signal, &before, NULL);
    }
}

/* --- forks: the child has no thread, so dumps are off there ----------------------------- */

static void fork_prepare(void)
{
    weft__lock(&control_lock);
}

static void fork_parent(void)
{
    weft__unlock(&control_lock);
}

static void fork_child(void)
{
    if (on) {
        restore_signal_locked();
        on = false;
    }
    weft__unlock(&control_lock);
}

static void watch_forks(void)
{
    static struct weft__fork_hook hook = {fork_prepare, fork_parent, fork_child, NULL};
    weft__fork_hook(&hook);
}

/* --- public calls ----------------------------------------------------------------------- */

int weft_dump_on_signal(int signal, int fd, const struct weft_dump_opts *opts)
{
    int err = weft__dump_check(opts);
    if (err || fd < 0) {
        return -EINVAL;
    }
    if (!weft__unwind_prepare()) {
        return -ENOMEM;
    }
    static struct weft__fork_once once;
    weft__fork_once(&once, watch_forks);
    weft__lock(&control_lock);
    err = start_locked(signal, fd, opts);
    weft__unlock(&control_lock);
    return err;
}

void weft_dump_on_signal_stop(void)
{
    weft__lock(&control_lock);
    if (on) {
        restore_signal_locked();
        stop_thread();
        weft__dump_destroy(dump);
        on = false;
    }
    weft__unlock(&control_lock);
}
