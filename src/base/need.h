/* NULL checks for the arguments of public calls. */
#ifndef WEFT_BASE_NEED_H
#define WEFT_BASE_NEED_H

#include "base/assert.h"

/* First in a public function, for one of its arguments: NULL stops the program with a message that
 * names the call and the argument. */
#define WEFT__NEED(object) WEFT__NEED_AS(object, #object)
/* The same where the header uses another name for the argument. */
#define WEFT__NEED_AS(object, name)                                                                \
    WEFT__REQUIRE(object, "%s: %s is NULL: it has to be created or initialised first", __func__,   \
                  name)

#endif
