/* Cancelling from inside the runtime. */
#ifndef WEFT_FIBER_CANCEL_H
#define WEFT_FIBER_CANCEL_H

#include <stdint.h>

#include <weft/fiber.h>

struct weft__chain;

/* weft_cancel with these flags of task/ident.h: CANCEL, or CANCEL and ABORT. `ready`: as
 * weft__waiter_fire; NULL: a fiber that must be queued is queued at once. */
int weft__cancel(weft_fiber fiber, uint64_t flags, struct weft__chain *ready);

#endif
