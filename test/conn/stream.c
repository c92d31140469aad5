/* A protocol that reads its bytes itself. */
#include "conn/site.h"

/* Reads its bytes itself: everything up to a dot, backwards. */
static int serve_backwards(weft_conn *conn, void *arg)
{
    char byte, text[64];
    size_t n = 0;
    ssize_t got;
    (void)arg;
    while ((got = weft_conn_read(conn, &byte, 1, WEFT_FOREVER)) == 1 && byte != '.') {
        text[n++ % sizeof text] = byte;
    }
    while (got == 1 && n > 0) {
        int err = weft_conn_send(conn, &text[--n], 1, WEFT_FOREVER);
        if (err) {
            return err;
        }
    }
    return 0;
}

EACH_DRIVER(stream_protocol_reads_by_itself_and_rests_in_between)
{
    static const struct weft_protocol protocol = {.framing = WEFT_FRAMING_STREAM,
                                                  .serve = serve_backwards};
    struct site s;
    make(&s, driver, (struct weft_server_limits){.rest_ns = 1});
    serve(&s, &protocol);
    int fd = dial(&s);
    for (int i = 0; i < 3; i++) {
        AWAIT(stats_of(&s).at_rest == 1);
        put(fd, "abc");
        usleep(1000);
        put(fd, "d.efg.");
        expect(fd, "dcbagfe");
    }
    CHECK(stats_of(&s).wakes >= 3);
    close(fd);
    AWAIT(stats_of(&s).open == 0);
    end(&s);
}

/* --- what ends or interrupts a read ----------------------------------------------------------- */

static atomic_int reading, read_result;

/* Echoes until its read fails. */
static int serve_echo(weft_conn *conn, void *arg)
{
    char buf[64];
    ssize_t got;
    (void)arg;
    last_id = weft_conn_get_id(conn);
    reading++;
    while ((got = weft_conn_read(conn, buf, sizeof buf, WEFT_FOREVER)) > 0) {
        CHECK_EQ(weft_conn_send(conn, buf, (size_t)got, WEFT_FOREVER), 0);
    }
    read_result = (int)got;
    return (int)got;
}

static const struct weft_protocol echoes = {.framing = WEFT_FRAMING_STREAM, .serve = serve_echo};

static int open_echo(struct site *s, enum weft_driver driver, struct weft_server_limits limits)
{
    reading = read_result = 0;
    make(s, driver, limits);
    serve(s, &echoes);
    int fd = dial(s);
    put(fd, "a");
    expect(fd, "a");
    AWAIT(reading == 1);
    return fd;
}

EACH_DRIVER(waiting_stream_receives_output_by_id)
{
    static char piece[100000];
    struct site s;
    int fd = open_echo(&s, driver, (struct weft_server_limits){.rest_ns = MS(1)});
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(send_text(&s, last_id, "news."), 0);
        expect(fd, "news.");
    }
    size_t sent = 0, got = 0;
    for (int err = 0; !err;) { /* more than the socket holds: its fiber writes, and reads again */
        weft_buf *buf = weft_buf_copy(piece, sizeof piece);
        err = weft_server_send(s.server, last_id, buf);
        if (err) {
            weft_buf_free(buf);
        } else {
            sent += sizeof piece;
        }
    }
    while (got < sent) {
        char buf[65536];
        ssize_t n = take(fd, buf, sizeof buf);
        CHECK(n > 0);
        got += (size_t)n;
    }
    put(fd, "b");
    expect(fd, "b");
    CHECK_EQ(reading, 1);
    CHECK_EQ(stats_of(&s).at_rest, 0); /* its fiber is in use */
    close(fd);
    AWAIT(stats_of(&s).open == 0);
    CHECK_EQ(read_result, 0);
    end(&s);
}

EACH_DRIVER(close_by_id_ends_waiting_stream)
{
    struct site s;
    int fd = open_echo(&s, driver, (struct weft_server_limits){0});
    CHECK_EQ(weft_server_close(s.server, last_id, false), 0);
    expect_end(fd);
    CHECK_EQ(read_result, -ESHUTDOWN);
    fd = dial(&s);
    put(fd, "b");
    expect(fd, "b");
    CHECK_EQ(weft_server_close(s.server, last_id, true), 0);
    AWAIT(stats_of(&s).open == 0);
    close(fd);
    end(&s);
}

EACH_DRIVER(idle_timeout_ends_waiting_stream)
{
    struct site s;
    int fd = open_echo(&s, driver, (struct weft_server_limits){.idle_ns = MS(500)});
    expect_end(fd);
    CHECK_EQ(read_result, -ETIMEDOUT);
    AWAIT(stats_of(&s).idle_timeouts == 1);
    end(&s);
}

EACH_DRIVER(stop_ends_waiting_stream_after_grace)
{
    struct site s;
    pthread_t stopper;
    int fd = open_echo(&s, driver, (struct weft_server_limits){.grace_ns = S(1)});
    CHECK_EQ(pthread_create(&stopper, NULL, stop_in_thread, &s), 0);
    put(fd, "b");
    expect(fd, "b");
    expect_end(fd);
    CHECK_EQ(pthread_join(stopper, NULL), 0);
    CHECK_EQ(read_result, -ESHUTDOWN);
    CHECK_EQ(stats_of(&s).stop_lost, 0);
    end(&s);
}

static int leave_unread(weft_conn *conn, void *arg)
{
    (void)conn, (void)arg;
    return 0;
}

EACH_DRIVER(stream_that_leaves_too_much_unread_is_closed)
{
    static const struct weft_protocol lazy = {
        .framing = WEFT_FRAMING_STREAM, .serve = leave_unread, .message_max = 10000};
    static char block[100000];
    struct site s;
    make(&s, driver, (struct weft_server_limits){.linger_ns = MS(10)});
    serve(&s, &lazy);
    int fd = dial(&s);
    while (send(fd, block, sizeof block, MSG_NOSIGNAL) > 0) {
    }
    close(fd);
    AWAIT(stats_of(&s).open == 0);
    end(&s);
}
