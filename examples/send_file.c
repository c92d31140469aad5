/* Serves parts of a file without reading them into memory: the kernel copies them from the page
 * cache to the socket. Each part has a small header in front. The header and the first bytes of the
 * file travel in one packet: a flag says that more follows or, for several parts, the socket is
 * corked until all of them are written. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* struct statx */
#endif
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <weft/weft.h>

enum { FILE_BYTES = 300000, RANGES_MAX = 4 };

struct range {
    uint64_t from, bytes;
};
struct request {
    uint64_t count;
    struct range ranges[RANGES_MAX];
};
struct server {
    int listener, file;
};

/* --- the server ------------------------------------------------------------------------- */

static int send_range(int fd, int file, const struct range *range, int64_t deadline)
{
    const char *head = (const char *)range;
    uint64_t sent = 0;
    ssize_t n = 1;
    for (size_t at = 0; n > 0 && at<sizeof *range; at += n> 0 ? (size_t)n : 0) {
        n = weft_send(fd, head + at, sizeof *range - at, MSG_MORE, deadline);
    }
    while (n > 0 && sent < range->bytes) {
        n = weft_sendfile(fd, file, (int64_t)(range->from + sent), range->bytes - sent, deadline);
        sent += n > 0 ? (uint64_t)n : 0;
    }
    return n < 0 ? (int)n : sent == range->bytes ? 0 : -ENODATA; /* the file was truncated */
}

static int send_ranges(int fd, int file, const struct request *request, int64_t deadline)
{
    int err = weft_set_cork(fd, true);
    for (uint64_t i = 0; !err && i < request->count; i++) {
        const struct range *range = &request->ranges[i];
        err = weft_write_all(fd, range, sizeof *range, NULL, deadline);
        err = err ? err
                  : weft_sendfile_all(fd, file, (int64_t)range->from, range->bytes, NULL, deadline);
    }
    return err ? err : weft_set_cork(fd, false); /* sends what is held back */
}

static int check(const struct request *request, uint64_t size)
{
    if (request->count == 0 || request->count > RANGES_MAX) {
        return -EINVAL;
    }
    for (uint64_t i = 0; i < request->count; i++) {
        const struct range *range = &request->ranges[i];
        if (range->bytes == 0 || range->from > size || range->bytes > size - range->from) {
            return -ERANGE;
        }
    }
    return 0;
}

static int serve_requests(int fd, int file, int64_t deadline)
{
    struct request request;
    struct statx status;
    size_t got;
    int err = weft_fstat(file, &status, deadline);
    while (!err) {
        err = weft_read_full(fd, &request, sizeof request, &got, deadline);
        if (err == -ENODATA && got == 0) {
            return 0; /* the client is done */
        }
        err = err ? err : check(&request, status.stx_size);
        err = err                  ? err
              : request.count == 1 ? send_range(fd, file, request.ranges, deadline)
                                   : send_ranges(fd, file, &request, deadline);
    }
    return err;
}

static int serve(void *arg)
{
    const struct server *server = arg;
    int fd = weft_accept(server->listener, NULL, WEFT_FOREVER);
    int err = fd < 0 ? fd : serve_requests(fd, server->file, weft_after(WEFT_MINUTES(5)));
    weft_close(fd);
    return err;
}

/* --- a client --------------------------------------------------------------------------- */

static unsigned char content[FILE_BYTES];

static int fetch(int fd, const struct request *request)
{
    static unsigned char body[FILE_BYTES];
    int err = weft_write_all(fd, request, sizeof *request, NULL, WEFT_FOREVER);
    for (uint64_t i = 0; !err && i < request->count; i++) {
        struct range range = {0, 0};
        err = weft_read_full(fd, &range, sizeof range, NULL, WEFT_FOREVER);
        if (range.from != request->ranges[i].from || range.bytes != request->ranges[i].bytes) {
            return err ? err : -EBADMSG;
        }
        err = err ? err : weft_read_full(fd, body, range.bytes, NULL, WEFT_FOREVER);
        if (!err && memcmp(body, content + range.from, range.bytes) != 0) {
            err = -EBADMSG;
        }
        printf("%6llu bytes from %llu: %s\n", (unsigned long long)range.bytes,
               (unsigned long long)range.from, err ? weft_strerror(err) : "as in the file");
    }
    return err;
}

static int fetch_parts(int listener)
{
    struct weft_addr addr;
    int err = weft_addr_local(listener, &addr);
    int fd = err ? err : weft_connect(&addr, WEFT_FOREVER);
    err = fd < 0 ? fd : fetch(fd, &(struct request){1, {{0, FILE_BYTES}}});
    err = err ? err : fetch(fd, &(struct request){3, {{0, 10}, {1000, 250000}, {299999, 1}}});
    weft_close(fd);
    return err;
}

static void *run(void *arg)
{
    weft_scope scope;
    struct server server = {.listener = weft_listen("127.0.0.1:0", NULL), .file = *(int *)arg};
    ssize_t n = weft_pwrite(server.file, content, FILE_BYTES, 0, WEFT_FOREVER);
    weft_scope_open(&scope, &(struct weft_scope_opts){.fail_fast = true});
    int err = n == FILE_BYTES ? weft_scope_spawn(&scope, NULL, serve, &server, NULL) : -EIO;
    err = err ? err : fetch_parts(server.listener);
    int failed = weft_scope_close(&scope, WEFT_FOREVER);
    weft_close(server.listener);
    weft_close(server.file);
    return (void *)(intptr_t)(err ? err : failed);
}

int main(void)
{
    char name[] = "/tmp/weft-send-XXXXXX";
    void *failure = NULL;
    for (int i = 0; i < FILE_BYTES; i++) {
        content[i] = (unsigned char)(i * 7 + i / 251);
    }
    int file = mkstemp(name);
    if (file < 0 || unlink(name) != 0) {
        perror(name);
        return 1;
    }
    int err = weft_run(&failure, run, &file, NULL, WEFT_FOREVER);
    err = err ? err : (int)(intptr_t)failure;
    if (err) {
        fprintf(stderr, "send_file: %s\n", weft_strerror(err));
    }
    return err ? 1 : 0;
}
