/* Requests and replies as length-prefixed frames on one connection. The client writes many requests
 * at once; the server handles each in a fiber of its own, so replies come back in any order, and an
 * outbox serialises them. A frame is
 *
 *     u32 length of the body | u32 request id | body
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <weft/weft.h>

enum { REQUESTS = 50, HEAD = 8, BUSY_BYTES = 256 * 1024 };

static const struct weft_length_prefix_opts format = {.bytes = 4, .body_offset = HEAD, .max = 4096};

/* Makes a frame. The body is written first, the head into the headroom in front of it. */
static weft_buf *frame_create(uint32_t id, const void *body, size_t len)
{
    weft_length_prefix prefix;
    int err = weft_length_prefix_init(&prefix, &format);
    weft_buf *frame = err ? NULL : weft_buf_alloc(len, HEAD);
    if (!frame) {
        return NULL;
    }
    memcpy(weft_buf_put(frame, len), body, len);
    unsigned char *head = weft_buf_push(frame, HEAD);
    memcpy(head + 4, &id, sizeof id);
    if (weft_length_prefix_write(&prefix, head, len) != HEAD) { /* the body is too large */
        weft_buf_free(frame);
        return NULL;
    }
    return frame;
}

/* Waits for a whole frame. Returns its size, for weft_reader_consume; 0 at the end of the stream;
 * or an error. The frame stays in the reader's buffer until it is consumed. */
static ssize_t frame_next(weft_reader *in, uint32_t *id, struct weft_framed *body)
{
    weft_length_prefix prefix;
    const unsigned char *bytes;
    size_t want = HEAD;
    if (weft_length_prefix_init(&prefix, &format) != 0) {
        return -EINVAL;
    }
    for (;;) {
        ssize_t have = weft_reader_peek(in, &bytes, want, WEFT_FOREVER);
        if (have < (ssize_t)want) {
            return have > 0 ? -ENODATA : have; /* the peer stopped inside a frame */
        }
        ssize_t n = weft_length_prefix_next(&prefix, body, bytes, (size_t)have);
        if (n > 0) {
            memcpy(id, bytes + 4, sizeof *id);
        }
        if (n != 0) {
            return n;
        }
        want = prefix.need;
    }
}

/* --- server --------------------------------------------------------------------------------- */

struct request {
    weft_outbox *replies;
    uint32_t id;
    size_t len;
    char body[64];
};

static int handle(void *arg)
{
    struct request *request = arg;
    for (size_t i = 0; i < request->len; i++) {
        request->body[i] = (char)toupper((unsigned char)request->body[i]);
    }
    weft_yield(); /* as if it waited for a database: later requests overtake this one */
    weft_buf *reply = frame_create(request->id, request->body, request->len);
    int err = reply ? weft_outbox_post(request->replies, reply) : -ENOMEM;
    if (err) {
        weft_buf_free(reply); /* refused: the client does not keep up, or is gone */
    }
    return err;
}

static int write_replies(void *outbox)
{
    return weft_outbox_run(outbox, WEFT_FOREVER);
}

static int serve(void *arg)
{
    static struct request requests[REQUESTS];
    int fd = *(int *)arg, count = 0;
    weft_reader in;
    weft_outbox replies;
    weft_scope writer, handlers;
    struct weft_framed body;
    uint32_t id;
    ssize_t n;
    weft_reader_init(&in, fd, NULL);
    weft_outbox_init(&replies, fd, NULL);
    weft_scope_open(&writer, NULL);
    int err = weft_scope_spawn(&writer, NULL, write_replies, &replies, NULL);
    weft_scope_open(&handlers, NULL);
    while (!err && count < REQUESTS && (n = frame_next(&in, &id, &body)) > 0) {
        struct request *request = &requests[count++];
        *request = (struct request){.replies = &replies, .id = id, .len = body.len};
        err = body.len > sizeof request->body ? -EMSGSIZE : 0;
        if (!err) {
            memcpy(request->body, body.bytes, body.len);
            weft_reader_consume(&in, (size_t)n); /* from here on `body` is invalid */
        }
        if (!err && weft_outbox_pending(&replies) > BUSY_BYTES) {
            err = -EBUSY; /* the client sends requests and reads no replies */
        }
        err = err ? err : weft_scope_spawn(&handlers, NULL, handle, request, NULL);
    }
    int failed = weft_scope_close(&handlers, WEFT_FOREVER);
    weft_outbox_close(&replies); /* the writer ends when everything is written */
    int unwritten = weft_scope_close(&writer, WEFT_FOREVER);
    weft_shutdown(fd, SHUT_WR);
    weft_outbox_deinit(&replies);
    weft_reader_deinit(&in);
    return err ? err : failed ? failed : unwritten;
}

/* --- client --------------------------------------------------------------------------------- */

static int send_requests(int fd)
{
    weft_writer out;
    int err = 0;
    weft_writer_init(&out, fd, NULL);
    for (uint32_t id = 0; !err && id < REQUESTS; id++) {
        char text[32];
        int len = snprintf(text, sizeof text, "request %u", id);
        weft_buf *frame = frame_create(id, text, (size_t)len);
        err = frame ? weft_writer_append_buf(&out, frame, WEFT_FOREVER) : -ENOMEM;
        if (err) {
            weft_buf_free(frame);
        }
    }
    printf("client: %d requests, %zu bytes to write\n", REQUESTS, weft_writer_pending(&out));
    err = err ? err : weft_writer_flush(&out, WEFT_FOREVER);
    weft_writer_deinit(&out);
    weft_shutdown(fd, SHUT_WR);
    return err;
}

static int receive_replies(int fd, bool *answered)
{
    weft_reader in;
    struct weft_framed body;
    uint32_t id;
    ssize_t n;
    int count = 0;
    weft_reader_init(&in, fd, NULL);
    while ((n = frame_next(&in, &id, &body)) > 0) {
        char expected[32];
        int len = snprintf(expected, sizeof expected, "REQUEST %u", id);
        if (id < REQUESTS && !answered[id] && body.len == (size_t)len &&
            memcmp(body.bytes, expected, body.len) == 0) {
            answered[id] = true;
            count++;
        }
        weft_reader_consume(&in, (size_t)n);
    }
    weft_reader_deinit(&in);
    printf("client: %d replies\n", count);
    return n < 0 ? (int)n : count == REQUESTS ? 0 : -EBADMSG;
}

static void *run(void *arg)
{
    int ends[2];
    bool answered[REQUESTS] = {false};
    weft_scope scope;
    int err = weft_socketpair(SOCK_STREAM, ends);
    if (err) {
        *(int *)arg = err;
        return NULL;
    }
    weft_scope_open(&scope, NULL);
    err = weft_scope_spawn(&scope, NULL, serve, &ends[1], NULL);
    err = err ? err : send_requests(ends[0]);
    err = err ? err : receive_replies(ends[0], answered);
    int served = weft_scope_close(&scope, WEFT_FOREVER);
    weft_close(ends[0]);
    weft_close(ends[1]);
    *(int *)arg = err ? err : served;
    return NULL;
}

int main(void)
{
    int failed = 0;
    int err = weft_run(NULL, run, &failed, NULL, WEFT_FOREVER);
    if (err || failed) {
        fprintf(stderr, "rpc_frames: %s\n", weft_strerror(err ? err : failed));
        return 1;
    }
    return 0;
}
