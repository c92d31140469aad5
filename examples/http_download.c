/* Downloads over HTTP, both sides: a handler that sends a file with Last-Modified and answers a
 * conditional request with 304; and a client that parses responses with weft/http_parse.h.
 *
 *     GET /download?name=r%C3%A9sum%C3%A9.txt   the name is that of the file at the client
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>
#include <weft/weft.h>

/* --- server --------------------------------------------------------------------------------- */

struct file {
    int fd;
    uint64_t size;
    int64_t modified; /* seconds since 1970 */
};

/* Writes the header field that names the file, from the query "name=...". Returns -EINVAL for a
 * name that could break out of its quotes. */
static int disposition(char *out, size_t size, struct weft_http_text query)
{
    char name[128];
    if (query.len < 5 || memcmp(query.data, "name=", 5) != 0) {
        return -EINVAL;
    }
    ssize_t n = weft_uri_decode(name, sizeof name, query.data + 5, query.len - 5);
    for (ssize_t i = 0; i < n; i++) {
        if ((unsigned char)name[i] < ' ' || name[i] == '"' || name[i] == 127) {
            return -EINVAL;
        }
    }
    if (n > 0) {
        snprintf(out, size, "attachment; filename=\"%.*s\"", (int)n, name);
    }
    return n > 0 ? 0 : -EINVAL;
}

static bool is_modified(weft_http *req, const struct file *file)
{
    struct weft_http_text since = weft_http_get_header(req, "If-Modified-Since");
    int64_t when;
    return !since.data || weft_http_date_parse(&when, since.data, since.len, time(NULL)) != 0 ||
           file->modified > when;
}

static int download(weft_http *req, void *arg)
{
    const struct file *file = arg;
    char name[256], date[WEFT_HTTP_DATE_BYTES + 1] = "";
    if (disposition(name, sizeof name, weft_http_query(req)) != 0) {
        return weft_http_respond(req, 400, "text/plain", "no name\n", 8);
    }
    bool modified = is_modified(req, file);
    weft_http_date_format(date, file->modified);
    int err = weft_http_begin_response(req, modified ? 200 : 304);
    err = err ? err : weft_http_set_header(req, "Last-Modified", date);
    err = err ? err : weft_http_set_header(req, "Content-Disposition", name);
    if (!err && modified) {
        err = weft_http_set_content_length(req, file->size);
        if (!err && weft_http_method(req) == WEFT_HTTP_GET) { /* the route gets HEAD too */
            err = weft_http_send_file(req, file->fd, 0, file->size, WEFT_FOREVER);
        }
    }
    return err;
}

/* --- client --------------------------------------------------------------------------------- */

struct response {
    int status;
    char modified[64];
    size_t body_len;
    char body[4096];
};

/* Copies a header field; an empty text if there is none. */
static void copy_field(char *out, size_t size, const weft_http_head *head,
                       const unsigned char *data, const char *name)
{
    const struct weft_http_field *field = weft_http_head_find(head, data, name, NULL);
    snprintf(out, size, "%.*s", field ? (int)field->value.len : 0,
             field ? (const char *)data + field->value.at : "");
}

static int receive(weft_reader *in, struct response *out, enum weft_http_method method)
{
    weft_http_head head;
    struct weft_http_field fields[WEFT_HTTP_FIELDS];
    const unsigned char *data;
    ssize_t have = 0, n = 0;
    weft_http_response_init(&head, fields, WEFT_HTTP_FIELDS, NULL, method);
    while (n == 0) { /* the parser continues where it stopped */
        size_t want = (size_t)have + 1;
        have = weft_reader_peek(in, &data, want, WEFT_FOREVER);
        if (have < (ssize_t)want) {
            return have < 0 ? (int)have : -ENODATA;
        }
        n = weft_http_head_parse(&head, data, (size_t)have);
    }
    if (n < 0 || head.body == WEFT_HTTP_CHUNKED || head.body == WEFT_HTTP_UNTIL_CLOSE) {
        return -EBADMSG; /* our server knows the length of a file */
    }
    out->status = head.status;
    copy_field(out->modified, sizeof out->modified, &head, data, "Last-Modified");
    weft_reader_consume(in, (size_t)n);
    out->body_len = head.body == WEFT_HTTP_LENGTH ? (size_t)head.content_length : 0;
    return out->body_len > sizeof out->body
               ? -EMSGSIZE
               : weft_reader_read_full(in, out->body, out->body_len, NULL, WEFT_FOREVER);
}

/* Three requests on one connection: the file, its head, and the file if it has changed. */
static int run_client(const char *address, const char *content)
{
    static const char *const methods[] = {"GET", "HEAD", "GET"};
    static const int expected[] = {200, 200, 304};
    struct response response = {0};
    weft_reader in;
    char request[512], since[128] = "";
    int fd = weft_dial(address, NULL, WEFT_FOREVER);
    int err = fd < 0 ? fd : 0;
    weft_reader_init(&in, fd, NULL);
    for (int i = 0; !err && i < 3; i++) {
        int n = snprintf(request, sizeof request,
                         "%s /download?name=r%%C3%%A9sum%%C3%%A9.txt HTTP/1.1\r\n"
                         "Host: localhost\r\n%s\r\n",
                         methods[i], i == 2 ? since : "");
        err = weft_write_all(fd, request, (size_t)n, NULL, WEFT_FOREVER);
        err = err ? err : receive(&in, &response, i == 1 ? WEFT_HTTP_HEAD : WEFT_HTTP_GET);
        snprintf(since, sizeof since, "If-Modified-Since: %s\r\n", response.modified);
        printf("%s: %d, %zu bytes, last modified %s\n", methods[i], response.status,
               response.body_len, response.modified);
        size_t len = i == 0 ? strlen(content) : 0;
        if (!err && (response.status != expected[i] || response.body_len != len ||
                     memcmp(response.body, content, len) != 0)) {
            err = -EBADMSG;
        }
    }
    weft_reader_deinit(&in);
    weft_close(fd);
    return err;
}

static void *run(void *arg)
{
    static const char content[] = "one line of a resume\n";
    char address[WEFT_ADDR_STRLEN];
    struct weft_addr bound;
    weft_http_server *server;
    FILE *stream = tmpfile(); /* has no name, and disappears with its descriptor */
    struct file file = {.fd = stream ? fileno(stream) : -1,
                        .size = sizeof content - 1,
                        .modified = 784111777}; /* Sun, 06 Nov 1994 08:49:37 GMT */
    int err = stream && fputs(content, stream) >= 0 && fflush(stream) == 0 ? 0 : -EIO;
    err = err ? err : weft_http_server_create(&server, NULL);
    if (err) {
        return (void *)1;
    }
    err = weft_http_server_route(server, "GET", "/download", download, &file, NULL);
    err = err ? err : weft_http_server_listen(server, &bound, "127.0.0.1:0");
    if (!err) {
        weft_addr_format(&bound, address, sizeof address);
        err = run_client(address, content);
    }
    weft_http_server_stop(server, weft_after(WEFT_SECONDS(10)));
    weft_http_server_destroy(server);
    fclose(stream);
    if (err) {
        fprintf(stderr, "http_download: %s\n", weft_strerror(err));
    }
    return err ? (void *)1 : arg;
}

int main(void)
{
    void *failed = NULL;
    return weft_run(&failed, run, NULL, NULL, WEFT_FOREVER) == 0 && !failed ? 0 : 1;
}
