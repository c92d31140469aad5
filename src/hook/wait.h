/* Waiting, for the hooked calls: for a descriptor, as long as its timeout allows. */
#ifndef WEFT_HOOK_WAIT_H
#define WEFT_HOOK_WAIT_H

#include <poll.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/clock.h"

/* A span of time as the kernel takes it. */
bool weft__hook_is_time(const struct timespec *time);

/* Deadlines on the runtime's clock. A time before the first is the first. */
int64_t weft__hook_after(const struct timespec *time); /* NULL: never */
int64_t weft__hook_after_ms(int ms);                   /* < 0: never */
int64_t weft__hook_at(clockid_t clock, const struct timespec *time);
struct timespec weft__hook_left(int64_t deadline);

/* Until when the kernel would let a call on the socket wait: SO_RCVTIMEO for POLLIN, SO_SNDTIMEO
 * for POLLOUT. */
int64_t weft__hook_deadline(int fd, short events);

/* Waits until poll would report one of `events`. 0, -ETIMEDOUT, -ECANCELED, -EINTR, -EBADFD.
 * Others: a fiber cannot wait here (it is in a compute pool, memory or descriptors are short), and
 * the caller makes the plain call. Never changes the mode of the descriptor. */
int weft__hook_wait(int fd, short events, int64_t deadline);

/* One call that moves bytes, and may have to wait several times. */
struct weft__hook_io {
    int fd;
    short events; /* POLLIN or POLLOUT */
    bool asked;   /* `deadline` is there */
    bool ended;   /* an interrupt has ended its last wait */
    int64_t deadline;
};

/* The user lets the call wait; until when is in `deadline` then. */
bool weft__hook_io_blocks(struct weft__hook_io *io);

enum weft__hook_next {
    WEFT__HOOK_AGAIN,  /* try once more */
    WEFT__HOOK_FAILED, /* errno says why */
    WEFT__HOOK_PLAIN,  /* make the plain call */
};
/* After a try that would have blocked: waits, unless the user wants to know. errno is EAGAIN then,
 * and when the socket's timeout has passed. */
enum weft__hook_next weft__hook_io_wait(struct weft__hook_io *io);

/* The call succeeds all the same, because it has moved this much: returns that. An interrupt that
 * has ended its last wait is for the fiber's next. */
ssize_t weft__hook_io_moved(struct weft__hook_io *io, size_t bytes);
/* The same for others: `err` is what their last wait returned. */
void weft__hook_hand_on(int err);

/* Runs a plain call on a thread of the blocking pool, as `run(arg)`. False: it did not run, errno
 * says why; or it could not be had, and *plain is true. */
bool weft__hook_elsewhere(void (*run)(void *arg), void *arg, bool *plain);

/* The pause before try number `tries`, where nobody will tell: growing. The reason if a cancel or
 * an interrupt ended it. */
int weft__hook_pause(unsigned tries, int64_t deadline);

#endif
