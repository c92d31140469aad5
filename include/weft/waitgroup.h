/* A wait group: a count of things that are not done yet, and a wait until it is zero.
 *
 * It may be used again at once: who waited when the count came to zero goes on, though something be
 * added before it runs. It may be freed by one whose wait has returned 0: the last `done` does not
 * touch it any more.
 */
#ifndef WEFT_WAITGROUP_H
#define WEFT_WAITGROUP_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

typedef struct weft_waitgroup {
    /* private */
    struct weft_source weft_source;
    uint64_t weft_private;
} weft_waitgroup;

#define WEFT_WAITGROUP_INIT                                                                        \
    {                                                                                              \
        {{0}}, 0                                                                                   \
    }

WEFT_API void weft_waitgroup_init(weft_waitgroup *group, const struct weft_sync_opts *opts);
WEFT_API void weft_waitgroup_deinit(weft_waitgroup *group);

/* Adds n, which may be negative, to the count. A count below zero is a caller's bug. Never
 * waits. */
WEFT_API void weft_waitgroup_add(weft_waitgroup *group, int64_t n);
/* One is done: adds -1. What was written before is seen by those who have waited. */
WEFT_API void weft_waitgroup_done(weft_waitgroup *group);
/* Waits until the count is zero. 0, -ETIMEDOUT, -ECANCELED, -EINTR. */
WEFT_API int weft_waitgroup_wait(weft_waitgroup *group, int64_t deadline);
/* The count at this moment. */
WEFT_API int64_t weft_waitgroup_count(const weft_waitgroup *group);

WEFT_END_DECLS
#endif
