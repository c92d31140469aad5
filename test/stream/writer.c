/* A writer combines small pieces, waits at its high-water mark, and loses nothing. */
/* labels: valgrind */
#include <weft/stream.h>

#include <sys/socket.h>

#include "base/alloc.h"
#include "buf/bufs.h"
#include "io/drivers.h"

/* What was written, and in which writes. */
static char sink[1 << 20];
static size_t sunk;
static int writes, most_vectors;
static size_t takes;  /* bytes that one write accepts; 0: -ETIMEDOUT */
static int fail_each; /* every n-th write fails with -ETIMEDOUT */

static ssize_t sinks(void *arg, const struct iovec *iov, int count, int64_t deadline)
{
    size_t done = 0;
    (void)arg, (void)deadline;
    if (takes == 0 || (fail_each && ++writes % fail_each == 0)) {
        return -ETIMEDOUT;
    }
    writes += fail_each ? 0 : 1;
    most_vectors = count > most_vectors ? count : most_vectors;
    for (int i = 0; i < count && done < takes; i++) {
        size_t part = iov[i].iov_len < takes - done ? iov[i].iov_len : takes - done;
        memcpy(sink + sunk, iov[i].iov_base, part);
        sunk += part;
        done += part;
    }
    return (ssize_t)done;
}

static void begin(weft_writer *writer, size_t high_water, size_t bytes)
{
    sunk = 0;
    writes = most_vectors = fail_each = 0;
    takes = bytes;
    weft_writer_init(writer, -1,
                     &(struct weft_writer_opts){.high_water = high_water, .writev = sinks});
}

TEST(writer_combines_small_appends_into_one_write)
{
    weft_writer writer;
    begin(&writer, 0, SIZE_MAX);
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(weft_writer_append(&writer, "0123456789", 10, WEFT_FOREVER), 0);
    }
    CHECK_EQ(weft_writer_printf(&writer, WEFT_FOREVER, "%s=%d\n", "x", 7), 0);
    CHECK_EQ(weft_writer_pending(&writer), 1004);
    CHECK_EQ(writes, 0);
    CHECK_EQ(weft_writer_flush(&writer, WEFT_FOREVER), 0);
    CHECK_EQ(writes, 1);
    CHECK_EQ(most_vectors, 1);
    CHECK_EQ(sunk, 1004);
    CHECK_EQ(memcmp(sink + 1000, "x=7\n", 4), 0);
    CHECK_EQ(weft_writer_flush(&writer, WEFT_FOREVER), 0);
    CHECK_EQ(writes, 1); /* the buffer was empty */
    weft_writer_deinit(&writer);
}

TEST(writer_append_waits_at_high_mark_and_error_appends_nothing)
{
    weft_writer writer;
    char block[60] = {0};
    begin(&writer, 100, 0);
    CHECK_EQ(weft_writer_append(&writer, block, 60, 0), 0);
    CHECK_EQ(weft_writer_append(&writer, block, 60, 0), 0);
    CHECK_EQ(weft_writer_pending(&writer), 120);
    CHECK_EQ(weft_writer_append(&writer, block, 60, 0), -ETIMEDOUT);
    CHECK_EQ(weft_writer_printf(&writer, 0, "x"), -ETIMEDOUT);
    weft_buf *buf = weft_buf_copy("abc", 3);
    CHECK_EQ(weft_writer_append_buf(&writer, buf, 0), -ETIMEDOUT);
    CHECK_EQ(weft_writer_pending(&writer), 120);
    takes = 21;
    CHECK_EQ(weft_writer_append_buf(&writer, buf, 0), 0); /* one write brought it below the mark */
    CHECK_EQ(weft_writer_pending(&writer), 102);
    CHECK_EQ(weft_writer_append(&writer, "de", 2, 0), 0);
    CHECK_EQ(weft_writer_flush(&writer, 0), 0);
    CHECK_EQ(sunk, 125);
    CHECK_EQ(memcmp(sink + 120, "abcde", 5), 0);
    weft_writer_deinit(&writer);
}

static uint64_t state;

static uint32_t draw(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % below);
}

/* Any pieces, any short writes, failures in between: the bytes are the same. */
static void pieces(uint64_t seed)
{
    static char text[60000];
    weft_writer writer;
    size_t at = 0;
    state = seed;
    begin(&writer, 1 + draw(20000), 1 + draw(3000));
    fail_each = draw(2) ? 2 + (int)draw(4) : 0;
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = (char)('a' + draw(26));
    }
    while (at < sizeof text) {
        size_t n = draw(draw(2) ? 12000 : 40);
        n = n < sizeof text - at ? n : sizeof text - at;
        int err = 0;
        switch (draw(5)) {
        case 0:
            err = weft_writer_printf(&writer, 0, "%.*s", (int)n, text + at);
            break;
        case 1: {
            weft_buf *buf = weft_buf_alloc(n + draw(9000), 0);
            memcpy(weft_buf_put(buf, n), text + at, n);
            err = weft_writer_append_buf(&writer, buf, 0);
            if (err) {
                weft_buf_free(buf);
            }
            break;
        }
        case 2: {
            weft_bufs bufs = {0};
            size_t half = n / 2;
            weft_bufs_append(&bufs, weft_buf_copy(text + at, half));
            weft_bufs_append(&bufs, weft_buf_copy(text + at + half, n - half));
            err = weft_writer_append_bufs(&writer, &bufs, 0);
            weft_bufs_free(&bufs);
            break;
        }
        case 3:
            err = weft_writer_flush(&writer, 0);
            n = 0;
            break;
        default:
            err = weft_writer_append(&writer, text + at, n, 0);
            break;
        }
        CHECK(err == 0 || err == -ETIMEDOUT);
        at += err ? 0 : n;
    }
    while (weft_writer_flush(&writer, 0) != 0) {
    }
    CHECK_EQ(sunk, sizeof text);
    CHECK_EQ(memcmp(sink, text, sizeof text), 0);
    CHECK(most_vectors <= 64);
    weft_writer_deinit(&writer);
}

TEST(writer_output_equals_input)
{
    uint64_t seed = check_seed();
    for (int i = 0; i < 40; i++) {
        pieces(seed + (uint64_t)i);
    }
}

TEST(writer_append_without_memory_appends_nothing)
{
    weft_writer writer;
    char block[5000];
    int failed = 0;
    memset(block, 'x', sizeof block);
    for (long fail = 1; fail < 5; fail++) {
        begin(&writer, 0, SIZE_MAX);
        size_t expected = 0;
        weft__buf_trim_pools(); /* otherwise the data would come from there */
        weft__alloc_fail_after(fail, false);
        for (int i = 0; i < 4; i++) {
            int err = weft_writer_append(&writer, block, sizeof block, 0);
            CHECK(err == 0 || err == -ENOMEM);
            expected += err ? 0 : sizeof block;
            err = weft_writer_printf(&writer, 0, "%.*s", (int)sizeof block, block);
            CHECK(err == 0 || err == -ENOMEM);
            expected += err ? 0 : sizeof block;
            failed += expected != (size_t)(i + 1) * 2 * sizeof block;
            CHECK_EQ(weft_writer_pending(&writer), expected);
        }
        weft__alloc_fail_after(0, false);
        CHECK_EQ(weft_writer_flush(&writer, 0), 0);
        CHECK_EQ(sunk, expected);
        weft_writer_deinit(&writer);
    }
    CHECK(failed > 0);
}

/* --- a descriptor -------------------------------------------------------------------------- */

static int ends[2];

static void *drains(void *arg)
{
    static char block[65536];
    size_t *total = arg;
    ssize_t n;
    while ((n = weft_read(ends[1], block, sizeof block, WEFT_FOREVER)) > 0) {
        *total += (size_t)n;
    }
    CHECK_EQ(n, 0);
    return NULL;
}

static void *to_a_socket(void *arg)
{
    static char block[100000];
    weft_writer writer;
    weft_fiber fiber;
    size_t put = 0, total = 0;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    weft_writer_init(&writer, ends[0], NULL);
    int err;
    while ((err = weft_writer_append(&writer, block, sizeof block, 0)) == 0) {
        put += sizeof block;
    }
    CHECK_EQ(err, -ETIMEDOUT); /* the peer does not read */
    CHECK_EQ(weft_writer_flush(&writer, weft_after(1000000)), -ETIMEDOUT);
    CHECK_EQ(weft_spawn(&fiber, drains, &total, NULL), 0);
    CHECK_EQ(weft_writer_flush(&writer, WEFT_FOREVER), 0);
    CHECK_EQ(weft_close(ends[0]), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(total, put);
    weft_writer_deinit(&writer);
    CHECK_EQ(weft_close(ends[1]), 0);
    return arg;
}

EACH_DRIVER(writer_waits_for_slow_peer_until_deadline)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = driver};
    CHECK_EQ(weft_run(NULL, to_a_socket, NULL, &opts, WEFT_FOREVER), 0);
}
