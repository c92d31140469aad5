/* Dumps, one after the other and two at a time, while thousands of fibers wake each other, wait on
 * events, start and end. A dump holds each fiber for a moment; a wake-up that arrives just then and
 * is lost leaves its pair waiting for ever, which the watchdog detects: no wait in this test has a
 * deadline.
 *
 * A normal run uses 10,000 fibers.
 */
#include <pthread.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "check.h"
#include "stress/watchdog.h"

#define ROUNDS 6

struct seat {
    weft_fiber fiber, partner;
    atomic_int got; /* rounds that the partner has played */
    atomic_int *partner_got;
    weft_event *opening;
    int rounds;
};

static atomic_bool over;

static void *newborn(void *arg)
{
    weft_yield();
    return arg;
}

static void *play(void *arg)
{
    struct seat *seat = arg;
    CHECK_EQ(weft_event_wait(seat->opening, WEFT_FOREVER), 0);
    for (int round = 0; round < seat->rounds; round++) {
        weft_fiber child;
        CHECK_EQ(weft_spawn(&child, newborn, NULL, NULL), 0);
        atomic_fetch_add(seat->partner_got, 1);
        weft_fiber_unpark(
            seat->partner); /* which may have ended: it needs one unpark fewer than it gets */
        while (atomic_load(&seat->got) <= round) {
            CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
        }
        CHECK_EQ(weft_join(child, NULL, WEFT_FOREVER), 0);
        watchdog_progress();
    }
    return NULL;
}

static void *dump_on(void *arg)
{
    FILE *out = fopen("/dev/null", "w");
    CHECK(out != NULL);
    struct weft_dump_opts opts = {.format = *(enum weft_dump_format *)arg, .sample_ns = 2000000};
    long dumps = 0;
    do {
        CHECK_EQ(weft_dump(out, &opts), 0);
        dumps++;
    } while (!atomic_load(&over));
    fclose(out);
    return (void *)dumps;
}

TEST(dumps_of_busy_fibers_lose_no_wake_up)
{
    int pairs = (int)check_scale(5000);
    struct seat *seats = calloc((size_t)pairs * 2, sizeof *seats);
    weft_event opening = WEFT_EVENT_INIT;
    weft_pool *pool;
    watchdog_start("dump");
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 2}), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    watchdog_watch(pool);
    for (int i = 0; i < pairs * 2; i++) {
        seats[i].opening = &opening;
        seats[i].rounds = ROUNDS;
        seats[i].partner_got = &seats[i ^ 1].got;
        CHECK_EQ(weft_pool_spawn(pool, &seats[i].fiber, play, &seats[i], NULL), 0);
    }
    for (int i = 0; i < pairs * 2; i++) {
        seats[i].partner = seats[i ^ 1].fiber;
    }
    static enum weft_dump_format formats[] = {WEFT_DUMP_TEXT, WEFT_DUMP_JSON};
    pthread_t dumpers[2];
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pthread_create(&dumpers[i], NULL, dump_on, &formats[i]), 0);
    }
    weft_event_set(&opening);
    for (int i = 0; i < pairs * 2; i++) {
        CHECK_EQ(weft_join(seats[i].fiber, NULL, WEFT_FOREVER), 0);
    }
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++) {
        void *dumps;
        CHECK_EQ(pthread_join(dumpers[i], &dumps), 0);
        printf("dumps: %ld\n", (long)dumps);
    }
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    watchdog_forget(pool);
    weft_pool_destroy(pool);
    watchdog_stop();
    free(seats);
}
