/* An HTTP server with two routes; each handler reads and writes with blocking-looking calls.
 *
 * With an address it serves until it is interrupted:  http_hello 127.0.0.1:8080
 * Without one it sends itself one request and prints the response.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include <weft/weft.h>

static int hello(weft_http *req, void *arg)
{
    (void)arg;
    return weft_http_respond(req, 200, "text/plain", "hello\n", 6);
}

/* The body is read and written in pieces: this needs 1 KiB for a body of any length. */
static int shout(weft_http *req, void *arg)
{
    char piece[1024];
    ssize_t n;
    (void)arg;
    int err = weft_http_begin_response(req, 200);
    err = err ? err : weft_http_set_header(req, "Content-Type", "text/plain");
    while (!err && (n = weft_http_read(req, piece, sizeof piece, WEFT_FOREVER)) != 0) {
        for (ssize_t i = 0; i < n; i++) {
            piece[i] = (char)(piece[i] >= 'a' && piece[i] <= 'z' ? piece[i] - 32 : piece[i]);
        }
        err = n < 0 ? (int)n : weft_http_write(req, piece, (size_t)n, WEFT_FOREVER);
    }
    return err;
}

static void ask(const char *address)
{
    static const char request[] = "POST /shout HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
                                  "Content-Length: 6\r\n\r\nhello\n";
    char answer[512];
    size_t n = 0;
    int fd = weft_dial(address, NULL, weft_after(WEFT_SECONDS(1)));
    if (fd >= 0 && weft_write_all(fd, request, sizeof request - 1, NULL, WEFT_FOREVER) == 0) {
        weft_read_full(fd, answer, sizeof answer - 1, &n, WEFT_FOREVER); /* to the end */
        answer[n] = '\0';
        fputs(answer, stdout);
    }
    weft_close(fd);
}

static void *serve(void *arg)
{
    const char *address = arg;
    char text[WEFT_ADDR_STRLEN];
    struct weft_addr bound;
    weft_http_server *server;
    weft_signal_set *signals;
    weft_http_server_create(&server, NULL); /* in this fiber's pool */
    weft_http_server_route(server, "GET", "/hello", hello, NULL, NULL);
    weft_http_server_route(server, "POST", "/shout", shout, NULL, NULL);
    int err = weft_http_server_listen(server, &bound, address ? address : "127.0.0.1:0");
    if (err) {
        fprintf(stderr, "cannot listen: %s\n", weft_strerror(err));
    } else {
        weft_addr_format(&bound, text, sizeof text);
        if (!address) {
            ask(text);
        } else if (weft_signal_open(&signals, (int[]){SIGINT, SIGTERM}, 2, NULL) == 0) {
            printf("http://%s/hello\n", text);
            fflush(stdout);
            weft_signal_wait(signals, NULL, WEFT_FOREVER);
            weft_signal_close(signals);
        }
    }
    weft_http_server_stop(server, weft_after(WEFT_SECONDS(5))); /* lets responses finish */
    weft_http_server_destroy(server);
    return NULL;
}

int main(int argc, char **argv)
{
    return weft_run(NULL, serve, argc > 1 ? argv[1] : NULL, NULL, WEFT_FOREVER) ? 1 : 0;
}
