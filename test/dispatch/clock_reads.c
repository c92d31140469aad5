/* How often a dispatcher's rounds read the clock, which costs more than a short round: with a clock
 * that only the test moves, on this thread. */
#include "dispatch/fixture.h"
#include "virtual_clock.h"

#define TICK (INT64_C(1) << 16)

static struct {
    int64_t begin, takes; /* of a round */
    int rounds, jumps_at; /* completed rounds; the round in which the clock jumps */
    int woken_at;         /* the round in which the sleeper ran */
} scene;

static void *goes_round(void *arg)
{
    for (int i = 0; i < 400; i++) {
        scene.rounds++;
        if (scene.takes) {
            virtual_clock_set(scene.begin + scene.rounds * scene.takes);
        }
        if (scene.rounds == scene.jumps_at) {
            virtual_clock_set(scene.begin + 1000 * MS);
        }
        weft_yield();
    }
    return arg;
}

static void *sleeps(void *arg)
{
    CHECK_EQ(weft_sleep(*(int64_t *)arg), 0);
    scene.woken_at = scene.rounds;
    return NULL;
}

static int run_rounds(int64_t takes, int jumps_at, int64_t sleep_ns)
{
    weft_dispatcher *d;
    struct weft_dispatcher_opts opts = {.caller = true, .timer_tick_ns = TICK, .hog_ns = -1};
    scene.begin = virtual_clock_stop(MS);
    scene.takes = takes;
    scene.rounds = scene.woken_at = 0;
    scene.jumps_at = jumps_at;
    int64_t until = scene.begin + sleep_ns;
    CHECK_EQ(weft_dispatcher_create(&d, &opts), 0);
    weft_group *group = make_group(d, "g");
    CHECK_EQ(weft_group_spawn(group, NULL, sleeps, &until, NULL), 0);
    CHECK_EQ(weft_group_spawn(group, NULL, goes_round, NULL, NULL), 0);
    weft_group_stop(group);
    CHECK_EQ(weft_dispatcher_run(d), 0);
    virtual_clock_go();
    stop_dispatcher(d);
    return scene.woken_at;
}

/* A timer of 100 ms among rounds of one millisecond each is late by at most one or two of them. */
TEST(long_rounds_read_clock_every_round)
{
    int woken_at = run_rounds(MS, 0, 100 * MS);
    CHECK(woken_at >= 100 && woken_at <= 102);
}

/* The clock jumps over the timer's time; among rounds that take no time, of one fiber each, the
 * dispatcher notices this after at most 64 rounds, and not at once. */
TEST(short_rounds_read_clock_every_64_rounds)
{
    int latest = 0;
    for (int at = 100; at < 200; at++) {
        int after = run_rounds(0, at, 100 * MS) - at;
        CHECK(after >= 0 && after <= 64);
        latest = after > latest ? after : latest;
    }
    CHECK(latest >= 48);
}
