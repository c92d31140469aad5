/* Child processes, and signals as events. */
#ifndef WEFT_PROCESS_H
#define WEFT_PROCESS_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

/* --- processes ------------------------------------------------------------------------------ */

/* Child processes.
 *
 * A child is identified by its own descriptor (a pidfd), so no wait and no kill can reach another
 * process that got the same process id. The runtime reaps a child as soon as it has ended, whether
 * or not a fiber waits and even if the handle was closed: no zombies remain. The runtime installs
 * no SIGCHLD handler and waits only for its own children; other children belong to the program. A
 * program that waits for *any* child (waitpid(-1)), or ignores SIGCHLD, takes the status away from
 * the runtime: then a wait returns -ECHILD.
 */

typedef struct weft_process weft_process;

/* Values for in, out and err instead of a descriptor: */
#define WEFT_STDIO_NULL (-1) /* /dev/null */
#define WEFT_STDIO_PIPE (-2) /* a pipe; weft_process_pipe returns its other end */
#define WEFT_STDIO_OUT (-3)  /* err only: the same as out */

struct weft_process_opts {
    const char *name;       /* for dumps; borrowed until close; default none */
    const char *path;       /* the program; default: argv[0], searched in PATH if it has no '/' */
    const char *const *env; /* its environment; default: the caller's */
    const char *cwd;        /* its working directory; default: the caller's */
    int in, out, err;       /* become its 0, 1 and 2; borrowed; default (0): the caller's own */
    bool new_group;         /* it leads its own process group */
    bool new_session;       /* it leads its own session */
    bool keep_signals; /* it inherits the calling thread's signal mask and ignored signals; default:
                        * no signal is blocked or ignored */
};

/* Start a child process. The calling thread blocks until the child runs its program (as with
 * vfork), usually less than a millisecond.
 *
 * argv: the arguments, terminated by NULL; borrowed for the call, as are opts and opts->env. The
 * child inherits descriptors that are not close-on-exec, besides 0, 1 and 2.
 * Returns 0 and an owned handle in *out. Errors that keep the program from running are returned
 * here: -ENOENT, -EACCES, -ENOEXEC, -E2BIG, -ENOTDIR (also for cwd)...; -EINVAL without argv[0];
 * -EBADF for a bad descriptor; -EAGAIN if no process, or no thread to watch it, can be created;
 * -EMFILE; -ENOMEM.
 * Context: any thread; blocks the thread briefly; not a cancellation point. */
WEFT_API int weft_process_spawn(weft_process **out, const char *const *argv,
                                const struct weft_process_opts *opts);

/* Get the parent's end of the pipe to the child's 0, or from its 1 or 2, as a descriptor that the
 * caller owns: for weft_write or weft_read (weft/io.h), closed with weft_close, which tells the
 * child that there is no more input. A write returns -EPIPE if the child no longer reads; a read
 * returns 0 when every process that had the other end has closed it, including the child's own
 * children. Ends that were not taken are closed by weft_process_close.
 *
 * which: 0, 1 or 2.
 * Returns the descriptor; -EBADF if there is no such pipe or it was taken before; -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_process_pipe(weft_process *process, int which);

/* How a child ended: by exit, or by a signal. */
struct weft_process_status {
    int code;    /* if signal == 0: the exit code */
    int signal;  /* the signal that ended it, or 0 */
    bool dumped; /* ... and left a core file */
};

/* Wait until the child has ended. Any number of fibers and threads may wait, at any time before
 * close; all get the same status.
 * out: receives the status; may be NULL.
 * Returns 0; -EPIPE if the handle was closed meanwhile; -ECHILD if another wait in the program took
 * the status; -ETIMEDOUT, -ECANCELED or -EINTR if the wait ended first.
 * Context: any fiber or thread; may wait; cancellation point if it waits. */
WEFT_API int weft_process_wait(weft_process *process, struct weft_process_status *out,
                               int64_t deadline);

/* Send a signal to the child.
 * Returns 0; -ESRCH if the child has ended; -EINVAL for an invalid signal; -EPERM if the child
 * changed to another user.
 * Context: any thread; does not wait. */
WEFT_API int weft_process_kill(weft_process *process, int signal);

/* Read the process id, for messages: it may belong to another process once the child has ended.
 * Returns the process id.
 * Context: any thread; does not wait. */
WEFT_API int weft_process_pid(const weft_process *process);

/* Close the handle; takes it. The child continues, and is reaped when it ends. Waiters get -EPIPE.
 * NULL is ignored. In a child of fork() this is the only call allowed on a handle of the parent.
 * Context: any thread; does not wait. */
WEFT_API void weft_process_close(weft_process *process);

/* --- signals -------------------------------------------------------------------------------- */

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
