#include <weft/http_parse.h>

#include <string.h>

#include "proto/http_value.h"
#include "proto/octet.h"

/* --- entity tags ------------------------------------------------------------------------ */

/* Returns the length of the tag at the start of the text, including W/ and quotes; 0 if there is
 * none. */
static size_t tag_len(const char *text, size_t len)
{
    size_t at = len >= 2 && text[0] == 'W' && text[1] == '/' ? 2 : 0;
    if (at == len || text[at++] != '"') {
        return 0;
    }
    for (; at < len && text[at] != '"'; at++) {
        unsigned char c = (unsigned char)text[at];
        if (c <= ' ' || c == 0x7f) {
            return 0;
        }
    }
    return at < len ? at + 1 : 0;
}

static bool is_same_tag(const char *a, size_t a_len, const char *b, size_t b_len, bool weak)
{
    size_t a_weak = *a == 'W' ? 2 : 0, b_weak = *b == 'W' ? 2 : 0;
    if (!weak && (a_weak || b_weak)) {
        return false;
    }
    return a_len - a_weak == b_len - b_weak && memcmp(a + a_weak, b + b_weak, a_len - a_weak) == 0;
}

bool weft__http_etag_is_listed(const char *list, size_t len, const char *etag, size_t etag_len,
                               bool weak)
{
    if (!etag || tag_len(etag, etag_len) != etag_len || !etag_len) {
        return false;
    }
    /* Not weft__list_next: a tag may contain commas. */
    for (;;) {
        while (len && (*list == ',' || weft__is_blank((unsigned char)*list))) {
            list++;
            len--;
        }
        size_t n = tag_len(list, len);
        if (!n) {
            return false;
        }
        if (is_same_tag(list, n, etag, etag_len, weak)) {
            return true;
        }
        list += n;
        len -= n;
        while (len && weft__is_blank((unsigned char)*list)) {
            list++;
            len--;
        }
        if (len && *list != ',') {
            return false;
        }
    }
}

/* --- preconditions ------------------------------------------------------------------------ */

/* Reports whether any field of this name lists the tag, or is "*" and a representation exists. */
static bool is_any_listed(const weft_http_head *head, const char *data, const char *name,
                          const struct weft_http_field *field,
                          const struct weft__http_validators *validators, bool weak)
{
    for (; field; field = weft_http_head_find(head, data, name, field)) {
        const char *text = data + field->value.at;
        size_t len = field->value.len;
        if (!validators->absent &&
            ((len == 1 && *text == '*') ||
             weft__http_etag_is_listed(text, len, validators->etag, validators->etag_len, weak))) {
            return true;
        }
    }
    return false;
}

/* Returns false if there is no such field, it is not a date, or there is nothing to compare it
 * with. */
static bool date_of(const weft_http_head *head, const char *data, enum weft_http_field_name name,
                    const struct weft__http_validators *validators, int64_t *out)
{
    const struct weft_http_field *field = weft_http_head_field(head, name);
    return field && validators->modified >= 0 && !validators->absent &&
           weft_http_date_parse(out, data + field->value.at, field->value.len, validators->now) ==
               0;
}

int weft__http_precondition_check(const weft_http_head *head, const void *data,
                                  const struct weft__http_validators *validators)
{
    bool reads = head->method == WEFT_HTTP_GET || head->method == WEFT_HTTP_HEAD;
    const struct weft_http_field *match = weft_http_head_field(head, WEFT_HTTP_IF_MATCH);
    const struct weft_http_field *none = weft_http_head_field(head, WEFT_HTTP_IF_NONE_MATCH);
    int64_t date;
    if (match) {
        if (!is_any_listed(head, data, "if-match", match, validators, false)) {
            return 412;
        }
    } else if (date_of(head, data, WEFT_HTTP_IF_UNMODIFIED_SINCE, validators, &date) &&
               validators->modified > date) {
        return 412;
    }
    if (none) {
        if (is_any_listed(head, data, "if-none-match", none, validators, true)) {
            return reads ? 304 : 412;
        }
    } else if (reads && date_of(head, data, WEFT_HTTP_IF_MODIFIED_SINCE, validators, &date) &&
               validators->modified <= date) {
        return 304;
    }
    return 0;
}

bool weft__http_range_is_applicable(const weft_http_head *head, const void *data,
                                    const struct weft__http_validators *validators)
{
    const struct weft_http_field *field = weft_http_head_field(head, WEFT_HTTP_IF_RANGE);
    int64_t date;
    if (head->method != WEFT_HTTP_GET || !weft_http_head_field(head, WEFT_HTTP_RANGE)) {
        return false;
    }
    if (!field) {
        return true;
    }
    const char *text = (const char *)data + field->value.at;
    size_t len = field->value.len;
    if (tag_len(text, len)) {
        return tag_len(text, len) == len &&
               weft__http_etag_is_listed(text, len, validators->etag, validators->etag_len, false);
    }
    /* A date within the last minute is not a strong validator: the file could change twice in
     * that second. */
    return date_of(head, data, WEFT_HTTP_IF_RANGE, validators, &date) &&
           validators->modified == date && validators->now > date && validators->now - date >= 60;
}
