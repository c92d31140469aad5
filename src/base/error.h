/* Error texts: weft_strerror and weft_last_error of <weft/base.h>. */
#ifndef WEFT_BASE_ERROR_H
#define WEFT_BASE_ERROR_H

#include <weft/base.h>

/* Rejects a call: `why`, a literal such as "ring_slots: must be a power of two", is what
 * weft_last_error returns on this thread until the next rejection. Returns `err`. */
int weft__refuse(int err, const char *why) __attribute__((cold));

#endif
