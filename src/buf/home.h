/* A home: the pool of small blocks of one worker.
 *
 * Its free lists are the owner's alone. Another thread that frees a block of this home hands it over by the
 * returns (buf/returns.h); the owner takes those in when a list is empty, at its ticks and before it sleeps. What is on
 * its way back is bounded as what is kept is: beyond that the freeing thread gives the block to the system.
 *
 * Homes are never unmapped. A worker that ends closes its home: what is kept goes to the system, and blocks that
 * are still in use go there when they are freed. The next worker that begins opens a closed home again, and
 * then those come to it. So a block may point to its home for ever, without counting.
 */
#ifndef WEFT_BUF_HOME_H
#define WEFT_BUF_HOME_H

#include <stdalign.h>
#include <stdbool.h>

#include "base/atomic.h"
#include "buf/block.h"
#include "buf/returns.h"

/* Of one class: written by the owner alone, read by anybody. */
struct weft__home_counts {
    _Atomic(uint64_t) hits, misses, put, taken_in, kept;
};

struct weft__home {
    /* owner only */
    weft_buf *free[WEFT__BLOCK_SMALL];
    size_t kept_bytes;
    uint32_t trims; /* how many calls for a trim it has followed */

    /* written by the owner, read by any thread */
    alignas(WEFT__CACHE_LINE) struct weft__home_counts counts[WEFT__BLOCK_SMALL];

    /* any thread */
    alignas(WEFT__CACHE_LINE) struct weft__returns returns;
    _Atomic(uint64_t) foreign[WEFT__BLOCK_SMALL]; /* freed by others */
    _Atomic(uint64_t) strays[WEFT__BLOCK_SMALL];  /* ... and not handed over */

    /* under the lock of the homes */
    bool used;
    struct weft__home *next; /* immutable: all that were ever made */
};

/* The calling worker's home; NULL: a plain thread. Given by the layer that knows of workers. */
struct weft__home *weft__home_self(void);
/* The calling fiber, for messages; 0: none. Likewise. */
uint64_t weft__home_fiber(void);

/* 0 or -ENOMEM. */
int weft__home_open(struct weft__home **out);
/* By whoever owned it, or has seen its end. NULL is nothing. */
void weft__home_close(struct weft__home *home);
/* The first half of it: no return gets in any more, and all that is here goes to the system. */
void weft__home_shut(struct weft__home *home);

/* Owner only. NULL: no memory. */
weft_buf *weft__home_take(struct weft__home *home, unsigned class);
void weft__home_give_local(struct weft__home *home, weft_buf *block);
/* Any other thread. */
void weft__home_give_remote(struct weft__home *home, weft_buf *block);

/* Owner only: takes in what came back, and follows a call for a trim. */
void weft__home_tick(struct weft__home *home);
/* Owner only, when it is out of work: gives up to `most` blocks that exceed the limits to the system. True: there
 * are more. */
bool weft__home_settle(struct weft__home *home, unsigned most);
/* Owner only: everything it keeps. Returns the bytes. */
size_t weft__home_trim(struct weft__home *home);
/* From now on every home is to be trimmed by its owner. */
void weft__home_call_trim(void);

/* Any thread: what the class has seen in all homes, added to *out. */
void weft__home_add_stats(unsigned class, struct weft_buf_class_stats *out);

/* Limits, of homes and depot. */
#define WEFT__LIMIT_WORKER_CLASS ((size_t)256 << 10)
#define WEFT__LIMIT_WORKER ((size_t)1 << 20)
#define WEFT__LIMIT_SHARED_CLASS ((size_t)16 << 20)
#define WEFT__LIMIT_SHARED ((size_t)64 << 20)

struct weft__limits {
    _Atomic(size_t) worker_class, worker, shared_class, shared;
};
extern struct weft__limits weft__buf_limits;

static inline size_t weft__limit(const _Atomic(size_t) *limit)
{
    return atomic_load_explicit(limit, memory_order_relaxed);
}

#endif
