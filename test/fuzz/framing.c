/* Lines, length-prefixed frames and RESP: parsed whole and byte by byte, the input gives the same
 * messages. The first byte selects the parser and its options. */
#include <weft/stream.h>

#include <errno.h>

#include "fuzz/target.h"

struct machine {
    int kind;
    weft_line line;
    weft_length_prefix length;
    weft_resp resp;
};

static void init(struct machine *m, uint8_t how)
{
    m->kind = how % 3;
    how /= 3;
    weft_line_init(&m->line,
                   &(struct weft_line_opts){.end = (enum weft_line_end)(how % 3), .max = 16});
    struct weft_length_prefix_opts opts = {.bytes = 1u << (how & 3),
                                           .little_endian = how & 4,
                                           .offset = how >> 3 & 1,
                                           .body_offset = how & 16 ? 12 : 0,
                                           .whole_frame = (how & 48) == 32,
                                           .max = 40};
    fuzz_require(weft_length_prefix_init(&m->length, &opts) == 0);
    weft_resp_init(&m->resp, &(struct weft_resp_opts){.depth_max = 3,
                                                      .count_max = 9,
                                                      .line_max = 24,
                                                      .bulk_max = 20,
                                                      .value_max = 60,
                                                      .no_resp3 = how & 1,
                                                      .inline_commands = how & 2});
}

/* A hash of the parsed messages. */
static void mix(uint64_t *sum, const void *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        *sum = (*sum ^ ((const uint8_t *)bytes)[i]) * 0x100000001b3u;
    }
    *sum = (*sum ^ len) * 0x100000001b3u;
}

static ssize_t next(struct machine *m, const void *data, size_t len, uint64_t *sum)
{
    struct weft_framed frame = {NULL, 0};
    struct weft_resp_item item = {.bytes = NULL};
    ssize_t n = m->kind == 0   ? weft_line_next(&m->line, &frame, data, len)
                : m->kind == 1 ? weft_length_prefix_next(&m->length, &frame, data, len)
                               : weft_resp_next(&m->resp, &item, data, len);
    fuzz_require(n <= (ssize_t)len && (n >= 0 || n == -EMSGSIZE || n == -EBADMSG));
    if (n > 0) {
        uint64_t what[] = {(uint64_t)item.type, item.depth, item.null, item.last,
                           (uint64_t)item.number};
        mix(sum, what, sizeof what);
        mix(sum, frame.bytes, frame.len);
        mix(sum, item.bytes, item.len);
    }
    if (n == 0) {
        size_t need = m->kind == 0 ? m->line.need : m->kind == 1 ? m->length.need : m->resp.need;
        fuzz_require(need > len && need < 100);
    }
    return n;
}

static uint64_t run(uint8_t how, const uint8_t *data, size_t len, size_t piece)
{
    struct machine m;
    uint64_t sum = 1;
    size_t used = 0, have = 0;
    init(&m, how);
    while (have < len) {
        have = len - have < piece ? len : have + piece;
        for (;;) {
            uint8_t *copy = fuzz_copy(data + used, have - used);
            ssize_t n = next(&m, copy, have - used, &sum);
            free(copy);
            if (n < 0) {
                mix(&sum, &n, sizeof n);
                return sum;
            }
            if (n == 0) {
                break;
            }
            used += (size_t)n;
        }
    }
    mix(&sum, &used, sizeof used);
    return sum;
}

/* The input as a body: the parser can read what weft_length_prefix_write produces. */
static void write_and_read(uint8_t how, const uint8_t *body, size_t len)
{
    struct machine m;
    struct weft_framed out;
    uint8_t *frame = calloc(1, len + 64);
    init(&m, how);
    ssize_t before = weft_length_prefix_write(&m.length, frame, len);
    if (before >= 0) {
        memcpy(frame + before, body, len);
        fuzz_require(weft_length_prefix_next(&m.length, &out, frame, (size_t)before + len) ==
                     before + (ssize_t)len);
        fuzz_require(memcmp(out.bytes + out.len - len, body, len) == 0);
    } else {
        fuzz_require(before == -EMSGSIZE);
    }
    free(frame);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    if (len) {
        write_and_read(data[0], data + 1, len - 1);
        uint64_t whole = run(data[0], data + 1, len - 1, SIZE_MAX);
        fuzz_require(whole == run(data[0], data + 1, len - 1, 1));
        fuzz_require(whole == run(data[0], data + 1, len - 1, 3));
    }
    return 0;
}
