/* Small blocks: lists of free ones, and the depot behind them. */
#include "base/small.h"

#include <string.h>

#include "base/rand.h"
#include "check.h"

enum { BYTES = 56, BLOCKS = (int)(WEFT__SMALL_KEPT + (WEFT__SMALL_REST + 20) * WEFT__SMALL_BATCH) };

static struct weft__small small, other;
static void *blocks[BLOCKS];

static void take_all(struct weft__small *from)
{
    for (int i = 0; i < BLOCKS; i++) {
        blocks[i] = weft__small_get(from, weft__small_class(BYTES), BYTES);
        CHECK(blocks[i] != NULL);
    }
}

static void give_all(struct weft__small *to)
{
    for (int i = 0; i < BLOCKS; i++) {
        weft__small_put(to, weft__small_class(BYTES), blocks[i]);
    }
}

static void leave_nothing(void)
{
    weft__small_flush(&small);
    weft__small_flush(&other);
    weft__small_depot_flush();
    CHECK(!weft__small_depot_has_spare());
}

TEST(what_is_given_back_is_taken_again)
{
    take_all(&small);
    give_all(&small);
    weft__alloc_fail_after(1, true); /* nothing more from the allocator */
    take_all(&small);
    weft__alloc_fail_after(0, false);
    give_all(&small);
    leave_nothing();
}

TEST(what_one_gives_back_another_takes_through_the_depot)
{
    enum { SOME = (int)(WEFT__SMALL_REST * WEFT__SMALL_BATCH) };
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

TEST(after_a_rest_the_depot_keeps_little)
{
    take_all(&small);
    give_all(&small);
    CHECK(weft__small_depot_has_spare());
    CHECK_EQ(weft__small_depot_trim(3), 3);
    CHECK(weft__small_depot_has_spare());
    unsigned given = weft__small_depot_trim(UINT32_MAX);
    CHECK(given >= 16 && given <= 20);
    CHECK(!weft__small_depot_has_spare());
    CHECK_EQ(weft__small_depot_trim(UINT32_MAX), 0);
    leave_nothing();
}

/* Given and taken in any order, each block has one owner at a time, and batches are whole. */
TEST(batches_are_whole_whatever_came_and_went)
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
