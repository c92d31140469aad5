/* Connections by id: output from elsewhere, budgets, old ids. */
#include "conn/site.h"

EACH_DRIVER(send_by_id_reaches_connection_at_rest_without_waking_it)
{
    struct site s;
    opened = closed = 0;
    make(&s, driver, (struct weft_server_limits){.rest_ns = 1});
    serve(&s, &obedient);
    int fd = dial(&s);
    expect(fd, "hi");
    AWAIT(stats_of(&s).at_rest == 1);
    uint64_t wakes = stats_of(&s).wakes;
    weft_conn_id id = last_id;
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(send_text(&s, id, "news."), 0);
        expect(fd, "news.");
    }
    CHECK_EQ(stats_of(&s).wakes, wakes);
    put(fd, "a\n");
    expect(fd, "<a>");
    CHECK_EQ(weft_server_close(s.server, id, false), 0);
    expect_end(fd);
    AWAIT(closed == 1);
    CHECK_EQ(closed_why, WEFT_CONN_END_CLOSED);
    /* Old ids, and ids that never were. */
    CHECK_EQ(send_text(&s, id, "x"), -ENOTCONN);
    fd = dial(&s);
    expect(fd, "hi");
    CHECK(last_id != id);
    CHECK_EQ(send_text(&s, id, "x"), -ENOTCONN);
    CHECK_EQ(send_text(&s, 0, "x"), -ENOTCONN);
    CHECK_EQ(send_text(&s, UINT64_MAX, "x"), -ENOTCONN);
    CHECK_EQ(weft_server_close(s.server, id, true), -ENOTCONN);
    CHECK_EQ(weft_server_resume(s.server, id), -ENOTCONN);
    close(fd);
    AWAIT(closed == 2);
    end(&s);
}

static atomic_int overs, unders;

static void note_pressure(weft_conn_id id, bool over, void *arg)
{
    (void)arg;
    CHECK(id != 0);
    (*(over ? &overs : &unders))++;
}

EACH_DRIVER(output_for_slow_reader_is_bounded_and_refused)
{
    static const struct weft_protocol protocol = {
        .framing = WEFT_FRAMING_LINE, .open = note_open, .handle = obey, .pressure = note_pressure};
    enum { PIECE = 10000, BUDGET = 200000 };
    static char piece[PIECE];
    struct site s;
    struct weft_conn_info slowest[2];
    size_t sent = 0, got = 0;
    char byte[4096];
    opened = closed = overs = unders = 0;
    make(&s, driver, (struct weft_server_limits){.rest_ns = 1, .output_bytes = BUDGET});
    serve(&s, &protocol);
    int fd = dial(&s);
    expect(fd, "hi");
    weft_conn_id id = last_id;
    for (int refused = 0; refused < 50;) {
        weft_buf *buf = weft_buf_copy(piece, PIECE);
        int err = weft_server_send(s.server, id, buf);
        CHECK(err == 0 || err == -EAGAIN);
        CHECK(stats_of(&s).output_bytes <= BUDGET);
        if (err) {
            weft_buf_free(buf);
            refused++;
            usleep(1000);
        } else {
            sent += PIECE;
        }
    }
    AWAIT(overs > 0);
    CHECK_EQ(weft_server_slowest(s.server, slowest, 2), 1);
    CHECK_EQ(slowest[0].id, id);
    CHECK(slowest[0].output_bytes > BUDGET - PIECE);
    CHECK(stats_of(&s).output_refused >= 50);
    while (got < sent) { /* all of it arrives */
        ssize_t n = take(fd, byte, sizeof byte);
        CHECK(n > 0);
        got += (size_t)n;
    }
    AWAIT(stats_of(&s).output_bytes == 0);
    AWAIT(unders == overs);
    CHECK_EQ(weft_server_slowest(s.server, slowest, 2), 0);
    weft_buf *larger = weft_buf_alloc(BUDGET + 1, 0);
    weft_buf_put(larger, BUDGET + 1);
    CHECK_EQ(weft_server_send(s.server, id, larger), -EMSGSIZE);
    weft_buf_free(larger);
    put(fd, "a\n");
    expect(fd, "<a>");
    close(fd);
    AWAIT(stats_of(&s).open == 0);
    end(&s);
}

EACH_DRIVER(buffer_larger_than_budget_of_server_is_refused)
{
    struct site s;
    opened = closed = 0;
    make(&s, driver, (struct weft_server_limits){.output_bytes_all = 3});
    serve(&s, &obedient);
    int fd = dial(&s);
    expect(fd, "hi");
    CHECK_EQ(send_text(&s, last_id, "news"), -EMSGSIZE);
    CHECK_EQ(stats_of(&s).output_refused, 0);
    CHECK_EQ(send_text(&s, last_id, ""), 0);
    CHECK_EQ(send_text(&s, last_id, "new"), 0);
    expect(fd, "new");
    close(fd);
    AWAIT(stats_of(&s).open == 0);
    end(&s);
}

/* A request is in the socket when the sender finds room for a part of its buffer only: the rest of
 * the buffer comes before the response. Nothing else runs on the only worker in between. */
struct torn {
    struct site *site;
    int fd;
    size_t bytes;
};

static void *request_and_send(void *arg)
{
    struct torn *torn = arg;
    weft_buf *buf = weft_buf_alloc(torn->bytes, 0);
    memset(weft_buf_put(buf, torn->bytes), 'x', torn->bytes);
    put(torn->fd, "a\n");
    CHECK_EQ(weft_server_send(torn->site->server, last_id, buf), 0);
    return NULL;
}

EACH_DRIVER(buffer_sent_in_part_is_finished_before_response)
{
    enum { BYTES = 8 << 20 }; /* more than both sockets hold */
    struct site s = {0};
    struct torn torn = {.site = &s, .bytes = BYTES};
    static char got[65536];
    opened = closed = 0;
    CHECK_EQ(weft_pool_create(&s.pool, &(struct weft_pool_opts){.workers = 1, .driver = driver}),
             0);
    CHECK_EQ(weft_pool_start(s.pool), 0);
    CHECK_EQ(weft_server_create(&s.server,
                                &(struct weft_server_opts){
                                    .pool = s.pool,
                                    .limits.output_bytes = BYTES,
                                }),
             0);
    serve(&s, &obedient);
    for (int i = 0; i < 10; i++) {
        opened = 0;
        torn.fd = dial(&s);
        expect(torn.fd, "hi");
        CHECK_EQ(weft_pool_call(s.pool, NULL, 0, request_and_send, &torn, WEFT_FOREVER), 0);
        for (size_t have = 0; have < BYTES;) {
            size_t left = BYTES - have;
            ssize_t n = take(torn.fd, got, left < sizeof got ? left : sizeof got);
            CHECK(n > 0);
            CHECK(memchr(got, '<', (size_t)n) == NULL);
            have += (size_t)n;
        }
        expect(torn.fd, "<a>");
        close(torn.fd);
        AWAIT(stats_of(&s).open == 0);
    }
    end(&s);
}

EACH_DRIVER(slowest_reader_can_be_cut)
{
    static char piece[100000];
    struct site s;
    opened = closed = 0;
    make(&s, driver, (struct weft_server_limits){.output_bytes = 1 << 20});
    serve(&s, &obedient);
    int fd = dial(&s);
    expect(fd, "hi");
    weft_conn_id id = last_id;
    weft_buf *buf;
    int err;
    do {
        buf = weft_buf_copy(piece, sizeof piece);
        err = weft_server_send(s.server, id, buf);
        usleep(err ? 0 : 1000);
    } while (!err);
    CHECK_EQ(err, -EAGAIN);
    weft_buf_free(buf);
    CHECK_EQ(weft_server_close(s.server, id, true), 0);
    AWAIT(closed == 1);
    CHECK_EQ(closed_why, WEFT_CONN_END_CLOSED);
    CHECK_EQ(stats_of(&s).output_bytes, 0);
    close(fd);
    end(&s);
}

static void *wait_for_event(void *arg)
{
    CHECK_EQ(weft_event_wait(arg, WEFT_FOREVER), 0);
    return NULL;
}

static void fill(weft_pool *pool, weft_event *release)
{
    while (weft_pool_spawn(pool, NULL, wait_for_event, release, NULL) == 0) {
    }
}

/* What needs a fiber is refused, and a close at once needs none. */
EACH_DRIVER(full_pool_refuses_output_by_id)
{
    struct site s = {0};
    weft_event release;
    weft_event_init(&release, NULL);
    opened = closed = 0;
    CHECK_EQ(
        weft_pool_create(
            &s.pool, &(struct weft_pool_opts){.workers = 2, .driver = driver, .max_fibers = 16}),
        0);
    CHECK_EQ(weft_pool_start(s.pool), 0);
    CHECK_EQ(weft_server_create(&s.server, &(struct weft_server_opts){.pool = s.pool}), 0);
    serve(&s, &obedient);
    int fd = dial(&s);
    expect(fd, "hi");
    int err;
    do { /* another fiber may have ended in between */
        fill(s.pool, &release);
        err = send_text(&s, last_id, "news");
        expect(fd, err ? "" : "news");
    } while (!err);
    CHECK_EQ(err, -EAGAIN);
    do {
        fill(s.pool, &release);
        err = weft_server_resume(s.server, last_id);
    } while (!err);
    CHECK_EQ(err, -EAGAIN);
    CHECK_EQ(stats_of(&s).output_bytes, 0);
    CHECK_EQ(stats_of(&s).output_refused, 0); /* no budget was used up */
    put(fd, "pause\n");
    expect(fd, "<pause>");
    CHECK_EQ(weft_server_close(s.server, last_id, true), 0);
    AWAIT(closed == 1);
    CHECK_EQ(closed_why, WEFT_CONN_END_CLOSED);
    close(fd);
    weft_event_set(&release);
    end(&s);
    weft_event_deinit(&release);
}
