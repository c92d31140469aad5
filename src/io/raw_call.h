/* Direct system calls for the message path. The C library's wrappers are thread cancellation
 * points, which costs a third of the user-mode time of a read, and they may be interposed.
 * Sanitizer builds use the library's wrappers, which the sanitizers intercept. */
#ifndef WEFT_IO_RAW_CALL_H
#define WEFT_IO_RAW_CALL_H

#include <errno.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <unistd.h>

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
#define WEFT__LIBC_CALLS 1
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer) || __has_feature(address_sanitizer)
#define WEFT__LIBC_CALLS 1
#endif
#endif
#ifndef WEFT__LIBC_CALLS
#define WEFT__LIBC_CALLS 0
#endif

/* -errno of the preceding system call. Not inlined: the caller may have moved to another thread
 * since it last read errno, and the compiler would reuse the cached address. */
int weft__raw_errno(void) __attribute__((noinline));

/* recv and send on a socket, without waiting and without SIGPIPE. Return the result or -errno;
 * EINTR never occurs. Inlined into their callers, which saves a stack frame per message. */
static inline ssize_t weft__raw_recv(int fd, void *buf, size_t n)
{
    ssize_t got;
    do {
        got = WEFT__LIBC_CALLS ? recv(fd, buf, n, MSG_DONTWAIT)
                               : syscall(SYS_recvfrom, fd, buf, n, MSG_DONTWAIT, NULL, NULL);
        got = __builtin_expect(got < 0, 0) ? weft__raw_errno() : got;
    } while (__builtin_expect(got == -EINTR, 0));
    return got;
}

static inline ssize_t weft__raw_send(int fd, const void *buf, size_t n)
{
    const int flags = MSG_DONTWAIT | MSG_NOSIGNAL;
    ssize_t put;
    do {
        put = WEFT__LIBC_CALLS ? send(fd, buf, n, flags)
                               : syscall(SYS_sendto, fd, buf, n, flags, NULL, 0);
        put = __builtin_expect(put < 0, 0) ? weft__raw_errno() : put;
    } while (__builtin_expect(put == -EINTR, 0));
    return put;
}

#endif
