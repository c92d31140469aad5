/* A chunked body: parsed in one piece and byte by byte, it gives the same bytes and the same end or
 * refusal. */
#include <weft/http_parse.h>

#include <errno.h>

#include "fuzz/target.h"

struct outcome {
    uint8_t *body;
    size_t len, used;
    int refused;
    bool done;
};

static void run(const uint8_t *data, size_t len, size_t piece, struct outcome *out)
{
    static const struct weft_http_limits limits = {.extension_bytes = 16, .trailer_bytes = 32};
    weft_http_chunked chunked;
    weft_http_chunked_init(&chunked, &limits);
    *out = (struct outcome){.body = malloc(len + 1)};
    while (out->used < len && !chunked.done) {
        size_t now = len - out->used < piece ? len - out->used : piece, n;
        uint8_t *copy = fuzz_copy(data + out->used, now);
        const void *body;
        ssize_t used = weft_http_chunked_next(&chunked, &body, &n, copy, now);
        if (used < 0) {
            fuzz_require(used == -EBADMSG && chunked.refused);
            free(copy);
            break;
        }
        fuzz_require(used > 0 && (size_t)used <= now && n <= (size_t)used);
        memcpy(out->body + out->len, body, n);
        out->len += n;
        out->used += (size_t)used;
        free(copy);
    }
    fuzz_require(chunked.total == out->len);
    out->refused = chunked.refused;
    out->done = chunked.done;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    struct outcome whole, cut;
    run(data, len, SIZE_MAX, &whole);
    run(data, len, 1, &cut);
    fuzz_require(whole.len == cut.len && memcmp(whole.body, cut.body, cut.len) == 0);
    fuzz_require(whole.refused == cut.refused && whole.done == cut.done);
    fuzz_require(whole.refused || whole.used == cut.used);
    free(whole.body);
    free(cut.body);
    return 0;
}
