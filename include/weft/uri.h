/* Percent-escapes, and paths that cannot lead out of where they begin. Nothing allocates. */
#ifndef WEFT_URI_H
#define WEFT_URI_H

#include <stddef.h>
#include <sys/types.h>

#include <weft/export.h>

WEFT_BEGIN_DECLS

/* Decodes %XX, once, and nothing else ('+' stays). Returns the length; `out` may be `text`. The
 * bytes may be any, zeros too. -EINVAL: a '%' without two hex digits. -ENAMETOOLONG: more than
 * `room` bytes. */
WEFT_API ssize_t weft_uri_decode(char *out, size_t room, const char *text, size_t len);

/* Decodes a path once and takes out "//", "." and "..". What is written begins with '/', ends with
 * a zero, and ends with '/' if the path stood for a directory ("/a/", "/a/.", "/a/b/.."). An empty
 * path is "/". Returns the length without the zero; `out` may be `text` if there is room for the
 * zero. -EINVAL: does not begin with '/', a bad escape, a byte below 0x20 or 0x7f, a backslash, an
 * escaped slash, more ".." than names before them. -ENAMETOOLONG: more than `room` bytes with the
 * zero, for a moment at least; len + 2 are always enough. */
WEFT_API ssize_t weft_uri_path(char *out, size_t room, const char *text, size_t len);

WEFT_END_DECLS
#endif
