/* The HTTP parser alone: consecutive requests in one buffer, as a pipelining client sends them.
 * With a socket the loop is the same, and reads more where this one ends. */
#include <stdio.h>
#include <string.h>
#include <weft/http_parse.h>

static const char input[] =
    "GET /a/./b%20c/../d?x=1 HTTP/1.1\r\nHost: example.org\r\n\r\n"
    "POST /form HTTP/1.1\r\nHost: example.org\r\nContent-Length: 5\r\n\r\nhello"
    "POST /log HTTP/1.1\r\nHost: example.org\r\nTransfer-Encoding: chunked\r\n\r\n"
    "6\r\nsome, \r\n4\r\nmore\r\n0\r\n\r\n"
    "GET / HTTP/1.1\r\nContent-Length: 1, 2\r\n\r\n";

/* Prints the body. Returns the number of bytes it used; -1 if the body is incomplete or
 * rejected. */
static ssize_t body(const weft_http_head *head, const char *data, size_t len)
{
    if (head->body == WEFT_HTTP_LENGTH) {
        if ((size_t)head->content_length > len) {
            return -1;
        }
        printf("  %.*s\n", (int)head->content_length, data);
        return (ssize_t)head->content_length;
    }
    weft_http_chunked chunked;
    size_t used = 0;
    weft_http_chunked_init(&chunked, NULL);
    printf("  ");
    while (!chunked.done && used < len) {
        const void *piece;
        size_t piece_len;
        ssize_t n = weft_http_chunked_next(&chunked, &piece, &piece_len, data + used, len - used);
        if (n < 0) {
            return -1;
        }
        printf("%.*s", (int)piece_len, (const char *)piece);
        used += (size_t)n;
    }
    printf("\n");
    return chunked.done ? (ssize_t)used : -1;
}

int main(void)
{
    const char *data = input;
    size_t len = strlen(input);
    while (len) {
        weft_http_head head;
        struct weft_http_field fields[WEFT_HTTP_FIELDS];
        char path[1024];

        weft_http_request_init(&head, fields, WEFT_HTTP_FIELDS, NULL);
        ssize_t n = weft_http_head_parse(&head, data, len);
        if (n < 0) {
            printf("HTTP/1.1 %d: %s\n", head.refused, head.why);
            return head.refused == 400 ? 0 : 1; /* expected in this example */
        }
        if (n == 0) {
            break; /* with a socket: read more, then continue to parse the same head */
        }
        if (weft_uri_path_normalize(path, sizeof path, data + head.path.at, head.path.len) < 0) {
            break;
        }
        printf("%.*s %s\n", (int)head.method_name.len, data + head.method_name.at, path);
        data += n;
        len -= (size_t)n;
        if (head.body != WEFT_HTTP_NO_BODY) {
            n = body(&head, data, len);
            if (n < 0) {
                break;
            }
            data += n;
            len -= (size_t)n;
        }
    }
    return 1;
}
