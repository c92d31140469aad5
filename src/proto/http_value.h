/* Values of header fields that the file server needs: ranges, entity tags, preconditions. */
#ifndef WEFT_PROTO_HTTP_VALUE_H
#define WEFT_PROTO_HTTP_VALUE_H

#include <weft/http_parse.h>

struct weft__http_range {
    uint64_t from, len; /* len > 0 */
};

/* Parses a Range field for a representation of `size` bytes into up to `max` ranges, in the order
 * of the field, without ranges that start after the end.
 *
 * Returns the number of ranges (respond 206); 0 if the field must be ignored (respond 200): a unit
 * other than bytes, bad syntax, more than `max` ranges, or ranges that together are larger than the
 * whole; -ERANGE if no range can be satisfied (respond 416). */
int weft__http_range_parse(struct weft__http_range *out, int max, const char *text, size_t len,
                           uint64_t size);

/* The validators of the current representation on the server. */
struct weft__http_validators {
    const char *etag; /* "\"abc\"" or "W/\"abc\""; NULL: none */
    size_t etag_len;
    int64_t modified; /* Last-Modified in seconds since 1970; negative: not known */
    int64_t now;      /* seconds since 1970 */
    bool absent;      /* there is no current representation (yet), for PUT and similar */
};

/* True if an entity tag is in the list of an If-Match or If-None-Match field; "*" is not handled
 * here. weak: weak comparison, W/ is ignored; otherwise both tags must be strong. Elements after a
 * syntax error are ignored. False also if etag is NULL or not an entity tag. */
bool weft__http_etag_is_listed(const char *list, size_t len, const char *etag, size_t etag_len,
                               bool weak);
/* Evaluates the preconditions of a request in the order of RFC 9110: If-Match or
 * If-Unmodified-Since, then If-None-Match or If-Modified-Since. Malformed dates are ignored. data:
 * the buffer of the head.
 *
 * Returns 0: perform the request; 304: not modified (GET and HEAD); 412: precondition failed. */
int weft__http_precondition_check(const weft_http_head *head, const void *data,
                                  const struct weft__http_validators *validators);
/* True if the Range field of a request applies: there is one, the method is GET, and If-Range is
 * absent or names the current representation. A date in If-Range must be at least 60 s old, because
 * a newer one is not a strong validator. */
bool weft__http_range_is_applicable(const weft_http_head *head, const void *data,
                                    const struct weft__http_validators *validators);

#endif
