/* Exactly once, nothing lost: the owner pushes and takes at the bottom of a fresh queue, thieves
 * take at the top, while the buffer grows from 2 slots and the indices wrap. */
#include "queue/fresh.h"

#include "queue/item.h"
#include "stress/queue/concurrent_threads.h"
#include "stress/watchdog.h"

static struct {
    uint64_t total;
    struct item *items;
    struct weft__fresh fresh;
    uint64_t deep; /* how many items the owner lets accumulate */
    _Atomic(uint64_t) out;
} play;

static uint64_t took(struct weft__link *link)
{
    uint64_t number = item_take(link);
    if (atomic_fetch_add_explicit(&play.out, 1, memory_order_relaxed) % 64 == 0) {
        watchdog_progress();
    }
    return number;
}

static bool over(void)
{
    return atomic_load_explicit(&play.out, memory_order_relaxed) == play.total;
}

/* Takes the oldest item. The owner pushes ever higher numbers, so each taker sees rising
 * numbers. */
static bool oldest(int64_t *last)
{
    bool lost;
    struct weft__link *link = weft__fresh_take_oldest(&play.fresh, &lost);
    CHECK(!(link && lost));
    if (link) {
        int64_t number = (int64_t)took(link);
        CHECK(number > *last);
        *last = number;
    }
    return link != NULL || lost;
}

static void newest(void)
{
    struct weft__link *link = weft__fresh_take_newest_local(&play.fresh);
    if (link) {
        took(link);
    }
}

static void owner(struct member *self)
{
    int64_t last = -1;
    for (uint64_t next = 0; next < play.total || !over();) {
        uint64_t burst = member_dice(self, (uint32_t)play.deep);
        for (uint64_t i = 0; i < burst && next < play.total; i++, next++) {
            struct weft__link *link = item_make(&play.items[next], next);
            CHECK_EQ(weft__fresh_push_local(&play.fresh, link), 0);
        }
        /* Often down to the very last item, where the owner competes with the thieves. */
        uint64_t takes = member_dice(self, (uint32_t)play.deep * 2);
        for (uint64_t i = 0; i < takes; i++) {
            if (member_dice(self, 8)) {
                newest();
            } else {
                oldest(&last);
            }
        }
    }
}

static void run(struct member *self)
{
    int64_t last = -1;
    if (self->index == 0) {
        owner(self);
        return;
    }
    while (!over()) {
        if (!oldest(&last)) {
            member_pause(self);
        }
    }
}

static void play_round(int thieves, uint64_t slots, uint64_t deep, unsigned round)
{
    uint64_t first = UINT64_MAX - (check_seed() + round) % 64;
    play.items = items_create(play.total);
    play.deep = deep;
    atomic_store(&play.out, 0);
    CHECK_EQ(weft__fresh_init(&play.fresh, slots, first), 0);
    crowd_run(thieves + 1, round, run);
    items_check(play.items, play.total);
    CHECK_EQ(weft__fresh_length(&play.fresh), 0);
    weft__fresh_deinit(&play.fresh);
    free(play.items);
}

TEST(owner_and_thieves_take_every_fresh_item_once)
{
    static const int thieves[] = {3, 1, 7, 15, 2, 5};
    watchdog_start("fresh");
    play.total = 3000;
    for (unsigned round = 0; round < (unsigned)check_scale(30); round++) {
        play_round(thieves[round % 6], round % 2 ? 4 : 2, round % 3 ? 3 : 40, round);
    }
    watchdog_stop();
}

/* Many new queues: each grows several times while thieves read from the buffers it replaces. */
TEST(growth_under_theft_loses_nothing)
{
    watchdog_start("fresh, growing");
    play.total = 300;
    for (unsigned round = 0; round < (unsigned)check_scale(200); round++) {
        play_round(3, 2, 200, round);
    }
    watchdog_stop();
}
