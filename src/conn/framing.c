/* Bytes to messages: the framings of weft/stream.h, or the protocol's own. */
#include <errno.h>

#include "conn/conn.h"

void weft__framing_init(weft_conn *conn)
{
    const struct weft_protocol *protocol = weft__conn_protocol(conn);
    struct weft_resp_opts resp;
    switch (protocol->framing) {
    case WEFT_FRAMING_LINE:
        weft_line_init(&conn->decoder.line, &protocol->line);
        break;
    case WEFT_FRAMING_LENGTH_PREFIX: /* the options were checked by weft_server_listen */
        weft_length_prefix_init(&conn->decoder.length_prefix, &protocol->length_prefix);
        break;
    case WEFT_FRAMING_RESP:
        resp = protocol->resp;
        resp.value_max = resp.value_max ? resp.value_max : weft__message_max(protocol);
        weft_resp_init(&conn->decoder.resp, &resp);
        break;
    case WEFT_FRAMING_CUSTOM:
    case WEFT_FRAMING_STREAM:
        break;
    }
}

static ssize_t next_custom(weft_conn *conn, struct weft_framed *out, const char *bytes, size_t n,
                           size_t *need)
{
    const struct weft_protocol *protocol = weft__conn_protocol(conn);
    ssize_t used = protocol->frame(conn, bytes, n, conn->listener->arg);
    *out = (struct weft_framed){(const unsigned char *)bytes, used > 0 ? (size_t)used : 0};
    if (used > 0) {
        return (size_t)used <= n ? used : -EBADMSG;
    }
    *need = n + 1;
    return used == 0 && n >= weft__message_max(protocol) ? -EMSGSIZE : used;
}

/* The items of a value, to its last. */
static ssize_t next_resp(weft_conn *conn, struct weft_framed *out, const char *bytes, size_t n,
                         size_t *need)
{
    struct weft_resp_item item;
    do {
        ssize_t used =
            weft_resp_next(&conn->decoder.resp, &item, bytes + conn->scanned, n - conn->scanned);
        if (used <= 0) {
            *need = conn->scanned + conn->decoder.resp.need;
            return used;
        }
        conn->scanned += (size_t)used;
    } while (!item.last);
    *out = (struct weft_framed){(const unsigned char *)bytes, conn->scanned};
    conn->scanned = 0;
    return (ssize_t)out->len;
}

ssize_t weft__framing_next(weft_conn *conn, struct weft_framed *out)
{
    const char *bytes = (const char *)conn->in->data + conn->start;
    size_t n = conn->end - conn->start, need = n + 1;
    ssize_t used;
    if (n == 0) {
        return 0;
    }
    switch (weft__conn_protocol(conn)->framing) {
    case WEFT_FRAMING_LINE:
        used = weft_line_next(&conn->decoder.line, out, bytes, n);
        need = conn->decoder.line.need;
        break;
    case WEFT_FRAMING_LENGTH_PREFIX:
        used = weft_length_prefix_next(&conn->decoder.length_prefix, out, bytes, n);
        need = conn->decoder.length_prefix.need;
        break;
    case WEFT_FRAMING_RESP:
        used = next_resp(conn, out, bytes, n, &need);
        break;
    default:
        used = next_custom(conn, out, bytes, n, &need);
        break;
    }
    return used == 0 && !weft__conn_reserve(conn, need) ? -ENOMEM : used;
}
