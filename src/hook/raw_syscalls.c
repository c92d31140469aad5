/* System calls for libweft itself. They are part of the shared library only, under the names of the
 * C library's functions and not exported, so that every call of libweft by these names is the
 * system call and never a hooked one: libweft waits for descriptors as a driver, not as a fiber. A
 * test (test/hook/own) checks that the library imports no other name that libweft-hook.so
 * interposes.
 *
 * They are not cancellation points.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define NS_PER_MS 1000000
#define SIGSET_BYTES (_NSIG / 8)

/* --- read and write --------------------------------------------------------------------------- */

ssize_t read(int fd, void *buf, size_t n)
{
    return syscall(SYS_read, fd, buf, n);
}

ssize_t write(int fd, const void *buf, size_t n)
{
    return syscall(SYS_write, fd, buf, n);
}

ssize_t readv(int fd, const struct iovec *iov, int count)
{
    return syscall(SYS_readv, fd, iov, count);
}

ssize_t writev(int fd, const struct iovec *iov, int count)
{
    return syscall(SYS_writev, fd, iov, count);
}

ssize_t pread(int fd, void *buf, size_t n, off_t offset)
{
    return syscall(SYS_pread64, fd, buf, n, offset);
}

ssize_t pwrite(int fd, const void *buf, size_t n, off_t offset)
{
    return syscall(SYS_pwrite64, fd, buf, n, offset);
}

/* --- sockets ---------------------------------------------------------------------------------- */

int socket(int domain, int type, int protocol)
{
    return (int)syscall(SYS_socket, domain, type, protocol);
}

int socketpair(int domain, int type, int protocol, int ends[2])
{
    return (int)syscall(SYS_socketpair, domain, type, protocol, ends);
}

int connect(int fd, __CONST_SOCKADDR_ARG addr, socklen_t len)
{
    return (int)syscall(SYS_connect, fd, addr.__sockaddr__, len);
}

int accept4(int fd, __SOCKADDR_ARG addr, socklen_t *len, int flags)
{
    return (int)syscall(SYS_accept4, fd, addr.__sockaddr__, len, flags);
}

int accept(int fd, __SOCKADDR_ARG addr, socklen_t *len)
{
    return accept4(fd, addr, len, 0);
}

ssize_t recvfrom(int fd, void *buf, size_t n, int flags, __SOCKADDR_ARG addr, socklen_t *len)
{
    return syscall(SYS_recvfrom, fd, buf, n, flags, addr.__sockaddr__, len);
}

ssize_t recv(int fd, void *buf, size_t n, int flags)
{
    return syscall(SYS_recvfrom, fd, buf, n, flags, NULL, NULL);
}

ssize_t recvmsg(int fd, struct msghdr *msg, int flags)
{
    return syscall(SYS_recvmsg, fd, msg, flags);
}

int recvmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags, struct timespec *timeout)
{
    return (int)syscall(SYS_recvmmsg, fd, messages, count, flags, timeout);
}

ssize_t sendto(int fd, const void *buf, size_t n, int flags, __CONST_SOCKADDR_ARG addr,
               socklen_t len)
{
    return syscall(SYS_sendto, fd, buf, n, flags, addr.__sockaddr__, len);
}

ssize_t send(int fd, const void *buf, size_t n, int flags)
{
    return syscall(SYS_sendto, fd, buf, n, flags, NULL, 0);
}

ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
    return syscall(SYS_sendmsg, fd, msg, flags);
}

int sendmmsg(int fd, struct mmsghdr *messages, unsigned count, int flags)
{
    return (int)syscall(SYS_sendmmsg, fd, messages, count, flags);
}

/* --- descriptors ------------------------------------------------------------------------------ */

int close(int fd)
{
    return (int)syscall(SYS_close, fd);
}

int pipe2(int ends[2], int flags)
{
    return (int)syscall(SYS_pipe2, ends, flags);
}

int pipe(int ends[2])
{
    return pipe2(ends, 0);
}

int dup(int fd)
{
    return (int)syscall(SYS_dup, fd);
}

int dup3(int from, int to, int flags)
{
    return (int)syscall(SYS_dup3, from, to, flags);
}

int epoll_create1(int flags)
{
    return (int)syscall(SYS_epoll_create1, flags);
}

int fcntl(int fd, int command, ...)
{
    va_list args;
    va_start(args, command);
    long arg = va_arg(args, long);
    va_end(args);
    return (int)syscall(SYS_fcntl, fd, command, arg);
}

int ioctl(int fd, unsigned long request, ...)
{
    va_list args;
    va_start(args, request);
    void *arg = va_arg(args, void *);
    va_end(args);
    return (int)syscall(SYS_ioctl, fd, request, arg);
}

/* --- waiting ---------------------------------------------------------------------------------- */

/* The system call writes the remaining time; the C library's function does not. */
int ppoll(struct pollfd *fds, nfds_t count, const struct timespec *timeout, const sigset_t *mask)
{
    struct timespec left = timeout ? *timeout : (struct timespec){0};
    return (int)syscall(SYS_ppoll, fds, count, timeout ? &left : NULL, mask, SIGSET_BYTES);
}

int poll(struct pollfd *fds, nfds_t count, int ms)
{
    struct timespec timeout = {.tv_sec = ms / 1000, .tv_nsec = ms % 1000L * NS_PER_MS};
    return ppoll(fds, count, ms < 0 ? NULL : &timeout, NULL);
}

int epoll_pwait(int fd, struct epoll_event *events, int count, int ms, const sigset_t *mask)
{
    return (int)syscall(SYS_epoll_pwait, fd, events, count, ms, mask, SIGSET_BYTES);
}

int epoll_wait(int fd, struct epoll_event *events, int count, int ms)
{
    return epoll_pwait(fd, events, count, ms, NULL);
}

int epoll_pwait2(int fd, struct epoll_event *events, int count, const struct timespec *timeout,
                 const sigset_t *mask)
{
    return (int)syscall(SYS_epoll_pwait2, fd, events, count, timeout, mask, SIGSET_BYTES);
}

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *left)
{
    int before = errno;
    int err = syscall(SYS_clock_nanosleep, clock, flags, time, left) == 0 ? 0 : errno;
    errno = before;
    return err;
}

int nanosleep(const struct timespec *time, struct timespec *left)
{
    return (int)syscall(SYS_nanosleep, time, left);
}

pid_t wait4(pid_t pid, int *status, int options, struct rusage *usage)
{
    return (pid_t)syscall(SYS_wait4, pid, status, options, usage);
}

pid_t waitpid(pid_t pid, int *status, int options)
{
    return wait4(pid, status, options, NULL);
}

int waitid(idtype_t type, id_t id, siginfo_t *info, int options)
{
    return (int)syscall(SYS_waitid, type, id, info, options, NULL);
}
