/* HTTP dates, computed in the proleptic Gregorian calendar: no time zone, no locale, no libc
 * state. */
#include <weft/http_parse.h>

#include <errno.h>
#include <string.h>

#include "base/assert.h"
#include "proto/octet.h"

static const char days[7][10] = {"Sunday",   "Monday", "Tuesday", "Wednesday",
                                 "Thursday", "Friday", "Saturday"};
static const char months[12][4] = {"Jan", "Feb", "Mar", "Apr", "May", "Jun",
                                   "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"};

struct civil {
    int year, month, day, hour, minute, second, weekday; /* month 1..12, weekday 0 = Sunday */
};

/* Years begin in March here, so that the leap day is the last day of a year: any five consecutive
 * months from March on have 153 days. */
static int64_t days_from_civil(int year, int month, int day)
{
    int64_t y = month > 2 ? year : year - 1;
    int64_t era = (y >= 0 ? y : y - 399) / 400, of_era = y - era * 400;
    int64_t of_year = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1;
    return era * 146097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719468;
}

static void civil_from_days(int64_t number, struct civil *out)
{
    number += 719468;
    int64_t era = (number >= 0 ? number : number - 146096) / 146097;
    int64_t of_era = number - era * 146097;
    int64_t year = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
    int64_t of_year = of_era - (365 * year + year / 4 - year / 100);
    int64_t month = (5 * of_year + 2) / 153;
    out->day = (int)(of_year - (153 * month + 2) / 5) + 1;
    out->month = (int)(month < 10 ? month + 3 : month - 9);
    out->year = (int)(year + era * 400) + (out->month <= 2);
}

static int weekday(int64_t number)
{
    return (int)(((number + 4) % 7 + 7) % 7);
}

/* --- parsing --------------------------------------------------------------------------- */

/* The rest of the text; `bad` is set after the first mismatch. */
struct reader {
    const char *at, *end;
    bool bad;
};

static void expect(struct reader *r, const char *text)
{
    size_t len = strlen(text);
    if ((size_t)(r->end - r->at) < len || memcmp(r->at, text, len) != 0) {
        r->bad = true;
    } else {
        r->at += len;
    }
}

static int number(struct reader *r, int digits)
{
    int value = 0;
    for (; digits; digits--) {
        if (r->at == r->end || !weft__is_digit((unsigned char)*r->at)) {
            r->bad = true;
            return 0;
        }
        value = value * 10 + (*r->at++ - '0');
    }
    return value;
}

/* Matches one of the names, either whole or its first three letters. Returns its index. */
static int name(struct reader *r, const char *names, size_t stride, int count, bool whole)
{
    for (int i = 0; i < count; i++) {
        const char *one = names + (size_t)i * stride;
        size_t len = whole ? strlen(one) : 3;
        if ((size_t)(r->end - r->at) >= len && memcmp(r->at, one, len) == 0) {
            r->at += len;
            return i;
        }
    }
    r->bad = true;
    return 0;
}

static int month(struct reader *r)
{
    return name(r, months[0], sizeof months[0], 12, false) + 1;
}

static void clock_time(struct reader *r, struct civil *out)
{
    out->hour = number(r, 2);
    expect(r, ":");
    out->minute = number(r, 2);
    expect(r, ":");
    out->second = number(r, 2);
}

static bool is_valid(const struct civil *c)
{
    static const int lengths[12] = {31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
    bool leap = (c->year % 4 == 0 && c->year % 100 != 0) || c->year % 400 == 0;
    int most = lengths[c->month - 1] + (c->month == 2 && leap);
    return c->year >= 1 && c->day >= 1 && c->day <= most && c->hour <= 23 && c->minute <= 59 &&
           c->second <= 60;
}

static int finish(const struct reader *r, const struct civil *c, int64_t *out)
{
    if (r->bad || r->at != r->end || !is_valid(c)) {
        return -EINVAL;
    }
    int64_t day = days_from_civil(c->year, c->month, c->day);
    if (weekday(day) != c->weekday) {
        return -EINVAL;
    }
    int of_day = c->hour * 3600 + c->minute * 60 + c->second;
    *out = day * 86400 + of_day;
    return 0;
}

/* "Sun, 06 Nov 1994 08:49:37 GMT" */
static int parse_fixed(struct reader r, int64_t *out)
{
    struct civil c = {.weekday = name(&r, days[0], sizeof days[0], 7, false)};
    expect(&r, ", ");
    c.day = number(&r, 2);
    expect(&r, " ");
    c.month = month(&r);
    expect(&r, " ");
    c.year = number(&r, 4);
    expect(&r, " ");
    clock_time(&r, &c);
    expect(&r, " GMT");
    return finish(&r, &c, out);
}

/* "Sunday, 06-Nov-94 08:49:37 GMT" */
static int parse_850(struct reader r, int64_t now, int64_t *out)
{
    struct civil today, c = {.weekday = name(&r, days[0], sizeof days[0], 7, true)};
    expect(&r, ", ");
    c.day = number(&r, 2);
    expect(&r, "-");
    c.month = month(&r);
    expect(&r, "-");
    c.year = number(&r, 2);
    expect(&r, " ");
    clock_time(&r, &c);
    expect(&r, " GMT");
    now = now < WEFT_HTTP_DATE_FIRST  ? WEFT_HTTP_DATE_FIRST
          : now > WEFT_HTTP_DATE_LAST ? WEFT_HTTP_DATE_LAST
                                      : now;
    civil_from_days(now / 86400, &today);
    c.year += today.year / 100 * 100 + 100;
    while (c.year > today.year + 50) {
        c.year -= 100;
    }
    return finish(&r, &c, out);
}

/* "Sun Nov  6 08:49:37 1994" */
static int parse_asctime(struct reader r, int64_t *out)
{
    struct civil c = {.weekday = name(&r, days[0], sizeof days[0], 7, false)};
    expect(&r, " ");
    c.month = month(&r);
    expect(&r, " ");
    if (r.at < r.end && *r.at == ' ') {
        r.at++;
        c.day = number(&r, 1);
    } else {
        c.day = number(&r, 2);
    }
    expect(&r, " ");
    clock_time(&r, &c);
    expect(&r, " ");
    c.year = number(&r, 4);
    return finish(&r, &c, out);
}

int weft_http_date_parse(int64_t *out, const char *text, size_t len, int64_t now)
{
    struct reader r = {text, text + len, false};
    if (len < 4) {
        return -EINVAL;
    }
    if (text[3] == ',') {
        return parse_fixed(r, out);
    }
    return text[3] == ' ' ? parse_asctime(r, out) : parse_850(r, now, out);
}

/* --- formatting ------------------------------------------------------------------------- */

static char *put_number(char *to, int value, int digits)
{
    for (int i = digits - 1; i >= 0; i--) {
        to[i] = (char)('0' + value % 10);
        value /= 10;
    }
    return to + digits;
}

static char *put(char *to, const char *text, size_t len)
{
    memcpy(to, text, len);
    return to + len;
}

void weft_http_date_format(char *out, int64_t seconds)
{
    int64_t day = seconds / 86400, of_day = seconds % 86400;
    struct civil c;
    if (of_day < 0) {
        of_day += 86400;
        day--;
    }
    WEFT__REQUIRE(seconds >= WEFT_HTTP_DATE_FIRST && seconds <= WEFT_HTTP_DATE_LAST,
                  "HTTP date outside the years 1 to 9999");
    civil_from_days(day, &c);
    out = put(out, days[weekday(day)], 3);
    out = put(out, ", ", 2);
    out = put_number(out, c.day, 2);
    out = put(out, " ", 1);
    out = put(out, months[c.month - 1], 3);
    out = put(out, " ", 1);
    out = put_number(out, c.year, 4);
    out = put(out, " ", 1);
    out = put_number(out, (int)(of_day / 3600), 2);
    out = put(out, ":", 1);
    out = put_number(out, (int)(of_day / 60 % 60), 2);
    out = put(out, ":", 1);
    out = put_number(out, (int)(of_day % 60), 2);
    put(out, " GMT", 4);
}
