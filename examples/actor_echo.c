/* An echo server made of actors that never block: accept, read and write are commands, and their
 * completions are events. One actor accepts, and one actor serves each connection; the acceptor
 * monitors them. A connection waits until its socket is readable before it asks for a read, so an
 * idle connection holds no buffer. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

enum { CLIENTS = 3 };

/* The input of both kinds is a descriptor, which the actor owns: the first int of its state. */
static int take_input(weft_actor *self, const char *method, const weft_buf *input)
{
    (void)method;
    memcpy(weft_actor_state(self), input->data, sizeof(int));
    return 0;
}

static void close_fd(weft_actor *self)
{
    const int *fd = weft_actor_state(self);
    weft_close(*fd);
}

/* --- a connection --------------------------------------------------------------------------- */

enum { READABLE = 1, DATA, WRITTEN }; /* the tags of its commands */

static int serve(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    const int fd = *(int *)weft_actor_state(self);
    if (n == 0) { /* the first step */
        return weft_out_ready(out, READABLE, fd, WEFT_READABLE, WEFT_FOREVER);
    }
    if (events[0].error) {
        return events[0].error;
    }
    if (events[0].kind == WEFT_EVENT_COMPLETE && events[0].tag == READABLE) {
        return weft_out_read(out, DATA, fd, 4096, -1, WEFT_FOREVER);
    }
    if (events[0].kind == WEFT_EVENT_COMPLETE && events[0].tag == DATA && events[0].buf->len > 0) {
        return weft_out_write(out, WRITTEN, fd, weft_actor_take_buf(&events[0]), -1, WEFT_FOREVER);
    }
    if (events[0].kind == WEFT_EVENT_COMPLETE && events[0].tag == WRITTEN) {
        return weft_out_ready(out, READABLE, fd, WEFT_READABLE, WEFT_FOREVER);
    }
    weft_out_done(out, NULL); /* the end of the stream, or a cancel */
    return 0;
}

/* One command at a time, so one event per step is enough. */
static const struct weft_actor_kind connection_kind = {.name = "connection",
                                                       .state_bytes = sizeof(int),
                                                       .init = take_input,
                                                       .step = serve,
                                                       .close = close_fd,
                                                       .batch = 1};

/* --- the acceptor --------------------------------------------------------------------------- */

enum { ACCEPTED, STARTED, ENDED }; /* STARTED + 4 * descriptor: closed if the spawn fails */

struct acceptor {
    int fd, accepted, ended;
};

static int start_connection(weft_actor *self, const struct weft_actor_event *event, weft_out *out)
{
    int fd = weft_actor_take_fd(event);
    int err = weft_out_spawn(out, STARTED + 4 * (uint64_t)fd, weft_actor_host(self),
                             &connection_kind, NULL, weft_buf_copy(&fd, sizeof fd));
    if (err) {
        weft_close(fd);
    }
    return err;
}

static int monitor_connection(const struct weft_actor_event *event, weft_out *out)
{
    weft_pid connection;
    if (event->error) {
        weft_close((int)(event->tag / 4));
        return event->error;
    }
    memcpy(&connection, event->buf->data, sizeof connection);
    return weft_out_monitor(out, ENDED, connection);
}

static int on_complete(weft_actor *self, const struct weft_actor_event *event, weft_out *out)
{
    struct acceptor *state = weft_actor_state(self);
    int err;
    switch (event->tag % 4) {
    case ACCEPTED:
        err = event->error;
        if (!err && ++state->accepted < CLIENTS) {
            err = weft_out_accept(out, ACCEPTED, state->fd, WEFT_FOREVER);
        }
        return err ? err : start_connection(self, event, out);
    case STARTED:
        return monitor_connection(event, out);
    default: /* with an error, if the connection failed or ended before it was monitored */
        if (++state->ended == CLIENTS) {
            weft_out_done(out, weft_buf_copy(&state->ended, sizeof state->ended));
        }
        return 0;
    }
}

/* Serves a number of connections, then ends. */
static int accept_all(weft_actor *self, const struct weft_actor_event *events, size_t n,
                      weft_out *out)
{
    struct acceptor *state = weft_actor_state(self);
    int err = n == 0 ? weft_out_accept(out, ACCEPTED, state->fd, WEFT_FOREVER) : 0;
    weft_out_idle(out);
    for (size_t i = 0; i < n && !err; i++) {
        if (events[i].kind == WEFT_EVENT_COMPLETE) {
            err = on_complete(self, &events[i], out);
        } else if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        }
    }
    return err;
}

static const struct weft_actor_kind acceptor_kind = {.name = "acceptor",
                                                     .state_bytes = sizeof(struct acceptor),
                                                     .init = take_input,
                                                     .step = accept_all,
                                                     .close = close_fd};

/* --- the clients ---------------------------------------------------------------------------- */

static int start(weft_host *host, weft_pid *acceptor, char *address, size_t size)
{
    struct weft_addr addr;
    int fd = weft_listen("127.0.0.1:0", NULL);
    if (fd < 0) {
        return fd;
    }
    weft_buf *input = weft_buf_copy(&fd, sizeof fd);
    int err = weft_addr_local(fd, &addr);
    err = err ? err : weft_host_handle_io(host);
    err = err ? err : weft_actor_spawn(host, acceptor, &acceptor_kind, NULL, input);
    weft_buf_free(input);
    if (err) {
        weft_close(fd);
        return err;
    }
    weft_addr_format(&addr, address, size);
    return 0;
}

/* A plain thread talks to the server. */
static int talk(const char *address)
{
    static const char hello[] = "hello, echo";
    char answer[sizeof hello] = "";
    int fd = weft_dial(address, NULL, WEFT_FOREVER);
    if (fd < 0) {
        return fd;
    }
    int err = weft_write_all(fd, hello, sizeof hello, NULL, WEFT_FOREVER);
    err = err ? err : weft_read_full(fd, answer, sizeof answer, NULL, WEFT_FOREVER);
    weft_close(fd);
    return err ? err : strcmp(answer, hello) == 0 ? 0 : -EPROTO;
}

int main(void)
{
    weft_host *host;
    weft_pid acceptor;
    char address[WEFT_ADDR_STRLEN];
    int err = weft_host_create(&host, &(struct weft_host_opts){.workers = 2});
    if (err || (err = start(host, &acceptor, address, sizeof address))) {
        fprintf(stderr, "actor_echo: %s\n", weft_strerror(err));
        return 1;
    }
    for (int i = 0; i < CLIENTS && !err; i++) {
        err = talk(address);
    }
    err = err ? err : weft_actor_join(acceptor, NULL, WEFT_FOREVER); /* ends after the last */
    int forced = weft_host_stop(host, NULL, weft_after(WEFT_MINUTES(1)));
    weft_host_destroy(host);
    printf("%d connections: %s\n", CLIENTS, err ? weft_strerror(err) : "served and ended");
    return err || forced;
}
