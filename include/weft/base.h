/* What every part of a program uses: durations and error texts. */
#ifndef WEFT_BASE_H
#define WEFT_BASE_H

#include <stdint.h>

#include <weft/export.h>

WEFT_BEGIN_DECLS

/* --- durations -------------------------------------------------------------------------------- */

/* Durations are nanoseconds in an int64_t, as weft_sleep, weft_after and all options that end in
 * _ns take them: weft_sleep(WEFT_MS(5)), weft_after(WEFT_SECONDS(2)). Whole numbers only: 1.5 s is
 * WEFT_MS(1500). With a constant argument the result is a constant expression. A duration that does
 * not fit into 64 bits (292 years) overflows.
 *
 * A duration is not a deadline: a call that waits takes a point in time, weft_after(duration). */
#define WEFT_NS(n) ((int64_t)(n))
#define WEFT_US(n) (WEFT_NS(n) * 1000)
#define WEFT_MS(n) (WEFT_NS(n) * 1000000)
#define WEFT_SECONDS(n) (WEFT_NS(n) * 1000000000)
#define WEFT_MINUTES(n) (WEFT_SECONDS(n) * 60)

/* --- errors ----------------------------------------------------------------------------------- */

/* Describe an error that a call returned, negative (as returned) or positive, in words that fit
 * Weft's use of the number: -ENOENT is also a name without an address, -ESRCH an actor that has
 * ended, -EPIPE a closed channel.
 *
 * Returns a static string, never NULL.
 * Context: any thread; async-signal-safe. */
WEFT_API const char *weft_strerror(int err);

/* Explain the last -EINVAL or -EOPNOTSUPP that a create or open call returned on this thread: which
 * option or argument is wrong ("ring_slots: must be a power of two from 4 to 65536"), or why the
 * driver is not available. Other errors and successes do not change it.
 *
 * Returns a static string; "" if there was no such error.
 * Context: any thread; does not wait. A fiber has to call it before its next wait, after which the
 * fiber may run on another thread. */
WEFT_API const char *weft_last_error(void);

WEFT_END_DECLS
#endif
