/* What all objects that one can wait on have in common.
 *
 *  - They live in the caller's memory. All zero is a valid object with default options; init is
 *    only needed for options. They must not be copied or moved.
 *  - Any of them works between fibers of one pool, fibers of different pools, and plain threads.
 *  - A call that can wait takes an absolute deadline and answers 0 (done), -ETIMEDOUT, -ECANCELED,
 *    -EINTR (weft_interrupt), or what its own contract adds. If it did not return 0 nothing was
 *    taken and nothing is lost, however closely the two raced.
 *  - deinit of an object on which somebody waits is a caller's bug. Objects without options need no
 *    deinit, but it finds that bug. It may be done by anybody, also of one that has an owner, and
 *    after its owner is gone.
 */
#ifndef WEFT_SYNC_H
#define WEFT_SYNC_H

#include <weft/fiber.h>

WEFT_BEGIN_DECLS

struct weft_sync_opts {
    const char *name; /* for dumps and reports; borrowed; default none */
    /* Only fibers of this pool, which has one worker, use the object; it then needs no atomic
     * read-modify-write of its own, and use from elsewhere is a caller's bug. Default: anybody. */
    weft_pool *owner;
    /* The same for a group of a dispatcher: only what runs in it uses the object. */
    weft_group *group;
    /* Of a lock: a fiber that holds one of rank r may only lock those of a greater rank; checked in
     * debug builds. 0: not checked. */
    unsigned rank;
};

/* The part they share. */
struct weft_source {
    /* private */
    uint64_t weft_private[5];
};

WEFT_END_DECLS
#endif
