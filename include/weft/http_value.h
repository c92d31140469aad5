/* Values of HTTP header fields: dates, ranges, entity tags, and the preconditions built from them.
 * Nothing allocates. All calls: any thread; none waits. */
#ifndef WEFT_HTTP_VALUE_H
#define WEFT_HTTP_VALUE_H

#include <weft/http_parse.h>

WEFT_BEGIN_DECLS

/* --- dates ------------------------------------------------------------------------ */

#define WEFT_HTTP_DATE_BYTES 29 /* "Sun, 06 Nov 1994 08:49:37 GMT" */

/* Parse an HTTP date in any of the three forms: IMF-fixdate, RFC 850 and asctime.
 *
 * now: seconds since 1970; a two-digit year means the year that is at most 50 years after `now`.
 * Returns 0 and the seconds since 1970 in *out; -EINVAL for anything else, such as a wrong weekday.
 * Context: any thread; does not wait. */
WEFT_API int weft_http_date_parse(const char *text, size_t len, int64_t now, int64_t *out);
/* The range of dates that can be formatted: the years 1 to 9999, in seconds since 1970. */
#define WEFT_HTTP_DATE_FIRST (-INT64_C(62135596800))
#define WEFT_HTTP_DATE_LAST INT64_C(253402300799)
/* Format a date: writes WEFT_HTTP_DATE_BYTES bytes to `out`, without a terminating zero. A time
 * outside WEFT_HTTP_DATE_FIRST .. WEFT_HTTP_DATE_LAST is a caller's bug and stops the program.
 * Context: any thread; does not wait. */
WEFT_API void weft_http_date_format(int64_t seconds, char *out);

/* --- ranges ----------------------------------------------------------------------- */

struct weft_http_range {
    uint64_t from, len; /* len > 0 */
};

/* Parse a Range field for a representation of `size` bytes.
 *
 * out: receives up to `max` ranges, in the order of the field, without ranges that start after the
 * end.
 * Returns the number of ranges (respond 206); 0 if the field must be ignored (respond 200): a unit
 * other than bytes, bad syntax, more than `max` ranges, or ranges that together are larger than the
 * whole; -ERANGE if no range can be satisfied (respond 416).
 * Context: any thread; does not wait. */
WEFT_API int weft_http_range_parse(const char *text, size_t len, uint64_t size,
                                   struct weft_http_range *out, int max);

/* --- entity tags and preconditions --------------------------------------------------- */

/* The validators of the current representation on the server. */
struct weft_http_validators {
    const char *etag; /* "\"abc\"" or "W/\"abc\""; NULL: none */
    size_t etag_len;
    int64_t modified; /* Last-Modified in seconds since 1970; negative: not known */
    int64_t now;      /* seconds since 1970 */
    bool absent;      /* there is no current representation (yet), for PUT and similar */
};

/* Report whether an entity tag is in the list of an If-Match or If-None-Match field. "*" is not
 * handled here. weak: weak comparison, W/ is ignored; otherwise both tags must be strong. Elements
 * after a syntax error are ignored.
 * Returns true if the list contains the tag; false also if etag is NULL or not an entity tag.
 * Context: any thread; does not wait. */
WEFT_API bool weft_http_etag_is_listed(const char *list, size_t len, const char *etag,
                                       size_t etag_len, bool weak);
/* Evaluate the preconditions of a request in the order of RFC 9110: If-Match or
 * If-Unmodified-Since, then If-None-Match or If-Modified-Since. Malformed dates are ignored. data:
 * the buffer of the head.
 * Returns 0: perform the request; 304: not modified (GET and HEAD); 412: precondition failed.
 * Context: any thread; does not wait. */
WEFT_API int weft_http_precondition_check(const weft_http_head *head, const void *data,
                                          const struct weft_http_validators *validators);
/* Report whether the Range field of a request applies. data: the buffer of the head.
 * Returns true if there is a Range field, the method is GET, and If-Range is absent or names the
 * current representation. A date in If-Range must be at least 60 s old, because a newer one is not
 * a strong validator.
 * Context: any thread; does not wait. */
WEFT_API bool weft_http_range_is_applicable(const weft_http_head *head, const void *data,
                                            const struct weft_http_validators *validators);

WEFT_END_DECLS
#endif
