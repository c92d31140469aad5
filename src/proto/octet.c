/* Tokens are RFC 9110's. Targets take all that is visible but "<>#, which is more than RFC 3986 has, as browsers send it
 * in queries. Hosts take reg-name without escapes and without the comma, which joins two fields into one. */
#include "proto/octet.h"

const uint8_t weft__octets[256] = {
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* 00 */
    0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, /* 10 */
    0, 7, 0, 1, 7, 3, 7, 7, 6, 6, 7, 7, 2, 7, 7, 2, /* 20 */
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 2, 6, 0, 6, 0, 2, /* 30 */
    2, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, /* 40 */
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 2, 2, 2, 3, 7, /* 50 */
    3, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, /* 60 */
    7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 7, 2, 3, 2, 7, 0, /* 70 */
};

const int8_t weft__hex_digits[256] = {
    [0 ... '0' - 1] = -1,
    ['0'] = 0,
    1,
    2,
    3,
    4,
    5,
    6,
    7,
    8,
    9,
    ['9' + 1 ... 'A' - 1] = -1,
    ['A'] = 10,
    11,
    12,
    13,
    14,
    15,
    ['F' + 1 ... 'a' - 1] = -1,
    ['a'] = 10,
    11,
    12,
    13,
    14,
    15,
    ['f' + 1 ... 255] = -1,
};
