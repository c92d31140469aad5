/* A proxy for uploads: it looks at the head of each upload and passes the body on without copying
 * it. The client may send several uploads in a row; after the last one it sends plain log text
 * until it closes the connection.
 *
 *     "put NAME LENGTH" blank line | LENGTH bytes | 4 bytes checksum      (any number of times)
 *     "log" blank line | text to the end of the stream
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <weft/weft.h>

enum { UPLOADS = 3, BODY = 20000, LIMIT = 64 * 1024 };

static uint32_t checksum(const void *bytes, size_t n, uint32_t sum)
{
    for (size_t i = 0; i < n; i++) {
        sum = sum * 31 + ((const unsigned char *)bytes)[i];
    }
    return sum;
}

/* --- proxy ---------------------------------------------------------------------------------- */

struct proxy {
    int client, store;
    int uploads;
    size_t log_bytes;
};

/* Passes one body on. The buffers that were received are the buffers that are sent. */
static int pass_body(struct proxy *proxy, weft_reader *in, weft_writer *out, size_t length)
{
    weft_bufs body = {0};
    uint32_t sum = 0, expected;
    int err = weft_reader_read_bufs(in, &body, length, WEFT_FOREVER);
    if (err) {
        return err;
    }
    for (weft_buf *buf = body.first; buf; buf = weft_bufs_next(buf)) {
        sum = checksum(buf->data, buf->len, sum);
    }
    err = weft_reader_read_full(in, &expected, sizeof expected, NULL, WEFT_FOREVER);
    err = err ? err : sum == expected ? 0 : -EBADMSG;
    err = err ? err : weft_writer_append_bufs(out, &body, WEFT_FOREVER); /* takes the chain */
    weft_bufs_free(&body);                                               /* empty after a success */
    proxy->uploads += !err;
    /* While more of the client's bytes are here already, collect; else do not keep the store
     * waiting. */
    return err || weft_reader_buffered(in) > 0 ? err : weft_writer_flush(out, WEFT_FOREVER);
}

static int pass_log(struct proxy *proxy, weft_reader *in)
{
    char text[256];
    ssize_t n;
    while ((n = weft_reader_read(in, text, sizeof text, WEFT_FOREVER)) > 0) {
        proxy->log_bytes += (size_t)n;
    }
    return (int)n;
}

static int run_proxy(void *arg)
{
    struct proxy *proxy = arg;
    weft_reader in;
    weft_writer out;
    int err = 0;
    bool end = false;
    weft_reader_init(&in, proxy->client, &(struct weft_reader_opts){.limit = LIMIT});
    weft_writer_init(&out, proxy->store, NULL);
    while (!err && !end) {
        const unsigned char *bytes;
        char head[128], name[64];
        size_t length;
        ssize_t n = weft_reader_read_until(&in, &bytes, "\n\n", 2, WEFT_FOREVER);
        if (n < 0 || (size_t)n >= sizeof head) {
            err = n < 0 ? (int)n : -EMSGSIZE;
            break;
        }
        memcpy(head, bytes, (size_t)n); /* the next read invalidates `bytes` */
        head[n] = '\0';
        if (sscanf(head, "put %63s %zu", name, &length) == 2) {
            err = pass_body(proxy, &in, &out, length);
            printf("proxy: %s, %zu bytes: %s\n", name, length, err ? weft_strerror(err) : "passed");
        } else if (strcmp(head, "log") == 0) {
            err = pass_log(proxy, &in);
            end = true;
        } else {
            err = -EBADMSG;
        }
    }
    err = err ? err : weft_writer_flush(&out, WEFT_FOREVER);
    weft_shutdown(proxy->store, SHUT_WR);
    weft_shutdown(proxy->client, SHUT_RDWR); /* after an error: the client must not wait for us */
    weft_writer_deinit(&out);
    weft_reader_deinit(&in);
    return err;
}

/* --- client and store ----------------------------------------------------------------------- */

static int run_client(void *arg)
{
    static const char text[] = "done\nwith three uploads\n";
    static unsigned char body[BODY];
    int fd = *(int *)arg, err = 0;
    weft_writer out;
    weft_writer_init(&out, fd, NULL);
    for (int i = 0; !err && i < UPLOADS; i++) {
        memset(body, 'a' + i, sizeof body);
        uint32_t sum = checksum(body, sizeof body, 0);
        err = weft_writer_printf(&out, WEFT_FOREVER, "put file%d %zu\n\n", i, sizeof body);
        err = err ? err : weft_writer_append(&out, body, sizeof body, WEFT_FOREVER);
        err = err ? err : weft_writer_append(&out, &sum, sizeof sum, WEFT_FOREVER);
    }
    err = err ? err : weft_writer_printf(&out, WEFT_FOREVER, "log\n\n%s", text);
    err = err ? err : weft_writer_flush(&out, WEFT_FOREVER);
    weft_writer_deinit(&out);
    weft_shutdown(fd, SHUT_WR);
    return err;
}

static void *run(void *arg)
{
    int to_proxy[2] = {-1, -1}, to_store[2] = {-1, -1};
    unsigned char piece[4096];
    size_t stored = 0;
    ssize_t n = 0;
    weft_scope scope;
    int err = weft_socketpair(SOCK_STREAM, to_proxy);
    err = err ? err : weft_socketpair(SOCK_STREAM, to_store);
    struct proxy proxy = {.client = to_proxy[1], .store = to_store[0]};
    weft_scope_open(&scope, NULL);
    err = err ? err : weft_scope_spawn(&scope, NULL, run_client, &to_proxy[0], NULL);
    err = err ? err : weft_scope_spawn(&scope, NULL, run_proxy, &proxy, NULL);
    while (!err && (n = weft_read(to_store[1], piece, sizeof piece, WEFT_FOREVER)) > 0) {
        stored += (size_t)n;
    }
    int failed = weft_scope_close(&scope, WEFT_FOREVER);
    for (int i = 0; i < 2; i++) {
        weft_close(to_proxy[i]);
        weft_close(to_store[i]);
    }
    printf("store: %zu bytes of %d uploads; log: %zu bytes\n", stored, proxy.uploads,
           proxy.log_bytes);
    *(int *)arg = err ? err : failed ? failed : stored == UPLOADS * BODY && n == 0 ? 0 : -EBADMSG;
    return NULL;
}

int main(void)
{
    int failed = 0;
    int err = weft_run(NULL, run, &failed, NULL, WEFT_FOREVER);
    if (err || failed) {
        fprintf(stderr, "upload_proxy: %s\n", weft_strerror(err ? err : failed));
        return 1;
    }
    return 0;
}
