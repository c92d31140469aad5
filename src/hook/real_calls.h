/* The real functions: the functions that this library interposes, as they are without it, and the
 * check at the beginning of a hooked call.
 *
 * They are resolved when the library is loaded, or by the first call if that comes sooner (from
 * another library's constructor). Resolving existing names allocates nothing, so an allocator may
 * be among the callers.
 */
#ifndef WEFT_HOOK_REAL_CALLS_H
#define WEFT_HOOK_REAL_CALLS_H

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/epoll.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/select.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <weft/hook.h>

#include "fiber/hook_binding.h"

#include "base/atomic.h"

#define WEFT__HOOK __attribute__((visibility("default")))

#define WEFT__REAL_CALLS(X)                                                                        \
    X(read)                                                                                        \
    X(readv)                                                                                       \
    X(pread)                                                                                       \
    X(write)                                                                                       \
    X(writev)                                                                                      \
    X(pwrite)                                                                                      \
    X(socket)                                                                                      \
    X(socketpair)                                                                                  \
    X(connect)                                                                                     \
    X(accept4)                                                                                     \
    X(recvfrom)                                                                                    \
    X(recvmsg)                                                                                     \
    X(recvmmsg)                                                                                    \
    X(sendto)                                                                                      \
    X(sendmsg)                                                                                     \
    X(sendmmsg)                                                                                    \
    X(pipe2)                                                                                       \
    X(close)                                                                                       \
    X(dup)                                                                                         \
    X(dup2)                                                                                        \
    X(dup3)                                                                                        \
    X(fcntl)                                                                                       \
    X(ioctl)                                                                                       \
    X(epoll_create1)                                                                               \
    X(poll)                                                                                        \
    X(ppoll)                                                                                       \
    X(select)                                                                                      \
    X(pselect)                                                                                     \
    X(epoll_wait)                                                                                  \
    X(epoll_pwait)                                                                                 \
    X(epoll_pwait2)                                                                                \
    X(sleep)                                                                                       \
    X(usleep)                                                                                      \
    X(nanosleep)                                                                                   \
    X(clock_nanosleep)                                                                             \
    X(getaddrinfo)                                                                                 \
    X(getnameinfo)                                                                                 \
    X(gethostbyname)                                                                               \
    X(gethostbyname_r)                                                                             \
    X(gethostbyname2)                                                                              \
    X(gethostbyname2_r)                                                                            \
    X(wait4)                                                                                       \
    X(waitid)                                                                                      \
    X(pthread_mutex_lock)                                                                          \
    X(pthread_mutex_trylock)                                                                       \
    X(pthread_mutex_timedlock)                                                                     \
    X(pthread_mutex_clocklock)                                                                     \
    X(pthread_mutex_unlock)                                                                        \
    X(pthread_cond_wait)                                                                           \
    X(pthread_cond_timedwait)                                                                      \
    X(pthread_cond_clockwait)                                                                      \
    X(pthread_cond_signal)                                                                         \
    X(pthread_cond_broadcast)

/* NOLINTNEXTLINE(bugprone-macro-parentheses): it declares */
#define WEFT__REAL_FIELD(name) __typeof__(&(name)) name;
struct weft__real {
    WEFT__REAL_CALLS(WEFT__REAL_FIELD)
};

extern struct weft__real weft__real_table;
extern _Atomic(bool) weft__real_is_resolved;
extern _Atomic(bool) weft__hook_attached; /* there is one libweft, and it is the shared one */
void weft__real_resolve(void);

static inline const struct weft__real *weft__real(void)
{
    if (__builtin_expect(!atomic_load_explicit(&weft__real_is_resolved, memory_order_acquire), 0)) {
        weft__real_resolve();
    }
    return &weft__real_table;
}

/* True: a fiber makes this call, with hooks enabled; it is bound to its worker now, so the address
 * of errno does not change. */
static inline bool weft__hook_begin(void)
{
    return atomic_load_explicit(&weft__hook_attached, memory_order_relaxed) && weft__hook_enter();
}

/* Fail a call: set errno from a negative errno and return -1. -EBADFD (the descriptor was closed
 * meanwhile) becomes EBADF. */
int weft__hook_fail(int err);

/* False in the child of a vfork, which shares this memory but is another process: it must not
 * change state or wait. */
bool weft__hook_is_own_process(void);

#endif
