#include "buf/depot.h"

#include <stdbool.h>

#include "base/lock.h"
#include "buf/home.h"

static struct {
    struct weft__lock lock;
    /* under the lock */
    weft_buf *free[WEFT__BLOCK_CLASSES];
    uint64_t kept[WEFT__BLOCK_CLASSES];
    size_t kept_bytes;
    uint64_t hits[WEFT__BLOCK_CLASSES], misses[WEFT__BLOCK_CLASSES], put[WEFT__BLOCK_CLASSES];
    size_t larger_bytes;
} depot;

static weft_buf *pop_locked(unsigned class)
{
    weft_buf *block = depot.free[class];
    if (block) {
        depot.free[class] = block->weft_next;
        depot.kept[class]--;
        depot.kept_bytes -= weft__class_total(class);
    }
    return block;
}

weft_buf *weft__depot_take(unsigned class, size_t bytes)
{
    weft__lock(&depot.lock);
    weft_buf *block = pop_locked(class);
    depot.hits[class] += block != NULL;
    weft__unlock(&depot.lock);
    if (block) {
        return block;
    }
    block = weft__block_make(class, bytes, NULL);
    if (block) {
        weft__lock(&depot.lock);
        depot.misses[class]++;
        depot.larger_bytes += class == WEFT__BLOCK_LARGER ? bytes : 0;
        weft__unlock(&depot.lock);
    }
    return block;
}

static bool has_room_locked(unsigned class)
{
    size_t total = weft__class_total(class);
    return class != WEFT__BLOCK_LARGER &&
           (depot.kept[class] + 1) * total <= weft__limit(&weft__buf_limits.shared_class) &&
           depot.kept_bytes + total <= weft__limit(&weft__buf_limits.shared);
}

void weft__depot_give(weft_buf *block)
{
    unsigned class = block->weft_class;
    weft__lock(&depot.lock);
    depot.put[class]++;
    bool keep = has_room_locked(class);
    if (keep) {
        block->weft_next = depot.free[class];
        depot.free[class] = block;
        depot.kept[class]++;
        depot.kept_bytes += weft__class_total(class);
    } else if (class == WEFT__BLOCK_LARGER) {
        depot.larger_bytes -= weft__block_store(block)->bytes;
    }
    weft__unlock(&depot.lock);
    if (!keep) {
        weft__block_destroy(block);
    }
}

size_t weft__depot_trim(void)
{
    size_t bytes = 0;
    for (unsigned class = 0; class < WEFT__BLOCK_CLASSES; class ++) {
        weft__lock(&depot.lock);
        weft_buf *block = depot.free[class];
        size_t of_class = depot.kept[class] * weft__class_total(class);
        depot.free[class] = NULL;
        depot.kept[class] = 0;
        depot.kept_bytes -= of_class;
        weft__unlock(&depot.lock);
        bytes += of_class;
        while (block) {
            weft_buf *next = block->weft_next;
            weft__block_destroy(block);
            block = next;
        }
    }
    return bytes;
}

void weft__depot_add_stats(unsigned class, struct weft_buf_class_stats *out, size_t *larger)
{
    weft__lock(&depot.lock);
    out->hits += depot.hits[class];
    out->misses += depot.misses[class];
    out->live += depot.hits[class] + depot.misses[class] - depot.put[class];
    out->kept += depot.kept[class];
    *larger = depot.larger_bytes;
    weft__unlock(&depot.lock);
}

void weft__depot_fork_prepare(void)
{
    weft__lock(&depot.lock);
}

void weft__depot_fork_done(void)
{
    weft__unlock(&depot.lock);
}
