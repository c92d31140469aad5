/* Child processes as waits.
 *
 * A child is known by a descriptor of its own (a pidfd), so that no wait and no kill ever meets
 * another process that got the same number. The runtime reaps a child as soon as it has ended,
 * whether anybody waits or the handle was closed: no zombies are left. It installs no handler for
 * SIGCHLD and waits for no children but its own; the program's other children are the program's. A
 * program that waits for *any* child (waitpid(-1)), or ignores SIGCHLD, takes the status from the
 * runtime: then a wait answers -ECHILD.
 */
#ifndef WEFT_PROCESS_H
#define WEFT_PROCESS_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

typedef struct weft_process weft_process;

/* For in, out and err, instead of a descriptor: */
#define WEFT_STDIO_NULL (-1) /* /dev/null */
#define WEFT_STDIO_PIPE (-2) /* a pipe; its other end is had by weft_process_take */
#define WEFT_STDIO_OUT (-3)  /* err only: the same as out */

struct weft_process_opts {
    const char *name;       /* for dumps; borrowed until close; default: none */
    const char *path;       /* the program; default: argv[0], looked for in PATH if it has no '/' */
    const char *const *env; /* its environment; default: the caller's */
    const char *cwd;        /* its working directory; default: the caller's */
    int in, out, err;  /* what becomes its 0, 1 and 2; borrowed; default (0): the caller's own */
    bool new_group;    /* it leads a process group of its own */
    bool new_session;  /* it leads a session of its own */
    bool keep_signals; /* it inherits the calling thread's signal mask and which signals are
                          ignored; default: nothing is blocked, nothing is ignored */
};

/* Starts a child. argv and env are borrowed and end with NULL. Descriptors that are not
 * close-on-exec are inherited besides 0, 1 and 2. The calling thread blocks until the child runs
 * its program (as vfork does), usually below a millisecond. What keeps the program from running
 * comes back here: -ENOENT, -EACCES, -ENOEXEC, -E2BIG, -ENOTDIR (also for cwd)...; -EBADF for a
 * descriptor. -EAGAIN: no process, or no thread to watch it. -EMFILE, -ENOMEM. */
WEFT_API int weft_process_spawn(weft_process **out, const char *const *argv,
                                const struct weft_process_opts *opts);

/* The other end of the pipe to the child's 0, from its 1 or from its 2, as the caller's own: for
 * weft_write or weft_read (weft/io.h), to be closed by weft_close, which is how the child learns
 * that there is no more. A write is -EPIPE if the child does not read any more; a read is 0 when
 * all who had the other end have closed it, that is also the child's own children. What was not
 * taken is closed by weft_process_close. -EBADF: there is no such pipe, or it was taken.
 * -ENOMEM. */
WEFT_API int weft_process_take(weft_process *process, int which);

/* How it ended: by exit, or by a signal. */
struct weft_process_status {
    int code;    /* with signal == 0: the exit code */
    int signal;  /* the signal that ended it, or 0 */
    bool dumped; /* ... and left a core file */
};

/* Waits for the child's end, *cancellable*. Any number of fibers and threads may, at any time
 * before close; all get the same status. 0, -ETIMEDOUT, -ECANCELED, -EINTR; -EPIPE: the handle was
 * closed meanwhile; -ECHILD: somebody else took the status. */
WEFT_API int weft_process_wait(weft_process *process, struct weft_process_status *out,
                               int64_t deadline);

/* Sends a signal. -ESRCH: it has ended. -EINVAL: no such signal. -EPERM: it has become somebody
 * else's. */
WEFT_API int weft_process_kill(weft_process *process, int signal);

/* Its number, for messages: it may mean another process once the child has ended. */
WEFT_API int weft_process_pid(const weft_process *process);

/* Gives the handle up; the child goes on, and is reaped when it ends. Who waits gets -EPIPE. NULL
 * is fine. In a child of fork() this is the one call that is allowed. */
WEFT_API void weft_process_close(weft_process *process);

WEFT_END_DECLS
#endif
