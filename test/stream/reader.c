/* A reader returns the same data, however the bytes are split into pieces. */
#include <weft/stream.h>

#include <sys/socket.h>

#include "base/alloc.h"
#include "buf/bufs.h"
#include "io/drivers.h"

/* --- a source that returns pieces ----------------------------------------------------------- */

struct script {
    const char *bytes;
    size_t len, at;
    size_t piece;   /* most bytes per read */
    size_t cut;     /* if not 0: a piece ends here */
    int interrupts; /* every n-th read fails with -ETIMEDOUT */
    int reads;
};

static ssize_t plays(void *arg, const struct iovec *iov, int count, int64_t deadline)
{
    struct script *script = arg;
    (void)deadline;
    if (script->interrupts && ++script->reads % script->interrupts == 0) {
        return -ETIMEDOUT;
    }
    size_t end =
        script->len - script->at < script->piece ? script->len : script->at + script->piece;
    if (script->at < script->cut && end > script->cut) {
        end = script->cut;
    }
    size_t done = 0;
    for (int i = 0; i < count && script->at < end; i++) {
        size_t part = iov[i].iov_len < end - script->at ? iov[i].iov_len : end - script->at;
        memcpy(iov[i].iov_base, script->bytes + script->at, part);
        script->at += part;
        done += part;
    }
    return (ssize_t)done;
}

static void open_script(weft_reader *reader, struct script *script, size_t limit, size_t chunk)
{
    const struct weft_reader_opts opts = {
        .limit = limit, .chunk = chunk, .readv = plays, .arg = script};
    weft_reader_init(reader, -1, &opts);
}

static uint64_t state;

static uint32_t draw(uint32_t below)
{
    state = state * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((state >> 33) % below);
}

/* --- lines ------------------------------------------------------------------------------------ */

/* The expected lines of a text, computed independently of pieces. */
static size_t lines_of(struct script script, size_t chunk, char *out)
{
    weft_reader reader;
    const char *line;
    size_t n = 0;
    open_script(&reader, &script, 256, chunk);
    for (;;) {
        ssize_t len = weft_reader_read_line(&reader, &line, WEFT_FOREVER);
        if (len == -ETIMEDOUT) {
            continue;
        }
        if (len < 0) {
            CHECK_EQ(len, -ENODATA);
            break;
        }
        memcpy(out + n, line, (size_t)len);
        n += (size_t)len;
        out[n++] = '|';
    }
    CHECK_EQ(weft_reader_buffered(&reader), 0);
    weft_reader_deinit(&reader);
    out[n] = 0;
    return n;
}

TEST(reader_lines_do_not_depend_on_chunking)
{
    static const char text[] = "one\r\ntwo\n\n\r\n  three \rx\nlast without an end";
    static const char expected[] = "one|two|||  three \rx|last without an end|";
    char out[200];
    struct script script = {.bytes = text, .len = sizeof text - 1};
    for (script.piece = 1; script.piece < sizeof text; script.piece++) {
        for (size_t chunk = 1; chunk < sizeof text; chunk++) {
            lines_of(script, chunk, out);
            CHECK_STR(out, expected);
        }
    }
    script.piece = sizeof text;
    for (script.cut = 1; script.cut < sizeof text; script.cut++) {
        lines_of(script, 4096, out);
        CHECK_STR(out, expected);
    }
    script.piece = 3;
    script.interrupts = 2;
    lines_of(script, 8, out);
    CHECK_STR(out, expected);
}

TEST(reader_line_beyond_limit_is_refused_and_stays_buffered)
{
    weft_reader reader;
    const char *line;
    const unsigned char *bytes;
    struct script script = {.bytes = "0123456789\nab\n", .len = 14};
    for (script.piece = 1; script.piece < 15; script.piece++) {
        script.at = 0;
        open_script(&reader, &script, 10, 4); /* the line with its terminator has 11 */
        CHECK_EQ(weft_reader_read_line(&reader, &line, WEFT_FOREVER), -EMSGSIZE);
        CHECK_EQ(weft_reader_read_line(&reader, &line, WEFT_FOREVER), -EMSGSIZE);
        CHECK(weft_reader_peek(&reader, &bytes, 10, WEFT_FOREVER) >= 10);
        CHECK_EQ(memcmp(bytes, "0123456789", 10), 0);
        weft_reader_consume(&reader, 10);
        CHECK_EQ(weft_reader_read_line(&reader, &line, WEFT_FOREVER), 0);
        CHECK_EQ(weft_reader_read_line(&reader, &line, WEFT_FOREVER), 2);
        CHECK_EQ(memcmp(line, "ab", 2), 0);
        CHECK_EQ(weft_reader_read_line(&reader, &line, WEFT_FOREVER), -ENODATA);
        weft_reader_deinit(&reader);
        script.at = 0;
        open_script(&reader, &script, 11, 4);
        CHECK_EQ(weft_reader_read_line(&reader, &line, WEFT_FOREVER), 10);
        weft_reader_deinit(&reader);
    }
}

TEST(reader_finds_delimiter_split_across_chunks)
{
    static const char text[] = "a\r\nb\r\r\n\r\nbody\r\n\r";
    weft_reader reader;
    const unsigned char *out;
    struct script script = {.bytes = text, .len = sizeof text - 1};
    for (script.piece = 1; script.piece < sizeof text; script.piece++) {
        for (size_t chunk = 1; chunk < 8; chunk++) {
            script.at = 0;
            open_script(&reader, &script, 0, chunk);
            CHECK_EQ(weft_reader_read_until(&reader, &out, "\r\n\r\n", 4, WEFT_FOREVER), 5);
            CHECK_EQ(memcmp(out, "a\r\nb\r", 5), 0);
            CHECK_EQ(weft_reader_read_until(&reader, &out, "\r\n\r\n", 4, WEFT_FOREVER), -ENODATA);
            CHECK_EQ(weft_reader_peek(&reader, &out, 4, WEFT_FOREVER) >= 4, 1);
            CHECK_EQ(memcmp(out, "body", 4), 0);
            CHECK_EQ(weft_reader_read_until(&reader, &out, "\r\n", 2, WEFT_FOREVER), 4);
            CHECK_EQ(weft_reader_peek(&reader, &out, 10, WEFT_FOREVER), 1);
            weft_reader_deinit(&reader);
        }
    }
}

/* --- any mixture of calls --------------------------------------------------------------------- */

/* A thousand random calls see the bytes in order, none twice and none lost. */
static void mixture(uint64_t seed)
{
    static char text[20000];
    char copy[700];
    weft_reader reader;
    weft_bufs kept = {0};
    size_t at = 0;
    state = seed;
    for (size_t i = 0; i < sizeof text; i++) {
        text[i] = draw(20) ? (char)('a' + draw(26)) : '\n';
    }
    struct script script = {.bytes = text,
                            .len = sizeof text,
                            .piece = 1 + draw(900),
                            .interrupts = draw(2) ? 2 + (int)draw(5) : 0};
    open_script(&reader, &script, 600, 1 + draw(300));
    while (at < sizeof text) {
        const unsigned char *bytes;
        size_t n = draw(600), left = sizeof text - at, done;
        ssize_t got;
        switch (draw(6)) {
        case 0:
            got = weft_reader_peek(&reader, &bytes, n, WEFT_FOREVER);
            if (got >= 0) {
                CHECK((size_t)got >= n || (size_t)got == left);
                CHECK_EQ(memcmp(bytes, text + at, (size_t)got), 0);
                n = n < (size_t)got ? n : (size_t)got;
                weft_reader_consume(&reader, n);
                at += n;
            }
            break;
        case 1:
            got = weft_reader_read(&reader, copy, n, WEFT_FOREVER);
            if (got > 0) {
                CHECK_EQ(memcmp(copy, text + at, (size_t)got), 0);
                at += (size_t)got;
            }
            break;
        case 2:
            got = weft_reader_read_full(&reader, copy, n, &done, WEFT_FOREVER);
            CHECK(got == 0 ? done == n : done < n);
            CHECK_EQ(memcmp(copy, text + at, done), 0);
            at += done;
            break;
        case 3: {
            size_t before = kept.bytes;
            got = weft_reader_read_bufs(&reader, &kept, n, WEFT_FOREVER);
            CHECK_EQ(kept.bytes, before + (got == 0 ? n : 0));
            CHECK_EQ(weft_bufs_copy(&kept, before, copy, n), got == 0 ? n : 0);
            CHECK(got != 0 || memcmp(copy, text + at, n) == 0);
            at += got == 0 ? n : 0;
            if (draw(4) == 0) {
                weft_bufs_free(&kept);
            }
            break;
        }
        case 4: {
            const char *line;
            got = weft_reader_read_line(&reader, &line, WEFT_FOREVER);
            if (got >= 0) {
                CHECK_EQ(memcmp(line, text + at, (size_t)got), 0);
                at += (size_t)got;
                CHECK(at == sizeof text || text[at] == '\n');
                at += at < sizeof text;
            } else {
                CHECK(got == -ETIMEDOUT);
            }
            break;
        }
        default:
            CHECK(weft_reader_buffered(&reader) <= left);
            break;
        }
    }
    CHECK_EQ(script.at, sizeof text);
    weft_bufs_free(&kept);
    weft_reader_deinit(&reader);
}

TEST(mixed_reader_calls_return_every_byte_once)
{
    uint64_t seed = check_seed();
    for (int i = 0; i < 50; i++) {
        mixture(seed + (uint64_t)i);
    }
}

/* --- bounds ----------------------------------------------------------------------------------- */

/* The contracts say which pointers stay valid: to the data that consume leaves, and across
 * buffered. */
TEST(reader_consume_and_buffered_keep_pointers_valid)
{
    static const char text[] = "one two three four";
    struct script script = {.bytes = text, .len = sizeof text - 1, .piece = 5};
    weft_reader reader;
    const unsigned char *first, *again;
    open_script(&reader, &script, 0, 64);
    CHECK(weft_reader_peek(&reader, &first, 14, WEFT_FOREVER) >= 14);
    CHECK(weft_reader_buffered(&reader) >= 14);
    CHECK_EQ(memcmp(first, "one two three ", 14), 0);
    weft_reader_consume(&reader, 4);
    CHECK_EQ(memcmp(first + 4, "two three ", 10), 0);
    CHECK(weft_reader_peek(&reader, &again, 10, WEFT_FOREVER) >= 10);
    CHECK(again == first + 4);
    weft_reader_deinit(&reader);
}

TEST(reader_request_beyond_limit_returns_emsgsize)
{
    weft_reader reader;
    weft_bufs out = {0};
    const unsigned char *bytes;
    struct script script = {.bytes = "abc", .len = 3, .piece = 9};
    open_script(&reader, &script, 16, 16);
    CHECK_EQ(weft_reader_peek(&reader, &bytes, 17, WEFT_FOREVER), -EMSGSIZE);
    CHECK_EQ(weft_reader_read_bufs(&reader, &out, 17, WEFT_FOREVER), -EMSGSIZE);
    CHECK_EQ(weft_reader_read_bufs(&reader, &out, 4, WEFT_FOREVER), -ENODATA);
    CHECK_EQ(weft_reader_peek(&reader, &bytes, 16, WEFT_FOREVER), 3); /* nothing was lost */
    CHECK_EQ(weft_reader_read_bufs(&reader, &out, 3, WEFT_FOREVER), 0);
    CHECK_EQ(weft_reader_peek(&reader, &bytes, 1, WEFT_FOREVER), 0);
    CHECK_EQ(out.bytes, 3);
    weft_bufs_free(&out);
    weft_reader_deinit(&reader);
}

TEST(reader_without_memory_loses_no_bytes)
{
    weft_reader reader;
    const char *line;
    static char text[2000];
    memset(text, 'x', sizeof text - 1);
    text[sizeof text - 1] = '\n';
    struct script script = {.bytes = text, .len = sizeof text, .piece = 50};
    int failed = 0;
    weft__buf_trim_pools(); /* otherwise the data would come from there */
    for (long fail = 1; fail < 20; fail++) {
        script.at = 0;
        open_script(&reader, &script, 0, 100);
        weft__alloc_fail_after(fail, false);
        ssize_t n;
        while ((n = weft_reader_read_line(&reader, &line, WEFT_FOREVER)) == -ENOMEM) {
            failed++;
        }
        weft__alloc_fail_after(0, false);
        CHECK_EQ(n, sizeof text - 1);
        CHECK_EQ(memcmp(line, text, sizeof text - 1), 0);
        weft_reader_deinit(&reader);
        weft__buf_trim_pools();
    }
    CHECK(failed > 5);
}

/* --- a descriptor ----------------------------------------------------------------------------- */

static int ends[2];

static void *writes(void *arg)
{
    static const char *const parts[] = {"fir", "st\nsec", "ond\n"};
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_write_all(ends[1], parts[i], strlen(parts[i]), NULL, WEFT_FOREVER), 0);
        weft_yield();
    }
    CHECK_EQ(weft_close(ends[1]), 0);
    return arg;
}

static void *reads(void *free_when_idle)
{
    weft_reader reader;
    weft_fiber fiber;
    const char *line;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    weft_reader_init(&reader, ends[0],
                     &(struct weft_reader_opts){.free_when_idle = free_when_idle != NULL});
    CHECK_EQ(weft_reader_read_line(&reader, &line, weft_after(1000000)), -ETIMEDOUT);
    CHECK_EQ(weft_spawn(&fiber, writes, NULL, NULL), 0);
    CHECK_EQ(weft_reader_read_line(&reader, &line, WEFT_FOREVER), 5);
    CHECK_EQ(memcmp(line, "first", 5), 0);
    CHECK_EQ(weft_reader_read_line(&reader, &line, WEFT_FOREVER), 6);
    CHECK_EQ(memcmp(line, "second", 6), 0);
    CHECK_EQ(weft_reader_read_line(&reader, &line, WEFT_FOREVER), -ENODATA);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    weft_reader_deinit(&reader);
    CHECK_EQ(weft_close(ends[0]), 0);
    return NULL;
}

EACH_DRIVER(reader_line_from_socket_honours_deadline)
{
    const struct weft_pool_opts opts = {.workers = 1, .driver = driver};
    CHECK_EQ(weft_run(NULL, reads, NULL, &opts, WEFT_FOREVER), 0);
    CHECK_EQ(weft_run(NULL, reads, ends, &opts, WEFT_FOREVER), 0);
}
