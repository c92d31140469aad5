/* labels: valgrind */
/* The contents of a head, its limits, and that the position of the buffer does not matter. */
#include <weft/http_parse.h>

#include <errno.h>

#include "proto/stream.h"

static weft_http_head head;
static struct weft_http_field fields[WEFT_HTTP_FIELDS];

/* Parses a request that must be complete with its last byte. */
static void request(const char *text)
{
    weft_http_request_init(&head, fields, WEFT_HTTP_FIELDS, NULL);
    ssize_t n = weft_http_head_parse(&head, text, strlen(text));
    if (n < 0) {
        check_fail(__FILE__, __LINE__, "refused %d: %s: %s", head.refused, head.why, text);
    }
    CHECK_EQ(n, strlen(text));
}

static void response(const char *text, enum weft_http_method method)
{
    weft_http_response_init(&head, fields, WEFT_HTTP_FIELDS, NULL, method);
    CHECK_EQ(weft_http_head_parse(&head, text, strlen(text)), strlen(text));
}

static bool span_is(const char *data, struct weft_http_span span, const char *text)
{
    return span.len == strlen(text) && memcmp(data + span.at, text, span.len) == 0;
}

TEST(request_head_is_parsed_into_parts)
{
    const char *text = "POST /a/b%20c?d=e?f HTTP/1.1\r\nHost:  example.org:8080 \r\n"
                       "X-One: 1\r\nContent-Length: 12\r\nEmpty:\r\nx-one:\t2 3 \t\r\n\r\n";
    request(text);
    CHECK_EQ(head.method, WEFT_HTTP_POST);
    CHECK(span_is(text, head.method_name, "POST"));
    CHECK_EQ(head.form, WEFT_HTTP_ORIGIN);
    CHECK(span_is(text, head.target, "/a/b%20c?d=e?f"));
    CHECK(span_is(text, head.path, "/a/b%20c"));
    CHECK(span_is(text, head.query, "d=e?f"));
    CHECK(span_is(text, head.host, "example.org"));
    CHECK_EQ(head.port, 8080);
    CHECK_EQ(head.minor, 1);
    CHECK(head.keep_alive && !head.upgrade && !head.expect_continue);
    CHECK_EQ(head.body, WEFT_HTTP_LENGTH);
    CHECK_EQ(head.content_length, 12);
    CHECK_EQ(head.field_count, 5);
    CHECK(span_is(text, head.fields[3].name, "Empty"));
    CHECK(span_is(text, head.fields[3].value, ""));

    const struct weft_http_field *one = weft_http_head_find(&head, text, "X-ONE", NULL);
    CHECK(one && span_is(text, one->value, "1"));
    one = weft_http_head_find(&head, text, "X-ONE", one);
    CHECK(one && span_is(text, one->name, "x-one") && span_is(text, one->value, "2 3"));
    CHECK(!weft_http_head_find(&head, text, "X-ONE", one));
    CHECK(!weft_http_head_find(&head, text, "X-On", NULL));
    CHECK(weft_http_head_field(&head, WEFT_HTTP_HOST) == &fields[0]);
    CHECK(weft_http_head_field(&head, WEFT_HTTP_CONTENT_LENGTH) == &fields[2]);
    CHECK(!weft_http_head_field(&head, WEFT_HTTP_RANGE));
}

TEST(request_target_forms_are_recognised)
{
    const char *text = "GET HTTP://[::1]:81/p?q HTTP/1.1\r\nHost: other\r\n\r\n";
    request(text);
    CHECK_EQ(head.form, WEFT_HTTP_ABSOLUTE);
    CHECK(span_is(text, head.host, "[::1]")); /* the host of the target counts, not the Host
                                               * field */
    CHECK_EQ(head.port, 81);
    CHECK(span_is(text, head.path, "/p") && span_is(text, head.query, "q"));

    text = "GET https://a HTTP/1.1\r\nHost: a:99\r\n\r\n";
    request(text);
    CHECK(span_is(text, head.path, "") && head.query.at == 0 && head.port == -1);

    text = "GET http://a?x HTTP/1.1\r\nHost: a\r\n\r\n";
    request(text);
    CHECK(span_is(text, head.path, "") && span_is(text, head.query, "x"));

    text = "CONNECT a.b:443 HTTP/1.1\r\nHost: c\r\n\r\n";
    request(text);
    CHECK_EQ(head.form, WEFT_HTTP_AUTHORITY);
    CHECK(span_is(text, head.host, "a.b") && head.port == 443);

    text = "OPTIONS * HTTP/1.1\r\nHost: c\r\n\r\n";
    request(text);
    CHECK_EQ(head.form, WEFT_HTTP_ASTERISK);
    CHECK(span_is(text, head.host, "c"));

    text = "GET /? HTTP/1.1\r\nHost: c\r\n\r\n";
    request(text);
    CHECK(head.query.at && head.query.len == 0);
}

TEST(methods_match_exact_names_only)
{
    static const struct {
        const char *name;
        enum weft_http_method method;
    } cases[] = {
        {"GET", WEFT_HTTP_GET},     {"HEAD", WEFT_HTTP_HEAD},     {"POST", WEFT_HTTP_POST},
        {"PUT", WEFT_HTTP_PUT},     {"DELETE", WEFT_HTTP_DELETE}, {"OPTIONS", WEFT_HTTP_OPTIONS},
        {"TRACE", WEFT_HTTP_TRACE}, {"PATCH", WEFT_HTTP_PATCH},   {"get", WEFT_HTTP_OTHER},
        {"GETS", WEFT_HTTP_OTHER},  {"GE", WEFT_HTTP_OTHER},      {"PURGE", WEFT_HTTP_OTHER}};
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[100];
        snprintf(text, sizeof text, "%s / HTTP/1.1\r\nHost: a\r\n\r\n", cases[i].name);
        request(text);
        CHECK_EQ(head.method, cases[i].method);
        CHECK(span_is(text, head.method_name, cases[i].name));
    }
}

TEST(known_header_fields_match_in_any_case)
{
    static const char *const names[WEFT_HTTP_NAMES] = {
        [WEFT_HTTP_HOST] = "Host",
        [WEFT_HTTP_CONNECTION] = "Connection",
        [WEFT_HTTP_CONTENT_LENGTH] = "Content-Length",
        [WEFT_HTTP_TRANSFER_ENCODING] = "Transfer-Encoding",
        [WEFT_HTTP_EXPECT] = "Expect",
        [WEFT_HTTP_UPGRADE] = "Upgrade",
        [WEFT_HTTP_RANGE] = "Range",
        [WEFT_HTTP_IF_RANGE] = "If-Range",
        [WEFT_HTTP_IF_MATCH] = "If-Match",
        [WEFT_HTTP_IF_NONE_MATCH] = "If-None-Match",
        [WEFT_HTTP_IF_MODIFIED_SINCE] = "If-Modified-Since",
        [WEFT_HTTP_IF_UNMODIFIED_SINCE] = "If-Unmodified-Since",
        [WEFT_HTTP_CONTENT_TYPE] = "Content-Type",
        [WEFT_HTTP_ACCEPT_ENCODING] = "Accept-Encoding",
    };
    for (int i = 0; i < WEFT_HTTP_NAMES; i++) {
        const char *value = i == WEFT_HTTP_CONTENT_LENGTH      ? "0"
                            : i == WEFT_HTTP_EXPECT            ? "100-continue"
                            : i == WEFT_HTTP_TRANSFER_ENCODING ? "chunked"
                                                               : "a";
        for (int style = 0; style < 3; style++) {
            char name[40], text[200];
            snprintf(name, sizeof name, "%s", names[i]);
            for (char *c = name; *c && style; c++) {
                if (*c != '-') {
                    *c = (char)(style == 1 ? *c | 0x20 : *c & ~0x20);
                }
            }
            snprintf(text, sizeof text, "GET / HTTP/1.1\r\n%s%s: %s\r\n\r\n",
                     i == WEFT_HTTP_HOST ? "" : "Host: a\r\n", name, value);
            request(text);
            CHECK(weft_http_head_field(&head, (enum weft_http_field_name)i) ==
                  &fields[head.field_count - 1]);
            /* One different letter is a different name. */
            snprintf(text, sizeof text, "GET / HTTP/1.1\r\nHost: a\r\nQ%s: %s\r\n\r\n", name + 1,
                     value);
            request(text);
            CHECK(i == WEFT_HTTP_HOST ||
                  !weft_http_head_field(&head, (enum weft_http_field_name)i));
        }
    }
}

static bool keeps(const char *version, const char *connection)
{
    char text[200];
    snprintf(text, sizeof text, "GET / HTTP/%s\r\nHost: a\r\n%s\r\n", version, connection);
    request(text);
    return head.keep_alive;
}

TEST(keep_alive_follows_version_and_connection_field)
{
    CHECK(keeps("1.1", ""));
    CHECK(!keeps("1.0", ""));
    CHECK(!keeps("1.1", "Connection: close\r\n"));
    CHECK(!keeps("1.1", "Connection: keep-alive, Close\r\n"));
    CHECK(!keeps("1.1", "Connection: keep-alive\r\nConnection: x, close\r\n"));
    CHECK(keeps("1.0", "Connection: Keep-Alive\r\n"));
    CHECK(keeps("1.0", "Connection: , te ,KEEP-ALIVE\r\n"));
    CHECK(!keeps("1.0", "Connection: keep-alive, close\r\n"));
    CHECK(keeps("1.1", "Connection: closed\r\n"));
}

TEST(protocol_upgrade_needs_both_fields_and_http_1_1)
{
    CHECK(keeps("1.1", "Connection: keep-alive, Upgrade\r\nUpgrade: websocket\r\n"));
    CHECK(head.upgrade);
    keeps("1.1", "Upgrade: websocket\r\n");
    CHECK(!head.upgrade);
    keeps("1.1", "Connection: upgrade\r\n");
    CHECK(!head.upgrade);
    keeps("1.0", "Connection: upgrade\r\nUpgrade: websocket\r\n");
    CHECK(!head.upgrade);
}

TEST(expect_continue_is_recognised)
{
    request("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-Continue\r\nContent-Length: 1\r\n\r\n");
    CHECK(head.expect_continue);
    request(
        "PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n");
    CHECK(head.expect_continue && head.body == WEFT_HTTP_CHUNKED);
    request("PUT / HTTP/1.1\r\nHost: a\r\nExpect: 100-continue\r\n\r\n");
    CHECK(!head.expect_continue);
    request("PUT / HTTP/1.0\r\nExpect: 100-continue\r\nContent-Length: 1\r\n\r\n");
    CHECK(!head.expect_continue);
}

TEST(response_body_kind_depends_on_request_method)
{
    response("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", WEFT_HTTP_GET);
    CHECK(head.body == WEFT_HTTP_LENGTH && head.status == 200 && head.keep_alive);
    response("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\n", WEFT_HTTP_HEAD);
    CHECK(head.body == WEFT_HTTP_NO_BODY && head.content_length == 5);
    response("HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n", WEFT_HTTP_HEAD);
    CHECK(head.body == WEFT_HTTP_NO_BODY);
    response("HTTP/1.1 200 OK\r\n\r\n", WEFT_HTTP_CONNECT);
    CHECK(head.body == WEFT_HTTP_NO_BODY && head.keep_alive);
    response("HTTP/1.1 404 No\r\n\r\n", WEFT_HTTP_CONNECT);
    CHECK(head.body == WEFT_HTTP_UNTIL_CLOSE && !head.keep_alive);
    response("HTTP/1.1 200 OK\r\n\r\n", WEFT_HTTP_GET);
    CHECK(head.body == WEFT_HTTP_UNTIL_CLOSE);
    response("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n", WEFT_HTTP_GET);
    CHECK(head.body == WEFT_HTTP_NO_BODY && head.keep_alive);
    const char *text = "HTTP/1.0 304 Not  Modified \r\nContent-Length: 7\r\n\r\n";
    response(text, WEFT_HTTP_GET);
    CHECK(head.body == WEFT_HTTP_NO_BODY && span_is(text, head.reason, "Not  Modified"));
}

/* --- limits ------------------------------------------------------------------------------ */

static int status_of(const char *text, size_t len, const struct weft_http_limits *limits,
                     uint32_t max)
{
    weft_http_request_init(&head, fields, max, limits);
    ssize_t n = weft_http_head_parse(&head, text, len);
    CHECK(n == -EBADMSG || n == (ssize_t)len);
    return n < 0 ? head.refused : 0;
}

static size_t repeat(char *to, const char *before, size_t n, const char *after)
{
    size_t len = strlen(before);
    memcpy(to, before, len);
    memset(to + len, 'a', n);
    strcpy(to + len + n, after);
    return len + n + strlen(after);
}

TEST(first_line_limit_is_exact)
{
    static char text[20000];
    /* 14 bytes of the line are "GET / HTTP/1.1". */
    for (int empty = 0; empty < 2; empty++) {
        for (int over = -1; over <= 1; over++) {
            size_t len = repeat(text, empty ? "\r\nGET /" : "GET /", (size_t)(8192 - 14 + over),
                                " HTTP/1.1\r\nHost: a\r\n\r\n");
            CHECK_EQ(status_of(text, len, NULL, WEFT_HTTP_FIELDS), over > 0 ? 414 : 0);
        }
    }
    struct weft_http_limits limits = {.line_bytes = 100};
    for (int over = -1; over <= 1; over++) {
        size_t len =
            repeat(text, "GET /", (size_t)(100 - 14 + over), " HTTP/1.1\r\nHost: a\r\n\r\n");
        CHECK_EQ(status_of(text, len, &limits, WEFT_HTTP_FIELDS), over > 0 ? 414 : 0);
    }
    /* A line is refused as soon as it is too long, not at its end. */
    size_t len = repeat(text, "GET /", 8194 - 5, "");
    CHECK_EQ(status_of(text, len, NULL, WEFT_HTTP_FIELDS), 414);
}

TEST(header_bytes_limit_is_exact)
{
    static char text[40000];
    /* "Host: a", "X: " and three line ends: 16 bytes. */
    for (int over = -1; over <= 1; over++) {
        size_t len = repeat(text, "GET / HTTP/1.1\r\nHost: a\r\nX: ", (size_t)(16384 - 16 + over),
                            "\r\n\r\n");
        CHECK_EQ(status_of(text, len, NULL, WEFT_HTTP_FIELDS), over > 0 ? 431 : 0);
        len =
            repeat(text, "GET / HTTP/1.1\r\nHost: a\r\nX: ", (size_t)(64 - 16 + over), "\r\n\r\n");
        CHECK_EQ(
            status_of(text, len, &(struct weft_http_limits){.header_bytes = 64}, WEFT_HTTP_FIELDS),
            over > 0 ? 431 : 0);
    }
}

TEST(header_field_count_is_limited)
{
    static char text[4000];
    for (int count = 99; count <= 101; count++) {
        char *at = stpcpy(text, "GET / HTTP/1.1\r\nHost: a\r\n");
        for (int i = 1; i < count; i++) {
            at = stpcpy(at, "X: a\r\n");
        }
        at = stpcpy(at, "\r\n");
        CHECK_EQ(status_of(text, (size_t)(at - text), NULL, 100), count > 100 ? 431 : 0);
    }
    CHECK_EQ(status_of("GET / HTTP/1.0\r\n\r\n", 18, NULL, 0), 0);
    CHECK_EQ(status_of("GET / HTTP/1.0\r\nX: a\r\n\r\n", 24, NULL, 0), 431);
}

TEST(content_length_beyond_63_bits_is_refused)
{
    request("PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775807\r\n\r\n");
    CHECK_EQ(head.content_length, INT64_MAX);
    const char *text = "PUT / HTTP/1.1\r\nHost: a\r\nContent-Length: 9223372036854775808\r\n\r\n";
    CHECK_EQ(status_of(text, strlen(text), NULL, 9), 400);
}

/* --- pieces ------------------------------------------------------------------------------- */

static const char browser[] =
    "GET /search?q=weft%20fibers&hl=en HTTP/1.1\r\nHost: www.example.org\r\n"
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64; rv:109.0) Gecko/20100101 Firefox/115.0\r\n"
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8\r\n"
    "Accept-Language: en-US,en;q=0.5\r\nAccept-Encoding: gzip, deflate, br\r\n"
    "Connection: keep-alive\r\nCookie: a=1;\tb=2\r\nIf-None-Match: \"x\"\r\n\r\n";

TEST(head_parse_does_not_depend_on_split_position)
{
    static struct stream whole, cut;
    size_t len = sizeof browser - 1;
    stream_run(&whole, browser, len, cut_nowhere, NULL);
    CHECK_EQ(whole.messages, 1);
    for (size_t i = 1; i < len; i++) {
        weft_http_request_init(&head, fields, WEFT_HTTP_FIELDS, NULL);
        char *first = malloc(i);
        CHECK(first);
        memcpy(first, browser, i);
        CHECK_EQ(weft_http_head_parse(&head, first, i), 0);
        free(first); /* the buffer moves */
        CHECK_EQ(weft_http_head_parse(&head, browser, len), len);
        CHECK_EQ(head.field_count, 8);
    }
    struct weft__rand rng;
    weft__rand_seed(&rng, check_seed());
    for (int i = 0; i < 200; i++) {
        stream_run(&cut, browser, len, cut_at_random, &rng);
        CHECK_STR(cut.text.bytes, whole.text.bytes);
    }
}

TEST(bytes_after_head_are_not_consumed)
{
    const char *text = "GET / HTTP/1.1\r\nHost: a\r\n\r\n\x01garbage";
    weft_http_request_init(&head, fields, WEFT_HTTP_FIELDS, NULL);
    CHECK_EQ(weft_http_head_parse(&head, text, strlen(text)), strlen(text) - 8);
}

/* A damaged byte has the same effect however the message is cut. */
TEST(damaged_message_parses_the_same_in_any_chunking)
{
    static struct stream stream;
    static const char chunked[] =
        "POST /a HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\r\n"
        "5;a=\"b\"\r\nhello\r\n0\r\nT: x\r\n\r\nGET / HTTP/1.0\r\n\r\n";
    char text[sizeof chunked];
    struct weft__rand rng;
    weft__rand_seed(&rng, check_seed());
    stream = (struct stream){.response = false};
    for (long i = 0; i < check_scale(3000); i++) {
        memcpy(text, chunked, sizeof text);
        for (uint32_t n = weft__rand_next(&rng) % 3; n < 3; n++) {
            text[weft__rand_next(&rng) % (sizeof text - 1)] =
                weft__rand_next(&rng) % 2 ? "\r\n :;\t\0/5\x7f"[weft__rand_next(&rng) % 10]
                                          : (char)weft__rand_next(&rng);
        }
        stream_check(&stream, text, sizeof text - 1, &rng);
    }
}

static void parse_again(void *arg)
{
    request("GET / HTTP/1.0\r\n\r\n");
    weft_http_head_parse(&head, arg, 0);
}

static void small_line(void *arg)
{
    weft_http_request_init(arg, fields, 1, &(struct weft_http_limits){.line_bytes = 10});
}

TEST(http_parser_misuse_aborts_with_message)
{
    char err[CHECK_ERR];
    CHECK(WIFSIGNALED(check_child(parse_again, NULL, err, sizeof err)));
    CHECK(strstr(err, "called after the head was complete"));
    CHECK(WIFSIGNALED(check_child(small_line, &head, err, sizeof err)));
    CHECK(strstr(err, "at least 64"));
}
