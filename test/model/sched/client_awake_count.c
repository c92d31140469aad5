/* Clients of idle/awake_count.h. T0 is the watcher, the others are workers with parkers. */
#include "idle/awake_count.h"
#include "model/explore.h"
#include "model/twins.h"

#define WORKERS 2

static struct weft__awake_count awake;
static struct weft__parker parkers[WORKERS + 1]; /* by thread */
static int taken[WORKERS + 1];                   /* plain: what a worker did after it was woken */
static _Atomic(int) gone;
static bool still; /* the watcher's result */

static void setup(void)
{
    atomic_init(&awake.word, 0);
    atomic_init(&awake.doorbell, 0);
    atomic_init(&gone, 0);
    still = false;
    for (int i = 0; i <= WORKERS; i++) {
        weft__parker_init(&parkers[i]);
        taken[i] = 0;
    }
    x_name(&awake, sizeof awake, "pulse");
    x_name(parkers, sizeof parkers, "parkers");
    x_name(taken, sizeof taken, "taken");
}

/* ---- the check ---- */

/* Seen from outside, a worker that ends with this is asleep for ever, without keeping the client
 * from its end. */
static void park_for_ever(int i)
{
    weft__awake_count_dec(&awake);
    atomic_store_explicit(&parkers[i].word, WEFT__PARKER_PARKED, memory_order_release);
}

static void park_once(int i)
{
    X_ASSERT(weft__parker_park(&parkers[i], INT64_MAX));
    weft__awake_count_inc(&awake);
    taken[i] = 1;
}

/* True: no worker runs, and none is about to. */
static bool is_still(void)
{
    uint64_t word = weft__awake_count_read(&awake);
    if (!weft__awake_count_is_zero(word)) {
        return false;
    }
    for (int i = 1; i <= WORKERS; i++) {
        if (!weft__awake_count_is_parked(&parkers[i])) {
            return false;
        }
    }
    return weft__awake_count_read(&awake) == word;
}

static void one_awake_setup(void)
{
    setup();
    atomic_init(&awake.word, 1);
}

static void found_once(void)
{
    x_outcome(still);
}

/* T1 wakes T2, which was asleep, and sleeps; T2 wakes T1 and sleeps; T1 still has work to do. */
static void to_and_fro(int i)
{
    if (i == 0) {
        still = is_still();
        X_ASSERT(!still || (taken[1] && taken[2]));
    } else if (i == 1) {
        weft__parker_wake(&parkers[2]);
        weft__awake_count_dec(&awake);
        park_once(1);
        park_for_ever(1);
    } else {
        park_once(2);
        weft__parker_wake(&parkers[1]);
        park_for_ever(2);
    }
}

/* Half of the same. */
static void there(int i)
{
    if (i == 0) {
        still = is_still();
        X_ASSERT(!still || taken[2]);
    } else if (i == 1) {
        weft__parker_wake(&parkers[2]);
        park_for_ever(1);
    } else {
        park_once(2);
        park_for_ever(2);
    }
}

/* ---- the watcher's wait ---- */

static bool none_awoke(uint64_t word)
{
    return word < WEFT__AWAKE_COUNT_WAKEUP;
}

static void rest_until_somebody_awoke(void)
{
    for (;;) {
        uint32_t doorbell = weft__awake_count_doorbell(&awake);
        uint64_t word = weft__awake_count_read(&awake);
        if (!none_awoke(word)) {
            break;
        }
        weft__awake_count_wait(&awake, word, doorbell, INT64_MAX);
    }
}

/* A worker that wakes is seen, even if it sleeps again at once. */
static void roused(int i)
{
    if (i == 0) {
        rest_until_somebody_awoke();
    } else {
        weft__awake_count_inc(&awake);
        weft__awake_count_dec(&awake);
    }
}

static void called_once(void)
{
    X_ASSERT(awake.doorbell <= 1);
    X_ASSERT(!(awake.word & WEFT__AWAKE_COUNT_WAITING));
    X_ASSERT(weft__awake_count_is_zero(awake.word));
}

static void rest_until_gone(void)
{
    for (;;) {
        uint32_t doorbell = weft__awake_count_doorbell(&awake);
        uint64_t word = weft__awake_count_read(&awake);
        if (atomic_load_explicit(&gone, memory_order_relaxed)) {
            break;
        }
        weft__awake_count_wait(&awake, word, doorbell, INT64_MAX);
    }
}

/* A change while all workers sleep is seen. */
static void changed(int i)
{
    if (i > 0) {
        atomic_store_explicit(&gone, 1, memory_order_relaxed);
        weft__awake_count_invalidate(&awake);
    } else {
        rest_until_gone();
    }
}

/* So is the data that a call publishes. */
static void called(int i)
{
    if (i > 0) {
        atomic_store_explicit(&gone, 1, memory_order_relaxed);
        weft__awake_count_ring(&awake);
    } else {
        rest_until_gone();
    }
}

/* A wait that ends by its deadline leaves no state behind, and does not end the next wait. */
static void timed(int i)
{
    if (i == 0) {
        uint32_t doorbell = weft__awake_count_doorbell(&awake);
        uint64_t word = weft__awake_count_read(&awake);
        if (none_awoke(word)) {
            weft__awake_count_wait(&awake, word, doorbell, 1);
        }
        rest_until_somebody_awoke();
    } else {
        weft__awake_count_inc(&awake);
        weft__awake_count_dec(&awake);
    }
}

static void timed_alone(int i)
{
    (void)i;
    weft__awake_count_wait(&awake, weft__awake_count_read(&awake),
                           weft__awake_count_doorbell(&awake), 1);
    X_ASSERT(weft__awake_count_read(&awake) == 0);
}

static const struct x_client clients[] = {
    X_CLIENT("timed_alone", 1, setup, timed_alone, NULL),
    X_CLIENT("roused", 2, setup, roused, called_once, .spurious = 1),
    X_CLIENT("changed", 2, setup, changed, called_once, .spurious = 1),
    X_CLIENT("called", 2, setup, called, called_once, .spurious = 1),
    X_CLIENT("timed", 2, setup, timed, called_once),
    X_CLIENT("roused_by_two", 3, setup, roused, called_once, .preemptions = 2, .stale = 1),
    X_CLIENT("there", 3, one_awake_setup, there, found_once, .outcome = X_REACHABLE),
    X_CLIENT("to_and_fro", 3, one_awake_setup, to_and_fro, found_once, .outcome = X_REACHABLE,
             .preemptions = 3, .stale = 2),
};

X_MAIN(clients)
