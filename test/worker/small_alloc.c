/* Small blocks: free lists, and the shared pool behind them. */
#include "worker/small_alloc.h"

#include <string.h>

#include "base/rand.h"
#include "check.h"

enum {
    BYTES = 56,
    BLOCKS = (int)(WEFT__SMALL_KEPT + (WEFT__SMALL_SHARED_KEPT + 20) * WEFT__SMALL_BATCH)
};

static struct weft__small_cache small, other;
static void *blocks[BLOCKS];

static void take_all(struct weft__small_cache *from)
{
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = weft__small_get(from, weft__small_class(BYTES), BYTES);
        CHECK(blocks[i] != NULL);
    }
}

static void give_all(struct weft__small_cache *to)
{
    for (int i = 0; i < BLOCKS; i++) {
        weft__small_put(to, weft__small_class(BYTES), blocks[i]);
    }
}

static void leave_nothing(void)
{
    weft__small_flush(&small);
    weft__small_flush(&other);
    weft__small_shared_flush();
    CHECK(!weft__small_shared_has_spare());
}

TEST(freed_small_block_is_reused)
{
    take_all(&small);
    give_all(&small);
    weft__alloc_fail_after(1, true); /* the allocator provides nothing more */
    take_all(&small);
    weft__alloc_fail_after(0, false);
    give_all(&small);
    leave_nothing();
}

TEST(block_freed_by_one_list_is_reused_by_other_via_shared_pool)
{
    enum { SOME = (int)(WEFT__SMALL_SHARED_KEPT * WEFT__SMALL_BATCH) };
    take_all(&small);
    give_all(&small);
    weft__alloc_fail_after(1, true);
    for (int i = 0; i < SOME; i++) {
        blocks[i] = weft__small_get(&other, weft__small_class(BYTES), BYTES);
        CHECK(blocks[i] != NULL);
    }
    weft__alloc_fail_after(0, false);
    for (int i = 0; i < SOME; i++) {
        weft__small_put(&other, weft__small_class(BYTES), blocks[i]);
    }
    leave_nothing();
}

TEST(shared_pool_keeps_few_blocks_after_trim)
{
    take_all(&small);
    give_all(&small);
    CHECK(weft__small_shared_has_spare());
    CHECK_EQ(weft__small_shared_trim(3), 3);
    CHECK(weft__small_shared_has_spare());
    unsigned given = weft__small_shared_trim(UINT32_MAX);
    CHECK(given >= 16 && given <= 20);
    CHECK(!weft__small_shared_has_spare());
    CHECK_EQ(weft__small_shared_trim(UINT32_MAX), 0);
    leave_nothing();
}

/* Allocated and freed in any order, each block has one owner at a time, and batches stay
 * complete. */
TEST(small_block_batches_stay_whole_under_random_use)
{
    static bool out[BLOCKS];
    struct weft__rand rng;
    int taken = BLOCKS;
    weft__rand_seed(&rng, check_seed());
    take_all(&small);
    memset(out, true, sizeof out);
    for (int step = 0; step < 20; step++) {
        int first = (int)(weft__rand_next(&rng) % BLOCKS),
            n = (int)(weft__rand_next(&rng) % BLOCKS);
        for (int i = 0; i < n; i++) {
            int at = (first + i) % BLOCKS;
            if (out[at]) {
                weft__small_put(&small, weft__small_class(BYTES), blocks[at]);
            } else {
                blocks[at] = weft__small_get(&small, weft__small_class(BYTES), BYTES);
                CHECK(blocks[at] != NULL);
                memset(blocks[at], at, BYTES);
            }
            out[at] = !out[at];
            taken += out[at] ? 1 : -1;
        }
    }
    CHECK(taken >= 0 && taken <= BLOCKS);
    for (int i = 0; i < BLOCKS; i++) {
        if (out[i]) {
            weft__small_put(&small, weft__small_class(BYTES), blocks[i]);
        }
    }
    leave_nothing();
}
