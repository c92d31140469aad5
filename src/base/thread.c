#include "base/thread.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>

#include "base/atomic.h"

static _Atomic(int) failures; /* still to come */

void weft__thread_fail(int count)
{
    atomic_store_explicit(&failures, count, memory_order_relaxed);
}

static bool must_fail(void)
{
    int left = atomic_load_explicit(&failures, memory_order_relaxed);
    while (left > 0 &&
           !atomic_compare_exchange_weak_explicit(&failures, &left, left - 1, memory_order_relaxed,
                                                  memory_order_relaxed)) {
    }
    return left > 0;
}

int weft__thread_create(pthread_t *out, const pthread_attr_t *attr, void *(*fn)(void *), void *arg)
{
    if (must_fail()) {
        return -EAGAIN;
    }
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
    int err = pthread_create(out, attr, fn, arg);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return err ? -EAGAIN : 0;
}
