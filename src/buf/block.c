#include "buf/block.h"

#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "buf/shared_pool.h"
#include "buf/worker_cache.h"

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#include <sanitizer/asan_interface.h>
#endif
#endif
#ifndef ASAN_POISON_MEMORY_REGION
#define ASAN_POISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#define ASAN_UNPOISON_MEMORY_REGION(p, n) ((void)(p), (void)(n))
#endif

#define POISON 0xdb
#define POISON_MAX 4096u /* bytes per block, in debug builds */

#define TOTAL(class) (WEFT__BLOCK_HEAD + (64u << ((class) - 1)))

const uint32_t weft__class_totals[WEFT__BLOCK_CLASSES] = {
    WEFT__BLOCK_VIEW, WEFT__BLOCK_HEAD, TOTAL(2),  TOTAL(3),         TOTAL(4),
    TOTAL(5),         TOTAL(6),         TOTAL(7),  TOTAL(8),         TOTAL(9),
    TOTAL(10),        TOTAL(11),        TOTAL(12), TOTAL(13),        TOTAL(14),
    TOTAL(15),        TOTAL(16),        TOTAL(17), WEFT__BLOCK_HEAD,
};

unsigned weft__class_of(size_t bytes)
{
    if (bytes <= 128) {
        return WEFT__BLOCK_FIRST;
    }
    if (bytes > (size_t)4 << 20) {
        return WEFT__BLOCK_LARGER;
    }
    return (unsigned)(64 - __builtin_clzl((unsigned long)bytes - 1)) - 5;
}

/* --- system memory --------------------------------------------------------------- */

weft_buf *weft__block_make(unsigned class, size_t bytes, struct weft__buf_cache *cache)
{
    size_t total =
        class == WEFT__BLOCK_LARGER ? WEFT__BLOCK_HEAD + bytes : weft__class_total(class);
    weft_buf *block = weft__alloc_dirty(total);
    if (block) {
        block->weft_cache = cache;
        block->weft_class = class;
        block->weft_state = WEFT__BLOCK_LIVE;
        block->weft_freed_by = 0;
        block->weft_freed_at = NULL;
        if (class != WEFT__BLOCK_SLICE) {
            struct weft__store *store = weft__block_store(block);
            store->block = block;
            store->base = weft__block_bytes(block);
            store->bytes = class == WEFT__BLOCK_LARGER ? bytes : weft__class_bytes(class);
            store->release = NULL;
        }
    }
    return block;
}

static _Atomic(bool) freed_to_system;

bool weft__block_freed_to_system(void)
{
    return atomic_load_explicit(&freed_to_system, memory_order_relaxed);
}

void weft__block_freed_to_system_clear(void)
{
    atomic_store_explicit(&freed_to_system, false, memory_order_relaxed);
}

size_t weft__block_bytes_held(void)
{
    size_t bytes = 0, larger = 0;
    for (unsigned class = 0; class < WEFT__BLOCK_CLASSES; class ++) {
        struct weft_buf_class_stats stats = {0};
        weft__buf_shared_add_stats(class, &stats, &larger);
        if (class < WEFT__BLOCK_SMALL) {
            weft__buf_cache_add_stats(class, &stats);
        }
        bytes += (size_t)(stats.live + stats.kept) * weft__class_total(class);
    }
    return bytes + larger;
}

void weft__block_destroy(weft_buf *block)
{
    if (!weft__block_freed_to_system()) { /* avoid writing the cache line needlessly */
        atomic_store_explicit(&freed_to_system, true, memory_order_relaxed);
    }
    ASAN_UNPOISON_MEMORY_REGION(weft__block_bytes(block), weft__class_bytes(block->weft_class));
    weft__free(block);
}

/* --- free blocks ------------------------------------------------------------------------ */

static size_t poison_bytes(const weft_buf *block)
{
    size_t bytes = weft__class_bytes(block->weft_class);
    return bytes < POISON_MAX ? bytes : POISON_MAX;
}

void weft__block_poison(weft_buf *block)
{
    block->weft_state = WEFT__BLOCK_FREE;
    if (WEFT_DEBUG) {
        memset(weft__block_bytes(block), POISON, poison_bytes(block));
    }
    ASAN_POISON_MEMORY_REGION(weft__block_bytes(block), weft__class_bytes(block->weft_class));
}

void weft__block_unpoison(weft_buf *block)
{
    ASAN_UNPOISON_MEMORY_REGION(weft__block_bytes(block), weft__class_bytes(block->weft_class));
    if (WEFT_DEBUG) {
        const unsigned char *bytes = weft__block_bytes(block);
        for (size_t i = 0, n = poison_bytes(block); i < n; i++) {
            if (bytes[i] != POISON) {
                weft__block_panic(block, "was written to after it had been freed");
            }
        }
    }
    block->weft_state = WEFT__BLOCK_LIVE;
}

void weft__block_note_free(weft_buf *view, const void *at)
{
    view->weft_freed_by = weft__buf_fiber();
    view->weft_freed_at = at;
}

void weft__block_panic(const weft_buf *view, const char *what)
{
    size_t bytes = weft__class_bytes(view->weft_class);
    char class[32] = "header", by[48] = "";
    if (bytes) {
        snprintf(class, sizeof class, "%zu bytes", bytes);
    }
    if (view->weft_freed_by) {
        snprintf(by, sizeof by, " by fiber #%u.%u", (unsigned)(uint32_t)view->weft_freed_by,
                 (unsigned)(view->weft_freed_by >> 32));
    } else if (view->weft_freed_at) {
        snprintf(by, sizeof by, " by a plain thread");
    }
    if (view->weft_freed_at) {
        weft__panic(__FILE__, __LINE__, "a buffer (class: %s) %s; it was freed%s at %p", class,
                    what, by, view->weft_freed_at);
    }
    weft__panic(__FILE__, __LINE__, "a buffer (class: %s) %s", class, what);
}

/* --- allocate and free -------------------------------------------------------------------- */

weft_buf *weft__block_get(unsigned class, size_t bytes)
{
    struct weft__buf_cache *cache = class < WEFT__BLOCK_SMALL ? weft__buf_cache_self() : NULL;
    weft_buf *block =
        cache ? weft__buf_cache_get(cache, class) : weft__buf_shared_get(class, bytes);
    if (block && block->weft_state != WEFT__BLOCK_LIVE) { /* not a new block */
        weft__block_unpoison(block);
    }
    return block;
}

void weft__block_put(weft_buf *block)
{
    struct weft__buf_cache *cache = block->weft_cache;
    weft__block_poison(block);
    if (!cache) {
        weft__buf_shared_put(block);
    } else if (cache == weft__buf_cache_self()) {
        weft__buf_cache_put_local(cache, block);
    } else {
        weft__buf_cache_put_remote(cache, block);
    }
}
