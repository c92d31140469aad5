/* labels: valgrind */
#include <weft/http_parse.h>

#include <errno.h>

#include "check.h"

static weft_http_chunked chunked;

/* Feeds all of it; returns the status of a refusal, 0, or -1 if it is incomplete. The body is
 * kept. */
static char body[4096];
static size_t body_len, used;

static int feed(const char *text, size_t len, const struct weft_http_limits *limits)
{
    weft_http_chunked_init(&chunked, limits);
    body_len = used = 0;
    while (used < len && !chunked.done) {
        const void *piece;
        size_t n;
        ssize_t took = weft_http_chunked_next(&chunked, &piece, &n, text + used, len - used);
        if (took < 0) {
            CHECK_EQ(took, -EBADMSG);
            CHECK_EQ(weft_http_chunked_next(&chunked, &piece, &n, text, len), -EBADMSG);
            return chunked.refused;
        }
        CHECK(took > 0);
        memcpy(body + body_len, piece, n);
        body_len += n;
        used += (size_t)took;
    }
    CHECK_EQ(chunked.total, body_len);
    return chunked.done ? 0 : -1;
}

TEST(chunked_decoder_returns_body_only)
{
    const char *text = "6;x=\"a;b\\\"\"\r\nhello \r\n5\r\nworld\r\n0\r\nEtag: \"x\"\r\n\r\nNEXT";
    CHECK_EQ(feed(text, strlen(text), NULL), 0);
    CHECK(body_len == 11 && memcmp(body, "hello world", 11) == 0);
    CHECK_EQ(used, strlen(text) - 4);
    const void *piece;
    size_t n;
    CHECK_EQ(weft_http_chunked_next(&chunked, &piece, &n, "x", 1), 0);
    CHECK_EQ(n, 0);
}

TEST(incomplete_chunked_body_is_not_done)
{
    const char *text = "5\r\nhello\r\n0\r\n\r\n";
    for (size_t len = 0; len < strlen(text); len++) {
        CHECK_EQ(feed(text, len, NULL), -1);
    }
    CHECK_EQ(feed(text, strlen(text), NULL), 0);
}

TEST(chunk_extensions_are_limited_in_total)
{
    char text[200];
    struct weft_http_limits limits = {.extension_bytes = 12};
    /* Each ";abc" is 4 bytes. */
    for (int count = 2; count <= 4; count++) {
        char *at = text;
        for (int i = 0; i < count; i++) {
            at = stpcpy(at, "1;abc\r\nx\r\n");
        }
        at = stpcpy(at, "0\r\n\r\n");
        CHECK_EQ(feed(text, (size_t)(at - text), &limits), count > 3 ? 400 : 0);
    }
    CHECK_EQ(feed("1;abcdefghijk\r\nx\r\n0\r\n\r\n", 23, &limits), 0);
    CHECK_EQ(feed("1;abcdefghijkl\r\nx\r\n0\r\n\r\n", 24, &limits), 400);
}

TEST(chunked_trailer_size_is_limited)
{
    struct weft_http_limits limits = {.trailer_bytes = 8};
    CHECK_EQ(feed("0\r\nX:a\r\n\r\n", 10, &limits), 0);
    CHECK_EQ(feed("0\r\nX:ab\r\n\r\n", 11, &limits), 0);
    CHECK_EQ(feed("0\r\nX:abc\r\n\r\n", 12, &limits), 431);
    CHECK_EQ(feed("0\r\n\r\n", 5, &(struct weft_http_limits){.trailer_bytes = 2}), 0);
    CHECK_EQ(feed("0\r\n\r\n", 5, &(struct weft_http_limits){.trailer_bytes = 1}), 431);
}

TEST(chunk_sizes_are_limited_to_63_bits_in_total)
{
    CHECK_EQ(feed("7fffffffffffffff\r\n", 18, NULL), -1);
    CHECK_EQ(feed("8000000000000000\r\n", 18, NULL), 413);
    CHECK_EQ(feed("1\r\na\r\n7ffffffffffffffe\r\n", 24, NULL), -1);
    CHECK_EQ(feed("1\r\na\r\n7fffffffffffffff\r\n", 24, NULL), 413);
    CHECK_EQ(feed("00000000000000001\r\n", 19, NULL), 400);
}
