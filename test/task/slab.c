/* Free control blocks move from the thread that ends fibers to the thread that spawns fibers. */
#include "task/slab.h"

#include "check.h"

enum { BATCHES = 3, BLOCKS = BATCHES * WEFT__SLAB_BATCH };

TEST(block_of_foreign_batch_names_block_taken_four_later)
{
    static struct weft__task *made[BLOCKS], *taken[WEFT__SLAB_BATCH], *hinted[WEFT__SLAB_BATCH];
    struct weft__slab_cache maker = {0}, ender = {0};
    for (unsigned i = 0; i < BLOCKS; i++) {
        made[i] = weft__slab_get(&maker);
        CHECK(made[i] != NULL);
    }
    for (unsigned i = 0; i < BLOCKS; i++) {
        weft__slab_put(&ender, made[i]); /* the third batch sends the first to the shared pool */
    }
    taken[0] = weft__slab_get(&maker);
    CHECK(taken[0] == made[WEFT__SLAB_BATCH - 1]);
    hinted[0] = taken[0]->ahead;
    for (unsigned i = 1; i < WEFT__SLAB_BATCH; i++) {
        taken[i] = weft__slab_get(&maker);
        hinted[i] = taken[i]->ahead;
    }
    for (unsigned i = 0; i + WEFT__SLAB_AHEAD < WEFT__SLAB_BATCH; i++) {
        CHECK(hinted[i] == taken[i + WEFT__SLAB_AHEAD]);
    }
    for (unsigned i = 0; i < WEFT__SLAB_BATCH; i++) {
        weft__slab_put(&maker, taken[i]);
    }
    weft__slab_cache_flush(&maker);
    weft__slab_cache_flush(&ender);
}
