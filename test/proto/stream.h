/* A stream of HTTP messages cut into pieces, as a text of the parsers' results: if the cuts do not
 * matter, the texts are equal. Each piece is in separate memory that ends with the last byte, so
 * that a sanitizer detects an overread. */
#ifndef WEFT_TEST_PROTO_STREAM_H
#define WEFT_TEST_PROTO_STREAM_H

#include <errno.h>
#include <weft/http_parse.h>

#include "base/rand.h"
#include "check.h"

struct text {
    size_t len;
    char bytes[256 << 10];
};

__attribute__((format(printf, 2, 3), unused)) static void say(struct text *text, const char *format,
                                                              ...)
{
    va_list args;
    va_start(args, format);
    int n = vsnprintf(text->bytes + text->len, sizeof text->bytes - text->len, format, args);
    va_end(args);
    CHECK(n >= 0 && (size_t)n < sizeof text->bytes - text->len);
    text->len += (size_t)n;
}

__attribute__((unused)) static void say_bytes(struct text *text, const void *bytes, size_t len)
{
    const unsigned char *p = bytes;
    CHECK(len * 4 < sizeof text->bytes - text->len);
    for (size_t i = 0; i < len; i++) {
        if (p[i] >= ' ' && p[i] < 0x7f && p[i] != '\\') {
            text->bytes[text->len++] = (char)p[i];
        } else {
            text->len += (size_t)sprintf(text->bytes + text->len, "\\x%02x", p[i]);
        }
    }
    text->bytes[text->len] = '\0';
}

struct stream {
    const struct weft_http_limits *limits;
    bool response;
    enum weft_http_method method; /* of the request that is answered */
    /* The results. */
    struct text text;
    int messages, refused;
    /* private */
    enum { IN_HEAD, IN_LENGTH, IN_CHUNKED, UNTIL_CLOSE, ENDED } state;
    weft_http_head head;
    struct weft_http_field fields[WEFT_HTTP_FIELDS];
    weft_http_chunked chunked;
    int64_t left;
};

__attribute__((unused)) static void stream_head(struct stream *s)
{
    if (s->response) {
        weft_http_response_init(&s->head, s->fields, WEFT_HTTP_FIELDS, s->limits, s->method);
    } else {
        weft_http_request_init(&s->head, s->fields, WEFT_HTTP_FIELDS, s->limits);
    }
    s->state = IN_HEAD;
}

static void say_span(struct stream *s, const char *label, const char *data,
                     struct weft_http_span span)
{
    say(&s->text, " %s=", label);
    say_bytes(&s->text, data + span.at, span.len);
}

static void say_head(struct stream *s, const char *data)
{
    const weft_http_head *h = &s->head;
    say(&s->text,
        "head 1.%d method=%d form=%d status=%d port=%d keep=%d upgrade=%d expect=%d "
        "body=%d length=%lld",
        h->minor, (int)h->method, (int)h->form, h->status, h->port, h->keep_alive, h->upgrade,
        h->expect_continue, (int)h->body, (long long)h->content_length);
    say_span(s, "name", data, h->method_name);
    say_span(s, "path", data, h->path);
    say_span(s, h->query.at ? "query" : "none", data, h->query);
    say_span(s, "host", data, h->host);
    say_span(s, "reason", data, h->reason);
    for (uint32_t i = 0; i < h->field_count; i++) {
        say_span(s, "\n  field", data, h->fields[i].name);
        say_span(s, "is", data, h->fields[i].value);
    }
    say(&s->text, "\n");
}

static void stream_refuse(struct stream *s, int status, const char *why)
{
    CHECK(status >= 400 && status < 600 && why);
    say(&s->text, "refused %d: %s\n", status, why);
    s->refused = status;
    s->state = ENDED;
}

static void end_message(struct stream *s)
{
    say(&s->text, "end\n");
    s->messages++;
    stream_head(s);
}

static size_t take_head(struct stream *s, const char *data, size_t len)
{
    ssize_t n = weft_http_head_parse(&s->head, data, len);
    if (n < 0) {
        CHECK_EQ(weft_http_head_parse(&s->head, data, len), -EBADMSG);
        stream_refuse(s, s->head.refused, s->head.why);
        return 0;
    }
    CHECK((size_t)n <= len);
    if (n == 0) {
        return 0;
    }
    say_head(s, data);
    s->left = s->head.content_length;
    switch (s->head.body) {
    case WEFT_HTTP_NO_BODY:
        end_message(s);
        break;
    case WEFT_HTTP_LENGTH:
        s->state = IN_LENGTH;
        break;
    case WEFT_HTTP_CHUNKED:
        weft_http_chunked_init(&s->chunked, s->limits);
        s->state = IN_CHUNKED;
        break;
    default:
        s->state = UNTIL_CLOSE;
    }
    return (size_t)n;
}

static size_t take_chunked(struct stream *s, const char *data, size_t len)
{
    const void *body;
    size_t body_len;
    ssize_t n = weft_http_chunked_next(&s->chunked, &body, &body_len, data, len);
    if (n < 0) {
        stream_refuse(s, s->chunked.refused, s->chunked.why);
        return 0;
    }
    CHECK(n > 0 && (size_t)n <= len);
    CHECK(body_len <= (size_t)n && (const char *)body >= data &&
          (const char *)body + body_len <= data + n);
    say_bytes(&s->text, body, body_len);
    if (s->chunked.done) {
        say(&s->text, "\ntotal %llu ", (unsigned long long)s->chunked.total);
        end_message(s);
    }
    return (size_t)n;
}

static size_t take_plain(struct stream *s, const char *data, size_t len)
{
    size_t n = s->state == IN_LENGTH && (int64_t)len > s->left ? (size_t)s->left : len;
    say_bytes(&s->text, data, n);
    s->left -= (int64_t)n;
    if (s->state == IN_LENGTH && s->left == 0) {
        say(&s->text, "\n");
        end_message(s);
    }
    return n;
}

/* Consumes what it can of these bytes; returns how many. */
static size_t stream_take(struct stream *s, const char *data, size_t len)
{
    size_t used = 0;
    while (used < len && s->state != ENDED) {
        size_t n;
        if (s->state == IN_HEAD) {
            n = take_head(s, data + used, len - used);
            if (n == 0) {
                break;
            }
        } else if (s->state == IN_CHUNKED) {
            n = take_chunked(s, data + used, len - used);
        } else {
            n = take_plain(s, data + used, len - used);
        }
        used += n;
    }
    return used;
}

/* next_cut(at, arg): the end of the piece that begins at `at`. */
__attribute__((unused)) static void stream_run(struct stream *s, const void *bytes, size_t len,
                                               size_t (*next_cut)(size_t at, void *arg), void *arg)
{
    char *kept = malloc(1);
    size_t kept_len = 0, at = 0;
    s->text.len = 0;
    s->text.bytes[0] = '\0';
    s->messages = s->refused = 0;
    stream_head(s);
    while (at < len && s->state != ENDED) {
        size_t end = next_cut(at, arg);
        end = end > len ? len : end;
        char *now = malloc(kept_len + end - at);
        CHECK(now);
        memcpy(now, kept, kept_len);
        memcpy(now + kept_len, (const char *)bytes + at, end - at);
        free(kept);
        size_t have = kept_len + end - at, used = stream_take(s, now, have);
        kept_len = have - used;
        kept = malloc(kept_len ? kept_len : 1);
        CHECK(kept);
        memcpy(kept, now + used, kept_len);
        free(now);
        at = end;
    }
    free(kept);
}

__attribute__((unused)) static size_t cut_nowhere(size_t at, void *arg)
{
    (void)at, (void)arg;
    return SIZE_MAX;
}

__attribute__((unused)) static size_t cut_everywhere(size_t at, void *arg)
{
    (void)arg;
    return at + 1;
}

__attribute__((unused)) static size_t cut_at_random(size_t at, void *arg)
{
    return at + 1 + weft__rand_next(arg) % (weft__rand_next(arg) % 4 ? 7 : 300);
}

/* Runs it whole, byte by byte and in random pieces; the texts must be equal. `s` is left as after
 * the first run. */
__attribute__((unused)) static void stream_check(struct stream *s, const void *bytes, size_t len,
                                                 struct weft__rand *rand)
{
    static struct stream other;
    stream_run(s, bytes, len, cut_nowhere, NULL);
    for (int i = 0; i < 4; i++) {
        other.limits = s->limits;
        other.response = s->response;
        other.method = s->method;
        stream_run(&other, bytes, len, i ? cut_at_random : cut_everywhere, rand);
        CHECK_STR(other.text.bytes, s->text.bytes);
    }
}

#endif
