/* Exactly once, nothing lost: one ring's owner pushes, pops and spills while thieves steal from it
 * and from each other; rings of 2 and 4 slots whose indices wrap early in the run. */
#include "queue/ring.h"

#include "queue/global.h"
#include "queue/item.h"
#include "stress/queue/concurrent_threads.h"
#include "stress/watchdog.h"

static struct {
    int threads;
    uint64_t total;
    struct item *items;
    struct weft__ring rings[CROWD_MOST]; /* of member i; member 0 creates the items */
    struct weft__global global;          /* spilled items, as in a pool */
    _Atomic(uint64_t) out;               /* items taken out */
} play;

static void took(struct weft__link *link)
{
    item_take(link);
    if (atomic_fetch_add_explicit(&play.out, 1, memory_order_relaxed) % 64 == 0) {
        watchdog_progress();
    }
}

static bool over(void)
{
    return atomic_load_explicit(&play.out, memory_order_relaxed) == play.total;
}

static void push(struct weft__ring *ring, struct weft__link *link)
{
    while (!weft__ring_push_local(ring, link, memory_order_release)) {
        struct weft__chain spill;
        weft__chain_init(&spill);
        weft__ring_spill_local(ring, &spill);
        weft__global_push_chain(&play.global, &spill);
    }
}

static void from_global(struct member *self)
{
    struct weft__link *batch[3];
    uint64_t n = weft__global_take(&play.global, 1 + member_dice(self, 3), batch);
    for (uint64_t i = 0; i < n; i++) {
        if (member_dice(self, 2)) {
            took(batch[i]);
        } else {
            push(&play.rings[self->index], batch[i]);
        }
    }
}

static bool steal(struct member *self)
{
    int victim = (int)member_dice(self, (uint32_t)play.threads);
    uint64_t taken = 0;
    if (victim == self->index) {
        return false;
    }
    struct weft__ring *mine = &play.rings[self->index];
    struct weft__link *link = weft__ring_steal(&play.rings[victim], mine, &taken);
    CHECK_EQ(link != NULL, taken > 0);
    if (link) {
        took(link);
    }
    return link != NULL;
}

static bool pop(struct weft__ring *ring)
{
    struct weft__link *link = weft__ring_pop_local(ring);
    if (link) {
        took(link);
    }
    return link != NULL;
}

static void owner(struct member *self)
{
    struct weft__ring *ring = &play.rings[0];
    for (uint64_t next = 0; next < play.total;) {
        uint32_t burst = 1 + member_dice(self, 6);
        for (uint32_t i = 0; i < burst && next < play.total; i++, next++) {
            push(ring, item_make(&play.items[next], next));
        }
        for (uint32_t i = member_dice(self, 4); i > 0; i--) {
            pop(ring);
        }
    }
}

static void run(struct member *self)
{
    struct weft__ring *ring = &play.rings[self->index];
    if (self->index == 0) {
        owner(self);
    }
    while (!over()) {
        bool did = steal(self);
        /* Sometimes stolen items stay for a while, to be stolen again. */
        if (member_dice(self, 3)) {
            while (pop(ring)) {
                did = true;
            }
        }
        if (member_dice(self, 4) == 0) {
            from_global(self);
        }
        if (!did) {
            member_pause(self);
        }
    }
}

static void play_round(int thieves, uint64_t slots, unsigned round)
{
    uint64_t first = UINT64_MAX - (check_seed() + round) % 64; /* wraps after a few laps */
    play.threads = thieves + 1;
    play.items = items_create(play.total);
    weft__global_init(&play.global);
    atomic_store(&play.out, 0);
    for (int i = 0; i < play.threads; i++) {
        CHECK_EQ(weft__ring_init(&play.rings[i], slots, first - (uint64_t)i), 0);
    }
    crowd_run(play.threads, round, run);
    items_check(play.items, play.total);
    CHECK_EQ(weft__global_length(&play.global), 0);
    for (int i = 0; i < play.threads; i++) {
        CHECK_EQ(weft__ring_length(&play.rings[i]), 0);
        weft__ring_deinit(&play.rings[i]);
    }
    free(play.items);
}

TEST(owner_and_thieves_take_every_ring_item_once)
{
    watchdog_start("ring");
    play.total = 5000;
    for (unsigned round = 0; round < (unsigned)check_scale(36); round++) {
        static const int thieves[] = {3, 1, 7, 15, 2, 5};
        play_round(thieves[round % 6], round / 6 % 2 ? 4 : 2, round);
    }
    watchdog_stop();
}
