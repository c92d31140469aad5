/* A server for any protocol: framings, pauses, the end of a connection, bad options. */
#include <fcntl.h>

#include "conn/site.h"

/* --- framings --------------------------------------------------------------------------------- */

/* A digit, and that many bytes after it. */
static ssize_t frame_by_digit(weft_conn *conn, const char *bytes, size_t n, void *arg)
{
    (void)conn, (void)arg;
    if (bytes[0] < '0' || bytes[0] > '9') {
        return -EBADMSG;
    }
    size_t whole = 1 + (size_t)(bytes[0] - '0');
    return n >= whole ? (ssize_t)whole : 0;
}

EACH_DRIVER(bytes_become_messages_by_each_framing)
{
    static const struct {
        struct weft_protocol protocol;
        const char *sent, *answer;
    } cases[] = {
        {{.framing = WEFT_FRAMING_LINE, .handle = echo}, "one\r\ntwo\n\n", "<one><two><>"},
        {{.framing = WEFT_FRAMING_LENGTH_PREFIX, .length_prefix = {.bytes = 1}, .handle = echo},
         "\003abc\001d",
         "<abc><d>"},
        {{.framing = WEFT_FRAMING_RESP, .handle = echo},
         "*2\r\n$3\r\nGET\r\n$1\r\nx\r\n:1\r\n",
         "<*2\r\n$3\r\nGET\r\n$1\r\nx\r\n><:1\r\n>"},
        {{.framing = WEFT_FRAMING_CUSTOM, .frame = frame_by_digit, .handle = echo},
         "3abc02ab",
         "<3abc><0><2ab>"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct site s;
        make(&s, driver, (struct weft_server_limits){.rest_ns = i % 2 ? 1 : 0});
        serve(&s, &cases[i].protocol);
        int fd = dial(&s);
        put(fd, cases[i].sent);
        expect(fd, cases[i].answer);
        for (size_t k = 0; cases[i].sent[k]; k++) { /* byte by byte */
            CHECK_EQ(send(fd, cases[i].sent + k, 1, MSG_NOSIGNAL), 1);
            usleep(200);
        }
        expect(fd, cases[i].answer);
        CHECK_EQ(shutdown(fd, SHUT_WR), 0);
        expect_end(fd);
        end(&s);
    }
}

static char large[300000];

EACH_DRIVER(message_larger_than_buffer_is_handled_and_larger_than_limit_refused)
{
    static const struct weft_protocol protocol = {
        .framing = WEFT_FRAMING_LINE, .line = {.max = sizeof large}, .handle = echo};
    static char answer[sizeof large + 1]; /* "<", the line, ">" */
    struct site s;
    make(&s, driver, (struct weft_server_limits){0});
    serve(&s, &protocol);
    int fd = dial(&s);
    memset(large, 'x', sizeof large);
    large[sizeof large - 1] = '\n';
    CHECK_EQ(send(fd, large, sizeof large, MSG_NOSIGNAL), sizeof large);
    CHECK_EQ(recv(fd, answer, sizeof answer, MSG_WAITALL), sizeof answer);
    CHECK(answer[0] == '<' && answer[sizeof answer - 1] == '>');
    large[sizeof large - 1] = 'x';
    while (send(fd, large, sizeof large, MSG_NOSIGNAL) > 0) { /* a line without an end */
    }
    close(fd);
    AWAIT(stats_of(&s).open == 0);
    CHECK_EQ(stats_of(&s).messages, 1);
    end(&s);
}

/* --- the life of a connection ----------------------------------------------------------------- */

EACH_DRIVER(close_is_called_once_with_reason)
{
    struct site s;
    opened = closed = 0;
    make(&s, driver, (struct weft_server_limits){.rest_ns = 1});
    serve(&s, &obedient);

    int fd = dial(&s);
    expect(fd, "hi");
    put(fd, "a\nclose\nnot read\n");
    expect(fd, "<a>bye");
    expect_end(fd);
    AWAIT(closed == 1);
    CHECK_EQ(closed_why, WEFT_CONN_END_CLOSED);

    fd = dial(&s);
    put(fd, "fail\n");
    expect(fd, "hi");
    expect_end(fd);
    AWAIT(closed == 2);
    CHECK_EQ(closed_why, WEFT_CONN_END_ERROR);

    fd = dial(&s);
    expect(fd, "hi");
    close(fd);
    AWAIT(closed == 3);
    CHECK_EQ(closed_why, WEFT_CONN_END_PEER);

    end(&s);

    make(&s, driver, (struct weft_server_limits){.rest_ns = 1, .idle_ns = MS(300)});
    serve(&s, &obedient);
    fd = dial(&s);
    expect(fd, "hi");
    expect_end(fd);
    AWAIT(closed == 4);
    CHECK_EQ(closed_why, WEFT_CONN_END_TIMEOUT);
    CHECK_EQ(stats_of(&s).idle_timeouts, 1);
    CHECK_EQ(opened, 4);
    end(&s);
}

EACH_DRIVER(message_timeout_covers_whole_message)
{
    struct site s;
    opened = closed = 0;
    make(&s, driver, (struct weft_server_limits){.message_ns = MS(500)});
    serve(&s, &obedient);
    int fd = dial(&s);
    expect(fd, "hi");
    for (int i = 0; i < 3; i++) { /* in pieces, and not to its end; too late on a slow machine */
        send(fd, "a", 1, MSG_NOSIGNAL);
        usleep(20000);
    }
    char byte;
    CHECK(take(fd, &byte, 1) <= 0);
    close(fd);
    AWAIT(closed == 1);
    CHECK_EQ(closed_why, WEFT_CONN_END_TIMEOUT);
    CHECK_EQ(stats_of(&s).message_timeouts, 1);
    CHECK_EQ(stats_of(&s).idle_timeouts, 0);
    end(&s);
}

static weft_event may_return;

static int send_and_wait(weft_conn *conn, const char *line, size_t n, void *arg)
{
    struct site *s = arg;
    char name[32];
    weft_fiber_name(weft_self(), name, sizeof name);
    CHECK_STR(name, "patient");
    CHECK_EQ(weft_conn_send(conn, line, n, WEFT_FOREVER), 0);
    CHECK_EQ(weft_conn_flush(conn, WEFT_FOREVER), 0);
    CHECK_EQ(send_text(s, weft_conn_get_id(conn), "news"), 0); /* for a busy connection */
    CHECK_EQ(weft_event_wait(&may_return, WEFT_FOREVER), 0);
    return weft_conn_send(conn, "end", 3, WEFT_FOREVER);
}

EACH_DRIVER(handler_flushes_before_it_waits)
{
    static const struct weft_protocol protocol = {
        .name = "patient", .framing = WEFT_FRAMING_LINE, .handle = send_and_wait};
    struct site s;
    weft_event_init(&may_return, NULL);
    make(&s, driver, (struct weft_server_limits){0});
    serve(&s, &protocol);
    int fd = dial(&s);
    put(fd, "abc\n");
    expect(fd, "abc");
    weft_event_set(&may_return);
    expect(fd, "endnews");
    close(fd);
    AWAIT(stats_of(&s).open == 0);
    end(&s);
    weft_event_deinit(&may_return);
}

EACH_DRIVER(stop_says_goodbye_serves_in_grace_and_closes)
{
    struct site s;
    pthread_t stopper;
    opened = closed = 0;
    make(&s, driver, (struct weft_server_limits){.rest_ns = 1, .grace_ns = S(1)});
    serve(&s, &obedient);
    int fd = dial(&s);
    expect(fd, "hi");
    AWAIT(stats_of(&s).at_rest == 1);
    CHECK_EQ(pthread_create(&stopper, NULL, stop_in_thread, &s), 0);
    expect(fd, "goodbye");
    put(fd, "late\n");
    expect(fd, "<late>");
    expect_end(fd);
    CHECK_EQ(pthread_join(stopper, NULL), 0);
    CHECK_EQ(closed, 1);
    CHECK_EQ(closed_why, WEFT_CONN_END_STOPPED);
    CHECK_EQ(stats_of(&s).stop_idle, 1);
    CHECK_EQ(stats_of(&s).stop_lost, 0);
    end(&s);
}

EACH_DRIVER(paused_connection_reads_nothing_until_resumed)
{
    struct site s;
    opened = closed = 0;
    make(&s, driver,
         (struct weft_server_limits){.rest_ns = 1, .idle_ns = S(1), .grace_ns = MS(10)});
    serve(&s, &obedient);
    int fd = dial(&s);
    expect(fd, "hi");
    put(fd, "pause\na\n");
    expect(fd, "<pause>");
    usleep(1200000); /* longer than the idle timeout */
    CHECK_EQ(stats_of(&s).messages, 1);
    CHECK_EQ(send_text(&s, last_id, "news"), 0);
    expect(fd, "news");
    CHECK_EQ(weft_server_resume(s.server, last_id), 0);
    expect(fd, "<a>");
    put(fd, "pause\nb\n");
    expect(fd, "<pause>");
    /* A stop waits until it is resumed, and what was sent before is served. */
    pthread_t stopper;
    CHECK_EQ(pthread_create(&stopper, NULL, stop_in_thread, &s), 0);
    expect(fd, "goodbye");
    usleep(50000); /* longer than the grace period */
    CHECK_EQ(closed, 0);
    CHECK_EQ(weft_server_resume(s.server, last_id), 0);
    expect(fd, "<b>");
    expect_end(fd);
    CHECK_EQ(pthread_join(stopper, NULL), 0);
    CHECK_EQ(closed, 1);
    CHECK_EQ(closed_why, WEFT_CONN_END_STOPPED);
    end(&s);
}

EACH_DRIVER(stop_at_once_ends_paused_connection)
{
    struct site s;
    opened = closed = 0;
    make(&s, driver, (struct weft_server_limits){.rest_ns = 1});
    serve(&s, &obedient);
    int fd = dial(&s);
    expect(fd, "hi");
    put(fd, "pause\na\n");
    expect(fd, "<pause>");
    CHECK_EQ(weft_server_stop(s.server, 0), 0);
    CHECK_EQ(closed, 1);
    CHECK_EQ(closed_why, WEFT_CONN_END_STOPPED);
    CHECK_EQ(stats_of(&s).stop_aborted, 1);
    close(fd);
    end(&s);
}

static int send_in_every_way(weft_conn *conn, const char *line, size_t n, void *arg)
{
    (void)arg;
    int file = open("/proc/self/exe", O_RDONLY | O_CLOEXEC);
    CHECK_EQ(weft_conn_send(conn, line, n, WEFT_FOREVER), 0);
    CHECK_EQ(weft_conn_send_buf(conn, weft_buf_copy("+", 1), WEFT_FOREVER), 0);
    CHECK_EQ(weft_conn_send_file(conn, file, 1, 3, WEFT_FOREVER), 0);
    CHECK_EQ(weft_conn_send_buf(conn, weft_buf_copy("", 0), WEFT_FOREVER), 0);
    CHECK_EQ(weft_conn_send(conn, "+", 1, WEFT_FOREVER), 0);
    if (n == 5) {
        CHECK_EQ(weft_conn_send_file(conn, file, INT64_C(1) << 40, 1, WEFT_FOREVER), -ENODATA);
        CHECK_EQ(weft_conn_send(conn, "x", 1, WEFT_FOREVER), -EPIPE);
    }
    close(file);
    return 0;
}

EACH_DRIVER(bytes_buffers_and_files_are_sent_in_order)
{
    static const struct weft_protocol protocol = {.framing = WEFT_FRAMING_LINE,
                                                  .handle = send_in_every_way};
    struct site s;
    make(&s, driver, (struct weft_server_limits){0});
    serve(&s, &protocol);
    int fd = dial(&s);
    put(fd, "a\nb\nshort\n");
    expect(fd, "a+ELF+b+ELF+short+ELF+");
    expect_end(fd);
    end(&s);
}

/* A message is handled, or the connection ends; nothing is left behind. */
EACH_DRIVER(connection_without_memory_is_closed)
{
    struct site s;
    for (int n = 1; n <= 20; n++) {
        opened = closed = 0;
        make(&s, driver, (struct weft_server_limits){.rest_ns = 1, .linger_ns = MS(100)});
        serve(&s, &obedient);
        int fd = dial(&s), err = 0;
        char buf[16];
        weft__alloc_fail_after(n, true);
        for (int i = 0; i < 3 && !err; i++) {
            err = send(fd, "a\n", 2, MSG_NOSIGNAL) != 2;
            usleep(500);
        }
        weft__alloc_fail_after(0, false);
        CHECK(shutdown(fd, SHUT_WR) == 0 || errno == ENOTCONN);
        while (take(fd, buf, sizeof buf) > 0) {
        }
        close(fd);
        AWAIT(stats_of(&s).open == 0);
        CHECK_EQ(closed, opened);
        end(&s);
    }
}

TEST(server_refuses_bad_options_and_protocols)
{
    static const struct weft_protocol bad[] = {
        {.framing = WEFT_FRAMING_LINE},
        {.framing = WEFT_FRAMING_CUSTOM, .handle = echo},
        {.framing = WEFT_FRAMING_STREAM, .handle = echo},
        {.framing = WEFT_FRAMING_LENGTH_PREFIX, .length_prefix = {.bytes = 3}, .handle = echo},
        {.framing = (enum weft_framing)77, .handle = echo},
    };
    struct site s;
    CHECK_EQ(weft_server_create(&s.server, NULL), -EINVAL);
    make(&s, WEFT_DRIVER_AUTO, (struct weft_server_limits){0});
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        CHECK_EQ(weft_server_listen(s.server, NULL, "127.0.0.1:0", &bad[i], NULL), -EINVAL);
        CHECK(strstr(weft_last_error(), "protocol") != NULL);
    }
    CHECK_EQ(weft_server_listen(s.server, NULL, "nowhere", &obedient, NULL), -EINVAL);
    end(&s);
}
