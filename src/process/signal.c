/* Delivery of signals from the kernel to the sets that contain them.
 *
 *   delivered to a thread that does not block it:   handler --record--> pipe  \
 *                                                                              watcher
 *   pending, because all threads block it:          ------------> signalfd    /
 *
 *   watcher -> each set that contains it -> a waiter
 *
 * The kernel gives each signal to one of the two, so the sum is right whatever the threads block. A
 * record is smaller than PIPE_BUF, hence written whole or not at all; while the pipe is full,
 * signals are only counted (`overflow`).
 *
 * The pipe is created once and never closed: a handler may be about to write, on any thread, long
 * after its set was closed, and must not find a reused descriptor.
 *
 * `changes` is held while sets are opened and closed (it is held over system calls); `lock`
 * protects the list of sets, which the watcher reads. Order: changes, the watcher's lock, lock, a
 * set's lock.
 */
#include "process/signal.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/nonnull.h"
#include "lock/lock.h"
#include "sync/source.h"
#include "task/fork.h"
#include "watchdog/fdwatch.h"

#define SIGNALS 65 /* the kernel's signals: 1 .. 64 */

struct weft_signal_set {
    struct weft__source source;
    /* immutable */
    uint64_t mask; /* bit n - 1 is signal n */
    uint32_t born; /* task/fork.h */
    /* under the lock of the list */
    weft_signal_set *next;
    /* under the source's lock */
    uint64_t pending;
    struct weft_signal_info infos[SIGNALS];
    /* any thread */
    _Atomic(uint32_t) refs;
};

static struct {
    struct weft__lock changes;
    /* under changes */
    unsigned users[SIGNALS]; /* sets that contain the signal */
    struct sigaction before[SIGNALS];
    bool piped;   /* the pipe exists */
    bool watched; /* the pipe and the signalfd are watched */
    int pipe_in, sigfd;
    struct weft__fdwatch pipe_watch, sigfd_watch;
    /* under lock */
    struct weft__lock lock;
    weft_signal_set *sets;
    /* used by the handler */
    _Atomic(int) pipe_out;
    _Atomic(pid_t) pid; /* of the process that the pipe belongs to */
    _Atomic(uint32_t) overflow[SIGNALS];
} hub;

static const struct weft__wait_kind signal_kind = {.name = "signal", .label = weft__source_label};

static uint64_t bit(int signal)
{
    return UINT64_C(1) << (signal - 1);
}

static void unref(weft_signal_set *set)
{
    if (atomic_fetch_sub_explicit(&set->refs, 1, memory_order_acq_rel) == 1) { /* pairs: itself */
        weft__free(set);
    }
}

/* --- delivery -------------------------------------------------------------------------- */

/* Async-signal-safe; runs on any thread, possibly on a fiber's stack. */
static void on_signal(int signal, siginfo_t *info, void *context)
{
    int before = errno;
    (void)context;
    if (getpid() == atomic_load_explicit(&hub.pid, memory_order_relaxed)) {
        struct weft_signal_info record = {.signal = signal,
                                          .count = 1,
                                          .code = info->si_code,
                                          .pid = info->si_pid,
                                          .uid = info->si_uid};
        if (signal == SIGCHLD) {
            record.status = info->si_status;
        } else if (info->si_code == SI_QUEUE) {
            record.value = info->si_value.sival_int;
        }
        int fd = atomic_load_explicit(&hub.pipe_out, memory_order_relaxed);
        if (write(fd, &record, sizeof record) < 0) {
            atomic_fetch_add_explicit(&hub.overflow[signal], 1, memory_order_relaxed);
        }
    } /* otherwise this is a child that has just forked */
    errno = before;
}

/* Gives one signal to a set: to a waiter, or stores it. */
static void set_deliver(weft_signal_set *set, const struct weft_signal_info *info,
                        struct weft__chain *ready)
{
    weft__source_lock(&set->source);
    struct weft_signal_info *kept = &set->infos[info->signal];
    unsigned before = set->pending & bit(info->signal) ? kept->count : 0;
    *kept = *info;
    kept->count += before;
    set->pending |= bit(info->signal);
    struct weft__node *node;
    while (set->pending && (node = weft__waitlist_pop(&set->source.waiters))) {
        *(struct weft_signal_info *)node->item = *kept; /* if the fire fails, it is not read */
        if (weft__node_fire(node, NULL, 0, ready)) {
            set->pending &= ~bit(info->signal);
        }
    }
    weft__source_unlock(&set->source);
}

static void deliver(const struct weft_signal_info *info)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__lock(&hub.lock);
    for (weft_signal_set *set = hub.sets; set; set = set->next) {
        if (set->mask & bit(info->signal)) {
            set_deliver(set, info, &ready);
        }
    }
    weft__unlock(&hub.lock);
    weft__place_all(&ready, WEFT__FRONT);
}

static bool on_pipe(struct weft__fdwatch *watch)
{
    struct weft_signal_info record;
    while (read(watch->fd, &record, sizeof record) == (ssize_t)sizeof record) {
        deliver(&record);
    }
    for (int signal = 1; signal < SIGNALS; signal++) {
        uint32_t n = atomic_exchange_explicit(&hub.overflow[signal], 0, memory_order_relaxed);
        if (n) {
            deliver(&(struct weft_signal_info){.signal = signal, .count = n});
        }
    }
    return true;
}

static bool on_sigfd(struct weft__fdwatch *watch)
{
    struct signalfd_siginfo from;
    while (read(watch->fd, &from, sizeof from) == (ssize_t)sizeof from) {
        struct weft_signal_info info = {.signal = (int)from.ssi_signo,
                                        .count = 1,
                                        .code = from.ssi_code,
                                        .pid = (int)from.ssi_pid,
                                        .uid = from.ssi_uid};
        if (from.ssi_signo == SIGCHLD) {
            info.status = from.ssi_status;
        } else if (from.ssi_code == SI_QUEUE) {
            info.value = from.ssi_int;
        }
        deliver(&info);
    }
    return true;
}

/* --- dispositions, under changes --------------------------------------------------------- */

static bool can_wait_for(int signal)
{
    struct sigaction now;
    switch (signal) {
    case SIGKILL:
    case SIGSTOP:
    case SIGSEGV:
    case SIGBUS:
    case SIGFPE:
    case SIGILL:
    case SIGTRAP:
    case SIGABRT:
        return false;
    default: /* the C library reserves two signals, which sigaction reports here */
        return signal > 0 && signal < SIGNALS && sigaction(signal, NULL, &now) == 0;
    }
}

static bool is_ours(const struct sigaction *action)
{
    return (action->sa_flags & SA_SIGINFO) && action->sa_sigaction == on_signal;
}

static bool is_ignored(int signal)
{
    struct sigaction now;
    sigaction(signal, NULL, &now);
    return !(now.sa_flags & SA_SIGINFO) && now.sa_handler == SIG_IGN;
}

static void install_handler(int signal)
{
    struct sigaction ours = {.sa_sigaction = on_signal,
                             .sa_flags = SA_SIGINFO | SA_RESTART | SA_ONSTACK};
    sigfillset(&ours.sa_mask);
    sigaction(signal, &ours, &hub.before[signal]);
}

static void restore_handler(int signal)
{
    struct sigaction now;
    sigaction(signal, NULL, &now);
    if (is_ours(&now)) {
        sigaction(signal, &hub.before[signal], NULL);
    }
}

/* Sets which signals the signalfd reports; fd -1 creates a new one. Calls the kernel directly,
 * because checkers that intercept the C library treat each call as opening a descriptor. */
static int sigfd_set(int fd)
{
    uint64_t mask = 0; /* in the kernel's format */
    for (int signal = 1; signal < SIGNALS; signal++) {
        mask |= hub.users[signal] ? bit(signal) : 0;
    }
    return (int)syscall(SYS_signalfd4, fd, &mask, sizeof mask, SFD_CLOEXEC | SFD_NONBLOCK);
}

static void add_signals(uint64_t mask)
{
    for (int signal = 1; signal < SIGNALS; signal++) {
        if ((mask & bit(signal)) && hub.users[signal]++ == 0) {
            install_handler(signal);
        }
    }
    sigfd_set(hub.sigfd);
}

static void remove_signals(uint64_t mask)
{
    for (int signal = 1; signal < SIGNALS; signal++) {
        if ((mask & bit(signal)) && --hub.users[signal] == 0) {
            restore_handler(signal);
        }
    }
    sigfd_set(hub.sigfd);
}

/* --- the descriptors, under changes ---------------------------------------------------------- */

static int pipe_open(void)
{
    int ends[2];
    if (!hub.piped) {
        if (pipe2(ends, O_CLOEXEC | O_NONBLOCK) != 0) {
            return -errno;
        }
        hub.pipe_in = ends[0];
        atomic_store_explicit(&hub.pipe_out, ends[1], memory_order_relaxed);
        atomic_store_explicit(&hub.pid, getpid(), memory_order_relaxed);
        hub.piped = true;
    }
    struct weft_signal_info old; /* left over from sets that are closed */
    while (read(hub.pipe_in, &old, sizeof old) > 0) {
    }
    return 0;
}

static int hub_open(void)
{
    int err = hub.watched ? 0 : pipe_open();
    if (err || hub.watched) {
        return err;
    }
    hub.sigfd = sigfd_set(-1);
    if (hub.sigfd < 0) {
        return -errno;
    }
    err = weft__fdwatch_add(&hub.pipe_watch, hub.pipe_in, on_pipe);
    if (err) {
        goto close_sigfd;
    }
    err = weft__fdwatch_add(&hub.sigfd_watch, hub.sigfd, on_sigfd);
    if (err) {
        goto remove_pipe;
    }
    hub.watched = true;
    return 0;

remove_pipe:
    weft__fdwatch_remove(&hub.pipe_watch);
close_sigfd:
    close(hub.sigfd);
    return err;
}

static void hub_close(void)
{
    if (hub.watched && !hub.sets) { /* read without its lock: it is written only under `changes` */
        weft__fdwatch_remove(&hub.sigfd_watch);
        weft__fdwatch_remove(&hub.pipe_watch);
        close(hub.sigfd);
        hub.watched = false;
    }
}

/* --- fork ------------------------------------------------------------------------------------- */

static void fork_prepare(void)
{
    weft__lock(&hub.changes);
}

static void fork_parent(void)
{
    weft__unlock(&hub.changes);
}

static void fork_child(void)
{
    for (int signal = 1; signal < SIGNALS; signal++) {
        if (hub.users[signal]) {
            restore_handler(signal);
            hub.users[signal] = 0;
        }
    }
    hub.sets = NULL;
    if (hub.watched) {
        close(hub.sigfd);
    }
    if (hub.piped) { /* it belongs to the parent */
        close(hub.pipe_in);
        close(atomic_load_explicit(&hub.pipe_out, memory_order_relaxed));
    }
    hub.watched = hub.piped = false;
    weft__unlock(&hub.changes);
}

static void watch_forks(void)
{
    static struct weft__fork_hook hook = {fork_prepare, fork_parent, fork_child, NULL};
    weft__fork_hook(&hook);
}

/* --- public calls ----------------------------------------------------------------------------- */

/* -EINVAL, -EPERM, or 0 and the mask. */
static int mask_of(const int *signals, size_t count, bool force, uint64_t *mask)
{
    *mask = 0;
    for (size_t i = 0; i < count; i++) {
        if (!can_wait_for(signals[i])) {
            return -EINVAL;
        }
        *mask |= force || !is_ignored(signals[i]) ? bit(signals[i]) : 0;
    }
    return *mask ? 0 : count ? -EPERM : -EINVAL;
}

int weft_signal_open(weft_signal_set **out, const int *signals, size_t count,
                     const struct weft_signal_opts *opts)
{
    static struct weft__fork_once once;
    static const struct weft_signal_opts none;
    uint64_t mask;
    opts = opts ? opts : &none;
    weft__fork_once(&once, watch_forks);
    weft_signal_set *set = weft__alloc(sizeof *set);
    if (!set) {
        return -ENOMEM;
    }
    weft__source_init(&set->source, &(struct weft_sync_opts){.name = opts->name});
    set->born = weft__fork_generation();
    atomic_init(&set->refs, 1);
    weft__lock(&hub.changes);
    int err = mask_of(signals, count, opts->force, &mask);
    err = err ? err : hub_open();
    if (!err) {
        set->mask = mask;
        weft__lock(&hub.lock);
        set->next = hub.sets;
        hub.sets = set;
        weft__unlock(&hub.lock);
        add_signals(mask);
    }
    weft__unlock(&hub.changes);
    if (err) {
        weft__free(set);
        return err;
    }
    *out = set;
    return 0;
}

bool weft_signal_has(const weft_signal_set *set, int signal)
{
    WEFT__NONNULL(set);
    return signal > 0 && signal < SIGNALS && (set->mask & bit(signal));
}

/* Takes a stored signal, lowest number first. */
static bool take_locked(weft_signal_set *set, struct weft_signal_info *out)
{
    if (!set->pending) {
        return false;
    }
    int signal = __builtin_ctzll(set->pending) + 1;
    *out = set->infos[signal];
    set->pending &= ~bit(signal);
    return true;
}

int weft_signal_wait(weft_signal_set *set, struct weft_signal_info *out, int64_t deadline)
{
    WEFT__NONNULL(set);
    weft__fork_check(set->born, "signal set", set->source.name ? set->source.name : "");
    struct weft_signal_info info;
    int err = 0;
    atomic_fetch_add_explicit(&set->refs, 1, memory_order_relaxed);
    weft__source_lock(&set->source);
    if (take_locked(set, &info)) {
        weft__source_unlock(&set->source);
    } else {
        struct weft__node node;
        weft__node_init(&node, NULL, 0);
        node.item = &info;
        err = weft__source_wait_locked(&set->source, &set->source.waiters, &node, deadline,
                                       &signal_kind);
    }
    if (!err && out) {
        *out = info;
    }
    unref(set);
    return err;
}

bool weft__signal_arm(weft_signal_set *set, struct weft__node *node)
{
    weft__source_lock(&set->source);
    bool wait = !take_locked(set, node->item);
    if (wait) {
        atomic_fetch_add_explicit(&set->refs, 1, memory_order_relaxed);
        weft__waitlist_push(&set->source.waiters, node);
    }
    weft__source_unlock(&set->source);
    return wait;
}

void weft__signal_finish(weft_signal_set *set, struct weft__node *node)
{
    weft__source_leave(&set->source, &set->source.waiters, node);
    unref(set);
}

void weft_signal_close(weft_signal_set *set)
{
    if (!set || set->born != weft__fork_generation()) {
        return; /* in a child of fork: no set is open */
    }
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__lock(&hub.changes);
    weft__lock(&hub.lock);
    weft_signal_set **at = &hub.sets;
    while (*at != set) {
        at = &(*at)->next;
    }
    *at = set->next;
    weft__unlock(&hub.lock);
    remove_signals(set->mask);
    hub_close();
    weft__unlock(&hub.changes);
    weft__source_lock(&set->source);
    weft__source_fire_all(&set->source.waiters, -EPIPE, &ready);
    weft__source_unlock(&set->source);
    weft__place_all(&ready, WEFT__FRONT);
    unref(set);
}
