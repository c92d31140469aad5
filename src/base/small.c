#include "base/small.h"

#include "base/lock.h"

static struct {
    struct weft__lock lock;
    struct weft__link *batches[WEFT__SMALL_CLASSES][WEFT__SMALL_DEPOT]; /* under it, as the count */
    uint32_t count[WEFT__SMALL_CLASSES];
} depot;

/* A batch of them, as a list; NULL: none. */
static struct weft__link *take_batch(unsigned class)
{
    struct weft__link *batch = NULL;
    if (weft__lock_try(&depot.lock)) {
        if (depot.count[class]) {
            batch = depot.batches[class][--depot.count[class]];
        }
        weft__unlock(&depot.lock);
    }
    return batch;
}

static bool give_batch(unsigned class, struct weft__link *batch)
{
    bool given = false;
    if (weft__lock_try(&depot.lock)) {
        if (depot.count[class] < WEFT__SMALL_DEPOT) {
            depot.batches[class][depot.count[class]++] = batch;
            given = true;
        }
        weft__unlock(&depot.lock);
    }
    return given;
}

void *weft__small_get_slow(struct weft__small *small, unsigned class, size_t bytes)
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
    return weft__alloc_packed((size_t) class * WEFT__SMALL_STEP + WEFT__SMALL_LEAST);
}

static void free_all(struct weft__link *blocks)
{
    while (blocks) {
        struct weft__link *next = blocks->next;
        weft__free(blocks);
        blocks = next;
    }
}

void weft__small_put_slow(struct weft__small *small, unsigned class, void *block)
{
    if (!small || class >= WEFT__SMALL_CLASSES) {
        weft__free(block);
        return;
    }
    /* The batch that was given back last, this one with it. */
    struct weft__link *batch = block, *last = batch;
    batch->next = small->free[class];
    for (unsigned i = 1; i < WEFT__SMALL_BATCH; i++) {
        last = last->next;
    }
    small->free[class] = last->next;
    small->count[class] -= WEFT__SMALL_BATCH - 1;
    last->next = NULL;
    if (!give_batch(class, batch)) {
        free_all(batch);
    }
}

void weft__small_depot_flush(void)
{
    for (unsigned class = 0; class < WEFT__SMALL_CLASSES; class ++) {
        struct weft__link *batch;
        while ((batch = take_batch(class))) {
            free_all(batch);
        }
    }
}
