/* The parsers alone, over bytes in memory: a head as wrk sends it, a head as a browser sends it,
 * sixteen of wrk's in a row, a chunked body, a path, and a Redis command. The inputs repeat, so the
 * branches are well predicted: this is the cost within a busy server, not for a first request. */
#include "program.h"

static const char wrk[] = "GET / HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n";
static const char browser[] =
    "GET /wiki/Weft?action=view&lang=en HTTP/1.1\r\nHost: www.example.org\r\nConnection: keep-alive\r\n"
    "Cache-Control: max-age=0\r\nUpgrade-Insecure-Requests: 1\r\n"
    "User-Agent: Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 (KHTML, like Gecko) Chrome/120.0.0.0 Safari/537.36\r\n"
    "Accept: text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8\r\n"
    "Accept-Encoding: gzip, deflate, br\r\nAccept-Language: en-US,en;q=0.9,de;q=0.8\r\n"
    "Cookie: session=0123456789abcdef0123456789abcdef; theme=dark; consent=yes\r\n"
    "If-None-Match: \"5f3c-60b1a2c3d4e5f\"\r\n\r\n";

enum { ROUNDS = 2000000 };

static void parse(const char *text, size_t len)
{
    weft_http_head head;
    struct weft_http_field fields[WEFT_HTTP_FIELDS];
    while (len) {
        weft_http_request_init(&head, fields, WEFT_HTTP_FIELDS, NULL);
        ssize_t n = weft_http_head_parse(&head, text, len);
        must((int)n, "weft_http_head_parse");
        text += n;
        len -= (size_t)n;
    }
}

static void heads(const char *name, const char *text, size_t len, int requests)
{
    uint64_t start = now_ns();
    for (int i = 0; i < ROUNDS / requests; i++) {
        __asm__ volatile("" : "+r"(text)::"memory");
        parse(text, len);
    }
    report("weft", name, "", ns_since(start) / (ROUNDS / requests) / requests, "ns/request");
}

static void chunked_body(void)
{
    static char body[64 * 1050];
    size_t len = 0;
    for (int i = 0; i < 64; i++) {
        len += (size_t)sprintf(body + len, "400\r\n%01024d\r\n", i);
    }
    len += (size_t)sprintf(body + len, "0\r\n\r\n");
    uint64_t start = now_ns();
    for (int i = 0; i < ROUNDS / 100; i++) {
        weft_http_chunked chunked;
        weft_http_chunked_init(&chunked, NULL);
        for (size_t at = 0; !chunked.done;) {
            const void *piece;
            size_t n;
            ssize_t used = weft_http_chunked_next(&chunked, &piece, &n, body + at, len - at);
            must((int)used, "weft_http_chunked_next");
            at += (size_t)used;
        }
    }
    report("weft", "http_chunked", "", ns_since(start) / (ROUNDS / 100) / 64, "ns/chunk");
}

static void paths(void)
{
    static const char path[] = "/assets/css/%E2%9C%93/../main.css";
    char out[sizeof path + 1];
    uint64_t start = now_ns();
    for (int i = 0; i < ROUNDS; i++) {
        must((int)weft_uri_path_normalize(out, sizeof out, path, sizeof path - 1),
             "weft_uri_path_normalize");
        __asm__ volatile("" ::"r"(out) : "memory");
    }
    report("weft", "uri_path", "", ns_since(start) / ROUNDS, "ns/path");
}

static void commands(void)
{
    static const char command[] = "*3\r\n$3\r\nSET\r\n$10\r\nuser:12345\r\n$5\r\nhello\r\n";
    weft_resp resp;
    weft_resp_init(&resp, NULL);
    uint64_t start = now_ns();
    for (int i = 0; i < ROUNDS; i++) {
        struct weft_resp_item item = {.last = false};
        for (size_t at = 0; !item.last;) {
            ssize_t n = weft_resp_next(&resp, &item, command + at, sizeof command - 1 - at);
            must((int)n, "weft_resp_next");
            at += (size_t)n;
        }
    }
    report("weft", "resp", "", ns_since(start) / ROUNDS, "ns/command");
}

int main(void)
{
    static char row[16 * sizeof wrk];
    size_t len = 0;
    for (int i = 0; i < 16; i++) {
        memcpy(row + len, wrk, sizeof wrk - 1);
        len += sizeof wrk - 1;
    }
    pin_to(0);
    heads("http_parse_wrk", wrk, sizeof wrk - 1, 1);
    heads("http_parse_browser", browser, sizeof browser - 1, 1);
    heads("http_parse_pipeline", row, len, 16);
    chunked_body();
    paths();
    commands();
}
