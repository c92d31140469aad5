/* The global queue used by one thread: order, batches, lengths. */
/* labels: valgrind */
#include "queue/global.h"

#include "base/alloc.h"
#include "queue/item.h"

static void push_range(struct weft__global *global, struct item *items, uint64_t from, uint64_t to)
{
    for (uint64_t i = from; i < to; i++) {
        weft__global_push(global, item_make(&items[i], i));
    }
}

/* Takes up to max items and checks that they are numbered from `from` on; returns how many. */
static uint64_t take(struct weft__global *global, uint64_t max, uint64_t from)
{
    struct weft__link *out[256] = {NULL};
    CHECK(max < sizeof out / sizeof *out);
    uint64_t n = weft__global_take(global, max, out);
    CHECK(n <= max);
    for (uint64_t i = 0; i < n; i++) {
        CHECK_EQ(item_take(out[i]), from + i);
    }
    CHECK(out[n] == NULL);
    return n;
}

TEST(pop_from_empty_global_queue_returns_nothing)
{
    struct weft__global global;
    weft__global_init(&global);
    CHECK_EQ(weft__global_length(&global), 0);
    CHECK_EQ(take(&global, 16, 0), 0);
}

TEST(global_batch_takes_oldest_items_up_to_size)
{
    struct item items[64];
    for (uint64_t held = 1; held <= 20; held++) {
        for (uint64_t max = 0; max <= held + 1; max++) {
            struct weft__global global;
            memset(items, 0, sizeof items);
            weft__global_init(&global);
            push_range(&global, items, 0, held);
            CHECK_EQ(weft__global_length(&global), held);
            uint64_t n = take(&global, max, 0);
            CHECK_EQ(n, max < held ? max : held);
            CHECK_EQ(weft__global_length(&global), held - n);
            push_range(&global, items, held, held + 2); /* the tail is correct */
            CHECK_EQ(take(&global, 255, n), held + 2 - n);
            CHECK_EQ(weft__global_length(&global), 0);
            items_check(items, held + 2);
        }
    }
}

TEST(chain_is_appended_whole_and_left_empty)
{
    struct item items[12] = {0};
    struct weft__global global;
    struct weft__chain chain;
    weft__global_init(&global);
    weft__chain_init(&chain);
    weft__global_push_chain(&global, &chain); /* empty: no change */
    CHECK_EQ(weft__global_length(&global), 0);
    for (uint64_t i = 0; i < 12; i += 4) {
        push_range(&global, items, i, i + 1);
        for (uint64_t k = i + 1; k < i + 4; k++) {
            weft__chain_push(&chain, item_make(&items[k], k));
        }
        weft__global_push_chain(&global, &chain);
        CHECK_EQ(chain.count, 0);
        CHECK(weft__chain_pop(&chain) == NULL);
        CHECK_EQ(weft__global_length(&global), i + 4);
    }
    CHECK_EQ(take(&global, 5, 0), 5);
    CHECK_EQ(take(&global, 7, 5), 7);
    items_check(items, 12);
}

/* Taking appends to the items the taker already holds. */
/* Pushes and takes alternately, across the end of the slots and their growth; the order is the same
 * throughout. */
static void push_and_take(struct weft__global *global, struct item *items, uint64_t count)
{
    uint64_t pushed = 0, taken = 0;
    for (uint64_t step = 1; taken < count; step++) {
        uint64_t more = pushed + step % 7 < count ? step % 7 : count - pushed;
        push_range(global, items, pushed, pushed + more);
        pushed += more;
        CHECK_EQ(weft__global_length(global), pushed - taken);
        taken += take(global, pushed == count ? 5 : step % 4, taken);
    }
    CHECK_EQ(weft__global_length(global), 0);
    items_check(items, count);
}

TEST(global_slots_keep_order_across_wrap_and_growth)
{
    enum { COUNT = 500 };
    static struct item items[COUNT];
    struct weft__global global;
    weft__global_init(&global);
    CHECK_EQ(weft__global_reserve(&global, 2), 0);
    push_and_take(&global, items, COUNT);
    CHECK(global.chain.head == NULL);
    weft__global_deinit(&global);
}

TEST(global_slots_that_cannot_grow_overflow_to_chain_in_order)
{
    enum { COUNT = 300 };
    static struct item items[COUNT];
    struct weft__global global;
    weft__global_init(&global);
    CHECK_EQ(weft__global_reserve(&global, 4), 0);
    weft__alloc_fail_after(1, true);
    push_range(&global, items, 0, 10);
    CHECK_EQ(global.chain.count, 6);
    CHECK_EQ(take(&global, 3, 0), 3);
    push_range(&global, items, 10, 12); /* there are free slots, but they are not the tail */
    CHECK_EQ(take(&global, 255, 3), 9);
    memset(items, 0, sizeof items);
    push_and_take(&global, items, COUNT);
    weft__alloc_fail_after(0, false);
    weft__global_deinit(&global);
}

TEST(chain_moves_into_slots_one_by_one)
{
    struct item items[9] = {0};
    struct weft__global global;
    struct weft__chain chain;
    weft__global_init(&global);
    CHECK_EQ(weft__global_reserve(&global, 2), 0);
    weft__chain_init(&chain);
    for (uint64_t i = 0; i < 9; i++) {
        weft__chain_push(&chain, item_make(&items[i], i));
    }
    weft__global_push_chain(&global, &chain);
    CHECK_EQ(chain.count, 0);
    CHECK_EQ(take(&global, 255, 0), 9);
    items_check(items, 9);
    weft__global_deinit(&global);
}
