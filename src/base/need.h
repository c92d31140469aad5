/* Objects that a public call cannot do without. */
#ifndef WEFT_BASE_NEED_H
#define WEFT_BASE_NEED_H

#include "base/assert.h"

/* First in a public function, about one of its arguments: NULL ends the program, and it is said
 * which call was given NULL as what. */
#define WEFT__NEED(object) WEFT__NEED_AS(object, #object)
/* The same where the header calls the argument otherwise. */
#define WEFT__NEED_AS(object, name)                                                                \
    WEFT__REQUIRE(object, "%s: %s is NULL: it has to be created or initialised first", __func__,   \
                  name)

#endif
