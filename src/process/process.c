/* A child process. References to it are held by the handle, by the watcher until the child is
 * reaped, and by every caller that waits.
 *
 * The watcher sees the pidfd become readable, takes the status, and wakes all waiters. Because no
 * other code waits for this child, it is a zombie until then and its process id cannot be reused;
 * afterwards the pidfd returns ESRCH.
 */
#include "process/process.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/nonnull.h"
#include "io/fd.h"
#include "sync/source.h"
#include "task/fork.h"
#include "watchdog/fdwatch.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

struct weft_process {
    struct weft__source source;
    struct weft__fdwatch watch;
    /* immutable */
    pid_t pid;
    uint32_t born; /* task/fork.h */
    /* under the lock */
    int pidfd; /* -1: reaped */
    bool done;
    int err; /* -ECHILD: the status is unknown */
    struct weft_process_status status;
    int pipe_ends[3]; /* the parent's side of pipes to the child, until they are taken; -1: none */
    /* any thread */
    _Atomic(uint32_t) refs;
};

static const struct weft__wait_kind process_kind = {.name = "process", .label = weft__source_label};

static void unref(weft_process *process)
{
    if (atomic_fetch_sub_explicit(&process->refs, 1, memory_order_acq_rel) ==
        1) { /* pairs: itself */
        weft__free(process);
    }
}

/* --- end of the child --------------------------------------------------------------------- */

/* Takes the status of a child that has ended. False: it still runs. */
static bool reap(int pidfd, struct weft_process_status *status, int *err)
{
    siginfo_t info = {0};
    while (waitid((idtype_t)P_PIDFD, (id_t)pidfd, &info, WEXITED | WNOHANG) != 0) {
        if (errno != EINTR) {
            *err = -ECHILD;
            return true;
        }
    }
    if (info.si_pid == 0) {
        return false;
    }
    if (info.si_code == CLD_EXITED) {
        status->code = info.si_status;
    } else {
        status->signal = info.si_status;
        status->dumped = info.si_code == CLD_DUMPED;
    }
    return true;
}

static bool on_readable(struct weft__fdwatch *watch)
{
    weft_process *process = (weft_process *)(void *)((char *)watch - offsetof(weft_process, watch));
    struct weft_process_status status = {0};
    struct weft__chain ready;
    int err = 0;
    if (!reap(watch->fd, &status, &err)) {
        return true;
    }
    weft__chain_init(&ready);
    weft__source_lock(&process->source);
    process->done = true;
    process->status = status;
    process->err = err;
    process->pidfd = -1;
    weft__source_fire_all(&process->source.waiters, err, &ready);
    weft__source_unlock(&process->source);
    weft__place_all(&ready, WEFT__FRONT);
    unref(process);
    return false;
}

/* --- start of the child ---------------------------------------------------------------------- */

struct plan {
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attr;
    int theirs[3]; /* the child's side of pipes, and copies of descriptors that its 0..2 would
                    * overwrite; -1: none */
};

/* Moves one of the parent's descriptors above 0, 1 and 2, which the child's would overwrite. */
static int move_above_stdio(int fd)
{
    if (fd < 0 || fd > 2) {
        return fd;
    }
    int copy = fcntl(fd, F_DUPFD_CLOEXEC, 3), err = errno;
    close(fd);
    errno = err;
    return copy;
}

/* The child's end is blocking, as programs expect; the parent's end is not. */
static int open_pipe(int which, int *theirs, int *ours)
{
    int pipe_ends[2];
    if (pipe2(pipe_ends, O_CLOEXEC) != 0) {
        return -errno;
    }
    *theirs = move_above_stdio(pipe_ends[which == 0 ? 0 : 1]);
    *ours = pipe_ends[which == 0 ? 1 : 0];
    return *theirs < 0 || fcntl(*ours, F_SETFL, O_NONBLOCK) != 0 ? -errno : 0;
}

/* Sets up the child's 0, 1 and 2. They are set one after the other: a source descriptor that is
 * itself 0, 1 or 2 is copied first, because it could be overwritten before its turn. */
static int plan_stdio(struct plan *plan, const struct weft_process_opts *opts, int ours[3])
{
    const int wanted[3] = {opts->in, opts->out, opts->err};
    for (int i = 0; i < 3; i++) {
        int fd = wanted[i], err = 0;
        if (fd == WEFT_STDIO_PIPE) {
            err = -open_pipe(i, &plan->theirs[i], &ours[i]);
            err = err ? err : posix_spawn_file_actions_adddup2(&plan->actions, plan->theirs[i], i);
        } else if (fd == WEFT_STDIO_OUT && i == 2) {
            err = posix_spawn_file_actions_adddup2(&plan->actions, 1, 2);
        } else if (fd == WEFT_STDIO_NULL) {
            err = posix_spawn_file_actions_addopen(&plan->actions, i, "/dev/null",
                                                   i ? O_WRONLY : O_RDONLY, 0);
        } else if (fd < 0) {
            return -EBADF;
        } else if (fd != 0 && fd != i) {
            if (fd <= 2) {
                fd = plan->theirs[i] = fcntl(fd, F_DUPFD_CLOEXEC, 3);
            }
            if (fd < 0 || fcntl(fd, F_GETFD) < 0) {
                return -errno;
            }
            err = posix_spawn_file_actions_adddup2(&plan->actions, fd, i);
        }
        if (err) {
            return -err;
        }
    }
    return 0;
}

static int plan_attr(struct plan *plan, const struct weft_process_opts *opts)
{
    short flags = 0;
    sigset_t none, all;
    sigemptyset(&none);
    sigfillset(&all);
    if (!opts->keep_signals) {
        flags |= POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF;
        posix_spawnattr_setsigmask(&plan->attr, &none);
        posix_spawnattr_setsigdefault(&plan->attr, &all);
    }
    if (opts->new_group) {
        flags |= POSIX_SPAWN_SETPGROUP;
        posix_spawnattr_setpgroup(&plan->attr, 0);
    }
    if (opts->new_session) {
        flags |= POSIX_SPAWN_SETSID;
    }
    return -posix_spawnattr_setflags(&plan->attr, flags);
}

static int plan_init(struct plan *plan, const struct weft_process_opts *opts, int ours[3])
{
    plan->theirs[0] = plan->theirs[1] = plan->theirs[2] = -1;
    posix_spawn_file_actions_init(&plan->actions);
    posix_spawnattr_init(&plan->attr);
    int err = plan_stdio(plan, opts, ours);
    if (!err && opts->cwd) {
        err = -posix_spawn_file_actions_addchdir_np(&plan->actions, opts->cwd);
    }
    return err ? err : plan_attr(plan, opts);
}

static void close_all(const int fds[3])
{
    for (int i = 0; i < 3; i++) {
        if (fds[i] >= 0) {
            close(fds[i]);
        }
    }
}

static void plan_deinit(struct plan *plan)
{
    close_all(plan->theirs);
    posix_spawnattr_destroy(&plan->attr);
    posix_spawn_file_actions_destroy(&plan->actions);
}

/* exec's arguments are not const for historical reasons; exec does not write to them. */
static char *const *mutable(const char *const *strings)
{
    return (char *const *)(uintptr_t)strings;
}

static int start(weft_process *process, const char *const *argv,
                 const struct weft_process_opts *opts)
{
    struct plan plan;
    char *const *args = mutable(argv);
    char *const *env = opts->env ? mutable(opts->env) : environ;
    int err = plan_init(&plan, opts, process->pipe_ends);
    if (!err && opts->path) {
        err = -posix_spawn(&process->pid, opts->path, &plan.actions, &plan.attr, args, env);
    } else if (!err) {
        err = -posix_spawnp(&process->pid, args[0], &plan.actions, &plan.attr, args, env);
    }
    plan_deinit(&plan);
    return err;
}

/* The child cannot be watched: kills and reaps it. */
static void kill_and_reap(pid_t pid)
{
    kill(pid, SIGKILL);
    while (waitpid(pid, NULL, 0) < 0 && errno == EINTR) {
    }
}

/* Opens a pidfd for the child. Until the child is waited for, its process id stays its own, even if
 * it is already dead; -ESRCH: other code has waited for it, and the id may belong to another
 * process. */
static int open_pidfd(pid_t pid)
{
    siginfo_t info;
    int fd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (fd < 0) {
        return -errno;
    }
    if (waitid((idtype_t)P_PIDFD, (id_t)fd, &info, WEXITED | WNOHANG | WNOWAIT) != 0) {
        close(fd);
        return -ESRCH;
    }
    return fd;
}

int weft_process_spawn(weft_process **out, const char *const *argv,
                       const struct weft_process_opts *opts)
{
    static const struct weft_process_opts none;
    opts = opts ? opts : &none;
    if (!argv || !argv[0]) {
        return -EINVAL;
    }
    weft_process *process = weft__alloc(sizeof *process);
    if (!process) {
        return -ENOMEM;
    }
    weft__source_init(&process->source, &(struct weft_sync_opts){.name = opts->name});
    process->born = weft__fork_generation();
    atomic_init(&process->refs, 2); /* the handle and the watcher */
    process->pipe_ends[0] = process->pipe_ends[1] = process->pipe_ends[2] = -1;
    int err = start(process, argv, opts);
    if (err) {
        goto free_process;
    }
    int fd = open_pidfd(process->pid);
    process->pidfd = fd;
    if (fd == -ESRCH) {
        process->done = true;
        process->err = -ECHILD;
        unref(process);
    } else {
        err = fd < 0 ? fd : weft__fdwatch_add(&process->watch, fd, on_readable);
        if (err) {
            goto abandon_child;
        }
    }
    *out = process;
    return 0;

abandon_child:
    kill_and_reap(process->pid);
    if (fd >= 0) {
        close(fd);
    }
free_process:
    close_all(process->pipe_ends);
    weft__free(process);
    return err;
}

/* --- public calls ----------------------------------------------------------------------------- */

int weft_process_wait(weft_process *process, struct weft_process_status *out, int64_t deadline)
{
    WEFT__NONNULL(process);
    weft__fork_check(process->born, "process", process->source.name ? process->source.name : "");
    int err;
    atomic_fetch_add_explicit(&process->refs, 1, memory_order_relaxed);
    weft__source_lock(&process->source);
    if (process->done) {
        err = process->err;
        weft__source_unlock(&process->source);
    } else {
        struct weft__node node;
        weft__node_init(&node, NULL, 0);
        err = weft__source_wait_locked(&process->source, &process->source.waiters, &node, deadline,
                                       &process_kind);
    }
    if (!err && out) {
        *out = process->status; /* written once, before the fire */
    }
    unref(process);
    return err;
}

bool weft__process_arm(weft_process *process, struct weft__node *node)
{
    weft__source_lock(&process->source);
    bool wait = !process->done;
    if (wait) {
        atomic_fetch_add_explicit(&process->refs, 1, memory_order_relaxed);
        weft__waitlist_push(&process->source.waiters, node);
    }
    weft__source_unlock(&process->source);
    return wait;
}

void weft__process_finish(weft_process *process, struct weft__node *node)
{
    weft__source_leave(&process->source, &process->source.waiters, node);
    unref(process);
}

int weft_process_kill(weft_process *process, int signal)
{
    WEFT__NONNULL(process);
    weft__fork_check(process->born, "process", process->source.name ? process->source.name : "");
    int err = -ESRCH;
    weft__source_lock(&process->source);
    if (process->pidfd >= 0) {
        err = syscall(SYS_pidfd_send_signal, process->pidfd, signal, NULL, 0) == 0 ? 0 : -errno;
    }
    weft__source_unlock(&process->source);
    return err;
}

/* Until it is taken, the descriptor is unused and need not be registered with Weft. */
int weft_process_pipe(weft_process *process, int which)
{
    WEFT__NONNULL(process);
    weft__fork_check(process->born, "process", process->source.name ? process->source.name : "");
    if (which < 0 || which > 2) {
        return -EBADF;
    }
    weft__source_lock(&process->source);
    int fd = process->pipe_ends[which];
    process->pipe_ends[which] = -1;
    weft__source_unlock(&process->source);
    if (fd < 0) {
        return -EBADF;
    }
    int err = weft__fd_open(fd, WEFT__FD_STREAM | WEFT__FD_NONBLOCK);
    if (err) {
        close(fd);
    }
    return err ? err : fd;
}

int weft_process_pid(const weft_process *process)
{
    WEFT__NONNULL(process);
    return process->pid;
}

void weft_process_close(weft_process *process)
{
    if (!process || process->born != weft__fork_generation()) {
        return; /* in a child of fork: freeing the handle is not worth the risk of an allocator lock
                 * that another thread held */
    }
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__source_lock(&process->source);
    weft__source_fire_all(&process->source.waiters, -EPIPE, &ready);
    close_all(process->pipe_ends);
    weft__source_unlock(&process->source);
    weft__place_all(&ready, WEFT__FRONT);
    unref(process);
}
