/* Exactly once and in order: producers push single items and chains, takers take batches, some
 * members do both, like workers that spill. */
#include "queue/global.h"

#include "queue/item.h"
#include "stress/queue/concurrent_threads.h"
#include "stress/watchdog.h"

static struct {
    int threads;
    uint64_t each;
    struct item *items; /* member m creates each * m up to each * (m + 1) */
    struct weft__global global;
    _Atomic(uint64_t) out;
} play;

static bool over(void)
{
    return atomic_load_explicit(&play.out, memory_order_relaxed) ==
           play.each * (uint64_t)play.threads;
}

/* For each taker, items of one producer come out in the order in which they were pushed. */
static void take(struct member *self, int64_t *last)
{
    struct weft__link *batch[17];
    uint64_t n = weft__global_take(&play.global, member_dice(self, 17), batch);
    for (uint64_t i = 0; i < n; i++) {
        int64_t number = (int64_t)item_take(batch[i]), from = number / (int64_t)play.each;
        CHECK(number > last[from]);
        last[from] = number;
    }
    if (n) {
        atomic_fetch_add_explicit(&play.out, n, memory_order_relaxed);
        watchdog_progress();
    } else {
        member_pause(self);
    }
}

static void run(struct member *self)
{
    int64_t last[CROWD_MOST];
    uint64_t next = play.each * (uint64_t)self->index, end = next + play.each;
    memset(last, -1, sizeof last);
    while (next < end) {
        struct weft__chain chain;
        weft__chain_init(&chain);
        for (uint64_t n = member_dice(self, 5); n > 0 && next < end; n--, next++) {
            weft__chain_push(&chain, item_make(&play.items[next], next));
        }
        weft__global_push_chain(&play.global, &chain);
        if (next < end && member_dice(self, 2)) {
            weft__global_push(&play.global, item_make(&play.items[next], next));
            next++;
        }
        for (uint32_t n = member_dice(self, 2); n > 0; n--) {
            take(self, last);
        }
    }
    while (!over()) {
        take(self, last);
    }
}

TEST(every_global_queue_item_comes_out_once_in_order)
{
    static const int threads[] = {4, 2, 8, 16};
    watchdog_start("global");
    play.each = 1500;
    for (unsigned round = 0; round < (unsigned)check_scale(48); round++) {
        play.threads = threads[round % 4];
        play.items = items_create(play.each * (uint64_t)play.threads);
        weft__global_init(&play.global);
        atomic_store(&play.out, 0);
        crowd_run(play.threads, round, run);
        items_check(play.items, play.each * (uint64_t)play.threads);
        CHECK_EQ(weft__global_length(&play.global), 0);
        free(play.items);
    }
    watchdog_stop();
}
