/* Small blocks that are allocated and freed by the million on one thread: free lists by size class,
 * in front of the allocator. One cache per worker, used only by its thread; a block may be freed on
 * another thread than it was allocated on.
 *
 * Where one thread allocates and another frees, the first cache runs empty and the second
 * overflows, block by block, and the allocator's own thread caches behave the same way. So both
 * exchange batches of 64 blocks through a shared pool under a lock. A thread that finds the pool
 * locked uses the allocator instead of waiting; so does a child of fork, where the thread that held
 * the lock may not exist. */
#ifndef WEFT_WORKER_SMALL_ALLOC_H
#define WEFT_WORKER_SMALL_ALLOC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/link.h"

/* 8 to 504 bytes: with the allocator's header word they are multiples of its granularity. */
#define WEFT__SMALL_STEP 16u
#define WEFT__SMALL_MIN 8u
#define WEFT__SMALL_CLASSES 32u
#define WEFT__SMALL_KEPT 1024u       /* blocks kept per class; more go to the shared pool, */
#define WEFT__SMALL_BATCH 64u        /* this many at once, */
#define WEFT__SMALL_SHARED_MAX 2048u /* batches per class; more go back to the allocator, */
#define WEFT__SMALL_SHARED_KEPT 64u  /* and after an idle period all but this many */

_Static_assert(WEFT__SMALL_KEPT % WEFT__SMALL_BATCH == 0, "a full list is whole batches");

struct weft__small_cache {
    struct weft__link *free[WEFT__SMALL_CLASSES];
    uint32_t count[WEFT__SMALL_CLASSES];
    /* The block that was freed last when the count was a multiple of a batch: in a full list, the
     * end of its first batch. */
    struct weft__link *bottom[WEFT__SMALL_CLASSES];
};

/* WEFT__SMALL_CLASSES: too large. */
static inline unsigned weft__small_class(size_t bytes)
{
    size_t class = (bytes + WEFT__SMALL_STEP - 1 - WEFT__SMALL_MIN) / WEFT__SMALL_STEP;
    return class < WEFT__SMALL_CLASSES ? (unsigned)class : WEFT__SMALL_CLASSES;
}

/* For an empty list, and for a full one (worker/small_alloc.c). */
void *weft__small_get_slow(struct weft__small_cache *small, unsigned class, size_t bytes);
void weft__small_put_slow(struct weft__small_cache *small, unsigned class, void *block);
/* Frees everything in the shared pool to the allocator. */
void weft__small_shared_flush(void);
/* Whether the shared pool has more than it keeps permanently (has_spare). Frees up to `most`
 * batches of the excess, and returns the number of batches (trim). */
bool weft__small_shared_has_spare(void);
unsigned weft__small_shared_trim(unsigned most);

/* Not zeroed. `small` NULL: not a worker's thread. Returns NULL if memory runs out. */
static inline void *weft__small_get(struct weft__small_cache *small, unsigned class, size_t bytes)
{
    if (small && class < WEFT__SMALL_CLASSES && small->free[class]) {
        struct weft__link *block = small->free[class];
        small->free[class] = block->next;
        __builtin_prefetch(block->next, 1); /* for the next call, which would wait for its cache
                                             * line */
        small->count[class]--;
        return block;
    }
    return weft__small_get_slow(small, class, bytes);
}

static inline void weft__small_put(struct weft__small_cache *small, unsigned class, void *block)
{
    if (small && class < WEFT__SMALL_CLASSES && small->count[class] < WEFT__SMALL_KEPT) {
        struct weft__link *link = block;
        link->next = small->free[class];
        small->free[class] = link;
        if (small->count[class]++ % WEFT__SMALL_BATCH == 0) {
            small->bottom[class] = link;
        }
        return;
    }
    weft__small_put_slow(small, class, block);
}

static inline void weft__small_flush(struct weft__small_cache *small)
{
    for (unsigned class = 0; class < WEFT__SMALL_CLASSES; class ++) {
        struct weft__link *block;
        while ((block = small->free[class])) {
            small->free[class] = block->next;
            weft__free(block);
        }
        small->count[class] = 0;
    }
}

#endif
