/* A block: the unit that the buffer pools hold. It begins with a view, because the first view of a
 * storage lives in the block itself.
 *
 *   slice header   | view |                          class 0: a further view of a storage in
 *                                                    another block
 *   wrap header    | view | store |                  class 1: the bytes belong to the caller
 *   storage        | view | store | bytes ... |      class 2 .. 17: 128 bytes .. 4 MiB; 18: larger,
 *                                                    never kept
 *
 * View and store are one cache line each. The first view may be freed long before the storage: it
 * is GONE then, and the block is freed with the last reference. This header allocates and frees
 * blocks for all pools: a block belongs to a worker cache (buf/worker_cache.h), or to the shared
 * pool (buf/shared_pool.h) if it has none.
 *
 * The state is read only by the owner of the block, or by code that wrongly believes to be the
 * owner. In debug builds the bytes of a free block are poisoned, and checked when the block is
 * allocated again; ASan is informed too.
 */
#ifndef WEFT_BUF_BLOCK_H
#define WEFT_BUF_BLOCK_H

#include <stdalign.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weft/buf.h>

#include "base/assert.h"
#include "base/atomic.h"

enum {
    WEFT__BLOCK_SLICE = 0,
    WEFT__BLOCK_WRAP = 1,
    WEFT__BLOCK_FIRST = 2,  /* 128 bytes */
    WEFT__BLOCK_SMALL = 10, /* classes below this have worker caches: headers, and up to 16 KiB */
    WEFT__BLOCK_LARGER = 18,
    WEFT__BLOCK_CLASSES = 19,
};

enum {
    WEFT__BLOCK_LIVE = 0x4c697665,
    WEFT__BLOCK_GONE = 0x476f6e65, /* the view was freed, the storage has other views */
    WEFT__BLOCK_FREE = 0x46726565, /* in a pool, or in transit to one */
};

struct weft__store {
    _Atomic(uint32_t) refs;
    unsigned char *base;
    size_t bytes;
    void (*release)(const void *memory, size_t len, void *arg); /* for wrapped memory */
    void *arg;
    weft_buf *block;
};

#define WEFT__BLOCK_VIEW 64u
#define WEFT__BLOCK_HEAD 128u
_Static_assert(sizeof(weft_buf) <= WEFT__BLOCK_VIEW, "a cache line");
_Static_assert(sizeof(struct weft__store) <= WEFT__BLOCK_HEAD - WEFT__BLOCK_VIEW, "a cache line");

static inline struct weft__store *weft__block_store(weft_buf *block)
{
    return (struct weft__store *)(void *)((char *)block + WEFT__BLOCK_VIEW);
}

/* The `arg` of the weft_buf_wrap that made these bytes; NULL if they were not wrapped with this
 * release function. */
static inline void *weft__buf_wrap_arg(const weft_buf *buf,
                                       void (*release)(const void *memory, size_t len, void *arg))
{
    return buf->weft_store->release == release ? buf->weft_store->arg : NULL;
}

static inline unsigned char *weft__block_bytes(weft_buf *block)
{
    return (unsigned char *)block + WEFT__BLOCK_HEAD;
}

/* The usable bytes of the class; 0 for headers and for the last class. */
static inline size_t weft__class_bytes(unsigned class)
{
    return class >= WEFT__BLOCK_FIRST && class < WEFT__BLOCK_LARGER ? (size_t)64 << (class - 1) : 0;
}

extern const uint32_t weft__class_totals[WEFT__BLOCK_CLASSES];

/* The size of one block of the class, except for the last class. */
static inline size_t weft__class_total(unsigned class)
{
    return weft__class_totals[class];
}

/* The smallest class with at least this many bytes. */
unsigned weft__class_of(size_t bytes);

/* Allocates a block of the class, LIVE; `bytes` is used for the last class only. NULL: no
 * memory. */
weft_buf *weft__block_get(unsigned class, size_t bytes);
/* Returns a block to the pool it came from. The caller has the last reference. */
void weft__block_put(weft_buf *block);

/* For the pools: allocate a new block from the system, and free it to the system. */
weft_buf *weft__block_make(unsigned class, size_t bytes, struct weft__buf_cache *cache);
void weft__block_destroy(weft_buf *block);
/* Whether a block was freed to the system since the last clear. */
bool weft__block_freed_to_system(void);
void weft__block_freed_to_system_clear(void);
/* Bytes of all blocks, in use and in the pools. */
size_t weft__block_bytes_held(void);
/* Called when a block enters a pool, and when it leaves it. */
void weft__block_poison(weft_buf *block);
void weft__block_unpoison(weft_buf *block);

/* Records that the view was freed here; for the message about a double free. */
void weft__block_note_free(weft_buf *view, const void *at);
/* Stops the program: the view is not LIVE. */
void weft__block_panic(const weft_buf *view, const char *what) __attribute__((cold, noreturn));

/* Using a freed view is a caller's bug; debug builds check in every call. */
static inline void weft__block_check(const weft_buf *view)
{
    if (WEFT_DEBUG && __builtin_expect(view->weft_state != WEFT__BLOCK_LIVE, 0)) {
        weft__block_panic(view, "was used after it had been freed");
    }
}

#endif
