#include "sched/outside.h"

#include <dirent.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/assert.h"
#include "base/lock.h"
#include "sched/watchdog.h"

#define OWN_HANDLERS 4

static _Atomic(uint64_t) refs;
static _Atomic(uintptr_t) own_handlers[OWN_HANDLERS]; /* used from index 0 on; 0: free */

static struct weft__lock known_lock;
static struct {
    int *tids;
    size_t count, room;
} known; /* under the lock */

static struct weft__lock waits_lock;     /* taken before known_lock */
static struct weft__outside_wait *waits; /* under waits_lock */

void weft__outside_ref(void)
{
    atomic_fetch_add_explicit(&refs, 1, memory_order_relaxed);
}

void weft__outside_unref(void)
{
    /* Release: the fibers that it woke were woken before. pairs: weft__outside_has_refs */
    if (atomic_fetch_sub_explicit(&refs, 1, memory_order_release) == 1) {
        weft__watchdog_look_again();
    }
}

bool weft__outside_has_refs(void)
{
    return atomic_load_explicit(&refs, memory_order_acquire) != 0; /* pairs: unref */
}

/* --- threads ------------------------------------------------------------------ */

static int add_tid_locked(int tid)
{
    if (known.count == known.room) {
        size_t room = known.room ? known.room * 2 : 16;
        int *tids = realloc(known.tids, room * sizeof *tids);
        if (!tids) {
            return -ENOMEM;
        }
        known.tids = tids;
        known.room = room;
    }
    known.tids[known.count++] = tid;
    return 0;
}

static bool has_tid(const int *tids, size_t count, int tid)
{
    for (size_t i = 0; i < count; i++) {
        if (tids[i] == tid) {
            return true;
        }
    }
    return false;
}

int weft_harmless_thread(int tid)
{
    tid = tid ? tid : (int)syscall(SYS_gettid);
    weft__lock(&known_lock);
    int err = has_tid(known.tids, known.count, tid) ? 0 : add_tid_locked(tid);
    weft__unlock(&known_lock);
    return err;
}

int weft__outside_thread_enter(void)
{
    return weft_harmless_thread(0);
}

void weft__outside_thread_leave(void)
{
    int tid = (int)syscall(SYS_gettid);
    weft__lock(&known_lock);
    for (size_t i = 0; i < known.count; i++) {
        if (known.tids[i] == tid) {
            known.tids[i] = known.tids[--known.count];
            break;
        }
    }
    weft__unlock(&known_lock);
}

static bool is_known(int tid)
{
    weft__lock(&known_lock);
    bool found = has_tid(known.tids, known.count, tid);
    weft__unlock(&known_lock);
    return found;
}

/* --- waiting plain threads ---------------------------------------------------------- */

void weft__outside_wait_begin(struct weft__outside_wait *wait)
{
    wait->tid = (int)syscall(SYS_gettid);
    weft__lock(&waits_lock);
    wait->prev = NULL;
    wait->next = waits;
    if (waits) {
        waits->prev = wait;
    }
    waits = wait;
    weft__unlock(&waits_lock);
    weft__watchdog_look_again(); /* this may have been the last thread that could wake a fiber */
}

void weft__outside_wait_end(struct weft__outside_wait *wait)
{
    weft__lock(&waits_lock);
    if (wait->next) {
        wait->next->prev = wait->prev;
    }
    *(wait->prev ? &wait->prev->next : &waits) = wait->next;
    weft__unlock(&waits_lock);
}

void weft__outside_freeze(void)
{
    weft__lock(&waits_lock);
}

void weft__outside_thaw(void)
{
    weft__unlock(&waits_lock);
}

const struct weft__outside_wait *weft__outside_next_wait(const struct weft__outside_wait *last)
{
    return last ? last->next : waits;
}

bool weft__outside_waits(const struct weft__outside_wait *wait)
{
    uint32_t word = atomic_load_explicit(wait->word, memory_order_relaxed);
    return word == 0 || word == wait->asleep;
}

bool weft__outside_has_fired(char *who, size_t size)
{
    for (const struct weft__outside_wait *wait = waits; wait; wait = wait->next) {
        if (!weft__outside_waits(wait)) {
            snprintf(who, size, "thread %d", wait->tid);
            return true;
        }
    }
    return false;
}

static bool is_in_wait(int tid)
{
    const struct weft__outside_wait *wait = waits;
    while (wait && wait->tid != tid) {
        wait = wait->next;
    }
    return wait != NULL;
}

bool weft__outside_has_thread(const int *own, size_t count, char *who, size_t size)
{
    DIR *dir = opendir("/proc/self/task");
    if (!dir) {
        snprintf(who, size, "no /proc");
        return true;
    }
    bool found = false;
    const struct dirent *entry;
    while (!found && (entry = readdir(dir))) {
        int tid = atoi(entry->d_name);
        if (tid > 0 && !has_tid(own, count, tid) && !is_known(tid) && !is_in_wait(tid)) {
            snprintf(who, size, "thread %d", tid);
            found = true;
        }
    }
    closedir(dir);
    return found;
}

/* --- signals ------------------------------------------------------------------- */

static bool is_own_handler(uintptr_t handler)
{
    for (int i = 0; i < OWN_HANDLERS; i++) {
        if (atomic_load_explicit(&own_handlers[i], memory_order_relaxed) == handler) {
            return true;
        }
    }
    return false;
}

void weft__outside_own_handler(uintptr_t handler)
{
    for (int i = 0; i < OWN_HANDLERS; i++) {
        uintptr_t is = 0;
        if (atomic_compare_exchange_strong_explicit(&own_handlers[i], &is, handler,
                                                    memory_order_relaxed, memory_order_relaxed) ||
            is == handler) {
            return;
        }
    }
    WEFT__REQUIRE(false, "there is no room for one more handler");
}

static uintptr_t handler_of(const struct sigaction *action)
{
    return action->sa_flags & SA_SIGINFO ? (uintptr_t)action->sa_sigaction
                                         : (uintptr_t)action->sa_handler;
}

/* Raised by the thread's own actions: they wake nothing. */
static bool is_own_fault(int signo)
{
    return signo == SIGSEGV || signo == SIGBUS || signo == SIGFPE || signo == SIGILL ||
           signo == SIGTRAP || signo == SIGABRT || signo == SIGSYS || signo == SIGPIPE;
}

bool weft__outside_has_handler(char *who, size_t size)
{
    for (int signo = 1; signo <= 64; signo++) {
        struct sigaction now;
        if (is_own_fault(signo) || sigaction(signo, NULL, &now) != 0) {
            continue;
        }
        bool none = !(now.sa_flags & SA_SIGINFO) &&
                    (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN);
        if (!none && !is_own_handler(handler_of(&now))) {
            snprintf(who, size, "handler of signal %d", signo);
            return true;
        }
    }
    return false;
}

/* --- forks ---------------------------------------------------------------------- */

void weft__outside_fork_prepare(void)
{
    weft__lock(&waits_lock);
    weft__lock(&known_lock);
}

void weft__outside_fork_parent(void)
{
    weft__unlock(&known_lock);
    weft__unlock(&waits_lock);
}

void weft__outside_fork_child(void)
{
    known.count = 0; /* none of these threads exists here */
    waits = NULL;
    atomic_store_explicit(&refs, 0, memory_order_relaxed);
    weft__unlock(&known_lock);
    weft__unlock(&waits_lock);
}
