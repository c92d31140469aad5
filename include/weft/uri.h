/* Percent-decoding, and normalising request paths so that they cannot leave their root. Nothing
 * allocates. */
#ifndef WEFT_URI_H
#define WEFT_URI_H

#include <stddef.h>
#include <sys/types.h>

#include <weft/export.h>

WEFT_BEGIN_DECLS

/* Decode %XX, once, and nothing else ('+' stays '+').
 *
 * out: receives at most `size` bytes, which may be any bytes, zeros included; may be equal to
 * `text`.
 * Returns the decoded length; -EINVAL for a '%' without two hex digits; -ENAMETOOLONG if `size`
 * bytes are not enough.
 * Context: any thread; does not wait. */
WEFT_API ssize_t weft_uri_decode(char *out, size_t size, const char *text, size_t len);

/* Decode a path once and normalise it: remove "//", "." and "..".
 *
 * out: receives a zero-terminated path that begins with '/', and ends with '/' if the input named a
 * directory ("/a/", "/a/.", "/a/b/.."). An empty path becomes "/". May be equal to `text` if there
 * is space for the terminating zero.
 * Returns the length without the zero; -EINVAL if the path does not begin with '/', contains a bad
 * escape, a byte below 0x20 or 0x7f, a backslash or an escaped slash, or has more ".." than
 * preceding names; -ENAMETOOLONG if `size` bytes, the zero included, are not enough at any point of
 * the normalisation (len + 2 are always enough).
 * Context: any thread; does not wait. */
WEFT_API ssize_t weft_uri_path_normalize(char *out, size_t size, const char *text, size_t len);

WEFT_END_DECLS
#endif
