/* A stop that forces actors to end. */
#ifndef WEFT_TEST_HOST_FORCED_STOP_H
#define WEFT_TEST_HOST_FORCED_STOP_H

#include <errno.h>

#include <weft/weft.h>

/* Actors that remain at the deadline get one more second, which a busy machine may use up: then the
 * stop returns -EBUSY and the next stop continues. The count of forced actors covers all of the
 * calls. */
static inline int forced_stop(weft_host *host, const char *reason, int64_t deadline)
{
    int forced;
    do {
        forced = weft_host_stop(host, reason, deadline);
    } while (forced == -EBUSY);
    return forced;
}

#endif
