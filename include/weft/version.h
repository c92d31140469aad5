/* The version of the headers and of the linked library. */
#ifndef WEFT_VERSION_H
#define WEFT_VERSION_H

#include <weft/export.h>

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 1
#define WEFT_VERSION_PATCH 0
#define WEFT_VERSION "0.1.0"

WEFT_BEGIN_DECLS

/* Return the version of the linked library, such as "0.1.0". Compare it with WEFT_VERSION to detect
 * a mismatch between headers and library.
 *
 * Returns a static string. Context: any thread; does not wait. */
WEFT_API const char *weft_version(void);

WEFT_END_DECLS
#endif
