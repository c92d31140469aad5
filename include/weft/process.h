/* Child processes.
 *
 * A child is identified by its own descriptor (a pidfd), so no wait and no kill can reach another
 * process that got the same process id. The runtime reaps a child as soon as it has ended, whether
 * or not a fiber waits and even if the handle was closed: no zombies remain. The runtime installs
 * no SIGCHLD handler and waits only for its own children; other children belong to the program. A
 * program that waits for *any* child (waitpid(-1)), or ignores SIGCHLD, takes the status away from
 * the runtime: then a wait returns -ECHILD.
 */
#ifndef WEFT_PROCESS_H
#define WEFT_PROCESS_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

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

WEFT_END_DECLS
#endif
