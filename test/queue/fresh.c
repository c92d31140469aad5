/* The fresh queue used by one thread: both ends, growth, indices that wrap, no memory. test/model
 * and test/stress cover the races. */
/* labels: valgrind */
#include "queue/fresh.h"

#include <errno.h>

#include "base/alloc.h"
#include "queue/item.h"
#include "queue/start_index.h"

/* On the heap: a checker's own stacks do not keep the alignment of a cache line. */
static struct weft__fresh *make(uint64_t slots, uint64_t first)
{
    struct weft__fresh *fresh = weft__alloc(sizeof *fresh);
    CHECK(fresh != NULL);
    CHECK_EQ(weft__fresh_init(fresh, slots, first), 0);
    CHECK_EQ(weft__fresh_length(fresh), 0);
    return fresh;
}

static void drop(struct weft__fresh *fresh)
{
    weft__fresh_deinit(fresh);
    weft__free(fresh);
}

static uint64_t slots_of(struct weft__fresh *fresh)
{
    return atomic_load(&fresh->buffer)->mask + 1;
}

static void push_range(struct weft__fresh *fresh, struct item *items, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++) {
        CHECK_EQ(weft__fresh_push_local(fresh, item_make(&items[i], i)), 0);
    }
}

static uint64_t newest(struct weft__fresh *fresh)
{
    struct weft__link *link = weft__fresh_take_newest_local(fresh);
    CHECK(link != NULL);
    return item_take(link);
}

static uint64_t oldest(struct weft__fresh *fresh)
{
    bool lost = true;
    struct weft__link *link = weft__fresh_take_oldest(fresh, &lost);
    CHECK(link != NULL);
    CHECK(!lost);
    return item_take(link);
}

static void expect_empty(struct weft__fresh *fresh)
{
    bool lost = true;
    CHECK(weft__fresh_take_newest_local(fresh) == NULL);
    CHECK(weft__fresh_take_oldest(fresh, &lost) == NULL);
    CHECK(!lost);
    CHECK_EQ(weft__fresh_length(fresh), 0);
}

TEST(pop_from_empty_fresh_queue_returns_nothing_at_any_index)
{
    for (size_t f = 0; f < FIRSTS; f++) {
        struct weft__fresh *fresh = make(2, firsts[f]);
        expect_empty(fresh);
        expect_empty(fresh); /* a check changes nothing */
        drop(fresh);
    }
}

TEST(owner_takes_newest_and_thieves_take_oldest)
{
    struct item items[4];
    for (size_t f = 0; f < FIRSTS; f++) {
        struct weft__fresh *fresh = make(4, firsts[f]);
        memset(items, 0, sizeof items);
        push_range(fresh, items, 0, 4);
        CHECK_EQ(weft__fresh_length(fresh), 4);
        CHECK_EQ(newest(fresh), 3);
        CHECK_EQ(oldest(fresh), 0);
        CHECK_EQ(newest(fresh), 2);
        CHECK_EQ(oldest(fresh), 1);
        expect_empty(fresh);
        items_check(items, 4);
        drop(fresh);
    }
}

TEST(single_item_can_be_taken_from_either_end)
{
    struct item items[16];
    for (size_t f = 0; f < FIRSTS; f++) {
        struct weft__fresh *fresh = make(2, firsts[f]);
        memset(items, 0, sizeof items);
        for (uint64_t i = 0; i < 16; i++) {
            push_range(fresh, items, i, i + 1);
            CHECK_EQ(i % 3 ? newest(fresh) : oldest(fresh), i);
            expect_empty(fresh);
        }
        CHECK_EQ(slots_of(fresh), 2); /* freed slots are reused */
        drop(fresh);
    }
}

/* At each size the content lies differently across the end of the buffer. */
TEST(fresh_queue_growth_keeps_order_at_both_ends)
{
    struct item items[64];
    for (size_t f = 0; f < FIRSTS; f++) {
        for (uint64_t slots = 2; slots <= 4; slots *= 2) {
            struct weft__fresh *fresh = make(slots, firsts[f]);
            memset(items, 0, sizeof items);
            push_range(fresh, items, 0, 64);
            CHECK_EQ(slots_of(fresh), 64);
            CHECK_EQ(weft__fresh_length(fresh), 64);
            for (uint64_t i = 0; i < 32; i++) {
                CHECK_EQ(oldest(fresh), i);
                CHECK_EQ(newest(fresh), 63 - i);
            }
            expect_empty(fresh);
            items_check(items, 64);
            drop(fresh);
        }
    }
}

/* The owner's cached top is stale after thieves took items: push reloads it before it grows. */
TEST(slots_freed_by_thieves_are_reused_before_growth)
{
    struct item items[64] = {0};
    struct weft__fresh *fresh = make(4, UINT64_MAX - 2);
    push_range(fresh, items, 0, 4);
    for (uint64_t i = 4; i < 64; i++) {
        CHECK_EQ(oldest(fresh), i - 4);
        push_range(fresh, items, i, i + 1);
    }
    CHECK_EQ(slots_of(fresh), 4);
    for (uint64_t i = 60; i < 64; i++) {
        CHECK_EQ(oldest(fresh), i);
    }
    items_check(items, 64);
    drop(fresh);
}

TEST(full_fresh_queue_without_memory_rejects_and_keeps_items)
{
    struct item items[4] = {0};
    static struct weft__fresh none;
    weft__alloc_fail_after(1, true);
    CHECK_EQ(weft__fresh_init(&none, 2, 0), -ENOMEM);
    weft__alloc_fail_after(0, false);
    struct weft__fresh *fresh = make(2, UINT64_MAX);
    push_range(fresh, items, 0, 2);
    weft__alloc_fail_after(1, true);
    CHECK_EQ(weft__fresh_push_local(fresh, item_make(&items[2], 2)), -ENOMEM);
    CHECK_EQ(weft__fresh_length(fresh), 2);
    weft__alloc_fail_after(0, false);
    push_range(fresh, items, 2, 3);
    for (uint64_t i = 0; i < 3; i++) {
        CHECK_EQ(oldest(fresh), i);
    }
    expect_empty(fresh);
    drop(fresh);
}

/* Compared with a plain array that does the same. */
TEST(fresh_queue_random_operations_match_plain_array)
{
    enum { N = 4000 };
    struct item *items = items_create(N);
    uint64_t held[N], low = 0, high = 0, next = 0;
    uint64_t x = check_seed() | 1;
    struct weft__fresh *fresh = make(2, UINT64_MAX - N / 4);
    while (next < N || low < high) {
        x = x * 6364136223846793005u + 1442695040888963407u;
        unsigned dice = (unsigned)(x >> 60);
        if (dice < 8 && next < N) {
            push_range(fresh, items, next, next + 1);
            held[high++] = next++;
        } else if (low == high) {
            expect_empty(fresh);
        } else if (dice % 2) {
            CHECK_EQ(newest(fresh), held[--high]);
        } else {
            CHECK_EQ(oldest(fresh), held[low++]);
        }
        CHECK_EQ(weft__fresh_length(fresh), high - low);
    }
    items_check(items, N);
    drop(fresh);
    free(items);
}
