/* The rules of RFC 9112, and stricter ones wherever two readers could disagree about where a
 * message ends: a second Content-Length is rejected even if it is equal, Content-Length together
 * with Transfer-Encoding always, and the only supported coding is chunked. */
#include "proto/http_head_rules.h"

#include "proto/authority.h"
#include "proto/octet.h"

static const struct weft__head_error
    no_colon_port = {400, "a CONNECT without host and port"},
    bad_form = {400, "a target whose form does not fit the method"},
    bad_scheme = {400, "a target with a scheme other than http"},
    bad_authority = {400, "a target with a bad host"}, bad_host = {400, "bad Host"},
    no_host = {400, "no Host"}, twice = {400, "a field that must be single occurs twice"},
    bad_length = {400, "Content-Length is not a number"},
    long_length = {400, "Content-Length is too large"}, bad_coding = {400, "bad Transfer-Encoding"},
    other_coding = {501, "a transfer coding other than chunked"},
    old_coding = {400, "Transfer-Encoding in HTTP/1.0"},
    two_lengths = {400, "Transfer-Encoding and Content-Length"},
    tab = {400, "a tab around Content-Length or Transfer-Encoding"},
    bad_connection = {400, "bad Connection"},
    coding_here = {400, "Transfer-Encoding in a response without a body"},
    bad_expect = {417, "an expectation other than 100-continue"};

/* --- names ---------------------------------------------------------------------------- */

enum weft_http_method weft__method_by_name(const char *name, size_t len)
{
    static const struct {
        const char *name;
        enum weft_http_method method;
    } methods[] = {{"GET", WEFT_HTTP_GET},         {"HEAD", WEFT_HTTP_HEAD},
                   {"POST", WEFT_HTTP_POST},       {"PUT", WEFT_HTTP_PUT},
                   {"DELETE", WEFT_HTTP_DELETE},   {"CONNECT", WEFT_HTTP_CONNECT},
                   {"OPTIONS", WEFT_HTTP_OPTIONS}, {"TRACE", WEFT_HTTP_TRACE},
                   {"PATCH", WEFT_HTTP_PATCH}};
    if (len == 3 && memcmp(name, "GET", 3) == 0) {
        return WEFT_HTTP_GET;
    }
    for (size_t i = 0; i < sizeof methods / sizeof *methods; i++) {
        if (strlen(methods[i].name) == len && memcmp(name, methods[i].name, len) == 0) {
            return methods[i].method;
        }
    }
    return WEFT_HTTP_OTHER;
}

static int is_name(const char *name, const char *word, size_t len, enum weft_http_field_name value)
{
    return weft__equals_ignore_case(name, word, len) ? (int)value : -1;
}

/* Returns an enum weft_http_field_name, or -1. */
static int known_name(const char *name, size_t len)
{
    int found;
    switch (len) {
    case 4:
        return is_name(name, "host", 4, WEFT_HTTP_HOST);
    case 5:
        return is_name(name, "range", 5, WEFT_HTTP_RANGE);
    case 6:
        return is_name(name, "expect", 6, WEFT_HTTP_EXPECT);
    case 7:
        return is_name(name, "upgrade", 7, WEFT_HTTP_UPGRADE);
    case 8:
        found = is_name(name, "if-range", 8, WEFT_HTTP_IF_RANGE);
        return found >= 0 ? found : is_name(name, "if-match", 8, WEFT_HTTP_IF_MATCH);
    case 10:
        return is_name(name, "connection", 10, WEFT_HTTP_CONNECTION);
    case 12:
        return is_name(name, "content-type", 12, WEFT_HTTP_CONTENT_TYPE);
    case 13:
        return is_name(name, "if-none-match", 13, WEFT_HTTP_IF_NONE_MATCH);
    case 14:
        return is_name(name, "content-length", 14, WEFT_HTTP_CONTENT_LENGTH);
    case 15:
        return is_name(name, "accept-encoding", 15, WEFT_HTTP_ACCEPT_ENCODING);
    case 17:
        found = is_name(name, "transfer-encoding", 17, WEFT_HTTP_TRANSFER_ENCODING);
        return found >= 0 ? found
                          : is_name(name, "if-modified-since", 17, WEFT_HTTP_IF_MODIFIED_SINCE);
    case 19:
        return is_name(name, "if-unmodified-since", 19, WEFT_HTTP_IF_UNMODIFIED_SINCE);
    default:
        return -1;
    }
}

static bool must_be_single(enum weft_http_field_name name)
{
    switch (name) {
    case WEFT_HTTP_HOST:
    case WEFT_HTTP_CONTENT_LENGTH:
    case WEFT_HTTP_TRANSFER_ENCODING:
    case WEFT_HTTP_RANGE:
    case WEFT_HTTP_IF_RANGE:
    case WEFT_HTTP_IF_MODIFIED_SINCE:
    case WEFT_HTTP_IF_UNMODIFIED_SINCE:
    case WEFT_HTTP_CONTENT_TYPE:
        return true;
    default:
        return false;
    }
}

/* --- the request target ------------------------------------------------------------------- */

static void split_path(weft_http_head *head, const char *data, uint32_t at, uint32_t end)
{
    const char *mark = memchr(data + at, '?', end - at);
    uint32_t path_end = mark ? (uint32_t)(mark - data) : end;
    head->path = (struct weft_http_span){at, path_end - at};
    if (mark) {
        head->query = (struct weft_http_span){path_end + 1, end - path_end - 1};
    }
}

static const struct weft__head_error *absolute_target(weft_http_head *head, const char *data)
{
    const char *target = data + head->target.at;
    uint32_t len = head->target.len, scheme, at;
    if (len >= 7 && weft__equals_ignore_case(target, "http", 4) &&
        memcmp(target + 4, "://", 3) == 0) {
        scheme = 7;
    } else if (len >= 8 && weft__equals_ignore_case(target, "https", 5) &&
               memcmp(target + 5, "://", 3) == 0) {
        scheme = 8;
    } else {
        return memchr(target, ':', len) ? &bad_scheme : &bad_form;
    }
    for (at = scheme; at < len && target[at] != '/' && target[at] != '?'; at++) {
    }
    size_t host_len;
    if (!weft__authority_parse(target + scheme, at - scheme, &host_len, &head->port) || !host_len) {
        return &bad_authority;
    }
    head->form = WEFT_HTTP_ABSOLUTE;
    head->host = (struct weft_http_span){head->target.at + scheme, (uint32_t)host_len};
    split_path(head, data, head->target.at + at, head->target.at + len);
    return NULL;
}

const struct weft__head_error *weft__head_check_target(weft_http_head *head, const char *data)
{
    const char *target = data + head->target.at;
    uint32_t len = head->target.len;
    size_t host_len;
    if (head->method == WEFT_HTTP_CONNECT) {
        if (!weft__authority_parse(target, len, &host_len, &head->port) || !host_len ||
            head->port < 0) {
            return &no_colon_port;
        }
        head->form = WEFT_HTTP_AUTHORITY;
        head->host = (struct weft_http_span){head->target.at, (uint32_t)host_len};
        return NULL;
    }
    if (*target == '/') {
        head->form = WEFT_HTTP_ORIGIN;
        split_path(head, data, head->target.at, head->target.at + len);
        return NULL;
    }
    if (len == 1 && *target == '*') {
        head->form = WEFT_HTTP_ASTERISK;
        head->path = head->target;
        return head->method == WEFT_HTTP_OPTIONS ? NULL : &bad_form;
    }
    return absolute_target(head, data);
}

/* --- single fields ------------------------------------------------------------------------ */

static const struct weft__head_error *host_field(weft_http_head *head, const char *data,
                                                 struct weft_http_span value)
{
    size_t host_len;
    int port;
    if (!weft__authority_parse(data + value.at, value.len, &host_len, &port)) {
        return &bad_host;
    }
    if (head->form == WEFT_HTTP_ORIGIN || head->form == WEFT_HTTP_ASTERISK) {
        head->host = (struct weft_http_span){value.at, (uint32_t)host_len};
        head->port = port;
    }
    return NULL;
}

static const struct weft__head_error *length_field(weft_http_head *head, const char *text,
                                                   size_t len)
{
    int64_t value = 0;
    for (size_t i = 0; i < len; i++) {
        if (!weft__is_digit((unsigned char)text[i])) {
            return &bad_length;
        }
        if (__builtin_mul_overflow(value, 10, &value) ||
            __builtin_add_overflow(value, text[i] - '0', &value)) {
            return &long_length;
        }
    }
    if (!len) {
        return &bad_length;
    }
    head->content_length = value;
    return NULL;
}

static bool is_token(const char *text, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        if (!weft__octet_is((unsigned char)text[i], WEFT__OCTET_TOKEN)) {
            return false;
        }
    }
    return len > 0;
}

/* Unsupported codings get 501 if the list itself is valid: chunked last, and only once. */
static const struct weft__head_error *coding_field(weft_http_head *head, const char *text,
                                                   size_t len)
{
    if (len == 7 && is_token(text, 7) && weft__equals_ignore_case(text, "chunked", 7)) {
        head->weft_flags |= WEFT__HEAD_CHUNKED;
        return NULL;
    }
    const char *item;
    size_t item_len;
    bool chunked = false;
    while (weft__list_next(&text, &len, &item, &item_len)) {
        if (chunked || !is_token(item, item_len)) {
            return &bad_coding;
        }
        chunked = item_len == 7 && weft__equals_ignore_case(item, "chunked", 7);
    }
    return chunked ? &other_coding : &bad_coding;
}

static const struct weft__head_error *connection_field(weft_http_head *head, const char *text,
                                                       size_t len)
{
    const char *item;
    size_t n;
    while (weft__list_next(&text, &len, &item, &n)) {
        if (!is_token(item, n)) {
            return &bad_connection;
        }
        if (n == 5 && weft__equals_ignore_case(item, "close", 5)) {
            head->weft_flags |= WEFT__HEAD_CLOSE;
        } else if (n == 10 && weft__equals_ignore_case(item, "keep-alive", 10)) {
            head->weft_flags |= WEFT__HEAD_KEEP_ALIVE;
        } else if (n == 7 && weft__equals_ignore_case(item, "upgrade", 7)) {
            head->weft_flags |= WEFT__HEAD_UPGRADE;
        }
    }
    return NULL;
}

static const struct weft__head_error *expect_field(weft_http_head *head, const char *text,
                                                   size_t len)
{
    if (len != 12 || !is_token(text, len) || !weft__equals_ignore_case(text, "100-continue", len)) {
        return head->minor ? &bad_expect : NULL; /* HTTP/1.0 does not define the field */
    }
    head->weft_flags |= WEFT__HEAD_EXPECT;
    return NULL;
}

/* White space may be a tab, but readers that accept only spaces are common: for them this is
 * another value, or none. */
static bool has_tab(const struct weft_http_field *field, const char *data)
{
    const char *at = data + field->name.at + field->name.len + 1;
    const char *value = data + field->value.at, *end = value + field->value.len;
    if (memchr(at, '\t', (size_t)(value - at))) {
        return true;
    }
    while (*end == ' ') {
        end++;
    }
    return *end == '\t';
}

const struct weft__head_error *weft__head_check_field(weft_http_head *head, const char *data)
{
    const struct weft_http_field *field = &head->fields[head->field_count - 1];
    int name = known_name(data + field->name.at, field->name.len);
    if (name < 0) {
        return NULL;
    }
    if (head->weft_known[name]) {
        if (must_be_single((enum weft_http_field_name)name)) {
            return &twice;
        }
    } else {
        head->weft_known[name] = (uint16_t)head->field_count;
    }
    if ((name == WEFT_HTTP_CONTENT_LENGTH || name == WEFT_HTTP_TRANSFER_ENCODING) &&
        has_tab(field, data)) {
        return &tab;
    }
    const char *text = data + field->value.at;
    switch (name) {
    case WEFT_HTTP_HOST:
        return head->weft_response ? NULL : host_field(head, data, field->value);
    case WEFT_HTTP_CONNECTION:
        return connection_field(head, text, field->value.len);
    case WEFT_HTTP_CONTENT_LENGTH:
        return length_field(head, text, field->value.len);
    case WEFT_HTTP_TRANSFER_ENCODING:
        return coding_field(head, text, field->value.len);
    case WEFT_HTTP_EXPECT:
        return head->weft_response ? NULL : expect_field(head, text, field->value.len);
    default:
        return NULL;
    }
}

/* --- all fields together -------------------------------------------------------------------- */

static void decide_keep_alive(weft_http_head *head)
{
    if (head->weft_flags & WEFT__HEAD_CLOSE) {
        head->keep_alive = false;
    } else {
        head->keep_alive = head->minor == 1 || (head->weft_flags & WEFT__HEAD_KEEP_ALIVE);
    }
    head->upgrade = head->minor == 1 && (head->weft_flags & WEFT__HEAD_UPGRADE) &&
                    head->weft_known[WEFT_HTTP_UPGRADE];
}

static const struct weft__head_error *decide_request_body(weft_http_head *head)
{
    if (head->weft_flags & WEFT__HEAD_CHUNKED) {
        head->body = WEFT_HTTP_CHUNKED;
    } else {
        head->body = head->content_length > 0 ? WEFT_HTTP_LENGTH : WEFT_HTTP_NO_BODY;
    }
    head->expect_continue = head->minor == 1 && head->body != WEFT_HTTP_NO_BODY &&
                            (head->weft_flags & WEFT__HEAD_EXPECT);
    if (head->minor == 1 && !head->weft_known[WEFT_HTTP_HOST]) {
        return &no_host;
    }
    return NULL;
}

static const struct weft__head_error *decide_response_body(weft_http_head *head)
{
    bool tunnel = head->weft_request_method == WEFT_HTTP_CONNECT && head->status / 100 == 2;
    bool chunked = head->weft_flags & WEFT__HEAD_CHUNKED;
    if (head->status / 100 == 1 || head->status == 204 || tunnel) {
        if (chunked) {
            return &coding_here;
        }
        head->body = WEFT_HTTP_NO_BODY;
    } else if (head->weft_request_method == WEFT_HTTP_HEAD || head->status == 304) {
        head->body = WEFT_HTTP_NO_BODY;
    } else if (chunked) {
        head->body = WEFT_HTTP_CHUNKED;
    } else if (head->content_length >= 0) {
        head->body = head->content_length ? WEFT_HTTP_LENGTH : WEFT_HTTP_NO_BODY;
    } else {
        head->body = WEFT_HTTP_UNTIL_CLOSE;
        head->keep_alive = false;
    }
    return NULL;
}

const struct weft__head_error *weft__head_check_all(weft_http_head *head)
{
    if (head->weft_known[WEFT_HTTP_TRANSFER_ENCODING]) {
        if (head->weft_known[WEFT_HTTP_CONTENT_LENGTH]) {
            return &two_lengths;
        }
        if (head->minor == 0) {
            return &old_coding;
        }
    }
    decide_keep_alive(head);
    return head->weft_response ? decide_response_body(head) : decide_request_body(head);
}
