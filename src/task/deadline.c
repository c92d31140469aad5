#include "task/deadline.h"

#include "base/alloc.h"
#include "lock/lock.h"

#define ARRAY 1024u /* nodes: 64 KiB */
#define FILL 256u

struct slot {
    _Alignas(WEFT__CACHE_LINE) struct weft__deadline deadline;
};

/* Under the lock: nodes that belong to no worker. */
static struct weft__lock lock;
static struct weft__deadlines common;

/* Under the lock. */
static void make_array(void)
{
    struct slot *slots =
        weft__map(ARRAY * sizeof *slots); /* mapped: not from the allocator, which would keep an
                                           * arena per worker */
    for (unsigned i = ARRAY; slots && i > 0; i--) {
        weft__deadline_give(&common, &slots[i - 1].deadline); /* so that the first node is taken
                                                               * first */
    }
}

void weft__deadlines_fill(struct weft__deadlines *list)
{
    weft__lock(&lock);
    if (common.count < FILL) {
        make_array();
    }
    struct weft__deadline *deadline;
    for (unsigned i = 0; i < FILL && (deadline = weft__deadline_take(&common)); i++) {
        weft__deadline_give(list, deadline);
    }
    weft__unlock(&lock);
}

void weft__deadlines_return(struct weft__deadlines *list, unsigned n)
{
    struct weft__deadline *deadline;
    weft__lock(&lock);
    while (n-- > 0 && (deadline = weft__deadline_take(list))) {
        weft__deadline_give(&common, deadline);
    }
    weft__unlock(&lock);
}

void weft__deadlines_fork_prepare(void)
{
    weft__lock(&lock);
}

void weft__deadlines_fork_done(void)
{
    weft__unlock(&lock);
}
