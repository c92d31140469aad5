/* Small blocks that come and go by the million on one thread: lists of free ones by size, in front
 * of the allocator. One per worker, used by its thread alone; a block may be given back on another
 * thread than it was taken on.
 *
 * Where one thread takes and another gives back, the one runs dry and the other overflows, block by
 * block, and the allocator's own caches do the same behind them. So both go by batches through a
 * depot, which is everybody's: a lock for 64 blocks. Who finds it locked goes to the allocator
 * instead of waiting, so a child of a fork, where nobody may be left to unlock it, does too. */
#ifndef WEFT_BASE_SMALL_H
#define WEFT_BASE_SMALL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/alloc.h"
#include "base/link.h"

/* 8 to 504 bytes: with the word that the allocator adds they are multiples of its step. */
#define WEFT__SMALL_STEP 16u
#define WEFT__SMALL_LEAST 8u
#define WEFT__SMALL_CLASSES 32u
#define WEFT__SMALL_KEPT 1024u  /* of each class; more go to the depot, */
#define WEFT__SMALL_BATCH 64u   /* so many at once, */
#define WEFT__SMALL_DEPOT 2048u /* batches of each class; more go back to the allocator, */
#define WEFT__SMALL_REST 64u    /* and all but so many after a rest */

_Static_assert(WEFT__SMALL_KEPT % WEFT__SMALL_BATCH == 0, "a full list is whole batches");

struct weft__small {
    struct weft__link *free[WEFT__SMALL_CLASSES];
    uint32_t count[WEFT__SMALL_CLASSES];
    /* The one that was given back when the count was a multiple of a batch, last: of a full list,
     * the end of its first batch. */
    struct weft__link *bottom[WEFT__SMALL_CLASSES];
};

/* WEFT__SMALL_CLASSES: it is not small. */
static inline unsigned weft__small_class(size_t bytes)
{
    size_t class = (bytes + WEFT__SMALL_STEP - 1 - WEFT__SMALL_LEAST) / WEFT__SMALL_STEP;
    return class < WEFT__SMALL_CLASSES ? (unsigned)class : WEFT__SMALL_CLASSES;
}

/* Where there is none at hand, and too many (base/small.c). */
void *weft__small_get_slow(struct weft__small *small, unsigned class, size_t bytes);
void weft__small_put_slow(struct weft__small *small, unsigned class, void *block);
/* Gives everything in the depot back to the allocator. */
void weft__small_depot_flush(void);
/* Has it more than it keeps for good? Gives up to `most` batches of that back; how many it were. */
bool weft__small_depot_has_spare(void);
unsigned weft__small_depot_trim(unsigned most);

/* With whatever was there before. `small` NULL: no worker's thread. NULL: no memory. */
static inline void *weft__small_get(struct weft__small *small, unsigned class, size_t bytes)
{
    if (small && class < WEFT__SMALL_CLASSES && small->free[class]) {
        struct weft__link *block = small->free[class];
        small->free[class] = block->next;
        __builtin_prefetch(block->next, 1); /* for the next, who would wait for its line */
        small->count[class]--;
        return block;
    }
    return weft__small_get_slow(small, class, bytes);
}

static inline void weft__small_put(struct weft__small *small, unsigned class, void *block)
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

static inline void weft__small_flush(struct weft__small *small)
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
