/* The inbox used by one thread: order, and which push has to wake the consumer. */
/* labels: valgrind */
#include "queue/inbox.h"

#include "queue/item.h"

/* Takes all items, which are numbered from `from` on; returns how many. */
static uint64_t drain(struct weft__inbox *inbox, uint64_t from)
{
    uint64_t n = 0;
    struct weft__link *link = weft__inbox_drain_local(inbox);
    while (link) {
        struct weft__link *next = link->next;
        CHECK_EQ(item_take(link), from + n);
        n++;
        link = next;
    }
    CHECK(weft__inbox_is_empty(inbox));
    return n;
}

TEST(drain_of_empty_inbox_returns_nothing)
{
    struct weft__inbox inbox;
    weft__inbox_init(&inbox);
    CHECK(weft__inbox_is_empty(&inbox));
    CHECK_EQ(drain(&inbox, 0), 0);
}

TEST(inbox_drain_takes_all_oldest_first)
{
    struct item items[100] = {0};
    struct weft__inbox inbox;
    weft__inbox_init(&inbox);
    uint64_t next = 0;
    for (uint64_t n = 1; next + n <= 100; n++) {
        uint64_t from = next;
        while (next < from + n) {
            weft__inbox_push_remote(&inbox, item_make(&items[next], next));
            next++;
            CHECK(!weft__inbox_is_empty(&inbox));
        }
        CHECK_EQ(drain(&inbox, from), n);
    }
    items_check(items, next);
}

TEST(only_first_push_after_drain_wakes)
{
    struct item items[9] = {0};
    struct weft__inbox inbox;
    weft__inbox_init(&inbox);
    for (uint64_t i = 0; i < 9; i++) {
        CHECK_EQ(weft__inbox_push_remote(&inbox, item_make(&items[i], i)), i % 3 == 0);
        if (i % 3 == 2) {
            CHECK_EQ(drain(&inbox, i - 2), 3);
        }
    }
}
