/* A store for uploads that reads its connections as streams of bytes: an upload may be larger than
 * any buffer, so the server reads it and writes it to a file in pieces. All uploads are in one file,
 * one after the other. The kernel sends parts of that file; they are not copied into the program.
 *
 *     "put SIZE" newline | SIZE bytes     answer: "at OFFSET, checksum SUM" newline
 *     "get OFFSET SIZE" newline           answer: SIZE bytes
 */
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

enum { LINE_BYTES = 64, PIECE_BYTES = 16384, UPLOADS = 2, UPLOAD_BYTES = 300000 };
#define SIZE_LIMIT (UINT64_C(1) << 30)

struct store {
    int file;
    _Atomic(uint64_t) end; /* where the next upload begins */
};

static unsigned checksum(const char *bytes, size_t n, unsigned sum)
{
    for (size_t i = 0; i < n; i++) {
        sum = sum * 31 + (unsigned char)bytes[i];
    }
    return sum;
}

/* --- the server ------------------------------------------------------------------------------- */

/* Reads 1 to n bytes. */
static ssize_t read_some(weft_conn *conn, char *to, size_t n, int64_t deadline)
{
    ssize_t got = weft_conn_read(conn, to, n, deadline);
    return got ? got : -ECONNRESET; /* the end of the stream, too early */
}

/* Reads byte by byte, because what follows the line is not for this function. */
static int read_line(weft_conn *conn, char line[LINE_BYTES], int64_t deadline)
{
    for (int n = 0; n < LINE_BYTES; n++) {
        ssize_t got = read_some(conn, &line[n], 1, deadline);
        if (got < 0) {
            return (int)got;
        }
        if (line[n] == '\n') {
            line[n] = '\0';
            return 0;
        }
    }
    return -EMSGSIZE;
}

static int put(weft_conn *conn, struct store *store, uint64_t size, int64_t deadline)
{
    char piece[PIECE_BYTES];
    unsigned sum = 0;
    uint64_t at = atomic_fetch_add(&store->end, size);
    for (uint64_t done = 0; done < size;) {
        uint64_t left = size - done;
        ssize_t n = read_some(conn, piece, left < PIECE_BYTES ? left : PIECE_BYTES, deadline);
        if (n < 0) {
            return (int)n;
        }
        if (weft_pwrite(store->file, piece, (size_t)n, (int64_t)(at + done), deadline) != n) {
            return -EIO;
        }
        sum = checksum(piece, (size_t)n, sum);
        done += (uint64_t)n;
    }
    int len = snprintf(piece, sizeof piece, "at %" PRIu64 ", checksum %08x\n", at, sum);
    return weft_conn_send(conn, piece, (size_t)len, deadline);
}

/* The server calls this when bytes have arrived. The connection may rest after each request. */
static int serve_request(weft_conn *conn, void *arg)
{
    struct store *store = arg;
    char line[LINE_BYTES];
    uint64_t at, size;
    int64_t deadline = weft_after(WEFT_MINUTES(5)); /* for the whole request */
    int err = read_line(conn, line, deadline);
    if (err) {
        return err;
    }
    if (sscanf(line, "put %" SCNu64, &size) == 1 && size <= SIZE_LIMIT) {
        return put(conn, store, size, deadline);
    }
    if (sscanf(line, "get %" SCNu64 " %" SCNu64, &at, &size) == 2 && size <= SIZE_LIMIT) {
        return weft_conn_send_file(conn, store->file, at, size, deadline);
    }
    return -EPROTO;
}

static const struct weft_protocol upload = {
    .name = "upload", .framing = WEFT_FRAMING_STREAM, .serve = serve_request};

/* --- a client --------------------------------------------------------------------------------- */

/* Stores the bytes, and reads them back. Returns 0 if they are the same. */
static int put_and_get(weft_reader *in, weft_writer *out, const char *bytes)
{
    static char copy[UPLOAD_BYTES];
    const char *line;
    uint64_t at;
    unsigned sum;
    int64_t deadline = weft_after(WEFT_SECONDS(60));
    int err = weft_writer_printf(out, deadline, "put %d\n", UPLOAD_BYTES);
    err = err ? err : weft_writer_append(out, bytes, UPLOAD_BYTES, deadline);
    err = err ? err : weft_writer_flush(out, deadline);
    if (err || weft_reader_read_line(in, &line, deadline) < 0 ||
        sscanf(line, "at %" SCNu64 ", checksum %x", &at, &sum) != 2 ||
        sum != checksum(bytes, UPLOAD_BYTES, 0)) {
        return -EIO;
    }
    printf("at %" PRIu64 ", checksum %08x\n", at, sum);
    err = weft_writer_printf(out, deadline, "get %" PRIu64 " %d\n", at, UPLOAD_BYTES);
    err = err ? err : weft_writer_flush(out, deadline);
    err = err ? err : weft_reader_read_full(in, copy, UPLOAD_BYTES, NULL, deadline);
    return err || memcmp(copy, bytes, UPLOAD_BYTES) != 0 ? -EIO : 0;
}

static int use(const struct weft_addr *at)
{
    static char content[UPLOAD_BYTES];
    weft_reader in;
    weft_writer out;
    int fd = weft_connect(at, weft_after(WEFT_SECONDS(10))), err = fd < 0 ? fd : 0;
    weft_reader_init(&in, fd, NULL);
    weft_writer_init(&out, fd, NULL);
    for (int i = 0; !err && i < UPLOADS; i++) {
        memset(content, 'a' + i, sizeof content);
        err = put_and_get(&in, &out, content);
    }
    weft_reader_deinit(&in);
    weft_writer_deinit(&out);
    if (fd >= 0) {
        weft_close(fd);
    }
    return err;
}

static void *run(void *arg)
{
    struct store *store = arg;
    weft_server *server;
    struct weft_addr at;
    int err = weft_server_create(&server, NULL);
    if (err) {
        return (void *)1;
    }
    err = weft_server_listen(server, &at, "127.0.0.1:0", &upload, store);
    err = err ? err : use(&at);
    if (err) {
        fprintf(stderr, "stream_upload: %s\n", weft_strerror(err));
    }
    weft_server_stop(server, weft_after(WEFT_SECONDS(5)));
    weft_server_destroy(server);
    return err ? (void *)1 : NULL;
}

int main(void)
{
    void *failed = NULL;
    FILE *file = tmpfile();
    if (!file) {
        perror("stream_upload: tmpfile");
        return 1;
    }
    struct store store = {.file = fileno(file)};
    int err = weft_run(&failed, run, &store, NULL, WEFT_FOREVER);
    fclose(file);
    return err || failed;
}
