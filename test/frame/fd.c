/* Waiting for descriptors in frames, on every driver, in a group and in a pool. */
#include <fcntl.h>
#include <sys/socket.h>

#include "frame/fixture.h"
#include "io/drivers.h"

struct awaits {
    weft_frame frame;
    struct weft_wait wait;
    int fd, events;
    int64_t deadline;
    int status, code;
    bool reads; /* reads the available data, and waits on until the end */
    long bytes;
};

static enum weft_step ready(weft_frame *f, struct weft_got got)
{
    SELF(awaits);
    char buf[64];
    self->status = got.status;
    if (!self->reads || got.status) {
        return weft_frame_return(f, NULL);
    }
    ssize_t n = recv(self->fd, buf, sizeof buf, MSG_DONTWAIT);
    if (n == 0) {
        return weft_frame_return(f, NULL);
    }
    CHECK(n > 0 || errno == EAGAIN);
    self->bytes += n > 0 ? n : 0;
    return weft_frame_await_fd(f, &self->wait, self->fd, self->events, self->deadline,
                               WEFT_THEN(ready));
}

static enum weft_step starts(weft_frame *f, struct weft_got got)
{
    SELF(awaits);
    (void)got;
    return weft_frame_await_fd(f, &self->wait, self->fd, self->events, self->deadline,
                               WEFT_THEN(ready));
}

static enum weft_step handles(weft_frame *f, const weft_error *error)
{
    SELF(awaits);
    self->code = weft_error_code(error);
    return weft_frame_return(f, NULL);
}

static const struct weft_frame_kind awaiting = {
    .name = "awaits", .start = starts, .handle = handles};

static struct awaits awaits(int fd, int events, int64_t deadline)
{
    struct awaits out = {.fd = fd, .events = events, .deadline = deadline, .status = 77};
    weft_frame_init(&out.frame, &awaiting);
    return out;
}

static void open_pair(int ends[2])
{
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
}

static void close_pair(int ends[2])
{
    weft_close(ends[0]);
    weft_close(ends[1]);
}

#define EACH_PLACE(name)                                                                           \
    static void place_run_##name(struct home *home, enum weft_driver driver);                      \
    EACH_DRIVER(name)                                                                              \
    {                                                                                              \
        for (int k = 0; k < 2; k++) {                                                              \
            struct home here;                                                                      \
            home_open_on(&here, k == 0, driver);                                                   \
            place_run_##name(&here, driver);                                                       \
            home_close(&here);                                                                     \
        }                                                                                          \
    }                                                                                              \
    static void place_run_##name(struct home *home, __attribute__((unused)) enum weft_driver driver)

EACH_PLACE(frame_wait_ends_when_fd_is_readable)
{
    int ends[2];
    open_pair(ends);
    for (int i = 0; i < 20; i++) {
        struct awaits one = awaits(ends[0], WEFT_READABLE, WEFT_FOREVER);
        char byte;
        weft_fiber fiber = home_waiting(home, &one.frame);
        CHECK_EQ(write(ends[1], "x", 1), 1);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(one.status, 0);
        one = awaits(ends[0], WEFT_READABLE, WEFT_FOREVER); /* which is still available */
        CHECK_EQ(home_run(home, &one.frame, NULL), 0);
        CHECK_EQ(one.status, 0);
        CHECK_EQ(read(ends[0], &byte, 1), 1);
    }
    close_pair(ends);
}

EACH_PLACE(frame_wait_ends_when_fd_is_writable)
{
    int ends[2];
    char block[4096] = {0};
    open_pair(ends);
    struct awaits one = awaits(ends[1], WEFT_WRITABLE, WEFT_FOREVER);
    CHECK_EQ(home_run(home, &one.frame, NULL), 0); /* at once */
    CHECK_EQ(one.status, 0);
    while (send(ends[1], block, sizeof block, MSG_DONTWAIT) > 0) {
    }
    one = awaits(ends[1], WEFT_WRITABLE, WEFT_FOREVER);
    weft_fiber fiber = home_waiting(home, &one.frame);
    while (recv(ends[0], block, sizeof block, MSG_DONTWAIT) > 0) {
    }
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(one.status, 0);
    close_pair(ends);
}

EACH_PLACE(peer_close_ends_frame_fd_wait_as_ready)
{
    int ends[2];
    open_pair(ends);
    struct awaits one = awaits(ends[0], WEFT_READABLE, WEFT_FOREVER);
    weft_fiber fiber = home_waiting(home, &one.frame);
    close(ends[1]);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(one.status, 0);
    weft_close(ends[0]);
}

EACH_PLACE(deadline_cancel_and_interrupt_end_frame_fd_wait)
{
    int ends[2];
    open_pair(ends);
    for (int i = 0; i < 5; i++) {
        struct awaits one = awaits(ends[0], WEFT_READABLE, weft_after(MS));
        CHECK_EQ(home_run(home, &one.frame, NULL), 0);
        CHECK_EQ(one.status, -ETIMEDOUT);
        one = awaits(ends[0], WEFT_READABLE, 0);
        CHECK_EQ(home_run(home, &one.frame, NULL), 0);
        CHECK_EQ(one.status, -ETIMEDOUT);
        one = awaits(ends[0], WEFT_READABLE, WEFT_FOREVER);
        weft_fiber fiber = home_waiting(home, &one.frame);
        CHECK_EQ(weft_cancel(fiber), 0);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(one.code, -ECANCELED);
        one = awaits(ends[0], WEFT_READABLE, WEFT_FOREVER);
        fiber = home_waiting(home, &one.frame);
        CHECK_EQ(weft_fiber_interrupt(fiber), 0);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(one.code, -EINTR);
    }
    close_pair(ends);
}

/* Whichever comes first, each wait ends once and leaves nothing linked. */
EACH_PLACE(byte_racing_with_cancel_ends_frame_fd_wait_once)
{
    int ends[2];
    open_pair(ends);
    for (int i = 0; i < 100; i++) {
        struct awaits one = awaits(ends[0], WEFT_READABLE, WEFT_FOREVER);
        char byte;
        weft_fiber fiber = home_spawn(home, &one.frame);
        CHECK_EQ(write(ends[1], "x", 1), 1);
        weft_cancel(fiber);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
        CHECK(one.status == 0 || one.code == -ECANCELED);
        CHECK_EQ(read(ends[0], &byte, 1), 1);
    }
    close_pair(ends);
}

EACH_PLACE(close_ends_frame_fd_wait)
{
    int ends[2];
    open_pair(ends);
    struct awaits one = awaits(ends[0], WEFT_READABLE, WEFT_FOREVER);
    weft_fiber fiber = home_waiting(home, &one.frame);
    weft_close(ends[0]);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(one.status, -EBADFD);
    close(ends[1]);
}

EACH_PLACE(invalid_fd_or_events_is_returned_as_status)
{
    struct awaits one = awaits(-1, WEFT_READABLE, WEFT_FOREVER);
    CHECK_EQ(home_run(home, &one.frame, NULL), 0);
    CHECK_EQ(one.status, -EBADF);
    one = awaits(0, 0, WEFT_FOREVER);
    CHECK_EQ(home_run(home, &one.frame, NULL), 0);
    CHECK_EQ(one.status, -EINVAL);
    int fd = open("/", O_RDONLY | O_DIRECTORY | O_CLOEXEC); /* always ready */
    CHECK(fd >= 0);
    one = awaits(fd, WEFT_READABLE, WEFT_FOREVER);
    CHECK_EQ(home_run(home, &one.frame, NULL), 0);
    CHECK_EQ(one.status, 0);
    weft_close(fd);
}

EACH_PLACE(several_frames_can_wait_for_one_fd)
{
    enum { MANY = 6, BYTES = 600 };
    int ends[2];
    struct awaits all[MANY];
    weft_fiber fibers[MANY];
    long sum = 0;
    open_pair(ends);
    for (int i = 0; i < MANY; i++) {
        all[i] = awaits(ends[0], WEFT_READABLE, WEFT_FOREVER);
        all[i].reads = true; /* the data that the others leave */
        fibers[i] = home_spawn(home, &all[i].frame);
    }
    for (int i = 0; i < BYTES; i++) {
        CHECK_EQ(write(ends[1], "x", 1), 1);
    }
    close(ends[1]);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
        sum += all[i].bytes;
    }
    CHECK_EQ(sum, BYTES);
    weft_close(ends[0]);
}

/* --- two frames that reply to each other ------------------------------------------------------ */

struct player {
    weft_frame frame;
    struct weft_wait wait;
    int fd, left;
};

static enum weft_step plays(weft_frame *f, struct weft_got got)
{
    SELF(player);
    char byte;
    CHECK_EQ(got.status, 0);
    if (recv(self->fd, &byte, 1, MSG_DONTWAIT) == 1) {
        CHECK_EQ(send(self->fd, &byte, 1, MSG_DONTWAIT | MSG_NOSIGNAL), 1);
        if (--self->left == 0) {
            return weft_frame_return(f, NULL);
        }
    }
    return weft_frame_await_fd(f, &self->wait, self->fd, WEFT_READABLE, WEFT_FOREVER,
                               WEFT_THEN(plays));
}

static const struct weft_frame_kind playing = {.name = "player", .start = plays};

EACH_PLACE(two_frames_exchange_bytes_over_sockets)
{
    int ends[2];
    open_pair(ends);
    struct player a = {.fd = ends[0], .left = 200}, b = {.fd = ends[1], .left = 200};
    weft_frame_init(&a.frame, &playing);
    weft_frame_init(&b.frame, &playing);
    weft_fiber first = home_spawn(home, &a.frame), second = home_spawn(home, &b.frame);
    CHECK_EQ(send(ends[0], "x", 1, 0), 1);
    CHECK_EQ(weft_join(second, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_join(first, NULL, WEFT_FOREVER), 0);
    close_pair(ends);
}

TEST(frame_fd_wait_in_compute_pool_is_unsupported)
{
    int ends[2];
    weft_pool *pool;
    weft_fiber fiber;
    open_pair(ends);
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1, .compute = true}), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    struct awaits one = awaits(ends[0], WEFT_READABLE, WEFT_FOREVER);
    CHECK_EQ(weft_pool_spawn_frame(pool, &fiber, &one.frame, NULL), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(one.status, -EOPNOTSUPP);
    pool_close(pool);
    close_pair(ends);
}

/* The driver of a leaving caller is closed with it: its waiters are registered again elsewhere. */
EACH_DRIVER(frame_fd_wait_survives_leaving_caller_thread)
{
    int ends[2];
    weft_pool *pool;
    weft_fiber fiber;
    open_pair(ends);
    CHECK_EQ(weft_pool_create(
                 &pool, &(struct weft_pool_opts){.workers = 2, .caller = true, .driver = driver}),
             0);
    CHECK_EQ(weft_pool_start(pool), 0);
    struct awaits one = awaits(ends[0], WEFT_READABLE, WEFT_FOREVER);
    CHECK_EQ(weft_pool_spawn_frame(pool, &fiber, &one.frame, NULL), 0);
    CHECK_EQ(weft_join(fiber, NULL, weft_after(2 * MS)), -ETIMEDOUT); /* serves meanwhile */
    CHECK_EQ(write(ends[1], "x", 1), 1);
    await_state(fiber, WEFT_FIBER_DONE);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(one.status, 0);
    pool_close(pool);
    close_pair(ends);
}
