/* A stop that forces. */
#ifndef WEFT_TEST_ACTOR_FORCED_STOP_H
#define WEFT_TEST_ACTOR_FORCED_STOP_H

#include <errno.h>

#include <weft/weft.h>

/* Those who are left at the deadline have a second from then on, which a machine may take for other
 * things: -EBUSY, and the next stop goes on. How many were forced is told of all. */
static inline int forced_stop(weft_host *host, const char *reason, int64_t deadline)
{
    int forced;
    do {
        forced = weft_host_stop(host, reason, deadline);
    } while (forced == -EBUSY);
    return forced;
}

#endif
