/* The version of the headers, and of the library that was linked. */
#ifndef WEFT_VERSION_H
#define WEFT_VERSION_H

#include <weft/export.h>

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0
#define WEFT_VERSION "0.1.0"

WEFT_BEGIN_DECLS

/* The library's version as text, "0.1.0"; compare with WEFT_VERSION to find a mismatch. */
WEFT_API const char *weft_version(void);

WEFT_END_DECLS
#endif
