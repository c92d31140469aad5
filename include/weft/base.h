/* What every part of a program uses: symbol visibility, the version, durations and deadlines, error
 * texts. */
#ifndef WEFT_BASE_H
#define WEFT_BASE_H

#include <stdint.h>

#define WEFT_API __attribute__((visibility("default")))

#ifdef __cplusplus
#define WEFT_BEGIN_DECLS extern "C" {
#define WEFT_END_DECLS }
#else
#define WEFT_BEGIN_DECLS
#define WEFT_END_DECLS
#endif

#define WEFT_VERSION_MAJOR 0
#define WEFT_VERSION_MINOR 2
#define WEFT_VERSION_PATCH 0
#define WEFT_VERSION "0.2.0"

WEFT_BEGIN_DECLS

/* --- version -------------------------------------------------------------------------------- */

/* Return the version of the linked library, such as "0.2.0". Compare it with WEFT_VERSION to detect
 * a mismatch between headers and library.
 *
 * Returns a static string. Context: any thread; does not wait. */
WEFT_API const char *weft_version(void);

/* --- durations -------------------------------------------------------------------------------- */

/* Durations are nanoseconds in an int64_t, as weft_after and all options that end in _ns take them:
 * weft_after(WEFT_SECONDS(2)). Whole numbers only: 1.5 s is WEFT_MS(1500). With a constant argument
 * the result is a constant expression. A duration that does not fit into 64 bits (292 years)
 * overflows.
 *
 * A duration is not a deadline: a call that waits takes a point in time, as in
 * weft_sleep(weft_after(WEFT_MS(5))). */
#define WEFT_NS(n) ((int64_t)(n))
#define WEFT_US(n) (WEFT_NS(n) * 1000)
#define WEFT_MS(n) (WEFT_NS(n) * 1000000)
#define WEFT_SECONDS(n) (WEFT_NS(n) * 1000000000)
#define WEFT_MINUTES(n) (WEFT_SECONDS(n) * 60)

/* --- deadlines ------------------------------------------------------------------------------ */

/* A deadline is a point in time: nanoseconds of CLOCK_MONOTONIC. WEFT_FOREVER never comes. */
#define WEFT_FOREVER INT64_MAX

/* Read the clock that all deadlines use.
 *
 * Returns nanoseconds.
 * Context: any thread; does not wait. */
WEFT_API int64_t weft_now(void);
/* Read that clock as the calling worker read it last, without a clock read. A worker reads the
 * clock every 61 turns, about every 200 us if turns are longer, and after each sleep. So the value
 * is at most that old and never ahead, but it does not advance within one turn, however long the
 * turn is.
 *
 * Returns nanoseconds; on a plain thread the same as weft_now.
 * Context: any thread; does not wait. */
WEFT_API int64_t weft_now_cached(void);
/* Make a deadline `ns` from now, as in weft_after(WEFT_MS(5)). In debug builds a deadline that is
 * negative, or before the start of the program but not 0, aborts the program: a duration was
 * passed where a deadline is expected.
 *
 * Returns the deadline, at most WEFT_FOREVER; the present time if ns <= 0.
 * Context: any thread; does not wait. */
WEFT_API int64_t weft_after(int64_t ns);

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
