/* labels: valgrind */
/* Dates, ranges, entity tags and conditions. */
#include <weft/http_parse.h>

#include <errno.h>
#include <time.h>

#include "base/rand.h"
#include "check.h"
#include "proto/http_value.h"

#define NOW INT64_C(1700000000) /* November 2023 */

static int64_t date(const char *text)
{
    int64_t out = 12345;
    int err = weft_http_date_parse(&out, text, strlen(text), NOW);
    CHECK(err == 0 || (err == -EINVAL && out == 12345));
    return err ? INT64_MIN : out;
}

TEST(http_date_of_all_three_forms_is_parsed)
{
    CHECK_EQ(date("Sun, 06 Nov 1994 08:49:37 GMT"), 784111777);
    CHECK_EQ(date("Sunday, 06-Nov-94 08:49:37 GMT"), 784111777);
    CHECK_EQ(date("Sun Nov  6 08:49:37 1994"), 784111777);
    CHECK_EQ(date("Wed Nov 16 08:49:37 1994"), 784111777 + 10 * 86400);
    CHECK_EQ(date("Thu, 01 Jan 1970 00:00:00 GMT"), 0);
    CHECK_EQ(date("Thu, 29 Feb 2024 23:59:60 GMT"), 1709251200);
    CHECK_EQ(date("Fri, 31 Dec 9999 23:59:59 GMT"), INT64_C(253402300799));
    CHECK_EQ(date("Mon, 01 Jan 0001 00:00:00 GMT"), -INT64_C(62135596800));
}

TEST(two_digit_year_is_at_most_50_years_ahead)
{
    CHECK_EQ(date("Sunday, 31-Dec-73 00:00:00 GMT"), INT64_C(3281904000)); /* 2073 */
    CHECK_EQ(date("Tuesday, 31-Dec-74 00:00:00 GMT"), 157680000);          /* 1974 */
    CHECK_EQ(date("Saturday, 01-Jan-00 00:00:00 GMT"), 946684800);
}

/* The clock's value may be nonsense, for example a year that fits no int. */
TEST(two_digit_year_is_parsed_at_any_clock_value)
{
    static const int64_t times[] = {INT64_MIN,
                                    -1,
                                    0,
                                    INT64_C(67767976233532799),
                                    INT64_C(67768036191676799),
                                    INT64_C(-67768040609740800),
                                    INT64_MAX};
    const char *text = "Sunday, 06-Nov-94 08:49:37 GMT";
    for (size_t i = 0; i < sizeof times / sizeof *times; i++) {
        int64_t out = 0;
        int err = weft_http_date_parse(&out, text, strlen(text), times[i]);
        CHECK(err == 0 || err == -EINVAL);
        CHECK(out < INT64_C(253402300800) + INT64_C(50) * 366 * 86400);
    }
}

TEST(malformed_http_dates_are_refused)
{
    static const char *const bad[] = {"",
                                      "S",
                                      "Sun",
                                      "Sun,",
                                      "0",
                                      "784111777",
                                      "Mon, 06 Nov 1994 08:49:37 GMT", /* it was a Sunday */
                                      "Sun, 6 Nov 1994 08:49:37 GMT",
                                      "Sun, 06 nov 1994 08:49:37 GMT",
                                      "Sun, 06 Nov 94 08:49:37 GMT",
                                      "Sun, 06 Nov 1994 8:49:37 GMT",
                                      "Sun, 06 Nov 1994 24:00:00 GMT",
                                      "Sun, 06 Nov 1994 08:60:37 GMT",
                                      "Sun, 06 Nov 1994 08:49:61 GMT",
                                      "Sun, 06 Nov 1994 08:49:37",
                                      "Sun, 06 Nov 1994 08:49:37 UTC",
                                      "Sun, 06 Nov 1994 08:49:37 GMT ",
                                      "Sun, 06 Nov 1994 08:49:37 +0000",
                                      "Sun,  6 Nov 1994 08:49:37 GMT",
                                      "Wed, 30 Feb 2000 00:00:00 GMT",
                                      "Thu, 29 Feb 1900 00:00:00 GMT",
                                      "Wed, 31 Apr 2024 00:00:00 GMT",
                                      "Sun, 00 Nov 1994 08:49:37 GMT",
                                      "Sun, 06 Nov 0000 08:49:37 GMT",
                                      "Sun, 06-Nov-94 08:49:37 GMT",
                                      "Sunday, 06-Nov-1994 08:49:37 GMT",
                                      "Sunday, 06 Nov 94 08:49:37 GMT",
                                      "Sunda, 06-Nov-94 08:49:37 GMT",
                                      "Sun Nov 06 08:49:37 94",
                                      "Sun Nov 6 08:49:37 1994",
                                      "Sun Nov  6 08:49:37 1994 GMT"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (date(bad[i]) != INT64_MIN) {
            check_fail(__FILE__, __LINE__, "taken for a date: %s", bad[i]);
        }
    }
}

TEST(http_dates_format_as_libc_and_parse_back)
{
    struct weft__rand rng;
    weft__rand_seed(&rng, check_seed());
    for (int i = 0; i < 20000; i++) {
        int64_t seconds =
            (int64_t)(((uint64_t)weft__rand_next(&rng) << 32 | weft__rand_next(&rng)) %
                      UINT64_C(315537897600)) -
            INT64_C(62135596800);
        char ours[WEFT_HTTP_DATE_BYTES + 1] = "", libc[60];
        time_t t = (time_t)seconds;
        struct tm tm;
        int64_t back;
        CHECK(gmtime_r(&t, &tm));
        size_t n = strftime(libc, sizeof libc, "%a, %d %b ", &tm);
        n += (size_t)snprintf(libc + n, sizeof libc - n, "%04d ", tm.tm_year + 1900);
        strftime(libc + n, sizeof libc - n, "%H:%M:%S GMT", &tm);
        weft_http_date_format(ours, seconds);
        CHECK_STR(ours, libc);
        CHECK_EQ(weft_http_date_parse(&back, ours, WEFT_HTTP_DATE_BYTES, NOW), 0);
        CHECK_EQ(back, seconds);
    }
}

/* --- ranges ------------------------------------------------------------------------------ */

static struct weft__http_range ranges[4];

static int range(const char *text, uint64_t size)
{
    memset(ranges, 0, sizeof ranges);
    return weft__http_range_parse(ranges, 4, text, strlen(text), size);
}

static bool range_is(int i, uint64_t from, uint64_t len)
{
    return ranges[i].from == from && ranges[i].len == len;
}

TEST(byte_ranges_of_all_kinds_are_parsed)
{
    CHECK(range("bytes=0-0", 100) == 1 && range_is(0, 0, 1));
    CHECK(range("bytes=0-99", 100) == 1 && range_is(0, 0, 100));
    CHECK(range("bytes=0-100", 100) == 1 && range_is(0, 0, 100));
    CHECK(range("bytes=99-", 100) == 1 && range_is(0, 99, 1));
    CHECK(range("bytes=-1", 100) == 1 && range_is(0, 99, 1));
    CHECK(range("bytes=-100", 100) == 1 && range_is(0, 0, 100));
    CHECK(range("bytes=-101", 100) == 1 && range_is(0, 0, 100));
    CHECK(range("BYTES=5-6", 100) == 1 && range_is(0, 5, 2));
    CHECK(range(" bytes=5-6\t", 100) == 1);
    CHECK(range("bytes=50-59, 10-19 ,,-5", 100) == 3);
    CHECK(range_is(0, 50, 10) && range_is(1, 10, 10) && range_is(2, 95, 5));
    CHECK(range("bytes=200-300, 10-19", 100) == 1 && range_is(0, 10, 10));
    CHECK(range("bytes=1-99999999999999999999999999", 100) == 1 && range_is(0, 1, 99));
    CHECK(range("bytes=-99999999999999999999999999", 100) == 1 && range_is(0, 0, 100));
}

TEST(unsatisfiable_byte_ranges_return_erange)
{
    CHECK_EQ(range("bytes=100-", 100), -ERANGE);
    CHECK_EQ(range("bytes=100-200,300-", 100), -ERANGE);
    CHECK_EQ(range("bytes=-0", 100), -ERANGE);
    CHECK_EQ(range("bytes=0-", 0), -ERANGE);
    CHECK_EQ(range("bytes=-5", 0), -ERANGE);
    CHECK_EQ(range("bytes=99999999999999999999999999-", INT64_MAX), -ERANGE);
}

TEST(malformed_or_excessive_byte_ranges_are_ignored)
{
    static const char *const bad[] = {"",
                                      "bytes",
                                      "bytes=",
                                      "bytes=,",
                                      "bytes=-",
                                      "bytes=a-b",
                                      "bytes=1",
                                      "bytes=2-1",
                                      "bytes=--1",
                                      "bytes=1--2",
                                      "bytes=1-2-",
                                      "bytes=0x1-2",
                                      "bytes=+1-2",
                                      "bytes=1 - 2",
                                      "bytes 1-2",
                                      "bytes:1-2",
                                      "lines=1-2",
                                      "bytes =1-2",
                                      "bytes=1-2;3-4",
                                      "bytes=1-2, x",
                                      "=1-2",
                                      "bytes=1-2 3-4",
                                      "xbytes=1-2",
                                      "bytes=1-2,3",
                                      "bytes=0-0,1-1,2-2,3-3,4-4",
                                      "bytes=0-,0-",
                                      "bytes=0-60,40-99"};
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (range(bad[i], 100) != 0) {
            check_fail(__FILE__, __LINE__, "not ignored: %s", bad[i]);
        }
    }
    CHECK_EQ(range("bytes=0-0,1-1,2-2,3-3", 100), 4); /* as many as fit */
    CHECK_EQ(range("bytes=0-", UINT64_MAX), 0);
}

/* --- entity tags ----------------------------------------------------------------------------- */

static bool listed(const char *list, const char *etag, bool weak)
{
    return weft__http_etag_is_listed(list, strlen(list), etag, strlen(etag), weak);
}

TEST(entity_tag_is_found_in_list)
{
    CHECK(listed("\"a\"", "\"a\"", false));
    CHECK(listed("\"b\", \"a\"", "\"a\"", false));
    CHECK(listed(" ,\"b\"\t, , \"a\",", "\"a\"", false));
    CHECK(listed("\"x,y\",\"a\"", "\"a\"", false));
    CHECK(listed("\"\"", "\"\"", false));
    CHECK(!listed("\"b\"", "\"a\"", false));
    CHECK(!listed("", "\"a\"", true));
    CHECK(!listed("\"A\"", "\"a\"", true));
    CHECK(!listed("\"ab\"", "\"a\"", true));
}

TEST(weak_entity_tags_match_only_weakly)
{
    CHECK(listed("W/\"a\"", "\"a\"", true));
    CHECK(listed("\"a\"", "W/\"a\"", true));
    CHECK(listed("W/\"a\"", "W/\"a\"", true));
    CHECK(!listed("W/\"a\"", "\"a\"", false));
    CHECK(!listed("\"a\"", "W/\"a\"", false));
    CHECK(!listed("W/\"a\"", "W/\"a\"", false));
}

TEST(entity_tag_list_ends_at_syntax_error)
{
    CHECK(!listed("a", "\"a\"", true));
    CHECK(!listed("x, \"a\"", "\"a\"", true));
    CHECK(!listed("\"b\" \"a\"", "\"a\"", true));
    CHECK(!listed("\"b, \"a\"", "\"a\"", true));
    CHECK(!listed("\"a", "\"a\"", true));
    CHECK(!listed("w/\"a\"", "\"a\"", true));
    CHECK(!listed("\"a b\"", "\"a b\"", true));
    CHECK(!listed("\"a\"", "a", true));
    CHECK(!listed("*", "\"a\"", true));
}

/* --- conditions ------------------------------------------------------------------------------- */

static weft_http_head head;
static struct weft_http_field fields[8];
static char text[600];

static void request(const char *method, const char *conditions)
{
    snprintf(text, sizeof text, "%s / HTTP/1.1\r\nHost: a\r\n%s\r\n", method, conditions);
    weft_http_request_init(&head, fields, 8, NULL);
    CHECK_EQ(weft_http_head_parse(&head, text, strlen(text)), strlen(text));
}

#define BEFORE "Sun, 06 Nov 1994 08:49:36 GMT"
#define THEN "Sun, 06 Nov 1994 08:49:37 GMT"

static const struct weft__http_validators have = {
    .etag = "\"v1\"", .etag_len = 4, .modified = 784111777, .now = NOW};

static int answer(const char *method, const char *conditions)
{
    request(method, conditions);
    return weft__http_precondition_check(&head, text, &have);
}

TEST(preconditions_by_entity_tag_are_evaluated)
{
    CHECK_EQ(answer("GET", ""), 0);
    CHECK_EQ(answer("GET", "If-None-Match: \"v1\"\r\n"), 304);
    CHECK_EQ(answer("HEAD", "If-None-Match: W/\"v1\"\r\n"), 304);
    CHECK_EQ(answer("GET", "If-None-Match: *\r\n"), 304);
    CHECK_EQ(answer("PUT", "If-None-Match: *\r\n"), 412);
    CHECK_EQ(answer("GET", "If-None-Match: \"v0\"\r\n"), 0);
    CHECK_EQ(answer("GET", "If-None-Match: \"v0\"\r\nIf-None-Match: \"v1\"\r\n"), 304);
    CHECK_EQ(answer("GET", "If-Match: \"v1\"\r\n"), 0);
    CHECK_EQ(answer("GET", "If-Match: *\r\n"), 0);
    CHECK_EQ(answer("GET", "If-Match: W/\"v1\"\r\n"), 412);
    CHECK_EQ(answer("PUT", "If-Match: \"v0\"\r\n"), 412);
    CHECK_EQ(answer("PUT", "If-Match: \"v0\"\r\nIf-Match: \"v1\"\r\n"), 0);
}

TEST(preconditions_by_date_are_evaluated)
{
    CHECK_EQ(answer("GET", "If-Modified-Since: " THEN "\r\n"), 304);
    CHECK_EQ(answer("GET", "If-Modified-Since: " BEFORE "\r\n"), 0);
    CHECK_EQ(answer("POST", "If-Modified-Since: " THEN "\r\n"), 0);
    CHECK_EQ(answer("GET", "If-Modified-Since: yesterday\r\n"), 0);
    CHECK_EQ(answer("PUT", "If-Unmodified-Since: " THEN "\r\n"), 0);
    CHECK_EQ(answer("PUT", "If-Unmodified-Since: " BEFORE "\r\n"), 412);
    CHECK_EQ(answer("PUT", "If-Unmodified-Since: yesterday\r\n"), 0);
}

TEST(entity_tag_preconditions_precede_dates)
{
    CHECK_EQ(answer("GET", "If-None-Match: \"v0\"\r\nIf-Modified-Since: " THEN "\r\n"), 0);
    CHECK_EQ(answer("GET", "If-Match: \"v1\"\r\nIf-Unmodified-Since: " BEFORE "\r\n"), 0);
    CHECK_EQ(answer("GET", "If-Match: \"v0\"\r\nIf-None-Match: \"v1\"\r\n"), 412);
    CHECK_EQ(answer("GET", "If-Match: \"v1\"\r\nIf-None-Match: \"v1\"\r\n"), 304);
}

TEST(preconditions_on_absent_resource_match_nothing)
{
    struct weft__http_validators none = {.absent = true, .modified = -1, .now = NOW};
    request("PUT", "If-None-Match: *\r\n");
    CHECK_EQ(weft__http_precondition_check(&head, text, &none), 0);
    request("PUT", "If-Match: *\r\n");
    CHECK_EQ(weft__http_precondition_check(&head, text, &none), 412);
    request("PUT", "If-Unmodified-Since: " BEFORE "\r\n");
    CHECK_EQ(weft__http_precondition_check(&head, text, &none), 0);
}

static bool wanted(const char *method, const char *conditions)
{
    request(method, conditions);
    return weft__http_range_is_applicable(&head, text, &have);
}

TEST(range_applies_only_if_if_range_holds)
{
    CHECK(!wanted("GET", ""));
    CHECK(wanted("GET", "Range: bytes=0-1\r\n"));
    CHECK(!wanted("HEAD", "Range: bytes=0-1\r\n"));
    CHECK(wanted("GET", "Range: bytes=0-1\r\nIf-Range: \"v1\"\r\n"));
    CHECK(!wanted("GET", "Range: bytes=0-1\r\nIf-Range: W/\"v1\"\r\n"));
    CHECK(!wanted("GET", "Range: bytes=0-1\r\nIf-Range: \"v0\"\r\n"));
    CHECK(!wanted("GET", "Range: bytes=0-1\r\nIf-Range: \"v0\", \"v1\"\r\n"));
    CHECK(wanted("GET", "Range: bytes=0-1\r\nIf-Range: " THEN "\r\n"));
    CHECK(!wanted("GET", "Range: bytes=0-1\r\nIf-Range: " BEFORE "\r\n"));
    CHECK(!wanted("GET", "Range: bytes=0-1\r\nIf-Range: soon\r\n"));
    struct weft__http_validators fresh = have;
    fresh.now = have.modified + 59;
    CHECK(!weft__http_range_is_applicable(&head, text, &fresh));
    request("GET", "Range: bytes=0-1\r\nIf-Range: " THEN "\r\n");
    CHECK(!weft__http_range_is_applicable(&head, text, &fresh));
    fresh.now++;
    CHECK(weft__http_range_is_applicable(&head, text, &fresh));
    fresh.now = INT64_MAX;
    CHECK(weft__http_range_is_applicable(&head, text, &fresh));
    fresh.now = INT64_MIN;
    CHECK(!weft__http_range_is_applicable(&head, text, &fresh));
}
