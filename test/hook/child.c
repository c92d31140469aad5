/* waitpid and related calls. */
/* alike without hooks */
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "hook/hooked.h"

#ifndef P_PIDFD
#define P_PIDFD 3
#endif

/* A child that exits with `code` after a short time. */
static pid_t child(int code)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        struct timespec time = {.tv_nsec = 30000000};
        nanosleep(&time, NULL);
        _exit(code);
    }
    return pid;
}

/* A child that ends when it is killed, or by itself long after the test has failed. */
static pid_t lasting_child(void)
{
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0) {
        alarm(300);
        for (;;) {
            pause();
        }
    }
    return pid;
}

IN_FIBER(hooked_waitpid_waits_for_child)
{
    int status;
    struct rusage usage = {0};
    pid_t pid = child(3);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 3);
    CHECK_FAILS(waitpid(pid, &status, 0), ECHILD);
    pid = child(4);
    CHECK_EQ(wait4(pid, &status, 0, &usage), pid);
    CHECK_EQ(WEXITSTATUS(status), 4);
    pid = lasting_child();
    CHECK_EQ(waitpid(pid, &status, WNOHANG), 0);
    CHECK_EQ(kill(pid, SIGKILL), 0);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
    pid = child(6);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

IN_FIBER(hooked_wait_waits_for_any_child)
{
    int status;
    pid_t pid = child(7);
    CHECK_EQ(wait(&status), pid);
    CHECK_EQ(WEXITSTATUS(status), 7);
    pid = child(8);
    CHECK_EQ(waitpid(-1, &status, 0), pid);
    CHECK_EQ(WEXITSTATUS(status), 8);
    pid = child(9);
    CHECK_EQ(wait3(&status, 0, NULL), pid);
    CHECK_FAILS(wait(&status), ECHILD);
    CHECK_FAILS(waitpid(pid, &status, 0x40000), EINVAL);
}

IN_FIBER(hooked_waitpid_reports_stop_and_continue)
{
    int status;
    pid_t pid = lasting_child();
    CHECK_EQ(kill(pid, SIGSTOP), 0);
    CHECK_EQ(waitpid(pid, &status, WUNTRACED), pid);
    CHECK(WIFSTOPPED(status));
    CHECK_EQ(kill(pid, SIGCONT), 0);
    CHECK_EQ(waitpid(pid, &status, WCONTINUED), pid);
    CHECK(WIFCONTINUED(status));
    CHECK_EQ(kill(pid, SIGKILL), 0);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
}

IN_FIBER(hooked_waitid_waits)
{
    siginfo_t info = {0};
    pid_t pid = child(10);
    CHECK_EQ(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
    CHECK_EQ(info.si_pid, pid);
    CHECK_EQ(info.si_status, 10);
    CHECK_EQ(waitid(P_PID, (id_t)pid, &info, WEXITED), 0);
    pid = child(11);
    CHECK_EQ(waitid(P_ALL, 0, &info, WEXITED), 0);
    CHECK_EQ(info.si_status, 11);
    CHECK_FAILS(waitid(P_PID, (id_t)pid, &info, WEXITED), ECHILD);
    CHECK_FAILS(waitid(P_PID, (id_t)pid, &info, 0), EINVAL);
}

/* A descriptor that the user made non-blocking. */
IN_FIBER(hooked_waitid_on_nonblocking_pidfd_returns_eagain)
{
    siginfo_t info = {0};
    pid_t pid = lasting_child();
    int fd = (int)syscall(SYS_pidfd_open, pid, O_NONBLOCK);
    if (fd >= 0) { /* Linux 5.10 */
        CHECK_FAILS(waitid(P_PIDFD, (id_t)fd, &info, WEXITED), EAGAIN);
        CHECK_EQ(fcntl(fd, F_SETFL, 0), 0);
        CHECK_EQ(kill(pid, SIGKILL), 0);
        CHECK_EQ(waitid(P_PIDFD, (id_t)fd, &info, WEXITED), 0);
        CHECK_EQ(info.si_pid, pid);
        close(fd);
        return;
    }
    CHECK_EQ(kill(pid, SIGKILL), 0);
    CHECK_EQ(waitpid(pid, NULL, 0), pid);
}

/* After some scheduling rounds. */
static void *kills(void *arg)
{
    for (int i = 0; i < 10; i++) {
        weft_yield();
    }
    CHECK_EQ(kill(*(pid_t *)arg, SIGKILL), 0);
    return NULL;
}

IN_FIBER(other_fibers_run_during_hooked_waitpid)
{
    int status;
    weft_fiber fiber;
    if (!weft_hook_is_active()) {
        return;
    }
    pid_t pid = lasting_child();
    CHECK_EQ(weft_spawn(&fiber, kills, &pid, NULL), 0);
    CHECK_EQ(waitpid(pid, &status, 0), pid);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
}
