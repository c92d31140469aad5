/* Validation of a head: what its parts mean, and which combinations are rejected. http_head.c finds
 * the parts. */
#ifndef WEFT_PROTO_HTTP_HEAD_RULES_H
#define WEFT_PROTO_HTTP_HEAD_RULES_H

#include <weft/http_parse.h>

/* Why a part is rejected: the status and a sentence. The functions return NULL if it is valid. */
struct weft__head_error {
    int status;
    const char *why;
};

/* The target is complete; the method is known. */
const struct weft__head_error *weft__head_check_target(weft_http_head *head, const char *data);
/* A field was appended. */
const struct weft__head_error *weft__head_check_field(weft_http_head *head, const char *data);
/* All fields are known: decides keep-alive and the body. */
const struct weft__head_error *weft__head_check_all(weft_http_head *head);

enum weft_http_method weft__method_by_name(const char *name, size_t len);

/* weft_http_head.weft_flags: what the fields said. */
enum {
    WEFT__HEAD_CLOSE = 1,
    WEFT__HEAD_KEEP_ALIVE = 2,
    WEFT__HEAD_UPGRADE = 4,
    WEFT__HEAD_CHUNKED = 8,
    WEFT__HEAD_EXPECT = 16
};

#endif
