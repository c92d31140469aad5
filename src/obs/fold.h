/* Grouping of fibers whose stacks are the same: same state, same kind of wait, same frames. Uses
 * its own memory, which is mapped and unmapped page by page, because the dumped program may be
 * stuck in its allocator. */
#ifndef WEFT_OBS_FOLD_H
#define WEFT_OBS_FOLD_H

#include "obs/fiber_snapshot.h"

#define WEFT__FOLD_STATES 6 /* those of weft_fiber_state, and unreadable */

/* One fiber of a group: a snapshot without its frames. */
struct weft__fold_member {
    struct weft__fold_member *next;
    struct weft__fiber_snapshot snap; /* up to `no_frames` */
};

struct weft__fold_group {
    struct weft__fold_group *next, *next_hashed;
    uint64_t hash;
    size_t count;                           /* fibers in the group */
    unsigned shown;                         /* fibers listed */
    struct weft__fold_member *first, *last; /* in the order in which they were seen */
    enum weft_fiber_state state;
    bool unreadable;
    const char *waits, *no_frames;
    struct weft__stackless_frame (*describe)(void *const *pair); /* as in a snapshot */
    int frames;
    void *pcs[];
};

/* Zeroed: empty. */
struct weft__fold {
    struct weft__fold_group *first[WEFT__FOLD_STATES], *last[WEFT__FOLD_STATES];
    size_t fibers[WEFT__FOLD_STATES]; /* by state */
    size_t groups;
    size_t lost; /* fibers that are counted but not in a group, for lack of memory */
    unsigned max_shown;
    struct weft__fold_group *hashed[1024];
    struct weft__fold_chunk *chunks;
};

void weft__fold_add(struct weft__fold *fold, const struct weft__fiber_snapshot *snap);
void weft__fold_deinit(struct weft__fold *fold);

#endif
