/* NULL checks for the arguments of public calls. */
#ifndef WEFT_BASE_NONNULL_H
#define WEFT_BASE_NONNULL_H

#include "base/assert.h"

/* First in a public function, for one of its arguments: NULL stops the program with a message that
 * names the call and the argument. */
#define WEFT__NONNULL(object) WEFT__NONNULL_AS(object, #object)
/* The same where the header uses another name for the argument. */
#define WEFT__NONNULL_AS(object, name)                                                             \
    WEFT__REQUIRE(object, "%s: %s is NULL: it must be created or initialised first", __func__, name)

#endif
