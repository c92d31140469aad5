#include "io/driver.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"

_Atomic(int64_t) weft__driver_threadless_waits;

/* --- choosing a driver ------------------------------------------------------------------ */

static int choose_uring(const struct weft__driver_kind **out, const char **why)
{
#if WEFT_URING
    *why = weft__uring_probe();
    if (!*why) {
        *out = &weft__driver_uring;
        return 0;
    }
#else
    (void)out;
    *why = "built without io_uring";
#endif
    return -EOPNOTSUPP;
}

/* The driver named by WEFT_DRIVER, which the environment may set in place of `auto`.
 * WEFT_DRIVER_AUTO: the variable is unset or says "auto"; -EINVAL: it names no driver. */
static int from_environment(void)
{
    static const char *const names[] = {"auto", "epoll", "uring", "poll"};
    const char *text = secure_getenv("WEFT_DRIVER");
    if (!text || !*text) {
        return WEFT_DRIVER_AUTO;
    }
    for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
        if (strcmp(text, names[i]) == 0) {
            return (int)i;
        }
    }
    return -EINVAL;
}

int weft__driver_check(enum weft_driver wanted)
{
    const struct weft__driver_kind *kind;
    const char *why;
    int set = wanted == WEFT_DRIVER_AUTO ? from_environment() : WEFT_DRIVER_AUTO;
    if (set < 0) {
        fprintf(stderr,
                "weft: WEFT_DRIVER=%s names no driver: set it to auto, epoll, uring or poll, or "
                "unset it\n",
                secure_getenv("WEFT_DRIVER"));
        return weft__refuse(set, "WEFT_DRIVER: must be auto, epoll, uring or poll");
    }
    int err = wanted == WEFT_DRIVER_AUTO ? 0 : weft__driver_choose(wanted, &kind, &why);
    return err == -EINVAL ? weft__refuse(err, "driver: must be one of enum weft_driver")
           : err          ? weft__refuse(err, why)
                          : 0;
}

int weft__driver_choose(enum weft_driver wanted, const struct weft__driver_kind **out,
                        const char **why)
{
    int set = wanted == WEFT_DRIVER_AUTO ? from_environment() : WEFT_DRIVER_AUTO;
    const char *by = "as requested";
    if (set < 0) {
        *why = "WEFT_DRIVER names no driver";
        return set;
    }
    if (set != WEFT_DRIVER_AUTO) {
        wanted = (enum weft_driver)set;
        by = "by WEFT_DRIVER";
    }
    switch (wanted) {
    case WEFT_DRIVER_EPOLL:
        *out = &weft__driver_epoll;
        *why = by;
        return 0;
    case WEFT_DRIVER_POLL:
        *out = &weft__driver_poll;
        *why = by;
        return 0;
    case WEFT_DRIVER_URING: {
        int err = choose_uring(out, why);
        *why = err ? *why : by;
        return err;
    }
    case WEFT_DRIVER_AUTO:
        if (choose_uring(out, why) == 0) {
            *why = "io_uring is available";
        } else {
            *out = &weft__driver_epoll;
        }
        return 0;
    }
    return -EINVAL;
}

const char *weft_driver_unavailable(enum weft_driver driver)
{
    const struct weft__driver_kind *kind;
    const char *why = "there is no such driver";
    return weft__driver_choose(driver, &kind, &why) == 0 ? NULL : why;
}

bool weft__driver_fall_back(enum weft_driver wanted, int err, const struct weft__driver_kind **kind,
                            const char **why)
{
    bool forbidden = err == -EPERM || err == -EACCES || err == -ENOSYS;
    if (!forbidden || !(*kind)->completes || wanted != WEFT_DRIVER_AUTO ||
        from_environment() != WEFT_DRIVER_AUTO) {
        return false;
    }
    *kind = &weft__driver_epoll;
    *why = "io_uring was forbidden after it was probed";
    return true;
}

/* --- open and close ------------------------------------------------------------------------ */

int weft__driver_open(struct weft__driver **out, const struct weft__driver_kind *kind,
                      bool any_thread, int wake_fd, struct weft__io_counters *counters)
{
    struct weft__driver *driver = weft__alloc(kind->bytes);
    if (!driver) {
        return -ENOMEM;
    }
    driver->kind = kind;
    driver->counters = counters;
    driver->poll_fd = -1;
    driver->wake_fd = wake_fd;
    atomic_init(&driver->repoll_at, INT64_MAX);
    int err = kind->open(driver, any_thread);
    if (err) {
        weft__free(driver);
        return err;
    }
    *out = driver;
    return 0;
}

void weft__driver_close(struct weft__driver *driver)
{
    if (driver) {
        driver->kind->close(driver);
        weft__free(driver);
    }
}

void weft__driver_panic(const struct weft__driver *driver, const char *call, int fd, int err)
{
    const char *name = strerrorname_np(err), *why;
    switch (err) {
    case EPERM:
    case EACCES:
    case ENOSYS:
        why = "a seccomp filter installed after the start forbids it; "
              "choose another driver (e.g. WEFT_DRIVER=epoll) or allow the call";
        break;
    case EBADF:
    case EINVAL:
    case EOPNOTSUPP:
        why = "the program has closed this descriptor, which is Weft's: by close_range or "
              "closefrom, or by a close of a number that was not its own";
        break;
    default:
        why = strerrordesc_np(err);
        break;
    }
    weft__panic(__FILE__, __LINE__, "the I/O driver %s has failed: %s on descriptor %d: %s: %s",
                driver->kind->name, call, fd, name ? name : "?", why ? why : "an unknown error");
}

void weft__driver_fork_child(const struct weft__driver *driver)
{
    close(driver->wake_fd);
    if (driver->poll_fd >= 0) {
        close(driver->poll_fd);
    }
}

/* --- calls from any thread ------------------------------------------------------------------- */

void weft__driver_wake(struct weft__driver *driver)
{
    uint64_t one = 1;
    /* EAGAIN: the counter is full, so the driver is awake already. */
    while (write(driver->wake_fd, &one, sizeof one) < 0 && errno != EAGAIN) {
        if (errno != EINTR) {
            weft__driver_panic(driver, "write", driver->wake_fd, errno);
        }
    }
}

void weft__driver_request_cancel(struct weft__driver *driver, struct weft__op *op)
{
    uint8_t free = WEFT__OP_CANCEL_NONE;
    weft__lock(&driver->lock);
    /* pairs: weft__driver_op_finished, which takes the lock if it reads this value */
    bool first =
        atomic_compare_exchange_strong_explicit(&op->cancel_state, &free, WEFT__OP_CANCEL_REQUESTED,
                                                memory_order_relaxed, memory_order_relaxed);
    if (first) {
        op->next_cancel_request = driver->cancel_requests;
        driver->cancel_requests = op;
    }
    weft__unlock(&driver->lock);
    if (first) {
        weft__driver_wake(driver);
    }
}

struct weft__op *weft__driver_next_cancel(struct weft__driver *driver)
{
    weft__lock(&driver->lock);
    struct weft__op *op = driver->cancel_requests;
    weft__unlock(&driver->lock);
    return op;
}

static void remove_request_locked(struct weft__driver *driver, const struct weft__op *op)
{
    struct weft__op **at = &driver->cancel_requests;
    while (*at != op) {
        at = &(*at)->next_cancel_request;
    }
    *at = op->next_cancel_request;
}

void weft__driver_drop_cancel(struct weft__driver *driver, struct weft__op *op)
{
    weft__lock(&driver->lock);
    remove_request_locked(driver, op);
    atomic_store_explicit(&op->cancel_state, WEFT__OP_CANCEL_NONE, memory_order_relaxed);
    weft__unlock(&driver->lock);
}

/* Usually no cancellation was requested, and then there is no lock to take. */
void weft__driver_op_finished(struct weft__driver *driver, struct weft__op *op)
{
    uint8_t cancel_state =
        atomic_exchange_explicit(&op->cancel_state, WEFT__OP_FINISHED, memory_order_relaxed);
    if (__builtin_expect(cancel_state == WEFT__OP_CANCEL_REQUESTED, 0)) {
        weft__lock(&driver->lock);
        remove_request_locked(driver, op);
        weft__unlock(&driver->lock);
    }
}
