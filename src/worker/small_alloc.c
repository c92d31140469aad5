#include "worker/small_alloc.h"

#include "base/atomic.h"
#include "lock/lock.h"

static struct {
    struct weft__lock lock;
    struct weft__link
        *batches[WEFT__SMALL_CLASSES][WEFT__SMALL_SHARED_MAX]; /* under the lock, as is the
                                                                         * count */
    uint32_t count[WEFT__SMALL_CLASSES];
    /* Batches beyond WEFT__SMALL_SHARED_KEPT, of all classes; written under the lock. */
    _Atomic(uint32_t) spare;
} shared;

static void count_spare_locked(unsigned class, int change)
{
    if (shared.count[class] >= WEFT__SMALL_SHARED_KEPT + (change > 0)) {
        atomic_fetch_add_explicit(&shared.spare, (uint32_t)change, memory_order_relaxed);
    }
}

/* A batch as a list; NULL: none. */
static struct weft__link *take_batch(unsigned class)
{
    struct weft__link *batch = NULL;
    if (weft__lock_try(&shared.lock)) {
        if (shared.count[class]) {
            batch = shared.batches[class][--shared.count[class]];
            count_spare_locked(class, -1);
        }
        weft__unlock(&shared.lock);
    }
    return batch;
}

static bool give_batch(unsigned class, struct weft__link *batch)
{
    bool given = false;
    if (weft__lock_try(&shared.lock)) {
        if (shared.count[class] < WEFT__SMALL_SHARED_MAX) {
            shared.batches[class][shared.count[class]++] = batch;
            count_spare_locked(class, 1);
            given = true;
        }
        weft__unlock(&shared.lock);
    }
    return given;
}

void *weft__small_get_slow(struct weft__small_cache *small, unsigned class, size_t bytes)
{
    if (class >= WEFT__SMALL_CLASSES) {
        return weft__alloc_packed(bytes);
    }
    struct weft__link *batch = small ? take_batch(class) : NULL;
    if (batch) {
        small->free[class] = batch->next;
        small->count[class] = WEFT__SMALL_BATCH - 1;
        return batch;
    }
    return weft__alloc_packed((size_t) class * WEFT__SMALL_STEP + WEFT__SMALL_MIN);
}

static void free_all(struct weft__link *blocks)
{
    while (blocks) {
        struct weft__link *next = blocks->next;
        weft__free(blocks);
        blocks = next;
    }
}

void weft__small_put_slow(struct weft__small_cache *small, unsigned class, void *block)
{
    if (!small || class >= WEFT__SMALL_CLASSES) {
        weft__free(block);
        return;
    }
    /* Removes the batch that was freed last; this block starts the next. */
    struct weft__link *batch = small->free[class], *last = small->bottom[class], *link = block;
    link->next = last->next;
    last->next = NULL;
    small->free[class] = small->bottom[class] = link;
    small->count[class] -= WEFT__SMALL_BATCH - 1;
    if (!give_batch(class, batch)) {
        free_all(batch);
    }
}

void weft__small_shared_flush(void)
{
    for (unsigned class = 0; class < WEFT__SMALL_CLASSES; class ++) {
        struct weft__link *batch;
        while ((batch = take_batch(class))) {
            free_all(batch);
        }
    }
}

/* From the fullest class, so that all classes are trimmed eventually. */
static struct weft__link *take_spare(void)
{
    unsigned fullest = 0;
    if (!weft__lock_try(&shared.lock)) {
        return NULL;
    }
    for (unsigned class = 1; class < WEFT__SMALL_CLASSES; class ++) {
        fullest = shared.count[class] > shared.count[fullest] ? class : fullest;
    }
    struct weft__link *batch = NULL;
    if (shared.count[fullest] > WEFT__SMALL_SHARED_KEPT) {
        batch = shared.batches[fullest][--shared.count[fullest]];
        count_spare_locked(fullest, -1);
    }
    weft__unlock(&shared.lock);
    return batch;
}

bool weft__small_shared_has_spare(void)
{
    return atomic_load_explicit(&shared.spare, memory_order_relaxed) > 0;
}

unsigned weft__small_shared_trim(unsigned most)
{
    unsigned given = 0;
    struct weft__link *batch;
    while (given < most && (batch = take_spare())) {
        free_all(batch);
        given++;
    }
    return given;
}
