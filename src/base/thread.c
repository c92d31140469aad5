#include "base/thread.h"

#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "base/objname.h"

/* Remaining failures to inject, and the calls that succeed before them. */
static _Atomic(int) failures, successes;

void weft__thread_fail_after(int skip, int count)
{
    atomic_store_explicit(&successes, skip, memory_order_relaxed);
    atomic_store_explicit(&failures, count, memory_order_relaxed);
}

void weft__thread_fail_next(int count)
{
    weft__thread_fail_after(0, count);
}

/* Counts down. False: the counter was 0. */
static bool count_down(_Atomic(int) *counter)
{
    int left = atomic_load_explicit(counter, memory_order_relaxed);
    while (left > 0 && !atomic_compare_exchange_weak_explicit(
                           counter, &left, left - 1, memory_order_relaxed, memory_order_relaxed)) {
    }
    return left > 0;
}

static bool must_fail(void)
{
    return !count_down(&successes) && count_down(&failures);
}

void weft__thread_guard(void (*fn)(void *arg), void *arg, void (*lost)(void *arg))
{
    int before;
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    pthread_cleanup_push(lost, arg);
    fn(arg);
    pthread_cleanup_pop(0);
    pthread_setcancelstate(before, NULL);
}

/* On the creator's stack, until the new thread has read it: a thread that frees memory gets its own
 * heap from malloc, 64 MiB of address space. */
struct start {
    void *(*fn)(void *);
    void *arg;
    _Atomic(bool) taken;
};

struct running {
    void *(*fn)(void *);
    void *arg, *result;
};

static void run(void *arg)
{
    struct running *running = arg;
    running->result = running->fn(running->arg);
}

static void lost(void *arg)
{
    (void)arg;
    weft__panic(
        __FILE__, __LINE__,
        "a callback has ended a thread of Weft's by pthread_exit or a cancel, and Weft cannot "
        "do without it; return from the callback");
}

/* Before the first call that could be a cancellation point. */
static void *begin(void *arg)
{
    struct start *start = arg;
    struct running running = {.fn = start->fn, .arg = start->arg};
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    atomic_store_explicit(&start->taken, true, memory_order_release); /* pairs: create */
    weft__thread_guard(run, &running, lost);
    return running.result;
}

int weft__thread_create(pthread_t *out, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
    if (must_fail()) {
        return -EAGAIN;
    }
    struct start start = {.fn = fn, .arg = arg};
    sigset_t all, before;
    sigfillset(&all);
    sigdelset(&all, SIGSEGV);
    sigdelset(&all, SIGBUS);
    sigdelset(&all, SIGFPE);
    sigdelset(&all, SIGILL);
    sigdelset(&all, SIGABRT);
    sigdelset(&all, SIGTRAP);
    sigdelset(&all, SIGPROF);
    sigdelset(&all, SIGURG);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    int err = pthread_create(out, attr, begin, &start);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    while (!err && !atomic_load_explicit(&start.taken, memory_order_acquire)) { /* pairs: begin */
        sched_yield();
    }
    return err ? -EAGAIN : 0;
}

void weft__thread_set_name(pthread_t thread, const char *pool, unsigned index)
{
    char name[16], tail[16]; /* the kernel's limit */
    size_t len = strlen(pool), digits = 0;
    while (digits < 4 && digits < len && isdigit((unsigned char)pool[len - digits - 1])) {
        digits++;
    }
    size_t end = (size_t)snprintf(tail, sizeof tail, "%s_%u", pool + len - digits, index % 100000);
    size_t most = weft__objname_fit(pool, sizeof name - end);
    size_t head = len - digits < most ? len - digits : most;
    memcpy(name, pool, head);
    memcpy(name + head, tail, end + 1);
    pthread_setname_np(thread, name);
}
