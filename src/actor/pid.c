/* PIDs as text: formatting and parsing. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>

#include "actor/actor.h"

int weft_pid_format(weft_pid pid, char *buf, size_t size)
{
    return snprintf(buf, size, "<%" PRIu32 ".%" PRIu32 ".%" PRIu32 ".%" PRIu32 ">", pid.node,
                    pid.host, (uint32_t)pid.id, (uint32_t)(pid.id >> 32));
}

/* Without stdio: async-signal-safe. */
size_t weft__pid_write(weft_pid pid, char *buf, size_t size)
{
    const uint32_t parts[] = {pid.node, pid.host, (uint32_t)pid.id, (uint32_t)(pid.id >> 32)};
    char text[64], digits[16];
    size_t used = 0;
    for (size_t i = 0; i < 4; i++) {
        size_t n = 0;
        uint32_t left = parts[i];
        text[used++] = i ? '.' : '<';
        do {
            digits[n++] = (char)('0' + left % 10);
            left /= 10;
        } while (left);
        while (n) {
            text[used++] = digits[--n];
        }
    }
    text[used++] = '>';
    used = used < size ? used : size;
    for (size_t i = 0; i < used; i++) {
        buf[i] = text[i];
    }
    return used;
}

/* Parse digits up to 2^32 - 1, followed by this character. NULL: something else. */
static const char *read_number(const char *text, char end, uint32_t *out)
{
    uint64_t number = 0;
    const char *at = text;
    while (*at >= '0' && *at <= '9' && number <= UINT32_MAX) {
        number = number * 10 + (uint64_t)(*at++ - '0');
    }
    if (at == text || *at != end || number > UINT32_MAX) {
        return NULL;
    }
    *out = (uint32_t)number;
    return at + 1;
}

int weft_pid_parse(weft_pid *out, const char *text)
{
    uint32_t part[4];
    const char *at = *text == '<' ? text + 1 : NULL;
    for (int i = 0; at && i < 4; i++) {
        at = read_number(at, i < 3 ? '.' : '>', &part[i]);
    }
    if (!at || *at || part[2] == 0) {
        return -EINVAL;
    }
    *out = (weft_pid){.node = part[0], .host = part[1], .id = (uint64_t)part[3] << 32 | part[2]};
    return 0;
}
