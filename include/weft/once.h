/* Once: a function that is called exactly once, however many ask for it. */
#ifndef WEFT_ONCE_H
#define WEFT_ONCE_H

#include <weft/sync.h>

WEFT_BEGIN_DECLS

typedef struct weft_once {
    /* private */
    struct weft_source weft_source;
    uint64_t weft_private;
} weft_once;

#define WEFT_ONCE_INIT                                                                             \
    {                                                                                              \
        {{0}}, 0                                                                                   \
    }

WEFT_API void weft_once_init(weft_once *once, const struct weft_sync_opts *opts);
WEFT_API void weft_once_deinit(weft_once *once);

/* The first caller calls fn(arg), in its own fiber or thread; the others wait until it has
 * returned. 0: it has, and what it wrote is seen. -ETIMEDOUT, -ECANCELED, -EINTR: the caller has
 * not waited for it; the deadline is for those who wait, never for fn. The first caller may be
 * cancelled like any fiber: the waits within fn end, but fn is called and counts as done when it
 * returns. To ask for it within fn, or to leave fn by weft_exit, is a caller's bug. */
WEFT_API int weft_once_call(weft_once *once, void (*fn)(void *arg), void *arg, int64_t deadline);
WEFT_API bool weft_once_is_done(const weft_once *once);

WEFT_END_DECLS
#endif
