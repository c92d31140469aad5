#include "wait/wake_source.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/assert.h"
#include "idle/awake_count.h"
#include "lock/lock.h"

#define IGNORED_HANDLERS 4

static _Atomic(uint64_t) refs;
static _Atomic(uintptr_t) ignored_handlers[IGNORED_HANDLERS]; /* used from index 0 on; 0: free */

static struct weft__lock ignored_lock;
static struct {
    int *tids;
    size_t count, capacity;
} ignored; /* under the lock */

static struct weft__lock waits_lock;    /* taken before ignored_lock */
static struct weft__thread_wait *waits; /* under waits_lock */

void weft__wake_source_ref(void)
{
    atomic_fetch_add_explicit(&refs, 1, memory_order_relaxed);
}

void weft__wake_source_unref(void)
{
    /* Release: the fibers that it woke were woken before. pairs: weft__wake_source_has_refs */
    if (atomic_fetch_sub_explicit(&refs, 1, memory_order_release) == 1) {
        weft__awake_count_invalidate(&weft__awake_count);
    }
}

bool weft__wake_source_has_refs(void)
{
    return atomic_load_explicit(&refs, memory_order_acquire) != 0; /* pairs: unref */
}

/* --- threads ------------------------------------------------------------------ */

static int add_tid_locked(int tid)
{
    if (ignored.count == ignored.capacity) {
        size_t capacity = ignored.capacity ? ignored.capacity * 2 : 16;
        int *tids = realloc(ignored.tids, capacity * sizeof *tids);
        if (!tids) {
            return -ENOMEM;
        }
        ignored.tids = tids;
        ignored.capacity = capacity;
    }
    ignored.tids[ignored.count++] = tid;
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

int weft_watchdog_ignore_thread(int tid)
{
    tid = tid ? tid : (int)syscall(SYS_gettid);
    weft__lock(&ignored_lock);
    int err = has_tid(ignored.tids, ignored.count, tid) ? 0 : add_tid_locked(tid);
    weft__unlock(&ignored_lock);
    return err;
}

int weft__wake_source_ignore_thread(void)
{
    return weft_watchdog_ignore_thread(0);
}

void weft__wake_source_unignore_thread(void)
{
    int tid = (int)syscall(SYS_gettid);
    weft__lock(&ignored_lock);
    for (size_t i = 0; i < ignored.count; i++) {
        if (ignored.tids[i] == tid) {
            ignored.tids[i] = ignored.tids[--ignored.count];
            break;
        }
    }
    weft__unlock(&ignored_lock);
}

static bool is_ignored(int tid)
{
    weft__lock(&ignored_lock);
    bool found = has_tid(ignored.tids, ignored.count, tid);
    weft__unlock(&ignored_lock);
    return found;
}

/* --- waiting plain threads ---------------------------------------------------------- */

void weft__thread_wait_begin(struct weft__thread_wait *wait)
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
    /* This may have been the last thread that could wake a fiber. */
    weft__awake_count_invalidate(&weft__awake_count);
}

void weft__thread_wait_end(struct weft__thread_wait *wait)
{
    weft__lock(&waits_lock);
    if (wait->next) {
        wait->next->prev = wait->prev;
    }
    *(wait->prev ? &wait->prev->next : &waits) = wait->next;
    weft__unlock(&waits_lock);
}

void weft__thread_wait_freeze(void)
{
    weft__lock(&waits_lock);
}

void weft__thread_wait_thaw(void)
{
    weft__unlock(&waits_lock);
}

const struct weft__thread_wait *weft__thread_wait_next(const struct weft__thread_wait *last)
{
    return last ? last->next : waits;
}

bool weft__thread_wait_is_pending(const struct weft__thread_wait *wait)
{
    uint32_t word = atomic_load_explicit(wait->word, memory_order_relaxed);
    return word == 0 || word == wait->asleep;
}

bool weft__wake_source_has_fired(char *who, size_t size)
{
    for (const struct weft__thread_wait *wait = waits; wait; wait = wait->next) {
        if (!weft__thread_wait_is_pending(wait)) {
            snprintf(who, size, "thread %d", wait->tid);
            return true;
        }
    }
    return false;
}

static bool is_in_wait(int tid)
{
    const struct weft__thread_wait *wait = waits;
    while (wait && wait->tid != tid) {
        wait = wait->next;
    }
    return wait != NULL;
}

static bool is_known(const int *own, size_t count, int tid)
{
    return has_tid(own, count, tid) || is_ignored(tid) || is_in_wait(tid);
}

static bool is_alive(int tid)
{
    char path[64];
    snprintf(path, sizeof path, "/proc/self/task/%d", tid);
    return access(path, F_OK) == 0;
}

static size_t add_once(int *tids, size_t n, int tid)
{
    if (!has_tid(tids, n, tid)) {
        tids[n++] = tid;
    }
    return n;
}

/* The known threads, each once; NULL: no memory. The caller frees the list. */
static int *list_known(const int *own, size_t count, size_t *known)
{
    size_t n = 0, waiting = 0;
    for (const struct weft__thread_wait *wait = waits; wait; wait = wait->next) {
        waiting++;
    }
    weft__lock(&ignored_lock);
    int *tids = malloc((count + waiting + ignored.count + 1) * sizeof *tids);
    for (size_t i = 0; tids && i < ignored.count; i++) {
        n = add_once(tids, n, ignored.tids[i]);
    }
    weft__unlock(&ignored_lock);
    for (size_t i = 0; tids && i < count; i++) {
        n = add_once(tids, n, own[i]);
    }
    for (const struct weft__thread_wait *wait = waits; tids && wait; wait = wait->next) {
        n = add_once(tids, n, wait->tid);
    }
    *known = n;
    return tids;
}

/* The kernel counts a process's threads among the links of their folder. This opens no file,
 * because the watchdog calls it at any moment, and a number that the program has just closed must
 * not come to life for a moment.
 *
 * A thread that was known before the count and is alive after it was among those counted. So the
 * threads that remain were unknown, or have just ended: then there is one when in doubt. */
bool weft__wake_source_has_thread(const int *own, size_t count)
{
    size_t known, alive = 0;
    struct stat threads;
    int *tids = list_known(own, count, &known);
    if (!tids || stat("/proc/self/task", &threads) != 0 || threads.st_nlink < 3) {
        free(tids);
        return true;
    }
    for (size_t i = 0; i < known; i++) {
        alive += is_alive(tids[i]);
    }
    free(tids);
    return threads.st_nlink - 2 > alive;
}

/* By open(2), because ThreadSanitizer does not see the descriptor that opendir opens: if its number
 * was closed by a raw system call before, it would report the closedir. */
static DIR *open_threads(void)
{
    int fd = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
    if (fd >= 0 && !dir) {
        close(fd);
    }
    return dir;
}

void weft__wake_source_name_thread(const int *own, size_t count, char *who, size_t size)
{
    DIR *dir = open_threads();
    snprintf(who, size, dir ? "a thread that has ended" : "no /proc");
    const struct dirent *entry;
    while (dir && (entry = readdir(dir))) {
        int tid = atoi(entry->d_name);
        if (tid > 0 && !is_known(own, count, tid)) {
            snprintf(who, size, "thread %d", tid);
            break;
        }
    }
    if (dir) {
        closedir(dir);
    }
}

/* --- signals ------------------------------------------------------------------- */

static bool is_ignored_handler(uintptr_t handler)
{
    for (int i = 0; i < IGNORED_HANDLERS; i++) {
        if (atomic_load_explicit(&ignored_handlers[i], memory_order_relaxed) == handler) {
            return true;
        }
    }
    return false;
}

void weft__wake_source_ignore_handler(uintptr_t handler)
{
    for (int i = 0; i < IGNORED_HANDLERS; i++) {
        uintptr_t is = 0;
        if (atomic_compare_exchange_strong_explicit(&ignored_handlers[i], &is, handler,
                                                    memory_order_relaxed, memory_order_relaxed) ||
            is == handler) {
            return;
        }
    }
    WEFT__REQUIRE(false, "too many internal signal handlers: raise IGNORED_HANDLERS");
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

bool weft__wake_source_has_handler(char *who, size_t size)
{
    for (int signo = 1; signo <= 64; signo++) {
        struct sigaction now;
        if (is_own_fault(signo) || sigaction(signo, NULL, &now) != 0) {
            continue;
        }
        bool none = !(now.sa_flags & SA_SIGINFO) &&
                    (now.sa_handler == SIG_DFL || now.sa_handler == SIG_IGN);
        if (!none && !is_ignored_handler(handler_of(&now))) {
            snprintf(who, size, "handler of signal %d", signo);
            return true;
        }
    }
    return false;
}

/* --- forks ---------------------------------------------------------------------- */

void weft__wake_source_fork_prepare(void)
{
    weft__lock(&waits_lock);
    weft__lock(&ignored_lock);
}

void weft__wake_source_fork_parent(void)
{
    weft__unlock(&ignored_lock);
    weft__unlock(&waits_lock);
}

void weft__wake_source_fork_child(void)
{
    ignored.count = 0; /* none of these threads exists here */
    waits = NULL;
    atomic_store_explicit(&refs, 0, memory_order_relaxed);
    weft__unlock(&ignored_lock);
    weft__unlock(&waits_lock);
}
