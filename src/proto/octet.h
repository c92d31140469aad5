/* Character classes of HTTP, case-insensitive comparison, and comma-separated lists. */
#ifndef WEFT_PROTO_OCTET_H
#define WEFT_PROTO_OCTET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum {
    WEFT__OCTET_TOKEN = 1,  /* RFC 9110 tchar: methods, field names, codings */
    WEFT__OCTET_TARGET = 2, /* request targets */
    WEFT__OCTET_HOST = 4    /* host names and IPv4 addresses */
};

extern const uint8_t weft__octets[256];

static inline bool weft__octet_is(unsigned char c, int what)
{
    return weft__octets[c] & what;
}

static inline bool weft__is_digit(unsigned char c)
{
    return c >= '0' && c <= '9';
}

/* Returns the value of a hex digit; -1 for any other byte. */
static inline int weft__hex_digit(unsigned char c)
{
    if (weft__is_digit(c)) {
        return c - '0';
    }
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static inline bool weft__is_blank(unsigned char c)
{
    return c == ' ' || c == '\t';
}

/* Reports whether a byte is allowed in a field value. */
static inline bool weft__is_text(unsigned char c)
{
    return (c >= 0x20 && c != 0x7f) || c == '\t';
}

#if __BYTE_ORDER__ != __ORDER_LITTLE_ENDIAN__
#error "the first of eight bytes is taken for the lowest one"
#endif

static inline uint64_t weft__load8(const void *p)
{
    uint64_t x;
    memcpy(&x, p, sizeof x);
    return x;
}

/* Returns the position of the first byte of p[at .. end) that is below 0x20 or 0x7f, or end. Eight
 * bytes at a time: a borrow can only raise marks above the first true one, and the first one is
 * what counts. */
static inline size_t weft__skip_text(const unsigned char *p, size_t at, size_t end)
{
    const uint64_t ones = 0x0101010101010101u, high = ones << 7;
    for (; end - at >= 8; at += 8) {
        uint64_t x = weft__load8(p + at), del = x ^ (ones * 0x7f);
        uint64_t marks = (((x - ones * 0x20) & ~x) | ((del - ones) & ~del)) & high;
        if (marks) {
            return at + (size_t)__builtin_ctzll(marks) / 8;
        }
    }
    while (at < end && p[at] >= 0x20 && p[at] != 0x7f) {
        at++;
    }
    return at;
}

/* Reports whether text[0 .. len) equals the word, ignoring the case of the text. The word consists
 * of lower-case letters, digits and '-'. The text must consist of token bytes, or the word of
 * letters only: setting bit 5 maps no other such byte to these. */
static inline bool weft__equals_ignore_case(const void *text, const char *word, size_t len)
{
    const uint64_t lower = 0x2020202020202020u;
    const char *p = text;
    if (len >= 8) {
        for (size_t i = 0; i + 8 < len; i += 8) {
            if ((weft__load8(p + i) | lower) != weft__load8(word + i)) {
                return false;
            }
        }
        return (weft__load8(p + len - 8) | lower) == weft__load8(word + len - 8);
    }
    for (size_t i = 0; i < len; i++) {
        if ((p[i] | 0x20) != word[i]) {
            return false;
        }
    }
    return true;
}

/* Removes surrounding blanks. */
static inline void weft__trim(const char **text, size_t *len)
{
    while (*len && weft__is_blank((unsigned char)**text)) {
        (*text)++;
        (*len)--;
    }
    while (*len && weft__is_blank((unsigned char)(*text)[*len - 1])) {
        (*len)--;
    }
}

/* Removes the next element from a comma-separated list: without surrounding blanks, skipping empty
 * elements. Returns false if there are no more. */
static inline bool weft__list_next(const char **list, size_t *left, const char **item, size_t *len)
{
    while (*left) {
        const char *comma = memchr(*list, ',', *left);
        *item = *list;
        *len = comma ? (size_t)(comma - *list) : *left;
        size_t used = *len + (comma != NULL);
        *list += used;
        *left -= used;
        weft__trim(item, len);
        if (*len) {
            return true;
        }
    }
    return false;
}

#endif
