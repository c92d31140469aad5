/* The verdicts of Weft's parser on streams of requests, for tools/differential. Reads repeatedly a
 * length (4 bytes, little endian) and that many bytes. For each stream, prints the method and
 * target, in hex, of each head that was accepted before the stream ended, was refused, or the
 * connection would have been closed; then the number of heads, the status of the refusal (0: none),
 * and the number of messages with a complete body. */
#include <stdio.h>
#include <stdlib.h>
#include <weft/http_parse.h>

static size_t body(const weft_http_head *head, const char *data, size_t len, int *refused,
                   bool *whole)
{
    const void *piece;
    size_t piece_len, used = 0;
    weft_http_chunked chunked;
    switch (head->body) {
    case WEFT_HTTP_LENGTH:
        *whole = (uint64_t)head->content_length <= len;
        return *whole ? (size_t)head->content_length : len;
    case WEFT_HTTP_CHUNKED:
        weft_http_chunked_init(&chunked, NULL);
        while (used < len && !chunked.done) {
            ssize_t n =
                weft_http_chunked_next(&chunked, &piece, &piece_len, data + used, len - used);
            if (n < 0) {
                *refused = chunked.refused;
                break;
            }
            used += (size_t)n;
        }
        *whole = chunked.done;
        return used;
    default:
        *whole = true;
        return 0;
    }
}

static void name(const weft_http_head *head, const char *data)
{
    const struct weft_http_span spans[] = {head->method_name, head->target};
    putchar(' ');
    for (int i = 0; i < 2; i++) {
        for (uint32_t at = spans[i].at; at < spans[i].at + spans[i].len; at++) {
            printf("%02x", (unsigned char)data[at]);
        }
        printf(i == 0 ? "20" : "");
    }
}

static void judge(const char *data, size_t len)
{
    static struct weft_http_field fields[WEFT_HTTP_FIELDS];
    weft_http_head head;
    int heads = 0, refused = 0, messages = 0;
    while (len) {
        weft_http_request_init(&head, fields, WEFT_HTTP_FIELDS, NULL);
        ssize_t n = weft_http_head_parse(&head, data, len);
        if (n <= 0) {
            refused = head.refused;
            break;
        }
        heads++;
        name(&head, data);
        data += n;
        len -= (size_t)n;
        bool whole = false;
        size_t used = body(&head, data, len, &refused, &whole);
        messages += whole;
        data += used;
        len -= used;
        if (refused || !head.keep_alive) {
            break;
        }
    }
    printf(" | %d %d %d\n", heads, refused, messages);
}

int main(void)
{
    unsigned char size[4];
    while (fread(size, 1, 4, stdin) == 4) {
        size_t len = size[0] | (size_t)size[1] << 8 | (size_t)size[2] << 16 | (size_t)size[3] << 24;
        char *data = malloc(len ? len : 1);
        if (!data || fread(data, 1, len, stdin) != len) {
            return 1;
        }
        judge(data, len);
        free(data);
    }
    return 0;
}
