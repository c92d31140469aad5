/* Signals as waits.
 *
 * A set of signals is opened; from then on they do not do what they did before, but end waits on
 * the set. The runtime touches no other signal, and none before it is asked: opening a set installs
 * the handler of its signals, closing the last set that has a signal gives it back its former
 * disposition (unless the program has changed it since).
 *
 * A signal that is ignored (SIG_IGN), by whoever started the program or by itself, stays ignored:
 * it is left out of a set unless `force` says so. Every program that a shell starts with `&` has
 * SIGINT and SIGQUIT ignored. weft_signal_has says which signals are in the set.
 *
 * What is delivered:
 *  - Each open set that has the signal gets it. Within a set it goes to one wait: the one that
 *    began first, or the next to come.
 *  - Until it is taken, a set remembers a signal once: how many came, and the last one's details
 *    (all 0 if so many came at once that they had to be dropped). But the kernel too remembers a
 *    standard signal only once while it is pending, so a count is a lower bound.
 *  - Of several signals that were remembered the lowest number is taken first.
 *  - It does not matter which threads block the signal: none, some or all. It must be sent to the
 *    process (kill), or to a thread that does not block it: a fiber does not raise() signals for
 *    its sets, because workers block them.
 */
#ifndef WEFT_SIGNAL_H
#define WEFT_SIGNAL_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

typedef struct weft_signal_set weft_signal_set;

struct weft_signal_opts {
    const char *name; /* for dumps; borrowed until close; default: none */
    bool force;       /* also signals that are ignored; after the close they are again */
};

/* The first open of a process takes two descriptors for good, a set that is open a few more for all
 * sets together. -EINVAL: no signals, or one that cannot be waited for (SIGKILL, SIGSTOP, no number
 * of a signal, or one that a thread causes itself: SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP,
 * SIGABRT). -EPERM: all of them are ignored, and not `force`. -EAGAIN: no thread to watch. -EMFILE,
 * -ENOMEM. */
WEFT_API int weft_signal_open(weft_signal_set **out, const int *signals, size_t count,
                              const struct weft_signal_opts *opts);

/* Is the signal in the set? False: it was not asked for, or is ignored and was left out. Any
 * thread. */
WEFT_API bool weft_signal_has(const weft_signal_set *set, int signal);

struct weft_signal_info {
    int signal;
    /* How many came since it was last taken, at least 1; the rest is of the last one. */
    unsigned count;
    int code; /* SI_USER, SI_QUEUE, CLD_EXITED ... */
    int pid;  /* who sent it, or the child; 0: unknown */
    unsigned uid;
    int status; /* of a child */
    int value;  /* with SI_QUEUE: what was sent along */
};

/* Takes the next signal. Any number of fibers and threads may wait. 0 (*out is written, if it is
 * not NULL), -ETIMEDOUT, -ECANCELED, -EINTR; -EPIPE: the set was closed meanwhile. */
WEFT_API int weft_signal_wait(weft_signal_set *set, struct weft_signal_info *out, int64_t deadline);

/* Who waits gets -EPIPE; what was not taken is lost. NULL is fine. In a child of fork() no set is
 * open, all dispositions are as before the first open, and this is the one call that is allowed. */
WEFT_API void weft_signal_close(weft_signal_set *set);

WEFT_END_DECLS
#endif
