#include "base/clock.h"

#include <inttypes.h>

#include "base/assert.h"

#if WEFT_DEBUG
static int64_t start_ns;

static __attribute__((constructor)) void record_start(void)
{
    start_ns = weft__clock_ns();
}

void weft__deadline_check(int64_t deadline)
{
    if (deadline < 0) {
        weft__panic(__FILE__, __LINE__,
                    "a deadline is %" PRId64
                    ", which is not a time: 0 tries once, WEFT_FOREVER waits "
                    "for ever",
                    deadline);
    }
    WEFT__REQUIRE(deadline == 0 || deadline >= start_ns,
                  "a deadline is %" PRId64 ", a time before this program was started, as if a "
                  "duration was passed: use weft_after(%" PRId64 ")",
                  deadline, deadline);
}
#endif
