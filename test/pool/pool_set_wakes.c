/* With more isolated pools than CPUs, a stream of submits must not pay for one wake-up each. */
/* not under: qemu */
#include <stdatomic.h>

#include <weft/weft.h>

#include "base/cpu.h"
#include "check.h"

enum { TASKS = 20000 };

static atomic_int left;
static weft_event done = WEFT_EVENT_INIT;

static void *count_down(void *arg)
{
    if (atomic_fetch_sub(&left, 1) == 1) {
        weft_event_set(&done);
    }
    return arg;
}

static uint64_t wakes_of(weft_pool_set *pools)
{
    uint64_t sum = 0;
    for (unsigned i = 0; i < weft_pool_set_size(pools); i++) {
        struct weft_worker_stats stats;
        CHECK_EQ(weft_worker_stats(weft_pool_set_member(pools, i), &stats, 0), 0);
        sum += stats.wakes;
    }
    return sum;
}

TEST(submits_to_more_pools_than_cpus_share_wake_ups)
{
    weft_pool_set *pools;
    const struct weft_pool_set_opts opts = {.members = 5 * weft__cpu_usable()};
    if (weft__cpu_usable() == 1) {
        check_skip("one CPU");
    }
    CHECK_EQ(weft_pool_set_create(&pools, &opts), 0);
    CHECK_EQ(weft_pool_set_start(pools), 0);
    atomic_store(&left, TASKS);
    for (int i = 0; i < TASKS; i++) {
        CHECK_EQ(weft_pool_set_submit(pools, count_down, NULL), 0);
    }
    CHECK_EQ(weft_event_wait(&done, WEFT_FOREVER), 0);
    uint64_t wakes = wakes_of(pools);
    printf("  %d tasks, %d members: %llu wake-ups\n", TASKS, (int)opts.members,
           (unsigned long long)wakes);
    CHECK(wakes < TASKS / 4);
    CHECK_EQ(weft_pool_set_stop(pools, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_set_destroy(pools);
}
