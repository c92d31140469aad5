/* Values of HTTP fields: dates, ranges, entity tags, and the conditional requests made of them.
 * Nothing allocates. */
#ifndef WEFT_HTTP_VALUE_H
#define WEFT_HTTP_VALUE_H

#include <weft/http_parse.h>

WEFT_BEGIN_DECLS

/* --- dates ------------------------------------------------------------------------ */

#define WEFT_HTTP_DATE_BYTES 29 /* "Sun, 06 Nov 1994 08:49:37 GMT" */

/* Seconds since 1970 from any of the three forms: the usual one, that of RFC 850 and that of
 * asctime. Two digits of a year mean the one that is at most 50 years ahead of `now`. -EINVAL:
 * anything else, such as a wrong day of the week. */
WEFT_API int weft_http_date_parse(const char *text, size_t len, int64_t now, int64_t *out);
/* The seconds of the years 1 to 9999. */
#define WEFT_HTTP_DATE_FIRST (-INT64_C(62135596800))
#define WEFT_HTTP_DATE_LAST INT64_C(253402300799)
/* Writes WEFT_HTTP_DATE_BYTES bytes, no zero behind them. A time outside of these is a caller's
 * bug. */
WEFT_API void weft_http_date_format(int64_t seconds, char *out);

/* --- ranges ----------------------------------------------------------------------- */

struct weft_http_range {
    uint64_t from, len; /* len > 0 */
};

/* What a Range field asks of `size` bytes: the number of ranges written to `out` (206), in the
 * order of the field and without those behind the end. 0: the field is to be ignored (200): another
 * unit than bytes, bad syntax, more than `max` ranges, or ranges that together are larger than the
 * whole. -ERANGE: none can be satisfied (416). */
WEFT_API int weft_http_range_parse(const char *text, size_t len, uint64_t size,
                                   struct weft_http_range *out, int max);

/* --- entity tags and conditions ------------------------------------------------------ */

/* What the server has. */
struct weft_http_version {
    const char *etag; /* "\"abc\"" or "W/\"abc\""; NULL: none */
    size_t etag_len;
    int64_t modified; /* seconds since 1970; negative: not known */
    int64_t now;      /* seconds since 1970 */
    bool absent;      /* there is no such thing (yet): for PUT and the like */
};

/* Is the tag in this list, as If-Match and If-None-Match hold it? "*" is not looked at. `weak`: W/
 * does not matter; else both must be strong. What stands behind an error of syntax is in no
 * list. */
WEFT_API bool weft_http_etag_listed(const char *list, size_t len, const char *etag, size_t etag_len,
                                    bool weak);
/* 0: go on, 304: not modified (GET and HEAD), 412: a condition does not hold. If-Match or
 * If-Unmodified-Since, then If-None-Match or If-Modified-Since, as RFC 9110 orders them. Dates that
 * cannot be read are ignored. */
WEFT_API int weft_http_precondition(const weft_http_head *head, const void *data,
                                    const struct weft_http_version *have);
/* Does the Range field count? Yes for a GET without If-Range, or with one that names what the
 * server has. */
WEFT_API bool weft_http_range_wanted(const weft_http_head *head, const void *data,
                                     const struct weft_http_version *have);

WEFT_END_DECLS
#endif
