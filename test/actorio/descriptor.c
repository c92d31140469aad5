/* labels: valgrind */
#include <fcntl.h>
#include <stdatomic.h>
#include <sys/socket.h>

#include "io/drivers.h"

#define MS ((int64_t)1000000)

static weft_host *host;

static void begin(enum weft_driver driver)
{
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 1, .driver = driver}), 0);
    CHECK_EQ(weft_host_handle_io(host), 0);
    CHECK_EQ(weft_host_handle_io(host), -EEXIST);
}

static void end(void)
{
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
}

static weft_pid spawn(const struct weft_actor_kind *kind, const void *input, size_t len)
{
    weft_pid pid;
    weft_buf *buf = weft_buf_copy(input, len);
    CHECK_EQ(weft_actor_spawn(host, &pid, kind, NULL, buf), 0);
    weft_buf_free(buf);
    return pid;
}

static void join(weft_pid pid)
{
    int err = weft_actor_join(pid, NULL, WEFT_FOREVER);
    if (err != -ESRCH) {
        CHECK_EQ(err, 0);
    }
}

/* --- an echo server: accepts one connection, reads and writes until end of stream ------------- */

enum { ACCEPT = 1, READ, WRITE, CONNECT, READY };

struct server {
    int listener, fd;
};

static int take_listener(weft_actor *self, const char *method, const weft_buf *input)
{
    struct server *s = weft_actor_state(self);
    (void)method;
    memcpy(&s->listener, input->data, sizeof s->listener);
    s->fd = -1;
    return 0;
}

static int echo(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    struct server *s = weft_actor_state(self);
    if (!n) {
        return weft_out_accept(out, ACCEPT, s->listener, WEFT_FOREVER);
    }
    CHECK_EQ(n, 1);
    CHECK_EQ(events[0].kind, WEFT_EVENT_COMPLETE);
    CHECK_EQ(events[0].error, 0);
    switch (events[0].tag) {
    case ACCEPT:
        s->fd = weft_actor_take_fd(&events[0]);
        CHECK(s->fd >= 0);
        CHECK_EQ(weft_actor_take_fd(&events[0]), -EBADF);
        return weft_out_read(out, READ, s->fd, 4096, -1, WEFT_FOREVER);
    case READ:
        if (events[0].buf->len == 0) {
            weft_out_done(out, NULL);
            return 0;
        }
        return weft_out_write(out, WRITE, s->fd, weft_actor_take_buf(&events[0]), -1, WEFT_FOREVER);
    default:
        return weft_out_read(out, READ, s->fd, 4096, -1, WEFT_FOREVER);
    }
}

static void close_server(weft_actor *self)
{
    struct server *s = weft_actor_state(self);
    if (s->fd >= 0) {
        CHECK_EQ(weft_close(s->fd), 0);
    }
}

static const struct weft_actor_kind server = {.name = "server",
                                              .state_bytes = sizeof(struct server),
                                              .init = take_listener,
                                              .step = echo,
                                              .close = close_server};

/* --- its client: connects, writes, waits until the reply is readable, reads it ---------------- */

struct client {
    char address[WEFT_ADDR_STRLEN];
    int fd;
};

static int take_address(weft_actor *self, const char *method, const weft_buf *input)
{
    struct client *c = weft_actor_state(self);
    (void)method;
    memcpy(c->address, input->data, input->len);
    c->fd = -1;
    return 0;
}

static atomic_int answered;

static int ask(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    struct client *c = weft_actor_state(self);
    if (!n) {
        return weft_out_connect(out, CONNECT, c->address, WEFT_FOREVER);
    }
    CHECK_EQ(events[0].error, 0);
    switch (events[0].tag) {
    case CONNECT:
        c->fd = weft_actor_take_fd(&events[0]);
        return weft_out_write(out, WRITE, c->fd, weft_buf_copy("hello", 5), -1, WEFT_FOREVER);
    case WRITE:
        return weft_out_ready(out, READY, c->fd, WEFT_READABLE, WEFT_FOREVER);
    case READY: {
        int events_ready;
        memcpy(&events_ready, events[0].buf->data, sizeof events_ready);
        CHECK_EQ(events_ready, WEFT_READABLE);
        CHECK_EQ(weft_actor_take_fd(&events[0]), -EBADF); /* no descriptor, though as long as one */
        return weft_out_read(out, READ, c->fd, 100, -1, WEFT_FOREVER);
    }
    default:
        CHECK_EQ(events[0].buf->len, 5);
        CHECK(memcmp(events[0].buf->data, "hello", 5) == 0);
        atomic_fetch_add(&answered, 1);
        weft_out_done(out, NULL);
    }
    return 0;
}

static void close_client(weft_actor *self)
{
    struct client *c = weft_actor_state(self);
    if (c->fd >= 0) {
        CHECK_EQ(weft_close(c->fd), 0);
    }
}

static const struct weft_actor_kind client = {.name = "client",
                                              .state_bytes = sizeof(struct client),
                                              .init = take_address,
                                              .step = ask,
                                              .close = close_client};

static int listen_here(char *address, size_t size)
{
    struct weft_addr addr;
    int fd = weft_listen("127.0.0.1:0", NULL);
    CHECK(fd >= 0);
    CHECK_EQ(weft_addr_local(fd, &addr), 0);
    weft_addr_format(&addr, address, size);
    return fd;
}

EACH_DRIVER(two_actors_exchange_data_over_socket)
{
    char address[WEFT_ADDR_STRLEN] = {0};
    int listener = listen_here(address, sizeof address);
    begin(driver);
    atomic_store(&answered, 0);
    weft_pid a = spawn(&server, &listener, sizeof listener);
    weft_pid b = spawn(&client, address, sizeof address);
    join(b);
    join(a);
    CHECK_EQ(atomic_load(&answered), 1);
    end();
    CHECK_EQ(weft_close(listener), 0);
}

/* --- errors and ends -------------------------------------------------------------------------- */

static atomic_int errors[8];

static int fail(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    struct server *s = weft_actor_state(self);
    if (!n) {
        CHECK_EQ(weft_out_accept(out, ACCEPT, s->listener, weft_after(2 * MS)), 0);
        CHECK_EQ(weft_out_read(out, READ, -1, 10, -1, WEFT_FOREVER), 0);
        CHECK_EQ(weft_out_write(out, WRITE, -1, weft_buf_copy("x", 1), -1, WEFT_FOREVER), 0);
        CHECK_EQ(weft_out_connect(out, CONNECT, "no address", WEFT_FOREVER), 0);
        CHECK_EQ(weft_out_ready(out, READY, s->listener, WEFT_READABLE, 0), 0);
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        atomic_store(&errors[events[i].tag], events[i].error);
        CHECK_EQ(weft_actor_take_fd(&events[i]), -EBADF);
        s->fd--;
    }
    if (s->fd == -6) {
        s->fd = -1;
        weft_out_done(out, NULL);
    } else {
        weft_out_wait(out);
    }
    return 0;
}

EACH_DRIVER(failed_io_commands_complete_with_error)
{
    static const struct weft_actor_kind kind = {.name = "failing",
                                                .state_bytes = sizeof(struct server),
                                                .init = take_listener,
                                                .step = fail};
    char address[WEFT_ADDR_STRLEN];
    int listener = listen_here(address, sizeof address);
    begin(driver);
    join(spawn(&kind, &listener, sizeof listener));
    CHECK_EQ(atomic_load(&errors[ACCEPT]), -ETIMEDOUT);
    CHECK_EQ(atomic_load(&errors[READ]), -EBADF);
    CHECK_EQ(atomic_load(&errors[WRITE]), -EBADF);
    CHECK_EQ(atomic_load(&errors[CONNECT]), -EINVAL);
    CHECK_EQ(atomic_load(&errors[READY]), -ETIMEDOUT);
    end();
    CHECK_EQ(weft_close(listener), 0);
}

/* An ending actor cancels its waits; a host can be stopped while an actor waits for ever. */
EACH_DRIVER(actor_exit_cancels_its_io_commands)
{
    char address[WEFT_ADDR_STRLEN];
    int listener = listen_here(address, sizeof address);
    begin(driver);
    for (int i = 0; i < 5; i++) {
        weft_pid pid = spawn(&server, &listener, sizeof listener);
        struct weft_actor_info info;
        do {
            CHECK_EQ(weft_actor_info(pid, &info), 0);
        } while (info.state != WEFT_ACTOR_BLOCKED);
        CHECK_EQ(weft_actor_kill(pid), 0);
        weft_actor_join(pid, NULL, WEFT_FOREVER);
    }
    end();
    /* The listener still works. */
    int fd = weft_dial(address, NULL, WEFT_FOREVER);
    CHECK(fd >= 0);
    int other = weft_accept(listener, NULL, WEFT_FOREVER);
    CHECK(other >= 0);
    CHECK_EQ(weft_close(other), 0);
    CHECK_EQ(weft_close(fd), 0);
    CHECK_EQ(weft_close(listener), 0);
}

/* A connection that no actor accepts is closed: its peer sees the end of stream. */
static int ignore(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    struct server *s = weft_actor_state(self);
    (void)events;
    if (!n) {
        return weft_out_accept(out, ACCEPT, s->listener, WEFT_FOREVER);
    }
    weft_out_done(out, NULL);
    return 0;
}

EACH_DRIVER(accepted_connection_not_taken_is_closed)
{
    static const struct weft_actor_kind kind = {.name = "ignoring",
                                                .state_bytes = sizeof(struct server),
                                                .init = take_listener,
                                                .step = ignore};
    char address[WEFT_ADDR_STRLEN], byte;
    int listener = listen_here(address, sizeof address);
    begin(driver);
    weft_pid pid = spawn(&kind, &listener, sizeof listener);
    int fd = weft_dial(address, NULL, WEFT_FOREVER);
    CHECK(fd >= 0);
    CHECK_EQ(weft_read(fd, &byte, 1, WEFT_FOREVER), 0);
    join(pid);
    CHECK_EQ(weft_close(fd), 0);
    end();
    CHECK_EQ(weft_close(listener), 0);
}

/* --- files ------------------------------------------------------------------------------------ */

static int use_file(weft_actor *self, const struct weft_actor_event *events, size_t n,
                    weft_out *out)
{
    struct server *s = weft_actor_state(self);
    if (!n) {
        return weft_out_write(out, WRITE, s->listener, weft_buf_copy("0123456789", 10), 5,
                              WEFT_FOREVER);
    }
    CHECK_EQ(events[0].error, 0);
    if (events[0].tag == WRITE) {
        return weft_out_read(out, READ, s->listener, 4, 8, WEFT_FOREVER);
    }
    CHECK_EQ(events[0].buf->len, 4);
    CHECK(memcmp(events[0].buf->data, "3456", 4) == 0);
    weft_out_done(out, NULL);
    return 0;
}

EACH_DRIVER(file_commands_read_and_write_at_offset)
{
    static const struct weft_actor_kind kind = {.name = "filing",
                                                .state_bytes = sizeof(struct server),
                                                .init = take_listener,
                                                .step = use_file};
    char path[] = "/tmp/weft-actorio-XXXXXX";
    int fd = mkstemp(path);
    CHECK(fd >= 0);
    CHECK_EQ(unlink(path), 0);
    begin(driver);
    join(spawn(&kind, &fd, sizeof fd));
    end();
    weft_close(fd);
}
