/* Heads of requests and responses: parsed whole and in two pieces they must give the same result;
 * all spans lie within the head; and an accepted head has exactly one way to find the end of its
 * body. The first byte of the input selects: bit 0 a response, the other bits the position of the
 * cut. */
#include <weft/http_parse.h>

#include <errno.h>

#include "fuzz/target.h"
#include "proto/http_value.h"

static void init(weft_http_head *head, struct weft_http_field *fields, bool response)
{
    static const struct weft_http_limits limits = {.line_bytes = 64, .header_bytes = 256};
    if (response) {
        weft_http_response_init(head, fields, 8, &limits, WEFT_HTTP_GET);
    } else {
        weft_http_request_init(head, fields, 8, &limits);
    }
}

static void check_span(struct weft_http_span span, size_t len)
{
    fuzz_require((size_t)span.at + span.len <= len);
}

static void check_head(const weft_http_head *head, const char *data, size_t n)
{
    const struct weft_http_span spans[] = {head->method_name, head->target, head->path,
                                           head->query,       head->host,   head->reason};
    for (size_t i = 0; i < sizeof spans / sizeof *spans; i++) {
        check_span(spans[i], n);
    }
    for (uint32_t i = 0; i < head->field_count; i++) {
        struct weft_http_span name = head->fields[i].name, value = head->fields[i].value;
        check_span(name, n);
        check_span(value, n);
        fuzz_require(name.len && data[name.at + name.len] == ':');
        fuzz_require(!memchr(data + value.at, '\r', value.len));
        fuzz_require(!memchr(data + value.at, '\n', value.len));
        fuzz_require(!memchr(data + value.at, '\0', value.len));
    }
    bool coded = weft_http_head_find(head, data, "transfer-encoding", NULL);
    bool counted = weft_http_head_find(head, data, "content-length", NULL);
    fuzz_require(!(coded && counted));
    fuzz_require(counted == (head->content_length >= 0));
    fuzz_require(head->body != WEFT_HTTP_CHUNKED || (coded && head->minor == 1));
    fuzz_require(head->body != WEFT_HTTP_LENGTH || head->content_length > 0);
    fuzz_require(memcmp(data + n - 2, "\r\n", 2) == 0);
}

/* Its conditions have a result, and only a read gets 304. */
static void check_conditions(const weft_http_head *head, const char *data)
{
    const struct weft__http_validators have = {
        .etag = "\"a\"", .etag_len = 3, .modified = 784111777, .now = 1700000000};
    int status = weft__http_precondition_check(head, data, &have);
    bool reads = head->method == WEFT_HTTP_GET || head->method == WEFT_HTTP_HEAD;
    fuzz_require(status == 0 || status == 412 || (status == 304 && reads));
    bool wanted = weft__http_range_is_applicable(head, data, &have);
    fuzz_require(!wanted || weft_http_head_field(head, WEFT_HTTP_RANGE));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    static weft_http_head whole, cut;
    static struct weft_http_field fields[8], cut_fields[8];
    if (len == 0) {
        return 0;
    }
    bool response = data[0] & 1;
    size_t at = data[0] >> 1;
    char *text = fuzz_copy(data + 1, --len);

    init(&whole, fields, response);
    ssize_t n = weft_http_head_parse(&whole, text, len);
    if (n > 0) {
        check_head(&whole, text, (size_t)n);
        check_conditions(&whole, text);
    } else {
        fuzz_require(n == 0 || (n == -EBADMSG && whole.refused && whole.why));
    }

    init(&cut, cut_fields, response);
    at = at < len ? at : len;
    char *piece = fuzz_copy(text, at);
    ssize_t m = weft_http_head_parse(&cut, piece, at);
    free(piece);
    if (m == 0) {
        m = weft_http_head_parse(&cut, text, len);
    }
    fuzz_require(m == n && cut.refused == whole.refused && cut.why == whole.why);
    if (n > 0) {
        fuzz_require(cut.field_count == whole.field_count && cut.body == whole.body &&
                     cut.content_length == whole.content_length &&
                     cut.keep_alive == whole.keep_alive && cut.host.at == whole.host.at &&
                     cut.host.len == whole.host.len && cut.path.len == whole.path.len);
        fuzz_require(memcmp(fields, cut_fields, sizeof *fields * whole.field_count) == 0);
    }
    free(text);
    return 0;
}
