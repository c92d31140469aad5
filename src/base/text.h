/* Names of objects. One rule for all of them: a name may have any length. Whoever has memory of its
 * own keeps the whole name (weft__text_copy); a record of a fixed size, such as a fiber's control
 * block, a line of statistics or the kernel's name of a thread, keeps as many whole UTF-8
 * characters as fit (weft__text_cut). A name is never refused for its length. */
#ifndef WEFT_BASE_TEXT_H
#define WEFT_BASE_TEXT_H

#include <stddef.h>
#include <string.h>

/* How many bytes of `text` go into `room` bytes with a zero after them, without half a character.
 * Bytes that are not UTF-8 are cut like others. */
static inline size_t weft__text_fit(const char *text, size_t room)
{
    size_t len = strnlen(text, room), back = 0;
    if (len < room || room == 0) {
        return len;
    }
    len--;
    while (back < 3 && back < len && (text[len - back] & 0xC0) == 0x80) {
        back++;
    }
    return (text[len - back] & 0xC0) == 0xC0 ? len - back : len;
}

/* As much of it as `room` bytes hold, room > 0, with a zero after it. `to` may be `text`. */
static inline void weft__text_cut(char *to, size_t room, const char *text)
{
    size_t len = weft__text_fit(text, room);
    memmove(to, text, len);
    to[len] = 0;
}

/* A copy, to be given to weft__free. NULL: no memory. */
char *weft__text_copy(const char *text);

#endif
