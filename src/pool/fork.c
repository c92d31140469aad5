#include "task/fork.h"

#include <pthread.h>
#include <unistd.h>

#include "buf/shared_pool.h"
#include "buf/worker_cache.h"
#include "context/guard.h"
#include "context/stack.h"
#include "lock/lock.h"
#include "sched/pool.h"
#include "task/deadline.h"
#include "task/slab.h"
#include "watchdog/fdwatch.h"
#include "watchdog/watchdog.h"
#include "worker/worker.h"

_Atomic(uint32_t) weft__fork_count;

/* In a child: the thread that was a fiber when it forked; 0: none. Written while the process has
 * one thread. */
static pid_t forked_fiber_tid;

static struct weft__lock held;        /* by a fork, or by code that delays one */
static struct weft__fork_hook *hooks; /* newest first; under the lock */

/* Locks are taken in their nesting order: the fdwatch lock is held while others are taken. */
static void prepare(void)
{
    /* One-time initialisation must not be interrupted half-way: at best the C library would run it
     * again in the child. */
    weft__fork_install();
    weft__guard_best();
    weft__lock(&held);
    for (const struct weft__fork_hook *hook = hooks; hook; hook = hook->next) {
        hook->before();
    }
    weft__fdwatch_fork_prepare();
    weft__pool_fork_prepare();
    weft__slab_fork_prepare();
    weft__stack_fork_prepare();
    weft__buf_cache_fork_prepare();
    weft__buf_shared_fork_prepare();
    weft__deadlines_fork_prepare();
    weft__watchdog_fork_prepare();
}

static void parent(void)
{
    weft__watchdog_fork_parent();
    weft__deadlines_fork_done();
    weft__buf_shared_fork_done();
    weft__buf_cache_fork_done();
    weft__stack_fork_done();
    weft__slab_fork_parent();
    weft__pool_fork_parent();
    weft__fdwatch_fork_parent();
    for (const struct weft__fork_hook *hook = hooks; hook; hook = hook->next) {
        hook->in_parent();
    }
    weft__unlock(&held);
}

static void child(void)
{
    struct weft__worker *w = weft__worker_self();
    forked_fiber_tid = w && weft__current(w) ? gettid() : 0;
    weft__worker_set_self(NULL); /* from here on a plain thread, even on a fiber's stack */
    weft__buf_set_thread(NULL, NULL);
    weft__spawner_fork_child();
    weft__watchdog_fork_child();
    weft__deadlines_fork_done();
    weft__buf_shared_fork_done();
    weft__buf_cache_fork_done();
    weft__stack_fork_done();
    weft__slab_fork_child();
    weft__pool_fork_child();
    weft__fdwatch_fork_child();
    atomic_fetch_add_explicit(&weft__fork_count, 1, memory_order_relaxed);
    for (const struct weft__fork_hook *hook = hooks; hook; hook = hook->next) {
        hook->in_child();
    }
    weft__unlock(&held);
}

static void watch(void)
{
    int err = pthread_atfork(prepare, parent, child);
    WEFT__REQUIRE(!err, "pthread_atfork failed: no memory");
}

void weft__fork_install(void)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch);
}

void weft__fork_block(void)
{
    weft__fork_install();
    weft__lock(&held);
}

void weft__fork_unblock(void)
{
    weft__unlock(&held);
}

void weft__fork_once_slow(struct weft__fork_once *once, void (*fn)(void))
{
    weft__fork_block();
    if (!atomic_load_explicit(&once->done, memory_order_relaxed)) {
        fn();
        atomic_store_explicit(&once->done, true, memory_order_release); /* pairs: fork_once */
    }
    weft__fork_unblock();
}

void weft__fork_hook(struct weft__fork_hook *hook)
{
    hook->next = hooks;
    hooks = hook;
}

void weft__fork_check_fiber(const char *call)
{
    WEFT__REQUIRE(
        !forked_fiber_tid || forked_fiber_tid != gettid(),
        "%s by a fiber that called fork(), in the child, where it is a plain thread: exec, "
        "call _exit, or create a new pool",
        call);
}
