/* The request as its handler sees it: method, decoded path, query, header fields, peer.
 *
 * A request is the parsed head of its connection (struct weft_http, http/conn.h). The head holds
 * spans: offsets into the bytes at `data` in the read buffer. What an accessor returns points to
 * these bytes, without a copy, so it is valid as long as the request is served. The path is the one
 * exception: it is percent-decoded and normalised once, before the route is looked up, into the
 * request's own memory or, if it is long, into a buffer. Used by the connection's fiber only.
 */
#include <weft/http_parse.h>

#include "base/nonnull.h"
#include "http/conn.h"

enum weft_http_method weft_http_method(const weft_http *req)
{
    WEFT__NONNULL(req);
    return req->head.method;
}

const char *weft_http_path(const weft_http *req)
{
    WEFT__NONNULL(req);
    return req->path;
}

struct weft_http_text weft_http_query(const weft_http *req)
{
    WEFT__NONNULL(req);
    return req->head.query.at ? weft__http_text_of(req, req->head.query)
                              : (struct weft_http_text){NULL, 0};
}

struct weft_http_text weft_http_get_header(const weft_http *req, const char *name)
{
    WEFT__NONNULL(req);
    const struct weft_http_field *field = weft_http_head_find(&req->head, req->data, name, NULL);
    return field ? weft__http_text_of(req, field->value) : (struct weft_http_text){NULL, 0};
}

const weft_http_head *weft_http_request_head(const weft_http *req, const char **data)
{
    WEFT__NONNULL(req);
    *data = req->data;
    return &req->head;
}

const struct weft_addr *weft_http_peer(const weft_http *req)
{
    WEFT__NONNULL(req);
    return &req->conn->peer;
}

int weft__http_decode_path(struct weft_http *req)
{
    char *to = req->path_inline;
    size_t space = sizeof req->path_inline, len = req->head.path.len;
    if (req->head.form == WEFT_HTTP_AUTHORITY) {
        return 501;
    }
    if (req->head.form == WEFT_HTTP_ASTERISK ||
        (len == 0 && req->head.method == WEFT_HTTP_OPTIONS)) {
        req->path = "*";
        req->path_len = 1;
        return 0;
    }
    if (len + 2 > space) {
        req->path_buf = weft_buf_alloc(len + 2, 0);
        if (!req->path_buf) {
            return 503;
        }
        to = (char *)req->path_buf->data;
        space = len + 2;
    }
    ssize_t n = weft_uri_path_normalize(to, space, req->data + req->head.path.at, len);
    if (n < 0) {
        return 400;
    }
    req->path = to;
    req->path_len = (size_t)n;
    return 0;
}
