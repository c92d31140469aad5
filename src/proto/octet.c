/* Tokens follow RFC 9110. Targets allow all visible bytes except "<>#, which is more than RFC 3986
 * allows, because browsers send them in queries. Hosts allow reg-name without escapes and without
 * the comma, which joins two fields into one. */
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
