/* Waiting in hooked calls: for a descriptor, up to its timeout. */
#ifndef WEFT_HOOK_WAIT_H
#define WEFT_HOOK_WAIT_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/clock.h"

/* True: a valid duration for the kernel. */
bool weft__hook_is_valid_time(const struct timespec *time);

/* Deadlines on libweft's clock. A time before the clock's origin becomes the origin. */
int64_t weft__hook_after(const struct timespec *time); /* NULL: never */
int64_t weft__hook_after_ms(int ms);                   /* < 0: never */
int64_t weft__hook_at(clockid_t clock, const struct timespec *time);
struct timespec weft__hook_remaining(int64_t deadline);

/* The deadline that the kernel would apply to a blocking call on the socket: SO_RCVTIMEO for
 * POLLIN, SO_SNDTIMEO for POLLOUT. */
int64_t weft__hook_deadline(int fd, short events);

/* Wait until poll would report one of `events`. Returns 0, -ETIMEDOUT, -ECANCELED, -EINTR or
 * -EBADFD. Other errors: a fiber cannot wait here (it is in a compute pool, or memory or
 * descriptors are exhausted), and the caller makes the real call. Never changes the mode of the
 * descriptor. */
int weft__hook_wait(int fd, short events, int64_t deadline);

/* One call that transfers data, and may have to wait several times. */
struct weft__hook_io {
    int fd;
    short events;      /* POLLIN or POLLOUT */
    bool has_deadline; /* `deadline` is set */
    bool ended;        /* an interrupt ended its last wait */
    int64_t deadline;
};

/* True: the descriptor is in blocking mode, so the call may wait; sets `deadline`. */
bool weft__hook_io_can_block(struct weft__hook_io *io);

enum weft__hook_next {
    WEFT__HOOK_AGAIN,    /* try again */
    WEFT__HOOK_FAILED,   /* errno says why */
    WEFT__HOOK_USE_REAL, /* make the real call */
};
/* After a try that would have blocked: wait, unless the user made the descriptor non-blocking.
 * errno is EAGAIN in that case, and when the socket's timeout has passed. */
enum weft__hook_next weft__hook_io_wait(struct weft__hook_io *io);

/* The call succeeds all the same, because it has transferred this many bytes: returns their number.
 * An interrupt that ended its last wait stays pending for the fiber's next wait. */
ssize_t weft__hook_io_finish(struct weft__hook_io *io, size_t bytes);
/* The same for other calls: `err` is the result of their last wait. */
void weft__hook_keep_interrupt(int err);

/* Run a real call, as `run(arg)`, on a thread of the blocking pool. False: it did not run, and
 * errno says why; or there was no thread, `use_real` is set to true, and errno is unchanged. */
bool weft__hook_run_blocking(void (*run)(void *arg), void *arg, bool *use_real);

/* Sleep before try number `tries`, where no event reports progress; the time grows. Returns 0, or
 * the error if a cancel or an interrupt ended the sleep. */
int weft__hook_pause(unsigned tries, int64_t deadline);

#endif
