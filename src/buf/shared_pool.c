#include "buf/shared_pool.h"

#include <stdbool.h>

#include "buf/worker_cache.h"
#include "lock/lock.h"

static struct {
    struct weft__lock lock;
    /* under the lock */
    weft_buf *free[WEFT__BLOCK_CLASSES];
    uint64_t kept[WEFT__BLOCK_CLASSES];
    size_t kept_bytes;
    uint64_t hits[WEFT__BLOCK_CLASSES], misses[WEFT__BLOCK_CLASSES], put[WEFT__BLOCK_CLASSES];
    size_t larger_bytes;
} shared;

static weft_buf *pop_locked(unsigned class)
{
    weft_buf *block = shared.free[class];
    if (block) {
        shared.free[class] = block->weft_next;
        shared.kept[class]--;
        shared.kept_bytes -= weft__class_total(class);
    }
    return block;
}

weft_buf *weft__buf_shared_get(unsigned class, size_t bytes)
{
    weft__lock(&shared.lock);
    weft_buf *block = pop_locked(class);
    shared.hits[class] += block != NULL;
    weft__unlock(&shared.lock);
    if (block) {
        return block;
    }
    block = weft__block_make(class, bytes, NULL);
    if (block) {
        weft__lock(&shared.lock);
        shared.misses[class]++;
        shared.larger_bytes += class == WEFT__BLOCK_LARGER ? bytes : 0;
        weft__unlock(&shared.lock);
    }
    return block;
}

static bool has_space_locked(unsigned class)
{
    size_t total = weft__class_total(class);
    return class != WEFT__BLOCK_LARGER &&
           (shared.kept[class] + 1) * total <= weft__limit(&weft__buf_limits.shared_class) &&
           shared.kept_bytes + total <= weft__limit(&weft__buf_limits.shared);
}

void weft__buf_shared_put(weft_buf *block)
{
    unsigned class = block->weft_class;
    weft__lock(&shared.lock);
    shared.put[class]++;
    bool keep = has_space_locked(class);
    if (keep) {
        block->weft_next = shared.free[class];
        shared.free[class] = block;
        shared.kept[class]++;
        shared.kept_bytes += weft__class_total(class);
    } else if (class == WEFT__BLOCK_LARGER) {
        shared.larger_bytes -= weft__block_store(block)->bytes;
    }
    weft__unlock(&shared.lock);
    if (!keep) {
        weft__block_destroy(block);
    }
}

size_t weft__buf_shared_trim(void)
{
    size_t bytes = 0;
    for (unsigned class = 0; class < WEFT__BLOCK_CLASSES; class ++) {
        weft__lock(&shared.lock);
        weft_buf *block = shared.free[class];
        size_t of_class = shared.kept[class] * weft__class_total(class);
        shared.free[class] = NULL;
        shared.kept[class] = 0;
        shared.kept_bytes -= of_class;
        weft__unlock(&shared.lock);
        bytes += of_class;
        while (block) {
            weft_buf *next = block->weft_next;
            weft__block_destroy(block);
            block = next;
        }
    }
    return bytes;
}

void weft__buf_shared_add_stats(unsigned class, struct weft_buf_class_stats *out, size_t *larger)
{
    weft__lock(&shared.lock);
    out->hits += shared.hits[class];
    out->misses += shared.misses[class];
    out->live += shared.hits[class] + shared.misses[class] - shared.put[class];
    out->kept += shared.kept[class];
    *larger = shared.larger_bytes;
    weft__unlock(&shared.lock);
}

void weft__buf_shared_fork_prepare(void)
{
    weft__lock(&shared.lock);
}

void weft__buf_shared_fork_done(void)
{
    weft__unlock(&shared.lock);
}
