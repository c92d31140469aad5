/* The HTTP server's internal state. Accepting, limits on connections, timeouts, rest and stop are in
 * src/server. Files in reading order:
 *
 *   server.c             create, listen, stop, statistics
 *   shard.c              state of each worker: counters, the Date line
 *   conn.c               a turn of a connection: serves requests until it rests or ends
 *   input.c              the read buffer
 *   request_read.c       reads the head of the next request
 *   request_serve.c      serves a request: handler, response, access record, counters
 *   route.c              which handler
 *   request.c            the request as its handler sees it; decodes the path
 *   request_body.c       the request body
 *   response.c           response header and framing
 *   output.c             the write buffer; writes, files to the socket
 */
#ifndef WEFT_HTTP_SERVER_H
#define WEFT_HTTP_SERVER_H

#include <weft/buf.h>
#include <weft/http.h>

#include "base/atomic.h"
#include "http/route.h"
#include "http/shard.h"
#include "server/server.h"

struct weft_http_server {
    struct weft__server base;          /* first */
    struct weft_http_server_opts opts; /* with all defaults filled in */
    struct weft_http_limits parse;
    size_t input_max;                /* size of the largest read buffer */
    struct weft__http_shard *shards; /* one per worker */
    struct weft__http_routes routes; /* immutable after the first listen */
    _Atomic(uint32_t) listened;
};

#endif
