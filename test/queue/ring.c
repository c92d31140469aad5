/* The ring used by one thread: order, bounds, how much a steal or a spill takes, indices that wrap.
 * test/model and test/stress cover the races. */
/* labels: valgrind */
#include "queue/ring.h"

#include "base/alloc.h"
#include "queue/item.h"
#include "queue/start_index.h"

/* On the heap: a checker's own stacks do not keep the alignment of a cache line. */
static struct weft__ring *make(uint64_t slots, uint64_t first)
{
    struct weft__ring *ring = weft__alloc(sizeof *ring);
    CHECK(ring != NULL);
    CHECK_EQ(weft__ring_init(ring, slots, first), 0);
    CHECK_EQ(weft__ring_length(ring), 0);
    return ring;
}

static void drop(struct weft__ring *ring)
{
    weft__ring_deinit(ring);
    weft__free(ring);
}

static bool push(struct weft__ring *ring, struct item *items, uint64_t number)
{
    return weft__ring_push_local(ring, item_make(&items[number], number), memory_order_release);
}

static void push_range(struct weft__ring *ring, struct item *items, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++) {
        CHECK(push(ring, items, i));
    }
}

static void expect_range(struct weft__ring *ring, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++) {
        struct weft__link *link = weft__ring_pop_local(ring);
        CHECK(link != NULL);
        CHECK_EQ(item_take(link), i);
    }
    CHECK(weft__ring_pop_local(ring) == NULL);
    CHECK_EQ(weft__ring_length(ring), 0);
}

TEST(pop_from_empty_ring_returns_nothing)
{
    struct weft__ring *ring = make(2, UINT64_MAX), *thief = make(2, 0);
    struct weft__chain chain;
    uint64_t taken = 7;
    weft__chain_init(&chain);
    CHECK(weft__ring_pop_local(ring) == NULL);
    CHECK(weft__ring_steal(ring, thief, &taken) == NULL);
    weft__ring_spill_local(ring, &chain);
    CHECK_EQ(chain.count, 0);
    CHECK_EQ(weft__ring_length(thief), 0);
    drop(ring);
    drop(thief);
}

TEST(ring_items_pop_in_order_from_any_start_index)
{
    struct item items[64];
    for (size_t f = 0; f < FIRSTS; f++) {
        for (uint64_t slots = 2; slots <= 16; slots *= 2) {
            struct weft__ring *ring = make(slots, firsts[f]);
            memset(items, 0, sizeof items);
            for (uint64_t next = 0; next + slots <= 64; next += slots) {
                push_range(ring, items, next, next + slots);
                CHECK_EQ(weft__ring_length(ring), slots);
                expect_range(ring, next, next + slots);
            }
            items_check(items, 64);
            drop(ring);
        }
    }
}

TEST(full_ring_rejects_push_and_keeps_items)
{
    struct item items[8];
    for (size_t f = 0; f < FIRSTS; f++) {
        for (uint64_t slots = 2; slots <= 4; slots *= 2) {
            struct weft__ring *ring = make(slots, firsts[f]);
            memset(items, 0, sizeof items);
            push_range(ring, items, 0, slots);
            CHECK(!push(ring, items, slots));
            CHECK(!push(ring, items, slots));
            CHECK_EQ(weft__ring_length(ring), slots);
            CHECK_EQ(item_take(weft__ring_pop_local(ring)), 0);
            CHECK(push(ring, items, slots)); /* one slot, one item */
            CHECK(!push(ring, items, slots + 1));
            expect_range(ring, 1, slots + 1);
            drop(ring);
        }
    }
}

/* A spill takes the older half: the newer items stay, in order, and there are free slots again. */
TEST(spill_takes_older_half_of_ring)
{
    struct item items[8];
    for (size_t f = 0; f < FIRSTS; f++) {
        for (uint64_t slots = 2; slots <= 8; slots *= 2) {
            struct weft__ring *ring = make(slots, firsts[f]);
            struct weft__chain chain;
            weft__chain_init(&chain);
            memset(items, 0, sizeof items);
            push_range(ring, items, 0, slots);
            weft__ring_spill_local(ring, &chain);
            CHECK_EQ(chain.count, slots / 2);
            CHECK_EQ(weft__ring_length(ring), slots - slots / 2);
            for (uint64_t i = 0; i < slots / 2; i++) {
                CHECK_EQ(item_take(weft__chain_pop(&chain)), i);
            }
            CHECK(weft__chain_pop(&chain) == NULL);
            expect_range(ring, slots / 2, slots);
            items_check(items, slots);
            drop(ring);
        }
    }
}

TEST(single_item_is_not_spilled)
{
    struct item items[1] = {0};
    struct weft__ring *ring = make(2, UINT64_MAX);
    struct weft__chain chain;
    weft__chain_init(&chain);
    push_range(ring, items, 0, 1);
    weft__ring_spill_local(ring, &chain);
    CHECK_EQ(chain.count, 0);
    expect_range(ring, 0, 1);
    drop(ring);
}

/* Half, rounded up: the oldest is returned to be run, the others are in the thief's ring. */
TEST(steal_takes_older_half_rounded_up)
{
    struct item items[8];
    for (size_t f = 0; f < FIRSTS; f++) {
        for (uint64_t n = 1; n <= 8; n++) {
            struct weft__ring *ring = make(8, firsts[f]);
            struct weft__ring *thief = make(8, firsts[(f + 3) % FIRSTS]);
            uint64_t taken = 0;
            memset(items, 0, sizeof items);
            push_range(ring, items, 0, n);
            CHECK_EQ(item_take(weft__ring_steal(ring, thief, &taken)), 0);
            CHECK_EQ(taken, n - n / 2);
            CHECK_EQ(weft__ring_length(thief), taken - 1);
            CHECK_EQ(weft__ring_length(ring), n / 2);
            expect_range(thief, 1, taken);
            expect_range(ring, taken, n);
            items_check(items, n);
            drop(ring);
            drop(thief);
        }
    }
}

TEST(steal_takes_no_more_than_fits)
{
    struct item items[32];
    for (size_t f = 0; f < FIRSTS; f++) {
        for (uint64_t held = 0; held <= 4; held++) {
            struct weft__ring *ring = make(16, firsts[f]);
            struct weft__ring *thief = make(4, firsts[(f + 5) % FIRSTS]);
            uint64_t taken = 0;
            memset(items, 0, sizeof items);
            push_range(ring, items, 0, 16);
            push_range(thief, items, 16, 16 + held);
            CHECK_EQ(item_take(weft__ring_steal(ring, thief, &taken)), 0);
            CHECK_EQ(taken, 4 - held + 1); /* one is run, the others fill the thief's ring */
            CHECK_EQ(weft__ring_length(thief), 4);
            for (uint64_t i = 0; i < held; i++) {
                CHECK_EQ(item_take(weft__ring_pop_local(thief)), 16 + i);
            }
            expect_range(thief, 1, taken);
            expect_range(ring, taken, 16);
            drop(ring);
            drop(thief);
        }
    }
}

/* The scheduler's overflow path in miniature: push, and spill when full, for many laps. */
TEST(push_with_spill_loses_nothing_across_wrap)
{
    enum { N = 1000 };
    struct item *items = items_create(N);
    for (uint64_t slots = 2; slots <= 4; slots *= 2) {
        struct weft__ring *ring = make(slots, UINT64_MAX - N / 2);
        struct weft__chain spilled;
        weft__chain_init(&spilled);
        memset(items, 0, N * sizeof *items);
        for (uint64_t i = 0; i < N; i++) {
            while (!push(ring, items, i)) {
                weft__ring_spill_local(ring, &spilled);
            }
            if (i % 7 == 0) {
                item_take(weft__ring_pop_local(ring));
            }
        }
        struct weft__link *link;
        while ((link = weft__ring_pop_local(ring)) || (link = weft__chain_pop(&spilled))) {
            item_take(link);
        }
        items_check(items, N);
        drop(ring);
    }
    free(items);
}
