/* Fibers of two pools and plain threads run the same function, while another thread interrupts and
 * cancels the fibers. A program includes this header once, and defines FIBERS and THREADS
 * before. */
#ifndef WEFT_TEST_STRESS_SYNC_CANCEL_STORM_H
#define WEFT_TEST_STRESS_SYNC_CANCEL_STORM_H

#include "pool/fixture.h"
#include "stress/watchdog.h"

static weft_fiber fibers[FIBERS];
static atomic_bool over;

/* The deadline for a call: mostly WEFT_FOREVER. */
static int64_t some_deadline(uint32_t dice)
{
    switch (dice % 8) {
    case 0:
        return 0;
    case 1:
        return weft_after(dice % 100000);
    default:
        return WEFT_FOREVER;
    }
}

/* Returns true if the call succeeded; otherwise its wait was ended. */
static bool done_or_ended(int err)
{
    CHECK(err == 0 || err == -ETIMEDOUT || err == -ECANCELED || err == -EINTR);
    return err == 0;
}

/* Interrupts all fibers in turn; sometimes cancels one in four. */
static void *disturb(void *arg)
{
    uint64_t state = check_seed() + 77;
    while (!atomic_load(&over)) {
        weft_fiber_interrupt(fibers[dice(&state) % FIBERS]);
        if (dice(&state) % 64 == 0) {
            weft_cancel(fibers[dice(&state) % FIBERS / 4 * 4]);
        }
        sched_yield();
    }
    return arg;
}

/* Runs body(seed) in all fibers and threads. */
static void run_disturbed(const char *what, weft_fn body)
{
    watchdog_start(what);
    weft_pool *a = watched_open(&(struct weft_pool_opts){.name = "a", .workers = 2});
    weft_pool *b = watched_open(&(struct weft_pool_opts){.name = "b", .workers = 1});
    pthread_t threads[THREADS];
    atomic_store(&over, false);
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_pool_spawn(i % 4 ? a : b, &fibers[i], body, (void *)(intptr_t)(i + 1), NULL),
                 0);
    }
    for (int i = 0; i < THREADS; i++) {
        threads[i] = thread_open(body, (void *)(intptr_t)(100 + i));
    }
    pthread_t disturber = thread_open(disturb, NULL);
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        thread_close(threads[i]);
    }
    atomic_store(&over, true);
    thread_close(disturber);
    watched_close(a);
    watched_close(b);
    watchdog_stop();
}

#endif
