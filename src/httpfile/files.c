/* The handler for files: chooses the response, and the part of the file to send. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/alloc.h"
#include "base/error.h"
#include "http/conn.h"
#include "httpfile/files.h"
#include "proto/http_value.h"

enum { RANGES = 16, PART_HEAD = 256 };

#define REVALIDATE_NS 1000000000

/* --- ranges
 * --------------------------------------------------------------------------------------- */

static int send_part(weft_http *req, const struct weft__http_file *file,
                     const struct weft__http_range *range)
{
    return file->content
               ? weft_http_write(req, file->content + range->from, (size_t)range->len, WEFT_FOREVER)
               : weft_http_send_file(req, file->fd, range->from, range->len, WEFT_FOREVER);
}

static int set_validators(weft_http *req, const struct weft__http_file *file)
{
    char date[WEFT_HTTP_DATE_BYTES + 1];
    weft__http_file_date(file, date);
    int err = weft_http_set_header(req, "Last-Modified", date);
    return err ? err : weft_http_set_header(req, "ETag", file->etag);
}

static void range_text(char *out, size_t size, const struct weft__http_range *range, uint64_t whole)
{
    snprintf(out, size, "bytes %llu-%llu/%llu", (unsigned long long)range->from,
             (unsigned long long)(range->from + range->len - 1), (unsigned long long)whole);
}

static int respond_range(weft_http *req, const struct weft__http_file *file,
                         const struct weft__http_range *range)
{
    char text[96];
    range_text(text, sizeof text, range, (uint64_t)file->st.st_size);
    int err = weft_http_begin_response(req, 206);
    err = err ? err : weft_http_set_header(req, "Content-Type", file->type);
    err = err ? err : weft_http_set_header(req, "Content-Range", text);
    err = err ? err : set_validators(req, file);
    err = err ? err : weft_http_set_content_length(req, range->len);
    return err ? err : send_part(req, file, range);
}

static int part_head(char *out, const struct weft_http_files *files,
                     const struct weft__http_file *file, const struct weft__http_range *range)
{
    char text[96];
    range_text(text, sizeof text, range, (uint64_t)file->st.st_size);
    return snprintf(out, PART_HEAD, "\r\n--%s\r\nContent-Type: %s\r\nContent-Range: %s\r\n\r\n",
                    files->boundary, file->type, text);
}

static int respond_ranges(weft_http *req, const struct weft_http_files *files,
                          const struct weft__http_file *file, const struct weft__http_range *ranges,
                          int count)
{
    char text[PART_HEAD];
    uint64_t total = 0;
    for (int i = 0; i < count; i++) {
        total += (uint64_t)part_head(text, files, file, &ranges[i]) + ranges[i].len;
    }
    total += 2 + 2 + strlen(files->boundary) + 2 + 2;
    snprintf(text, sizeof text, "multipart/byteranges; boundary=%s", files->boundary);
    int err = weft_http_begin_response(req, 206);
    err = err ? err : weft_http_set_header(req, "Content-Type", text);
    err = err ? err : set_validators(req, file);
    err = err ? err : weft_http_set_content_length(req, total);
    for (int i = 0; i < count && !err; i++) {
        int n = part_head(text, files, file, &ranges[i]);
        err = weft_http_write(req, text, (size_t)n, WEFT_FOREVER);
        err = err ? err : send_part(req, file, &ranges[i]);
    }
    int n = snprintf(text, sizeof text, "\r\n--%s--\r\n", files->boundary);
    return err ? err : weft_http_write(req, text, (size_t)n, WEFT_FOREVER);
}

static int respond_unsatisfiable(weft_http *req, const struct weft__http_file *file)
{
    char text[64];
    snprintf(text, sizeof text, "bytes */%llu", (unsigned long long)file->st.st_size);
    int err = weft_http_begin_response(req, 416);
    return err ? err : weft_http_set_header(req, "Content-Range", text);
}

/* --- a file
 * --------------------------------------------------------------------------------------- */

static int respond_whole(weft_http *req, const struct weft__http_file *file)
{
    if (file->content) {
        return weft__http_respond_prebuilt(req, 200, file->head, file->head_len, file->content,
                                           (size_t)file->st.st_size);
    }
    int err = weft_http_begin_response(req, 200);
    err = err ? err : weft_http_set_header(req, "Content-Type", file->type);
    err = err ? err : set_validators(req, file);
    err = err ? err : weft_http_set_header(req, "Accept-Ranges", "bytes");
    err = err ? err : weft_http_set_content_length(req, (uint64_t)file->st.st_size);
    return err ? err
               : weft_http_send_file(req, file->fd, 0, (uint64_t)file->st.st_size, WEFT_FOREVER);
}

static int respond_precondition(weft_http *req, const struct weft__http_file *file, int status)
{
    if (status != 304) {
        return weft__http_respond_error(req, status, NULL);
    }
    int err = weft_http_begin_response(req, 304);
    return err ? err : set_validators(req, file);
}

static bool is_unconditional(const weft_http_head *head)
{
    static const enum weft_http_field_name names[] = {
        WEFT_HTTP_RANGE,
        WEFT_HTTP_IF_MATCH,
        WEFT_HTTP_IF_NONE_MATCH,
        WEFT_HTTP_IF_MODIFIED_SINCE,
        WEFT_HTTP_IF_UNMODIFIED_SINCE,
    };
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        if (weft_http_head_field(head, names[i])) {
            return false;
        }
    }
    return true;
}

static int respond_file(weft_http *req, const struct weft_http_files *files,
                        const struct weft__http_file *file)
{
    const weft_http_head *head = &req->head;
    if (is_unconditional(head)) {
        return respond_whole(req, file);
    }
    weft__http_shard_date(req->conn->shard, req->conn->now);
    struct weft__http_validators validators = {
        .etag = file->etag,
        .etag_len = file->etag_len,
        .modified = file->st.st_mtim.tv_sec,
        .now = req->conn->shard->seconds,
    };
    int status = weft__http_precondition_check(head, req->data, &validators);
    if (status) {
        return respond_precondition(req, file, status);
    }
    const struct weft_http_field *field = weft_http_head_field(head, WEFT_HTTP_RANGE);
    if (!field || !weft__http_range_is_applicable(head, req->data, &validators)) {
        return respond_whole(req, file);
    }
    struct weft__http_range ranges[RANGES];
    int count = weft__http_range_parse(ranges, RANGES, req->data + field->value.at,
                                       field->value.len, (uint64_t)file->st.st_size);
    if (count < 0) {
        return respond_unsatisfiable(req, file);
    }
    return count == 0   ? respond_whole(req, file)
           : count == 1 ? respond_range(req, file, ranges)
                        : respond_ranges(req, files, file, ranges, count);
}

/* --- a directory
 * ---------------------------------------------------------------------------------- */

/* Redirects to the path as it was sent, plus a slash, with the query. */
static int redirect(weft_http *req)
{
    struct weft_http_text path = {req->data + req->head.path.at, req->head.path.len};
    struct weft_http_text query = weft_http_query(req);
    char to[2048];
    /* "//host/" would name another host */
    int skip = 0;
    while ((size_t)skip + 1 < path.len && path.data[skip + 1] == '/') {
        skip++;
    }
    int n = snprintf(to, sizeof to, "%.*s/%s%.*s", (int)path.len - skip, path.data + skip,
                     query.data ? "?" : "", (int)query.len, query.data ? query.data : "");
    if (n < 0 || n >= (int)sizeof to) {
        return weft__http_respond_error(req, 404, NULL);
    }
    int err = weft_http_begin_response(req, 301);
    return err ? err : weft_http_set_header(req, "Location", to);
}

static int respond_directory(weft_http *req, const struct weft_http_files *files, int dir)
{
    if (req->path[req->path_len - 1] != '/') {
        close(dir);
        return redirect(req);
    }
    if (!files->opts.listing) {
        close(dir);
        return weft__http_respond_error(req, 404, NULL);
    }
    return weft__http_respond_listing(req, files, dir);
}

/* The caches are not locked, and worker 1 of another pool is another thread. Returns -1 if the
 * connection's pool has no caches here. */
static int cache_index(struct weft_http_files *files, const struct weft__http_conn *conn)
{
    weft_pool *pool = conn->turn.server->pool;
    weft_pool *owner = atomic_load_explicit(&files->pool, memory_order_relaxed);
    if (!owner && atomic_compare_exchange_strong_explicit(
                      &files->pool, &owner, pool, memory_order_relaxed, memory_order_relaxed)) {
        owner = pool;
    }
    return owner == pool ? conn->turn.session->worker : -1;
}

int weft_http_files_serve(weft_http *req, void *arg)
{
    struct weft_http_files *files = arg;
    struct weft__http_file *file;
    int dir = -1;
    if (req->head.method != WEFT_HTTP_GET && req->head.method != WEFT_HTTP_HEAD) {
        int err = weft_http_begin_response(req, 405);
        return err ? err : weft_http_set_header(req, "Allow", "GET, HEAD");
    }
    if (req->path_len < files->prefix_len ||
        memcmp(req->path, files->opts.prefix, files->prefix_len) != 0) {
        return weft__http_respond_error(req, 404, NULL);
    }
    int err = weft__http_cache_get(files, cache_index(files, req->conn), req->path, req->path_len,
                                   &file, &dir);
    if (err == -EISDIR) {
        return respond_directory(req, files, dir);
    }
    if (err == -ENOENT) {
        return weft__http_respond_error(req, 404, NULL);
    }
    if (!err) {
        err = respond_file(req, files, file);
        weft__http_file_unref(file);
    }
    return err;
}

/* --- open and close
 * ------------------------------------------------------------------------------- */

static char *copy(const char *text)
{
    size_t n = strlen(text) + 1;
    char *to = weft__alloc_dirty(n);
    return to ? memcpy(to, text, n) : NULL;
}

/* A share of one eighth of the descriptors: the rest is for connections. */
static unsigned open_files_max(unsigned workers)
{
    struct rlimit limit = {.rlim_cur = 1024};
    getrlimit(RLIMIT_NOFILE, &limit);
    rlim_t share = limit.rlim_cur / 8 / workers;
    return share < WEFT__HTTP_CACHE_OPEN ? (unsigned)share : WEFT__HTTP_CACHE_OPEN;
}

static int open_directory(struct weft_http_files *files, const char *dir)
{
    files->dir = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (files->dir < 0) {
        return -errno;
    }
    files->openat2 = weft__http_has_openat2(files->dir);
    return files->openat2 || !files->opts.follow_symlinks ? 0 : -EOPNOTSUPP;
}

int weft_http_files_open(weft_http_files **out, const char *dir,
                         const struct weft_http_files_opts *options)
{
    struct weft_http_files *files = weft__alloc(sizeof *files);
    if (!files) {
        return -ENOMEM;
    }
    if (options) {
        files->opts = *options;
    }
    weft_pool *pool = weft_pool_self();
    files->dir = -1;
    files->opts.revalidate_ns =
        files->opts.revalidate_ns ? files->opts.revalidate_ns : REVALIDATE_NS;
    files->workers = files->opts.workers ? files->opts.workers
                     : pool              ? weft_pool_workers(pool)
                                         : 64;
    files->workers = files->workers < WEFT_MAX_WORKERS ? files->workers : WEFT_MAX_WORKERS;
    files->open_max = open_files_max(files->workers);
    files->opts.index = copy(files->opts.index ? files->opts.index : "index.html");
    files->opts.prefix = copy(files->opts.prefix ? files->opts.prefix : "/");
    files->caches = weft__alloc(files->workers * sizeof *files->caches);
    bool whole = files->opts.index && files->opts.prefix && files->caches;
    int err = whole ? open_directory(files, dir) : -ENOMEM;
    if (!err) {
        size_t n = files->prefix_len = strlen(files->opts.prefix);
        err = n && files->opts.prefix[0] == '/' && files->opts.prefix[n - 1] == '/'
                  ? 0
                  : weft__refuse(-EINVAL, "prefix: must begin and end with a slash");
    }
    if (err) {
        weft_http_files_close(files);
        return err;
    }
    unsigned long long random = (unsigned long long)weft_now();
    random *= 0x9e3779b97f4a7c15ULL;
    snprintf(files->boundary, sizeof files->boundary, "weft%016llx", random);
    *out = files;
    return 0;
}

void weft_http_files_close(weft_http_files *files)
{
    if (!files) {
        return;
    }
    for (unsigned i = 0; files->caches && i < files->workers; i++) {
        weft__http_cache_clear(&files->caches[i]);
    }
    if (files->dir >= 0) {
        close(files->dir);
    }
    weft__free(files->caches);
    weft__free((void *)(uintptr_t)files->opts.index);
    weft__free((void *)(uintptr_t)files->opts.prefix);
    weft__free(files);
}
