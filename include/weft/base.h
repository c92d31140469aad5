/* What every part of a program uses: durations and words for errors. */
#ifndef WEFT_BASE_H
#define WEFT_BASE_H

#include <stdint.h>

#include <weft/export.h>

WEFT_BEGIN_DECLS

/* --- durations ---------------------------------------------------------------------------------
 */

/* Durations are nanoseconds in an int64_t, as weft_sleep, weft_after and all options that end in
 * _ns take them: weft_sleep(WEFT_MS(5)), weft_after(WEFT_SECONDS(2)). Whole numbers only: 1.5 s is
 * WEFT_MS(1500). Constant for constants; what does not fit into 64 bits, 292 years, overflows.
 *
 * A duration is not a deadline: a call that waits takes a point in time, weft_after(duration). */
#define WEFT_NS(n) ((int64_t)(n))
#define WEFT_US(n) (WEFT_NS(n) * 1000)
#define WEFT_MS(n) (WEFT_NS(n) * 1000000)
#define WEFT_SECONDS(n) (WEFT_NS(n) * 1000000000)
#define WEFT_MINUTES(n) (WEFT_SECONDS(n) * 60)

/* --- errors ------------------------------------------------------------------------------------
 */

/* Describes an error that a call answered, negative as it came or positive, in words that fit what
 * Weft means by it: -ENOENT is also a name without an address, -ESRCH an actor that has ended,
 * -EPIPE a closed channel. Returns a string that is never NULL, never changes and needs no free.
 * Any thread, also in a handler of a signal. */
WEFT_API const char *weft_strerror(int err);

/* Says which option or argument was wrong when a create or an open of the calling thread was last
 * answered by -EINVAL, or why its driver cannot be had (-EOPNOTSUPP): "ring_slots: must be a power
 * of two from 4 to 65536". "" if there was none. Other errors and successes leave it as it is. A
 * fiber asks before its next wait, after which it may be on another thread. Returns a string that
 * never changes and needs no free. */
WEFT_API const char *weft_last_error(void);

WEFT_END_DECLS
#endif
