/* For tests of I/O: each EACH_DRIVER(name) is a test that runs once on every driver that is
 * available on this machine.
 *
 *     EACH_DRIVER(echo)      // `driver` is the driver's number
 *     {
 *         const struct weft_pool_opts opts = {.workers = 1, .driver = driver};
 *         CHECK_EQ(weft_run(NULL, server, NULL, &opts, WEFT_FOREVER), 0);
 *     } */
#ifndef WEFT_TEST_IO_DRIVERS_H
#define WEFT_TEST_IO_DRIVERS_H

#include <errno.h>

#include <weft/weft.h>

#include "check.h"

static const char *const drivers_names[] = {"auto", "epoll", "uring", "poll"};

/* Memcheck does not see what the kernel writes for a ring, and treats it as undefined. */
__attribute__((unused)) static bool drivers_under_valgrind(void)
{
    const char *preload = getenv("LD_PRELOAD");
    return preload && strstr(preload, "vgpreload");
}

/* Returns false, and prints a line, if the driver is not available. */
__attribute__((unused)) static bool drivers_have(enum weft_driver driver)
{
    weft_pool *pool;
    if (driver == WEFT_DRIVER_URING && drivers_under_valgrind()) {
        return false;
    }
    int err = weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1, .driver = driver});
    if (err == -EOPNOTSUPP) {
        printf("  %s cannot be had here\n", drivers_names[driver]);
        return false;
    }
    CHECK_EQ(err, 0);
    weft_pool_destroy(pool);
    return true;
}

#define EACH_DRIVER(name)                                                                          \
    static void drivers_run_##name(enum weft_driver driver);                                       \
    TEST(name)                                                                                     \
    {                                                                                              \
        for (int i = WEFT_DRIVER_EPOLL; i <= WEFT_DRIVER_POLL; i++) {                              \
            if (drivers_have((enum weft_driver)i)) {                                               \
                printf("  on %s\n", drivers_names[i]);                                             \
                fflush(stdout);                                                                    \
                drivers_run_##name((enum weft_driver)i);                                           \
            }                                                                                      \
        }                                                                                          \
    }                                                                                              \
    static void drivers_run_##name(__attribute__((unused)) enum weft_driver driver)

#endif
