/* Waiting for child processes. For one child with its pidfd; for any child, or for stopped and
 * continued children, on a thread of the blocking pool: a process is a child of all threads of its
 * parent. */
#include <errno.h>
#include <sys/syscall.h>

#include <weft/io.h>

#include "hook/fd_state.h"
#include "hook/real_calls.h"
#include "hook/wait.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

/* Wait until the process has ended. Returns 0; 1 if it cannot be waited for in this way; -1 with
 * errno. */
static int wait_pidfd(int pidfd, int64_t deadline)
{
    int err = weft__hook_wait(pidfd, POLLIN, deadline);
    if (err == -ECANCELED || err == -EINTR) {
        return weft__hook_fail(err);
    }
    return err ? 1 : 0;
}

static int wait_ended(pid_t pid)
{
    int pidfd = (int)syscall(SYS_pidfd_open, pid, 0);
    if (pidfd < 0) {
        return 1;
    }
    int result = wait_pidfd(pidfd, WEFT_FOREVER);
    int before = errno;
    weft__hook_fd_forget(pidfd);
    weft__real()->close(pidfd);
    errno = before;
    return result;
}

/* --- wait4 ------------------------------------------------------------------------------------ */

struct job {
    pid_t pid, result;
    int *status, options;
    struct rusage *usage;
};

static void wait_plain(void *arg)
{
    struct job *job = arg;
    job->result = weft__real()->wait4(job->pid, job->status, job->options, job->usage);
}

static pid_t wait_on_blocking_pool(struct job *job)
{
    bool use_real;
    if (!weft__hook_run_blocking(wait_plain, job, &use_real)) {
        if (!use_real) {
            return -1;
        }
        wait_plain(job);
    }
    return job->result;
}

WEFT__HOOK pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
    if (!weft__hook_begin() || (options & WNOHANG)) {
        return weft__real()->wait4(pid, status, options, usage);
    }
    struct job job = {.pid = pid, .status = status, .options = options, .usage = usage};
    int how = 0;
    while (how == 0) {
        pid_t done = weft__real()->wait4(pid, status, options | WNOHANG, usage);
        if (done != 0) {
            return done;
        }
        how = pid > 0 && !(options & (WUNTRACED | WCONTINUED)) ? wait_ended(pid) : 1;
    }
    return how < 0 ? -1 : wait_on_blocking_pool(&job);
}

WEFT__HOOK pid_t waitpid(pid_t pid, int *status, int options)
{
    return wait4(pid, status, options, NULL);
}

WEFT__HOOK pid_t wait(int *status)
{
    return wait4(-1, status, 0, NULL);
}

WEFT__HOOK pid_t wait3(int *status, int options, struct rusage *usage)
{
    return wait4(-1, status, options, usage);
}

/* --- waitid ----------------------------------------------------------------------------------- */

struct id_job {
    idtype_t type;
    id_t id;
    siginfo_t *info;
    int options, result;
};

static void waitid_plain(void *arg)
{
    struct id_job *job = arg;
    job->result = weft__real()->waitid(job->type, job->id, job->info, job->options);
}

static int wait_id_ended(idtype_t type, id_t id, int options)
{
    if (options & (WSTOPPED | WCONTINUED)) {
        return 1;
    }
    return type == P_PID               ? wait_ended((pid_t)id)
           : type == (idtype_t)P_PIDFD ? wait_pidfd((int)id, WEFT_FOREVER)
                                       : 1;
}

WEFT__HOOK int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
    if (!weft__hook_begin() || (options & WNOHANG) ||
        (type == (idtype_t)P_PIDFD && weft__hook_fd_is_nonblocking((int)id))) {
        return weft__real()->waitid(type, id, info, options);
    }
    struct id_job job = {.type = type, .id = id, .info = info, .options = options};
    int how = 0;
    while (how == 0) {
        siginfo_t found = {0};
        int err = weft__real()->waitid(type, id, &found, options | WNOHANG);
        if (err != 0 || found.si_pid != 0) {
            if (err == 0 && info) {
                *info = found;
            }
            return err;
        }
        how = wait_id_ended(type, id, options);
    }
    bool use_real;
    if (how < 0) {
        return -1;
    }
    if (!weft__hook_run_blocking(waitid_plain, &job, &use_real)) {
        if (!use_real) {
            return -1;
        }
        waitid_plain(&job);
    }
    return job.result;
}
