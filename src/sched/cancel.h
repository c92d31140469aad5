/* Cancelling from inside the runtime. */
#ifndef WEFT_SCHED_CANCEL_H
#define WEFT_SCHED_CANCEL_H

#include <stdint.h>

#include <weft/fiber.h>

/* weft_cancel with these flags of sched/ident.h: CANCEL, or CANCEL and ABORT. */
int weft__cancel(weft_fiber fiber, uint64_t flags);

#endif
