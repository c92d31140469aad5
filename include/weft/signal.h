/* Waiting for signals.
 *
 * Opening a set of signals redirects them: they no longer perform their previous action but end
 * waits on the set. The runtime touches no other signals, and none before the first open: opening a
 * set installs the handler for its signals, and closing the last set that contains a signal
 * restores the previous disposition (unless the program has changed it since).
 *
 * A signal that is ignored (SIG_IGN), whether inherited or set by the program, stays ignored: it is
 * left out of a set unless `force` is set. A shell starts programs with `&` with SIGINT and SIGQUIT
 * ignored. weft_signal_has tells which signals are in the set.
 *
 * Delivery:
 * - Each open set that contains the signal gets it. Within a set it goes to one wait: the one that
 *   began first, or the next to begin.
 * - Until it is taken, a set stores a signal once: the number of occurrences and the details of the
 *   last one (all 0 if so many arrived at once that details were dropped). The kernel also stores a
 *   pending standard signal only once, so a count is a lower bound.
 * - If several signals are stored, the lowest number is taken first.
 * - It does not matter which threads block the signal: none, some or all. The signal must be sent
 *   to the process (kill), or to a thread that does not block it: a fiber cannot raise() a signal
 *   for a set, because workers block it.
 */
#ifndef WEFT_SIGNAL_H
#define WEFT_SIGNAL_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

typedef struct weft_signal_set weft_signal_set;

struct weft_signal_opts {
    const char *name; /* for dumps; borrowed until close; default none */
    bool force;       /* include ignored signals; close makes them ignored again */
};

/* Open a set of signals. The first open in a process keeps two descriptors forever; while any set
 * is open, all sets together use a few more.
 *
 * signals: an array of `count` signal numbers; borrowed for the call.
 * opts: NULL for defaults; borrowed for the call.
 * Returns 0 and an owned set in *out; -EINVAL if count is 0 or a signal cannot be waited for
 * (SIGKILL, SIGSTOP, an invalid number, or a signal that a thread causes itself: SIGSEGV, SIGBUS,
 * SIGFPE, SIGILL, SIGTRAP, SIGABRT); -EPERM if all of them are ignored and `force` is not set;
 * -EAGAIN if the watcher thread cannot be started; -EMFILE; -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_signal_open(weft_signal_set **out, const int *signals, size_t count,
                              const struct weft_signal_opts *opts);

/* Report whether a signal is in the set.
 * Returns false if the signal was not requested, or was left out because it is ignored.
 * Context: any thread; does not wait. */
WEFT_API bool weft_signal_has(const weft_signal_set *set, int signal);

struct weft_signal_info {
    int signal;
    /* occurrences since the signal was last taken, at least 1; the other fields describe the last
     * one */
    unsigned count;
    int code; /* SI_USER, SI_QUEUE, CLD_EXITED ... */
    int pid;  /* the sender, or the child; 0: unknown */
    unsigned uid;
    int status; /* of a child */
    int value;  /* with SI_QUEUE: the value sent along */
};

/* Wait for the next signal and take it. Any number of fibers and threads may wait.
 * out: receives the details; may be NULL.
 * Returns 0; -EPIPE if the set was closed meanwhile; -ETIMEDOUT, -ECANCELED or -EINTR if the wait
 * ended first.
 * Context: any fiber or thread; may wait; cancellation point if it waits. */
WEFT_API int weft_signal_wait(weft_signal_set *set, struct weft_signal_info *out, int64_t deadline);

/* Close a set; takes it. Waiters get -EPIPE and signals that were not taken are lost. NULL is
 * ignored. In a child of fork() no set is open and all dispositions are as before the first open;
 * there this is the only call allowed on a set of the parent.
 * Context: any thread; does not wait. */
WEFT_API void weft_signal_close(weft_signal_set *set);

WEFT_END_DECLS
#endif
