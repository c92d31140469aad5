/* labels: valgrind */
/* Lines, length-prefixed frames and RESP. Every stream goes through its parser whole, byte by byte
 * and in random pieces, in memory that ends with the last byte, and must give the same text. */
#include <weft/stream.h>

#include <errno.h>

#include "base/rand.h"
#include "check.h"

struct text {
    size_t len;
    char bytes[64 << 10];
};

__attribute__((format(printf, 2, 3))) static void say(struct text *text, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    text->len +=
        (size_t)vsnprintf(text->bytes + text->len, sizeof text->bytes - text->len, format, args);
    va_end(args);
    CHECK(text->len < sizeof text->bytes);
}

static void say_bytes(struct text *text, const unsigned char *bytes, size_t len)
{
    for (size_t i = 0; i < len; i++) {
        say(text, bytes[i] >= ' ' && bytes[i] < 0x7f ? "%c" : "<%02x>", bytes[i]);
    }
}

/* One of the parsers, ready for a stream, and the function that takes one message. */
struct machine {
    enum { LINE, LENGTH, RESP } kind;
    union {
        weft_line line;
        weft_length_prefix length;
        weft_resp resp;
    } u;
};

static ssize_t next(struct machine *m, const unsigned char *data, size_t len, struct text *text,
                    size_t *need)
{
    struct weft_framed frame = {0};
    struct weft_resp_item item = {0};
    ssize_t n;
    if (m->kind == RESP) {
        n = weft_resp_next(&m->u.resp, &item, data, len);
        *need = m->u.resp.need;
        if (n > 0) {
            say(text, "%c%u%s%s %lld ", (char)item.type, item.depth, item.null ? " null" : "",
                item.last ? " last" : "", (long long)item.number);
            say_bytes(text, item.bytes, item.len);
        }
    } else {
        n = m->kind == LINE ? weft_line_next(&m->u.line, &frame, data, len)
                            : weft_length_prefix_next(&m->u.length, &frame, data, len);
        *need = m->kind == LINE ? m->u.line.need : m->u.length.need;
        if (n > 0) {
            say_bytes(text, frame.bytes, frame.len);
        }
    }
    if (n > 0) {
        say(text, "|");
    } else if (n < 0) {
        say(text, "%s", n == -EMSGSIZE ? "TOO LARGE" : n == -EBADMSG ? "BAD" : "?");
    }
    return n;
}

static void run(struct machine m, const char *bytes, size_t len, int cuts, struct weft__rand *rand,
                struct text *text)
{
    size_t at = 0, used = 0;
    text->len = 0;
    text->bytes[0] = '\0';
    while (at < len) {
        size_t piece = cuts == 0 ? len : cuts == 1 ? 1 : 1 + weft__rand_next(rand) % 9;
        at = at + piece < len ? at + piece : len;
        for (;;) {
            size_t have = at - used, need;
            unsigned char *data = malloc(have ? have : 1);
            CHECK(data);
            memcpy(data, bytes + used, have);
            ssize_t n = next(&m, data, have, text, &need);
            if (n < 0) {
                size_t before = text->len;
                CHECK_EQ(next(&m, data, have, text, &need), n); /* a permanent error */
                text->bytes[text->len = before] = '\0';
                free(data);
                return;
            }
            free(data);
            if (n == 0) {
                CHECK(need > have);
                break;
            }
            CHECK((size_t)n <= have);
            used += (size_t)n;
        }
    }
    say(text, "(%zu left)", len - used);
}

static void stream_is(struct machine m, const char *bytes, size_t len, const char *expected)
{
    static struct text text;
    static struct weft__rand rng;
    if (!rng.state) {
        weft__rand_seed(&rng, check_seed());
    }
    for (int cuts = 0; cuts < 6; cuts++) {
        run(m, bytes, len, cuts, &rng, &text);
        CHECK_STR(text.bytes, expected);
    }
}

/* --- lines --------------------------------------------------------------------------------- */

static struct machine line(enum weft_line_end end, size_t max)
{
    struct machine m = {.kind = LINE};
    weft_line_init(&m.u.line, &(struct weft_line_opts){.end = end, .max = max});
    return m;
}

#define IS(machine, bytes, expected) stream_is(machine, bytes, sizeof bytes - 1, expected)

TEST(line_endings_follow_options)
{
    IS(line(WEFT_LINE_ANY, 0), "a\nbc\r\n\n\r\nd\re\n\r\r\nrest", "a|bc|||d<0d>e|<0d>|(4 left)");
    IS(line(WEFT_LINE_LF, 0), "a\nbc\r\n\n\r\n", "a|bc<0d>||<0d>|(0 left)");
    IS(line(WEFT_LINE_CRLF, 0), "a\r\n\r\nb\0c\r\n\r", "a||b<00>c|(1 left)");
    IS(line(WEFT_LINE_CRLF, 0), "a\r\nb\nc\r\n", "a|BAD");
    IS(line(WEFT_LINE_CRLF, 0), "a\r\nb\rc\r\n", "a|BAD");
    IS(line(WEFT_LINE_CRLF, 0), "a\r\n\r\r\n", "a|BAD");
    IS(line(WEFT_LINE_CRLF, 0), "\n", "BAD");
}

TEST(line_length_limit_is_exact)
{
    IS(line(WEFT_LINE_ANY, 3), "ab\nabc\nabc\r\nabcd\n", "ab|abc|abc|TOO LARGE");
    IS(line(WEFT_LINE_ANY, 3), "abcd", "(4 left)");
    IS(line(WEFT_LINE_ANY, 3), "abcde", "TOO LARGE");
    IS(line(WEFT_LINE_ANY, 3), "abcd\r\n", "TOO LARGE");
    IS(line(WEFT_LINE_LF, 3), "ab\nabc\nab\r\nabc\r\n", "ab|abc|ab<0d>|TOO LARGE");
    IS(line(WEFT_LINE_CRLF, 3), "ab\r\nabc\r\nabcd\r\n", "ab|abc|TOO LARGE");
    static char text[8300];
    memset(text, 'a', sizeof text);
    weft_line m;
    struct weft_framed frame;
    for (int over = -1; over <= 1; over++) {
        weft_line_init(&m, NULL);
        text[8192 + over] = '\n';
        CHECK_EQ(weft_line_next(&m, &frame, text, sizeof text), over > 0 ? -EMSGSIZE : 8193 + over);
        text[8192 + over] = 'a';
    }
}

/* --- length-prefixed frames ------------------------------------------------------------------- */

static struct machine length(const struct weft_length_prefix_opts *opts)
{
    struct machine m = {.kind = LENGTH};
    CHECK_EQ(weft_length_prefix_init(&m.u.length, opts), 0);
    return m;
}
#define OPTS(...) (&(struct weft_length_prefix_opts){__VA_ARGS__})

TEST(length_prefix_of_all_sizes_in_both_byte_orders_is_read)
{
    IS(length(NULL), "\0\0\0\2ab\0\0\0\0\0\0\0\3cde\0\0", "ab||cde|(2 left)");
    IS(length(OPTS(.bytes = 1)), "\2ab\0\3cde\5x", "ab||cde|(2 left)");
    IS(length(OPTS(.bytes = 2)), "\0\2ab\0\1c", "ab|c|(0 left)");
    IS(length(OPTS(.bytes = 2, .little_endian = true)), "\2\0ab\1\0c", "ab|c|(0 left)");
    IS(length(OPTS(.bytes = 4, .little_endian = true)), "\2\0\0\0ab", "ab|(0 left)");
    IS(length(OPTS(.bytes = 8)), "\0\0\0\0\0\0\0\2ab", "ab|(0 left)");
    IS(length(OPTS(.bytes = 8, .little_endian = true)), "\2\0\0\0\0\0\0\0ab", "ab|(0 left)");
}

TEST(length_prefix_may_have_any_offset_and_base)
{
    /* Two bytes of type, the length, two bytes of flags. */
    IS(length(OPTS(.bytes = 2, .offset = 2, .body_offset = 6)), "TT\0\3FFabcTT\0\0FFT",
       "abc||(1 left)");
    /* The length includes the flags. */
    IS(length(OPTS(.bytes = 2, .offset = 2)), "TT\0\5FFabc", "FFabc|(0 left)");
    /* The length includes everything. */
    IS(length(OPTS(.bytes = 1, .offset = 1, .whole_frame = true)), "T\4abT\2",
       "T<04>ab|T<02>|(0 left)");
    IS(length(OPTS(.bytes = 1, .offset = 1, .whole_frame = true)), "T\1", "BAD");
    IS(length(OPTS(.bytes = 1, .offset = 1, .whole_frame = true)), "T\0", "BAD");
    /* The length includes itself. */
    IS(length(OPTS(.bytes = 2, .offset = 1, .body_offset = 1)), "T\0\4ab", "<00><04>ab|(0 left)");
    IS(length(OPTS(.bytes = 2, .offset = 1, .body_offset = 1)), "T\0\1ab", "BAD");
}

TEST(length_prefixed_frame_limit_is_exact)
{
    IS(length(OPTS(.bytes = 1, .max = 4)), "\2ab\3abc\4abcd", "ab|abc|TOO LARGE");
    IS(length(OPTS(.bytes = 8)), "\xff\xff\xff\xff\xff\xff\xff\xff", "TOO LARGE");
    IS(length(OPTS(.bytes = 8, .whole_frame = true)), "\x80\0\0\0\0\0\0\0", "TOO LARGE");
    IS(length(OPTS(.bytes = 4)), "\0\x0f\xff\xfdx", "TOO LARGE");
    IS(length(OPTS(.bytes = 4)), "\0\x0f\xff\xfcx", "(5 left)");
}

TEST(length_prefix_options_that_fit_no_frame_are_einval)
{
    weft_length_prefix m;
    CHECK_EQ(weft_length_prefix_init(&m, OPTS(.bytes = 3)), -EINVAL);
    CHECK_EQ(weft_length_prefix_init(&m, OPTS(.bytes = 16)), -EINVAL);
    CHECK_EQ(weft_length_prefix_init(&m, OPTS(.offset = 10, .max = 13)), -EINVAL);
    CHECK_EQ(weft_length_prefix_init(&m, OPTS(.offset = 10, .max = 14)), 0);
    CHECK_EQ(weft_length_prefix_init(&m, OPTS(.offset = SIZE_MAX)), -EINVAL);
    CHECK_EQ(weft_length_prefix_init(&m, OPTS(.body_offset = 2 << 20)), -EINVAL);
    CHECK_EQ(weft_length_prefix_init(&m, OPTS(.body_offset = 4, .whole_frame = true)), -EINVAL);
}

TEST(written_length_prefix_is_read_back)
{
    static const struct weft_length_prefix_opts all[] = {
        {0},
        {.bytes = 1},
        {.bytes = 2, .little_endian = true},
        {.bytes = 8, .offset = 3, .body_offset = 20},
        {.bytes = 2, .offset = 1, .whole_frame = true}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        for (size_t len = 0; len < 300; len += 51) {
            unsigned char frame[400] = {0};
            weft_length_prefix m;
            struct weft_framed out;
            CHECK_EQ(weft_length_prefix_init(&m, &all[i]), 0);
            ssize_t before = weft_length_prefix_write(&m, frame, len);
            if (all[i].bytes == 1 && len > 255) {
                CHECK_EQ(before, -EMSGSIZE);
                continue;
            }
            CHECK(before > 0);
            size_t whole = (size_t)before + len;
            CHECK_EQ(weft_length_prefix_next(&m, &out, frame, whole - 1), 0);
            CHECK_EQ(m.need, whole);
            CHECK_EQ(weft_length_prefix_next(&m, &out, frame, whole), whole);
            CHECK_EQ(out.len, all[i].whole_frame ? whole : len);
        }
    }
    weft_length_prefix m;
    unsigned char frame[8];
    CHECK_EQ(weft_length_prefix_init(&m, OPTS(.max = 10)), 0);
    CHECK_EQ(weft_length_prefix_write(&m, frame, 6), 4);
    CHECK_EQ(weft_length_prefix_write(&m, frame, 7), -EMSGSIZE);
    CHECK_EQ(weft_length_prefix_write(&m, frame, SIZE_MAX), -EMSGSIZE);
}

/* --- RESP ------------------------------------------------------------------------------------- */

static struct machine resp(const struct weft_resp_opts *opts)
{
    struct machine m = {.kind = RESP};
    weft_resp_init(&m.u.resp, opts);
    return m;
}
#define RESP_OPTS(...) (&(struct weft_resp_opts){__VA_ARGS__})

TEST(resp2_values_are_parsed)
{
    IS(resp(NULL), "+OK\r\n", "+0 last 0 OK|(0 left)");
    IS(resp(NULL), "+\r\n-ERR no\r\n", "+0 last 0 |-0 last 0 ERR no|(0 left)");
    IS(resp(NULL), ":42\r\n:-7\r\n:+1\r\n", ":0 last 42 42|:0 last -7 -7|:0 last 1 +1|(0 left)");
    IS(resp(NULL), ":-9223372036854775808\r\n",
       ":0 last -9223372036854775808 -9223372036854775808|(0 left)");
    IS(resp(NULL), "$5\r\nhello\r\n$0\r\n\r\n", "$0 last 0 hello|$0 last 0 |(0 left)");
    IS(resp(NULL), "$4\r\na\r\nb\r\n", "$0 last 0 a<0d><0a>b|(0 left)");
    IS(resp(NULL), "$-1\r\n*-1\r\n*0\r\n", "$0 null last 0 |*0 null last 0 |*0 last 0 |(0 left)");
    IS(resp(NULL), "*2\r\n$3\r\nGET\r\n$1\r\nk\r\n+x", "*0 2 |$1 0 GET|$1 last 0 k|(2 left)");
    IS(resp(NULL), "*2\r\n*2\r\n:1\r\n:2\r\n*1\r\n*0\r\n",
       "*0 2 |*1 2 |:2 1 1|:2 2 2|*1 1 |*2 last 0 |(0 left)");
}

TEST(resp3_values_are_parsed)
{
    IS(resp(NULL), "_\r\n#t\r\n#f\r\n", "_0 null last 0 |#0 last 1 t|#0 last 0 f|(0 left)");
    IS(resp(NULL), ",1.5\r\n,-2\r\n,1e9\r\n,-1.0E-3\r\n,inf\r\n,-inf\r\n,nan\r\n",
       ",0 last 0 1.5|,0 last 0 -2|,0 last 0 1e9|,0 last 0 -1.0E-3|,0 last 0 inf|,0 last 0 -inf|"
       ",0 last 0 nan|(0 left)");
    IS(resp(NULL), "(-123456789012345678901234567890\r\n",
       "(0 last 0 -123456789012345678901234567890|(0 left)");
    IS(resp(NULL), "!5\r\nERR x\r\n=7\r\ntxt:abc\r\n",
       "!0 last 0 ERR x|=0 last 0 txt:abc|(0 left)");
    IS(resp(NULL), "%1\r\n+a\r\n:1\r\n~1\r\n+b\r\n>1\r\n+c\r\n",
       "%0 2 |+1 0 a|:1 last 1 1|~0 1 |+1 last 0 b|>0 1 |+1 last 0 c|(0 left)");
    /* An attribute is neither an element nor a value by itself. */
    IS(resp(NULL), "|1\r\n+k\r\n+v\r\n:5\r\n", "|0 2 |+1 0 k|+1 0 v|:0 last 5 5|(0 left)");
    IS(resp(NULL), "*1\r\n|1\r\n+k\r\n*1\r\n+v\r\n:5\r\n+next\r\n",
       "*0 1 ||1 2 |+2 0 k|*2 1 |+3 0 v|:1 last 5 5|+0 last 0 next|(0 left)");
    IS(resp(NULL), "|1\r\n+k\r\n+v\r\n*1\r\n:5\r\n",
       "|0 2 |+1 0 k|+1 0 v|*0 1 |:1 last 5 5|(0 left)");
    IS(resp(NULL), "|0\r\n:5\r\n", "|0 0 |:0 last 5 5|(0 left)");
    IS(resp(RESP_OPTS(.no_resp3 = true)), "+a\r\n#t\r\n", "+0 last 0 a|BAD");
}

TEST(resp_inline_commands_are_parsed_if_enabled)
{
    IS(resp(RESP_OPTS(.inline_commands = true)), "PING\r\nSET a b\n*1\r\n+x\r\n\r\n",
       " 0 last 0 PING| 0 last 0 SET a b|*0 1 |+1 last 0 x| 0 last 0 |(0 left)");
    IS(resp(RESP_OPTS(.inline_commands = true)), "*1\r\nPING\r\n", "*0 1 |BAD");
    IS(resp(NULL), "PING\r\n", "BAD");
}

TEST(malformed_resp_is_refused)
{
    static const char *const bad[] = {"+a\n",
                                      "+a\rb\r\n",
                                      ":\r\n",
                                      ":x\r\n",
                                      ":1x\r\n",
                                      ":--1\r\n",
                                      ":9223372036854775808\r\n",
                                      "$\r\n",
                                      "$x\r\n",
                                      "$-2\r\n",
                                      "$+5\r\nhello\r\n",
                                      "$5\r\nhelloX\n",
                                      "$5\r\nhello\rX",
                                      "$5\r\nhello\n",
                                      "$?\r\n",
                                      "*?\r\n",
                                      "*-2\r\n",
                                      "*x\r\n",
                                      "*+1\r\n",
                                      "#x\r\n",
                                      "#\r\n",
                                      "#tt\r\n",
                                      "_x\r\n",
                                      ",\r\n",
                                      ",.5\r\n",
                                      ",1.\r\n",
                                      ",1e\r\n",
                                      ",0x1\r\n",
                                      "(\r\n",
                                      "(1.5\r\n",
                                      "(-\r\n",
                                      "%-1\r\n",
                                      "~-1\r\n",
                                      "=3\r\nabc\r\n",
                                      "=4\r\nabcd\r\n",
                                      "!-1\r\n",
                                      "\r\n",
                                      " +a\r\n",
                                      "hello",
                                      ";4\r\n",
                                      "+\n",
                                      "$5\nhello\r\n",
                                      "|-1\r\n",
                                      ":1 \r\n",
                                      "$ 5\r\n",
                                      ",infinity\r\n"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        stream_is(resp(NULL), bad[i], strlen(bad[i]), "BAD");
    }
    IS(resp(NULL), "\0", "BAD");
}

TEST(resp_limits_are_enforced)
{
    IS(resp(RESP_OPTS(.depth_max = 2)), "*1\r\n*1\r\n:1\r\n", "*0 1 |*1 1 |:2 last 1 1|(0 left)");
    IS(resp(RESP_OPTS(.depth_max = 2)), "*1\r\n*1\r\n*1\r\n:1\r\n", "*0 1 |*1 1 |TOO LARGE");
    IS(resp(RESP_OPTS(.count_max = 4)), "*4\r\n", "*0 4 |(0 left)");
    IS(resp(RESP_OPTS(.count_max = 4)), "*5\r\n", "TOO LARGE");
    IS(resp(RESP_OPTS(.count_max = 4)), "%2\r\n", "%0 4 |(0 left)");
    IS(resp(RESP_OPTS(.count_max = 4)), "%3\r\n", "TOO LARGE");
    IS(resp(NULL), "*9223372036854775807\r\n", "TOO LARGE");
    IS(resp(NULL), "%9223372036854775807\r\n", "TOO LARGE");
    IS(resp(NULL), "$9223372036854775807\r\n", "TOO LARGE");
    IS(resp(RESP_OPTS(.bulk_max = 3)), "$3\r\nabc\r\n$4\r\nabcd\r\n", "$0 last 0 abc|TOO LARGE");
    IS(resp(RESP_OPTS(.line_max = 4)), "+abc\r\n+abcd\r\n", "+0 last 0 abc|TOO LARGE");
    IS(resp(RESP_OPTS(.value_max = 12)), "*2\r\n:1\r\n:2\r\n*2\r\n:1\r\n:22\r\n",
       "*0 2 |:1 1 1|:1 last 2 2|*0 2 |:1 1 1|TOO LARGE");
    IS(resp(RESP_OPTS(.value_max = 13)), "*1\r\n$3\r\nabc\r\n", "*0 1 |$1 last 0 abc|(0 left)");
    IS(resp(RESP_OPTS(.value_max = 12)), "*1\r\n$3\r\nabc\r\n", "*0 1 |TOO LARGE");
}

TEST(resp_depth_limit_has_default_and_maximum)
{
    static char deep[4 * 40 + 1];
    for (int i = 0; i < 40; i++) {
        memcpy(deep + 4 * i, "*1\r\n", 4);
    }
    for (unsigned depth = 0; depth <= WEFT_RESP_DEPTH; depth += WEFT_RESP_DEPTH) {
        struct machine m = resp(RESP_OPTS(.depth_max = depth));
        struct weft_resp_item item;
        unsigned n = 0;
        while (weft_resp_next(&m.u.resp, &item, deep + 4 * n, sizeof deep - 1 - 4 * n) == 4) {
            CHECK_EQ(item.depth, n++);
        }
        CHECK_EQ(n, depth ? depth : 8);
    }
}
