/* Ranges lie within the size, and together are not larger than the whole; dates that are parsed are
 * formatted as the same time; lists of tags end. The first 8 bytes are the size. */
#include <weft/http_parse.h>

#include <errno.h>

#include "fuzz/target.h"
#include "proto/http_value.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len)
{
    uint64_t size;
    struct weft__http_range ranges[4];
    if (len < sizeof size) {
        return 0;
    }
    memcpy(&size, data, sizeof size);
    len -= sizeof size;
    char *text = fuzz_copy(data + sizeof size, len);

    int n = weft__http_range_parse(ranges, 4, text, len, size);
    fuzz_require((n >= 0 && n <= 4) || n == -ERANGE);
    uint64_t sum = 0;
    for (int i = 0; i < n; i++) {
        fuzz_require(ranges[i].len && ranges[i].from < size &&
                     ranges[i].len <= size - ranges[i].from);
        sum += ranges[i].len;
    }
    fuzz_require(sum <= size);

    int64_t seconds, back;
    if (weft_http_date_parse(&seconds, text, len, 1700000000) == 0) {
        char date[WEFT_HTTP_DATE_BYTES];
        if (seconds < INT64_C(253402300800)) { /* a leap second may lead into the year 10000 */
            weft_http_date_format(date, seconds);
            fuzz_require(weft_http_date_parse(&back, date, sizeof date, 1700000000) == 0);
            fuzz_require(back == seconds);
        }
    }
    /* A strong match is also a weak match. */
    bool strong = weft__http_etag_is_listed(text, len, "\"a\"", 3, false);
    fuzz_require(!strong || weft__http_etag_is_listed(text, len, "\"a\"", 3, true));
    weft__http_etag_is_listed("\"a\", W/\"b\"", 11, text, len, true);
    free(text);
    return 0;
}
