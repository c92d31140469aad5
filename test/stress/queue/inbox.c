/* Exactly once, in order per producer, and no lost wake-up: many producers push and wake the
 * consumer only when push says so; the single consumer sleeps in a parker without a time limit
 * whenever it finds nothing. */
#include "queue/inbox.h"

#include "idle/parker.h"
#include "queue/item.h"
#include "stress/queue/concurrent_threads.h"
#include "stress/watchdog.h"

static struct {
    int producers;
    uint64_t each;
    struct item *items; /* producer p owns each * p up to each * (p + 1) */
    struct weft__inbox inbox;
    struct weft__parker parker;
    uint64_t sleeps;
} play;

static void consumer(void)
{
    uint64_t next[CROWD_MOST] = {0}, out = 0, total = play.each * (uint64_t)play.producers;
    while (out < total) {
        struct weft__link *link = weft__inbox_drain_local(&play.inbox);
        while (link) {
            struct weft__link *after = link->next;
            uint64_t number = item_take(link), from = number / play.each;
            CHECK_EQ(number % play.each, next[from]);
            next[from]++;
            out++;
            link = after;
            watchdog_progress();
        }
        if (out < total && weft__inbox_is_empty(&play.inbox)) {
            play.sleeps++;
            weft__parker_park(&play.parker, INT64_MAX);
        }
    }
}

static void producer(struct member *self, uint64_t first)
{
    for (uint64_t i = first; i < first + play.each; i++) {
        if (weft__inbox_push_remote(&play.inbox, item_make(&play.items[i], i))) {
            weft__parker_wake(&play.parker);
        }
        if (member_dice(self, 8) == 0) {
            sched_yield(); /* lets the consumer find nothing and fall asleep */
        }
    }
}

static void run(struct member *self)
{
    if (self->index == 0) {
        consumer();
    } else {
        producer(self, play.each * (uint64_t)(self->index - 1));
    }
}

TEST(every_inbox_item_arrives_once_in_order_without_lost_wake_up)
{
    static const int producers[] = {3, 1, 7, 15};
    watchdog_start("inbox");
    play.each = 1500;
    for (unsigned round = 0; round < (unsigned)check_scale(16); round++) {
        play.producers = producers[round % 4];
        play.items = items_create(play.each * (uint64_t)play.producers);
        weft__inbox_init(&play.inbox);
        weft__parker_init(&play.parker);
        crowd_run(play.producers + 1, round, run);
        items_check(play.items, play.each * (uint64_t)play.producers);
        CHECK(weft__inbox_is_empty(&play.inbox));
        free(play.items);
    }
    printf("consumer slept %" PRIu64 " times\n", play.sleeps);
    watchdog_stop();
}
