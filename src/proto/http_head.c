/* Parser for the head of a request or a response: a state machine that runs until the bytes run
 * out.
 *
 *   request   START -> [EMPTY_LF ->] METHOD -> TARGET -> VERSION --+
 *   response  START -> VERSION -> STATUS -> REASON ----------------+-> LINE_LF
 *   fields    LINE_LF -> FIELD -> NAME -> BLANKS -> VALUE -> VALUE_LF -> FIELD ...
 *                        FIELD -> LAST_LF -> WHOLE
 *
 * Each state consumes as many bytes as it can. What it needs later is stored in the head: `weft_at`
 * is the next byte, `weft_mark` the start of the part being read, `weft_end` the offset at which
 * the limit of the start line or of the fields is reached. No state inspects a byte beyond its own
 * part, and no scan goes past weft_end. So the effect of a byte depends only on the bytes before
 * it, and not on how the bytes were split.
 */
#include <errno.h>
#include <strings.h>

#include "base/assert.h"
#include "proto/http_head_rules.h"
#include "proto/octet.h"

enum {
    START,
    EMPTY_LF,
    METHOD,
    TARGET,
    VERSION,
    STATUS,
    REASON,
    LINE_LF,
    FIELD,
    NAME,
    BLANKS,
    VALUE,
    VALUE_LF,
    LAST_LF,
    WHOLE,
    REFUSED
};

enum { METHOD_MAX = 32, LINE_LEAST = 64 };

/* --- initialisation ----------------------------------------------------------------- */

static uint32_t limit(uint32_t value, uint32_t standard)
{
    return value ? value : standard;
}

void weft_http_request_init(weft_http_head *head, struct weft_http_field *fields, uint32_t max,
                            const struct weft_http_limits *limits)
{
    static const struct weft_http_limits none;
    limits = limits ? limits : &none;
    WEFT__REQUIRE(max < UINT16_MAX, "array of %u HTTP fields: at most 65534 are possible", max);
    WEFT__REQUIRE(limits->line_bytes < UINT32_MAX / 4 && limits->header_bytes < UINT32_MAX / 4,
                  "limits of an HTTP head must be below 1 GiB");
    WEFT__REQUIRE(!limits->line_bytes || limits->line_bytes >= LINE_LEAST,
                  "line_bytes %u of an HTTP head: at least 64 are needed", limits->line_bytes);
    memset(head, 0, sizeof *head);
    head->fields = fields;
    head->weft_field_max = max;
    head->weft_line_max = limit(limits->line_bytes, 8 << 10);
    head->weft_header_max = limit(limits->header_bytes, 16 << 10);
    head->weft_end = head->weft_line_max + 2;
    head->port = -1;
    head->content_length = -1;
}

void weft_http_response_init(weft_http_head *head, struct weft_http_field *fields, uint32_t max,
                             const struct weft_http_limits *limits, enum weft_http_method method)
{
    weft_http_request_init(head, fields, max, limits);
    head->weft_response = 1;
    head->weft_request_method = (uint8_t)method;
}

/* --- states -------------------------------------------------------------------------- */

static ssize_t refuse(weft_http_head *head, int status, const char *why)
{
    head->refused = head->weft_response ? 502 : status;
    head->why = why;
    head->weft_state = REFUSED;
    return -EBADMSG;
}

static ssize_t refuse_for(weft_http_head *head, const struct weft__head_error *refusal)
{
    return refuse(head, refusal->status, refusal->why);
}

/* The parser is at weft_end, and neither the start line nor the fields have ended. */
static ssize_t too_long(weft_http_head *head)
{
    return head->weft_state < FIELD ? refuse(head, 414, "the first line is too long")
                                    : refuse(head, 431, "the fields are too long");
}

static ssize_t need_more(weft_http_head *head, int state, size_t at)
{
    head->weft_state = (uint8_t)state;
    head->weft_at = (uint32_t)at;
    return at == head->weft_end ? too_long(head) : 0;
}

/* Checks byte number `i` of "HTTP/1.x". Returns false if it is rejected. */
static bool version_byte(weft_http_head *head, unsigned i, unsigned char c)
{
    static const char pattern[] = "HTTP/1.1";
    if (i == 5 || i == 7) {
        if (!weft__is_digit(c)) {
            refuse(head, 400, "bad version");
            return false;
        }
        if (c != '1' && !(i == 7 && c == '0')) {
            refuse(head, 505, "a version other than 1.0 and 1.1");
            return false;
        }
        head->minor = c - '0';
        return true;
    }
    if (c != (unsigned char)pattern[i]) {
        refuse(head, 400, "bad version");
        return false;
    }
    return true;
}

/* Returns the span from mark to at, without trailing blanks. */
static struct weft_http_span span_to(const unsigned char *p, uint32_t mark, size_t at)
{
    while (at > mark && weft__is_blank(p[at - 1])) {
        at--;
    }
    return (struct weft_http_span){mark, (uint32_t)(at - mark)};
}

static void add_field(weft_http_head *head, const unsigned char *p, uint32_t value, size_t at)
{
    struct weft_http_field *field = &head->fields[head->field_count++];
    /* The name ends at the colon; its start was stored in the field when the name began. */
    field->name.len = head->weft_name_len;
    field->value = span_to(p, value, at);
}

static const char *why_no_name(unsigned char c)
{
    return weft__is_blank(c) ? "white space before a colon" : "a bad byte in a field's name";
}

static size_t bounded(const weft_http_head *head, size_t len)
{
    return len < head->weft_end ? len : head->weft_end;
}

ssize_t weft_http_head_parse(weft_http_head *head, const void *data, size_t len)
{
    const unsigned char *p = data;
    size_t at = head->weft_at, end = bounded(head, len);
    int state = head->weft_state;
    const struct weft__head_error *wrong;

    if (state == REFUSED) {
        return -EBADMSG;
    }
    WEFT__REQUIRE(state != WHOLE, "weft_http_head_parse called after the head was complete");
    for (;;) {
        if (at == end) {
            return need_more(head, state, at);
        }
        switch (state) {
        case START:
            if (p[at] == '\r' && !head->weft_response) {
                state = EMPTY_LF;
                at++;
                continue;
            }
            state = head->weft_response ? VERSION : METHOD;
            continue;

        /* One empty line before a request is allowed: old clients send it after a body. */
        case EMPTY_LF:
            if (p[at] != '\n') {
                return refuse(head, 400, "a CR without LF");
            }
            at++;
            head->weft_mark = (uint32_t)at;
            head->weft_end = head->weft_line_max + 4;
            end = bounded(head, len);
            state = METHOD;
            continue;

        case METHOD:
            while (at < end && weft__octet_is(p[at], WEFT__OCTET_TOKEN)) {
                at++;
            }
            if (at - head->weft_mark > METHOD_MAX) {
                return refuse(head, 501, "a method that is too long");
            }
            if (at == end) {
                continue;
            }
            if (p[at] != ' ' || at == head->weft_mark) {
                return refuse(head, 400, "bad method");
            }
            head->method_name =
                (struct weft_http_span){head->weft_mark, (uint32_t)at - head->weft_mark};
            head->method =
                weft__method_by_name((const char *)p + head->weft_mark, head->method_name.len);
            at++;
            head->weft_mark = (uint32_t)at;
            state = TARGET;
            __attribute__((fallthrough));

        case TARGET:
            while (at < end && weft__octet_is(p[at], WEFT__OCTET_TARGET)) {
                at++;
            }
            if (at == end) {
                continue;
            }
            if (p[at] != ' ' || at == head->weft_mark) {
                return refuse(head, 400, "bad target");
            }
            head->target = (struct weft_http_span){head->weft_mark, (uint32_t)at - head->weft_mark};
            wrong = weft__head_check_target(head, data);
            if (wrong) {
                return refuse_for(head, wrong);
            }
            at++;
            head->weft_mark = (uint32_t)at;
            state = VERSION;
            __attribute__((fallthrough));

        case VERSION:
            if (end - at >= 8 && at == head->weft_mark && memcmp(p + at, "HTTP/1.1", 8) == 0) {
                head->minor = 1;
                at += 8;
            }
            while (at < end && at - head->weft_mark < 8) {
                if (!version_byte(head, (unsigned)(at - head->weft_mark), p[at])) {
                    return -EBADMSG;
                }
                at++;
            }
            if (at == end) {
                continue;
            }
            if (p[at] != (head->weft_response ? ' ' : '\r')) {
                return refuse(head, 400, "bytes after the version");
            }
            at++;
            head->weft_mark = (uint32_t)at;
            state = head->weft_response ? STATUS : LINE_LF;
            continue;

        case STATUS:
            while (at < end && at - head->weft_mark < 3) {
                if (!weft__is_digit(p[at])) {
                    return refuse(head, 502, "bad status");
                }
                head->status = head->status * 10 + (p[at++] - '0');
            }
            if (at == end) {
                continue;
            }
            if (head->status < 100 || head->status > 599) {
                return refuse(head, 502, "a status outside 100 to 599");
            }
            if (p[at] == '\r') { /* no space either: common, and unambiguous */
                head->reason = (struct weft_http_span){(uint32_t)at, 0};
                state = LINE_LF;
            } else if (p[at] == ' ') {
                head->weft_mark = (uint32_t)at + 1;
                state = REASON;
            } else {
                return refuse(head, 502, "bad status");
            }
            at++;
            continue;

        case REASON:
            at = weft__skip_text(p, at, end);
            if (at == end) {
                continue;
            }
            if (p[at] == '\r') {
                head->reason = span_to(p, head->weft_mark, at);
                state = LINE_LF;
            } else if (p[at] != '\t') {
                return refuse(head, 502, "a control byte in the status line");
            }
            at++;
            continue;

        case LINE_LF:
            if (p[at] != '\n') {
                return refuse(head, 400, "a CR without LF");
            }
            at++;
            head->weft_end = (uint32_t)at + head->weft_header_max;
            end = bounded(head, len);
            state = FIELD;
            continue;

        case FIELD:
            if (p[at] == '\r') {
                at++;
                state = LAST_LF;
                continue;
            }
            if (weft__is_blank(p[at])) {
                return refuse(head, 400, "a folded field");
            }
            if (head->field_count == head->weft_field_max) {
                return refuse(head, 431, "too many fields");
            }
            head->fields[head->field_count].name.at = (uint32_t)at;
            state = NAME;
            __attribute__((fallthrough));

        case NAME:
            while (at < end && weft__octet_is(p[at], WEFT__OCTET_TOKEN)) {
                at++;
            }
            if (at == end) {
                continue;
            }
            head->weft_name_len = (uint32_t)at - head->fields[head->field_count].name.at;
            if (p[at] != ':' || !head->weft_name_len) {
                return refuse(head, 400, why_no_name(p[at]));
            }
            at++;
            state = BLANKS;
            __attribute__((fallthrough));

        case BLANKS:
            while (at < end && weft__is_blank(p[at])) {
                at++;
            }
            if (at == end) {
                continue;
            }
            head->weft_mark = (uint32_t)at;
            state = VALUE;
            __attribute__((fallthrough));

        case VALUE:
            at = weft__skip_text(p, at, end);
            if (at == end) {
                continue;
            }
            if (p[at] != '\r') {
                if (p[at] != '\t') {
                    return refuse(head, 400, "a control byte in a field");
                }
                at++;
                continue;
            }
            at++;
            state = VALUE_LF;
            if (at == end) {
                continue;
            }
            __attribute__((fallthrough));

        case VALUE_LF:
            if (p[at] != '\n') {
                return refuse(head, 400, "a CR without LF");
            }
            add_field(head, p, head->weft_mark, at - 1);
            wrong = weft__head_check_field(head, data);
            if (wrong) {
                return refuse_for(head, wrong);
            }
            at++;
            state = FIELD;
            continue;

        case LAST_LF:
            if (p[at] != '\n') {
                return refuse(head, 400, "a CR without LF");
            }
            wrong = weft__head_check_all(head);
            if (wrong) {
                return refuse_for(head, wrong);
            }
            head->weft_state = WHOLE;
            head->weft_at = (uint32_t)at + 1;
            return (ssize_t)at + 1;

        default:
            weft__panic(__FILE__, __LINE__, "HTTP head used before it was initialised");
        }
    }
}

const struct weft_http_field *weft_http_head_find(const weft_http_head *head, const void *data,
                                                  const char *name,
                                                  const struct weft_http_field *after)
{
    size_t len = strlen(name);
    uint32_t i = after ? (uint32_t)(after - head->fields) + 1 : 0;
    for (; i < head->field_count; i++) {
        const struct weft_http_field *field = &head->fields[i];
        if (field->name.len == len &&
            strncasecmp((const char *)data + field->name.at, name, len) == 0) {
            return field;
        }
    }
    return NULL;
}
