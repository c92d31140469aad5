/* Two processes as two nodes: this program and a second instance of it, connected by a Unix
 * socket. */
/* not under: qemu */
#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/socket.h>

#include <weft/weft.h>

#include "check.h"

/* --- a transport ---------------------------------------------------------------------------- */

/* A frame: its length, this header, the topic with its terminating zero (or nothing), the bytes.
 * Both ends are the same program, so no byte order conversion is needed. */
struct head {
    uint32_t kind, trace, topic_bytes, has_buf;
    int32_t error;
    weft_pid from, to;
    uint64_t tag;
};

struct wire {
    struct weft_receiver receiver; /* first */
    uint32_t peer;
    int fd;
    weft_outbox outbox;
    weft_pool *pool;
    weft_fiber reader, writer;
};

static int send_frame(struct weft_receiver *self, const struct weft_remote_message *message)
{
    struct wire *wire = (struct wire *)(void *)self;
    size_t topic = message->topic ? strlen(message->topic) + 1 : 0;
    size_t bytes = message->buf ? message->buf->len : 0;
    struct head head = {.kind = (uint32_t)message->kind,
                        .trace = message->trace,
                        .topic_bytes = (uint32_t)topic,
                        .has_buf = message->buf != NULL,
                        .error = message->error,
                        .from = message->from,
                        .to = message->to,
                        .tag = message->tag};
    weft_length_prefix length;
    unsigned char prefix[8];
    CHECK_EQ(weft_length_prefix_init(&length, NULL), 0);
    ssize_t n = weft_length_prefix_write(&length, prefix, sizeof head + topic + bytes);
    CHECK(n > 0 && (size_t)n <= sizeof prefix);
    weft_buf *frame = weft_buf_alloc((size_t)n + sizeof head + topic + bytes, 0);
    memcpy(weft_buf_put(frame, (size_t)n), prefix, (size_t)n);
    memcpy(weft_buf_put(frame, sizeof head), &head, sizeof head);
    if (topic) {
        memcpy(weft_buf_put(frame, topic), message->topic, topic);
    }
    if (bytes) {
        memcpy(weft_buf_put(frame, bytes), message->buf->data, bytes);
    }
    weft_buf_free(message->buf);
    int err = weft_outbox_post(&wire->outbox, frame);
    if (err) {
        weft_buf_free(frame);
    }
    return err == -EPIPE ? -EHOSTUNREACH : err;
}

static void take_frame(const struct weft_framed *frame)
{
    struct head head;
    CHECK(frame->len >= sizeof head);
    memcpy(&head, frame->bytes, sizeof head);
    const unsigned char *topic = frame->bytes + sizeof head, *bytes = topic + head.topic_bytes;
    struct weft_remote_message message = {
        .kind = (enum weft_actor_event_kind)head.kind,
        .error = head.error,
        .trace = head.trace,
        .from = head.from,
        .to = head.to,
        .tag = head.tag,
        .topic = head.topic_bytes ? (const char *)topic : NULL,
    };
    if (head.has_buf) {
        message.buf = weft_buf_copy(bytes, frame->len - sizeof head - head.topic_bytes);
    }
    weft_remote_message_deliver(&message); /* an error is counted; no sender can be notified */
}

static void *read_frames(void *arg)
{
    struct wire *wire = arg;
    weft_reader reader;
    weft_length_prefix length;
    struct weft_framed frame;
    const unsigned char *bytes;
    weft_reader_init(&reader, wire->fd, NULL);
    CHECK_EQ(weft_length_prefix_init(&length, NULL), 0);
    size_t want = 1;
    for (;;) {
        ssize_t have = weft_reader_peek(&reader, &bytes, want, WEFT_FOREVER);
        if (have < (ssize_t)want) {
            break; /* end of stream, or the peer is gone */
        }
        ssize_t used = weft_length_prefix_next(&length, &frame, bytes, (size_t)have);
        CHECK(used >= 0);
        if (used) {
            take_frame(&frame);
            weft_reader_consume(&reader, (size_t)used);
        }
        want = used ? 1 : length.need;
    }
    weft_reader_deinit(&reader);
    CHECK_EQ(weft_route_remove(wire->peer), 0);
    weft_outbox_close(&wire->outbox);
    return NULL;
}

static void *write_frames(void *arg)
{
    struct wire *wire = arg;
    weft_outbox_run(&wire->outbox, WEFT_FOREVER); /* until closed, or the peer is gone */
    weft_shutdown(wire->fd, SHUT_WR);
    return NULL;
}

static void open_wire(struct wire *wire, uint32_t peer, int fd)
{
    *wire = (struct wire){.receiver.deliver = send_frame, .peer = peer, .fd = fd};
    weft_outbox_init(&wire->outbox, fd, NULL);
    CHECK_EQ(weft_pool_create(&wire->pool, &(struct weft_pool_opts){.workers = 1}), 0);
    CHECK_EQ(weft_pool_start(wire->pool), 0);
    CHECK_EQ(weft_route_add(peer, &wire->receiver), 0);
    CHECK_EQ(weft_pool_spawn(wire->pool, &wire->reader, read_frames, wire, NULL), 0);
    CHECK_EQ(weft_pool_spawn(wire->pool, &wire->writer, write_frames, wire, NULL), 0);
}

/* Called when the peer has closed its end. */
static void close_wire(struct wire *wire)
{
    CHECK_EQ(weft_join(wire->reader, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_join(wire->writer, NULL, WEFT_FOREVER), 0);
    weft_outbox_deinit(&wire->outbox);
    CHECK_EQ(weft_close(wire->fd), 0);
    CHECK_EQ(weft_pool_stop(wire->pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(wire->pool);
}

/* --- the other node --------------------------------------------------------------------------- */

static int echo(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    weft_pid home = *(weft_pid *)weft_actor_state(self);
    (void)result;
    CHECK_EQ(weft_actor_pid(self).node, 2);
    CHECK_EQ(weft_actor_send(home, "hello", 0, NULL, WEFT_BY_POLICY), 0);
    while (weft_actor_receive(&event, WEFT_FOREVER) == 0) {
        if (event->kind == WEFT_EVENT_CANCEL) {
            CHECK_EQ(
                weft_actor_send(home, "cancelled", 0, weft_actor_take_buf(event), WEFT_BY_POLICY),
                0);
            return 0;
        }
        CHECK_EQ(event->from.node, 1);
        CHECK(event->trace != 0);
        CHECK_EQ(weft_actor_send(event->from, "pong", event->tag, weft_actor_take_buf(event),
                                 WEFT_BY_POLICY),
                 0);
    }
    return 0;
}

/* Waits for the end of the remote actor, then counts the messages that arrived too late for it. */
static int keep_books(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    struct weft_node_stats stats;
    weft_pid *pids = weft_actor_state(self); /* home, remote */
    (void)result;
    CHECK_EQ(weft_actor_send(pids[0], "books", 0, NULL, WEFT_BY_POLICY), 0);
    while (weft_actor_receive(&event, WEFT_FOREVER) == 0) {
        if (strcmp(event->topic, "ended?") == 0) {
            int err = weft_actor_join(pids[1], NULL, WEFT_FOREVER);
            CHECK(err == 0 || err == -ESRCH);
            CHECK_EQ(weft_actor_send(event->from, "ended", 0, NULL, WEFT_BY_POLICY), 0);
        } else if (strcmp(event->topic, "dead?") == 0) {
            weft_node_stats(&stats);
            CHECK_EQ(weft_actor_send(event->from, "dead", stats.dead, NULL, WEFT_BY_POLICY), 0);
        } else {
            CHECK_STR(event->topic, "quit");
            return 0;
        }
    }
    return 0;
}

static int know(weft_actor *self, const char *method, const weft_buf *input)
{
    (void)method;
    memcpy(weft_actor_state(self), input->data, input->len);
    return 0;
}

/* Started by the next test, in a separate process. */
TEST(peer_node_process)
{
    static const struct weft_actor_kind echoer = {
        .name = "echo", .state_bytes = sizeof(weft_pid), .init = know, .run = echo};
    static const struct weft_actor_kind bookkeeper = {
        .name = "books", .state_bytes = 2 * sizeof(weft_pid), .init = know, .run = keep_books};
    const char *fd = getenv("NODE_FD"), *home_text = getenv("NODE_HOME");
    if (!fd || !home_text) {
        return;
    }
    struct wire wire;
    weft_host *host;
    weft_pid pids[2], books;
    CHECK_EQ(weft_pid_parse(&pids[0], home_text), 0);
    CHECK_EQ(weft_node_set_id(2), 0);
    CHECK_EQ(weft_node_set_id(2), -EBUSY);
    open_wire(&wire, 1, atoi(fd));
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 1}), 0);
    weft_buf *home = weft_buf_copy(pids, sizeof *pids);
    CHECK_EQ(weft_actor_spawn(host, &pids[1], &echoer, NULL, home), 0);
    weft_buf *both = weft_buf_copy(pids, sizeof pids);
    CHECK_EQ(weft_actor_spawn(host, &books, &bookkeeper, NULL, both), 0);
    weft_buf_free(home);
    weft_buf_free(both);
    int err = weft_actor_join(books, NULL, WEFT_FOREVER);
    CHECK(err == 0 || err == -ESRCH);
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
    weft_outbox_close(&wire.outbox); /* the peer closes when it has seen that */
    close_wire(&wire);
}

/* --- this node -------------------------------------------------------------------------------- */

enum { PINGS = 1000 };

static _Atomic(uint64_t) last_trace;

static void on_passage(const struct weft_actor_trace_event *passage, void *arg)
{
    (void)arg;
    if (passage->kind == WEFT_ACTOR_TRACE_SENT && passage->to.node == 2 && passage->topic &&
        strcmp(passage->topic, "ping") == 0) {
        atomic_store(&last_trace, passage->trace);
    }
}

static int play(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    weft_pid far, books;
    (void)self, (void)result;
    CHECK_EQ(weft_actor_receive_topic(&event, "hello", WEFT_FOREVER), 0);
    far = event->from;
    CHECK_EQ(far.node, 2);
    CHECK_EQ(weft_actor_receive_topic(&event, "books", WEFT_FOREVER), 0);
    books = event->from;
    for (uint64_t i = 0; i < PINGS; i++) {
        CHECK_EQ(weft_actor_send(far, "ping", i, weft_buf_copy(&i, sizeof i), WEFT_BY_POLICY), 0);
    }
    for (uint64_t i = 0; i < PINGS; i++) { /* in order */
        CHECK_EQ(weft_actor_receive_topic(&event, "pong", WEFT_FOREVER), 0);
        CHECK_EQ(event->tag, i);
        CHECK_EQ(memcmp(event->buf->data, &i, sizeof i), 0);
        CHECK(weft_pid_equal(event->from, far));
    }
    CHECK_EQ(event->trace, atomic_load(&last_trace)); /* it went to the other node and came back */
    CHECK_EQ(weft_actor_kill(far), -EREMOTE);
    CHECK_EQ(weft_actor_cancel(far, "enough"), 0);
    CHECK_EQ(weft_actor_receive_topic(&event, "cancelled", WEFT_FOREVER), 0);
    CHECK_STR((char *)event->buf->data, "enough");
    CHECK_EQ(weft_actor_send(books, "ended?", 0, NULL, WEFT_BY_POLICY), 0);
    CHECK_EQ(weft_actor_receive_topic(&event, "ended", WEFT_FOREVER), 0);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_actor_send(far, "ping", 0, weft_buf_copy("x", 1), WEFT_BY_POLICY),
                 0); /* no local error */
    }
    CHECK_EQ(weft_actor_send(books, "dead?", 0, NULL, WEFT_BY_POLICY), 0);
    CHECK_EQ(weft_actor_receive_topic(&event, "dead", WEFT_FOREVER), 0);
    CHECK_EQ(event->tag, 3);
    CHECK_EQ(weft_actor_send(books, "quit", 0, NULL, WEFT_BY_POLICY), 0);
    return 0;
}

TEST(actors_in_two_processes_exchange_messages)
{
    static const struct weft_actor_kind player = {.name = "player", .run = play};
    if (getenv("NODE_FD")) {
        return;
    }
    struct wire wire;
    struct weft_process_status status;
    struct weft_node_stats stats;
    weft_process *child;
    weft_host *host;
    weft_pid pid, far = {.node = 2, .host = 1, .id = 1};
    char fd_text[16], home[64];
    int fds[2];
    CHECK_EQ(weft_node_set_id(1), 0);
    CHECK_EQ(weft_actor_trace(on_passage, NULL), 0);
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 1}), 0);
    CHECK_EQ(weft_actor_spawn(host, &pid, &player, NULL, NULL), 0);
    CHECK_EQ(pid.node, 1);
    weft_pid_format(pid, home, sizeof home);
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
    CHECK_EQ(fcntl(fds[0], F_SETFD, FD_CLOEXEC), 0);
    snprintf(fd_text, sizeof fd_text, "%d", fds[1]);
    setenv("NODE_FD", fd_text, 1);
    setenv("NODE_HOME", home, 1);
    open_wire(&wire, 2, fds[0]);
    const char *argv[] = {"/proc/self/exe", "peer_node_process", NULL};
    CHECK_EQ(weft_process_spawn(&child, argv, NULL), 0);
    close(fds[1]);
    unsetenv("NODE_FD");
    int err = weft_actor_join(pid, NULL, WEFT_FOREVER);
    CHECK(err == 0 || err == -ESRCH);
    close_wire(&wire);
    CHECK_EQ(weft_process_wait(child, &status, WEFT_FOREVER), 0);
    CHECK_EQ(status.code, 0);
    CHECK_EQ(status.signal, 0);
    weft_process_close(child);
    CHECK_EQ(weft_actor_send(far, "late", 0, NULL, WEFT_BY_POLICY),
             -EHOSTUNREACH); /* the node is gone */
    weft_node_stats(&stats);
    CHECK_EQ(stats.unreachable, 1);
    CHECK_EQ(stats.dead, 0);
    CHECK(stats.received >= PINGS + 4);
    CHECK_EQ(weft_actor_trace(NULL, NULL), 0);
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
}
