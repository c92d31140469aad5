/* Names of objects. One rule for all of them: a name may have any length. An object with its own
 * memory keeps the whole name (weft__objname_copy); a record of fixed size, such as a fiber's
 * control block, a line of statistics or the kernel's thread name, keeps as many whole UTF-8
 * characters as fit (weft__objname_truncate). A name is never rejected for its length. */
#ifndef WEFT_BASE_OBJNAME_H
#define WEFT_BASE_OBJNAME_H

#include <stddef.h>
#include <string.h>

/* The number of bytes of `text` that fit into `size` bytes with a terminating zero, without
 * splitting a character. Bytes that are not UTF-8 are cut like others. */
static inline size_t weft__objname_fit(const char *text, size_t size)
{
    size_t len = strnlen(text, size), back = 0;
    if (len < size || size == 0) {
        return len;
    }
    len--;
    while (back < 3 && back < len && (text[len - back] & 0xC0) == 0x80) {
        back++;
    }
    return (text[len - back] & 0xC0) == 0xC0 ? len - back : len;
}

/* Copies as much of `text` as fits into `size` bytes, room > 0, with a terminating zero. `to` may
 * be `text`. */
static inline void weft__objname_truncate(char *to, size_t size, const char *text)
{
    size_t len = weft__objname_fit(text, size);
    memmove(to, text, len);
    to[len] = 0;
}

/* A copy, freed with weft__free. NULL: no memory. */
char *weft__objname_copy(const char *text);

#endif
