/* For tests of hooked calls: IN_FIBER(name) is a test whose body runs in a fiber of a pool with one
 * worker, on every driver. The same program is also linked without the hooks and must behave the
 * same; the peer of a waiting call is therefore a thread. Without the hooks the driver is not
 * involved, and a ring must not be used: when a ring is torn down, it later interrupts the calls
 * that its thread waits for in the kernel. A write to a pipe then is short, and a wait with a
 * timeout returns EINTR. Plain calls of a program with hooks may see the same interruptions:
 * HOOKED_AGAIN. */
#ifndef WEFT_TEST_HOOK_HOOKED_H
#define WEFT_TEST_HOOK_HOOKED_H

#include <errno.h>
#include <pthread.h>
#include <unistd.h>

#include <weft/weft.h>

#include "check.h"
#include "context/sanitizer.h"
#include "io/drivers.h"

/* ThreadSanitizer intercepts these calls before the hooks, and ignores everything that happens
 * inside them, including the locks of a fiber that switches there. So they are called past
 * ThreadSanitizer. */
#if WEFT__TSAN
#include <dlfcn.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/select.h>

__attribute__((unused)) static void *hooked_find(const char *name)
{
    void *hooks = dlopen("libweft-hook.so.0", RTLD_NOLOAD | RTLD_LAZY);
    void *found = dlsym(hooks ? hooks : dlopen("libc.so.6", RTLD_NOLOAD | RTLD_LAZY), name);
    CHECK(found != NULL);
    return found;
}
#define HOOKED_CALL(name) ((__typeof__(&name))(uintptr_t)hooked_find(#name))
#define sleep(...) HOOKED_CALL(sleep)(__VA_ARGS__)
#define usleep(...) HOOKED_CALL(usleep)(__VA_ARGS__)
#define nanosleep(...) HOOKED_CALL(nanosleep)(__VA_ARGS__)
#define clock_nanosleep(...) HOOKED_CALL(clock_nanosleep)(__VA_ARGS__)
#define poll(...) HOOKED_CALL(poll)(__VA_ARGS__)
#define ppoll(...) HOOKED_CALL(ppoll)(__VA_ARGS__)
#define select(...) HOOKED_CALL(select)(__VA_ARGS__)
#define pselect(...) HOOKED_CALL(pselect)(__VA_ARGS__)
#define epoll_wait(...) HOOKED_CALL(epoll_wait)(__VA_ARGS__)
#define epoll_pwait(...) HOOKED_CALL(epoll_pwait)(__VA_ARGS__)
#define wait(...) HOOKED_CALL(wait)(__VA_ARGS__)
#define wait3(...) HOOKED_CALL(wait3)(__VA_ARGS__)
#define wait4(...) HOOKED_CALL(wait4)(__VA_ARGS__)
#define waitpid(...) HOOKED_CALL(waitpid)(__VA_ARGS__)
#define waitid(...) HOOKED_CALL(waitid)(__VA_ARGS__)
#endif

#define IN_FIBER(name)                                                                             \
    static void hooked_body_##name(void);                                                          \
    static void *hooked_run_##name(void *arg)                                                      \
    {                                                                                              \
        hooked_body_##name();                                                                      \
        return arg;                                                                                \
    }                                                                                              \
    TEST(name)                                                                                     \
    {                                                                                              \
        hooked_run_on_drivers(hooked_run_##name);                                                  \
    }                                                                                              \
    static void hooked_body_##name(void)

__attribute__((unused)) static void hooked_run(weft_fn fn, enum weft_driver driver)
{
    const struct weft_pool_opts opts = {
        .workers = 1, .driver = driver, .stack_bytes = 256 * 1024, .hog_ns = -1};
    CHECK_EQ(weft_run(NULL, fn, NULL, &opts, WEFT_FOREVER), 0);
}

__attribute__((unused)) static void hooked_run_on_drivers(weft_fn fn)
{
    for (int i = WEFT_DRIVER_EPOLL; i <= WEFT_DRIVER_POLL; i++) {
        if (weft_hook_is_loaded() ? drivers_have((enum weft_driver)i) : i != WEFT_DRIVER_URING) {
            printf("  on %s\n", drivers_names[i]);
            fflush(stdout);
            hooked_run(fn, (enum weft_driver)i);
        }
    }
}

/* The result of the call when nothing interrupts it. */
#define HOOKED_AGAIN(call)                                                                         \
    ({                                                                                             \
        __typeof__(call) hooked_result_;                                                           \
        do {                                                                                       \
            hooked_result_ = (call);                                                               \
        } while (hooked_result_ < 0 && errno == EINTR);                                            \
        hooked_result_;                                                                            \
    })

/* A call fails with this errno. */
#define CHECK_FAILS(call, err)                                                                     \
    do {                                                                                           \
        errno = 0;                                                                                 \
        CHECK_EQ(call, -1);                                                                        \
        CHECK_EQ(errno, err);                                                                      \
    } while (0)

/* Starts a plain thread that runs fn(arg) after a short time, when the caller is likely to wait
 * already; and joins it. */
struct hooked_peer {
    pthread_t thread;
    void (*fn)(void *arg);
    void *arg;
    unsigned after_ms;
};

__attribute__((unused)) static void *hooked_peer_main(void *arg)
{
    struct hooked_peer *peer = arg;
    struct timespec time = {.tv_nsec = peer->after_ms * 1000000L};
    nanosleep(&time, NULL);
    peer->fn(peer->arg);
    return NULL;
}

__attribute__((unused)) static void hooked_peer_start(struct hooked_peer *peer, void (*fn)(void *),
                                                      void *arg)
{
    *peer = (struct hooked_peer){.fn = fn, .arg = arg, .after_ms = 20};
    CHECK_EQ(pthread_create(&peer->thread, NULL, hooked_peer_main, peer), 0);
}

__attribute__((unused)) static void hooked_peer_join(struct hooked_peer *peer)
{
    CHECK_EQ(pthread_join(peer->thread, NULL), 0);
}

__attribute__((unused)) static double hooked_since(int64_t start)
{
    return (double)(weft_now() - start) / 1e9;
}

#endif
