/* Messages that are composed, sent, received and split without moving their bytes. The sender joins
 * chains of buffers, adds the length in front at the end, and writes all of them with one system
 * call. The receiver reads into buffers of a fixed size and takes whole messages out of them, with
 * views where a message begins or ends within a buffer. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

enum { MESSAGES = 3, LENGTH_BYTES = 4, LENGTH_MAX = 1000, PARTS_MAX = 8 };
enum { PIECE = 16, PIECES = 2 }; /* small, so that messages span several buffers */

static const char *const names[MESSAGES] = {"Ada", "Grace Brewster Murray", "Barbara"};
static const char text[] = ",\nwelcome to this example.";

/* --- sending ---------------------------------------------------------------------------- */

static int append_text(weft_bufs *chain, const char *bytes)
{
    weft_buf *buf = weft_buf_copy(bytes, strlen(bytes));
    if (!buf) {
        return -ENOMEM;
    }
    weft_bufs_append(chain, buf);
    return 0;
}

static int prepend_length(weft_bufs *chain)
{
    uint32_t length = (uint32_t)chain->bytes;
    weft_buf *buf = weft_buf_copy(&length, LENGTH_BYTES);
    if (!buf) {
        return -ENOMEM;
    }
    weft_bufs_prepend(chain, buf);
    return 0;
}

/* Writes the whole chain, which is empty afterwards. */
static int write_chain(int fd, weft_bufs *chain, int64_t deadline)
{
    struct iovec parts[PARTS_MAX];
    while (chain->bytes) {
        int count = weft_bufs_iovec(chain, parts, PARTS_MAX);
        ssize_t n = weft_writev(fd, parts, count, deadline);
        if (n < 0) {
            return (int)n;
        }
        weft_bufs_consume(chain, (size_t)n);
    }
    return 0;
}

static int send_greeting(int fd, const char *name)
{
    weft_bufs message = {0}, body = {0};
    int err = append_text(&message, "Dear ");
    err = err ? err : append_text(&message, name);
    err = err ? err : append_text(&body, text);
    weft_bufs_join(&message, &body);
    err = err ? err : prepend_length(&message);
    err = err ? err : write_chain(fd, &message, WEFT_FOREVER);
    weft_bufs_free(&message);
    return err;
}

static int send_all(void *arg)
{
    int fd = *(int *)arg, err = 0;
    for (int i = 0; !err && i < MESSAGES; i++) {
        err = send_greeting(fd, names[i]);
    }
    weft_shutdown(fd, SHUT_WR);
    return err;
}

/* --- receiving -------------------------------------------------------------------------- */

/* Reads until the chain has n bytes. Returns 0; -ENODATA at the end of the stream. */
static int fill(int fd, weft_bufs *in, size_t n, int64_t deadline)
{
    while (in->bytes < n) {
        weft_buf *bufs[PIECES];
        struct iovec parts[PIECES];
        int count = 0;
        while (count < PIECES && (bufs[count] = weft_buf_alloc(PIECE, 0)) != NULL) {
            parts[count] = (struct iovec){weft_buf_put(bufs[count], PIECE), PIECE};
            count++;
        }
        ssize_t got = count ? weft_readv(fd, parts, count, deadline) : -ENOMEM;
        size_t left = got > 0 ? (size_t)got : 0;
        for (int i = 0; i < count; i++) {
            weft_buf_trim(bufs[i], left < PIECE ? PIECE - left : 0);
            left -= bufs[i]->len;
            if (bufs[i]->len) {
                weft_bufs_append(in, bufs[i]);
            } else {
                weft_buf_free(bufs[i]);
            }
        }
        if (got <= 0) {
            return got < 0 ? (int)got : -ENODATA;
        }
    }
    return 0;
}

/* Moves the first n bytes of one chain to the end of another. */
static int move_bytes(weft_bufs *from, size_t n, weft_bufs *to)
{
    while (n) {
        weft_buf *buf = weft_bufs_shift(from), *part = buf;
        if (buf->len > n) { /* the next message begins in this buffer */
            part = weft_buf_slice(buf, 0, n);
            weft_buf_pull(buf, part ? n : 0);
            weft_bufs_prepend(from, buf);
        }
        if (!part) {
            return -ENOMEM;
        }
        n -= part->len;
        weft_bufs_append(to, part);
    }
    return 0;
}

/* Receives one message. Returns 0; -ENODATA if there is none left; -EMSGSIZE if it is too long. */
static int receive(int fd, weft_bufs *in, weft_bufs *message, int64_t deadline)
{
    uint32_t length = 0;
    int err = fill(fd, in, LENGTH_BYTES, deadline);
    if (err) {
        return err;
    }
    weft_bufs_copy(in, 0, &length, LENGTH_BYTES);
    weft_bufs_consume(in, LENGTH_BYTES);
    err = length <= LENGTH_MAX ? fill(fd, in, length, deadline) : -EMSGSIZE;
    return err ? err : move_bytes(in, length, message);
}

/* Prints a message. Returns true if it is the greeting for that name. */
static bool print_greeting(weft_bufs *message, const char *name)
{
    char expected[100];
    size_t n = message->bytes, count = message->count;
    int len = snprintf(expected, sizeof expected, "Dear %s%s", name, text);
    if (weft_bufs_linearise(message, n) != 0) { /* printf needs it in one place */
        return false;
    }
    printf("%zu bytes in %zu buffers: %.*s\n", n, count, (int)n, (char *)message->first->data);
    return (int)n == len && memcmp(message->first->data, expected, n) == 0;
}

static int receive_all(int fd)
{
    weft_bufs in = {0}, message = {0};
    int err = 0;
    for (int i = 0; !err && i < MESSAGES; i++) {
        err = receive(fd, &in, &message, WEFT_FOREVER);
        err = err ? err : print_greeting(&message, names[i]) ? 0 : -EBADMSG;
        weft_bufs_free(&message);
    }
    /* Nothing follows. */
    err = err ? err : receive(fd, &in, &message, WEFT_FOREVER) == -ENODATA ? 0 : -EBADMSG;
    weft_bufs_free(&message);
    weft_bufs_free(&in);
    return err;
}

static void *run(void *arg)
{
    weft_scope scope;
    int ends[2], err = weft_socketpair(SOCK_STREAM, ends);
    (void)arg;
    if (err) {
        return (void *)(intptr_t)err;
    }
    weft_scope_open(&scope, NULL);
    err = weft_scope_spawn(&scope, NULL, send_all, &ends[0], NULL);
    err = err ? err : receive_all(ends[1]);
    int failed = weft_scope_close(&scope, WEFT_FOREVER);
    weft_close(ends[0]);
    weft_close(ends[1]);
    return (void *)(intptr_t)(err ? err : failed);
}

int main(void)
{
    void *failure = NULL;
    int err = weft_run(&failure, run, NULL, NULL, WEFT_FOREVER);
    err = err ? err : (int)(intptr_t)failure;
    if (err) {
        fprintf(stderr, "zero_copy: %s\n", weft_strerror(err));
    }
    return err ? 1 : 0;
}
