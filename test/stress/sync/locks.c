/* Conditions, rwlocks, semaphores, barriers and wait groups used by fibers of two pools and plain
 * threads, with deadlines, cancels and interrupts. Whatever is handed over must add up. Some waits
 * have no time limit, so that a lost wake-up is a stall, which the watchdog detects. */
enum { FIBERS = 16, THREADS = 2, ROUNDS = 2000 };

#include "stress/sync/cancel_storm.h"
#include "sync/mutex.h"
#include "sync/rwlock.h"

/* --- rwlock: readers see complete writes, and every write counts --------------------------- */

static weft_rwlock rwlock;
static long left, right;
static atomic_long writes;

static void *read_and_write(void *arg)
{
    uint64_t state = check_seed() + (uint64_t)(uintptr_t)arg;
    for (long i = 0; i < check_scale(ROUNDS); i++) {
        uint32_t what = dice(&state);
        int64_t deadline = some_deadline(dice(&state));
        if (what % 32 == 1) {
            weft__rwlock_enter_slot(
                weft__rwlock_of(&rwlock)); /* as after many calls on one thread */
        }
        if (what % 8 == 0) {
            if (done_or_ended(weft_rwlock_write(&rwlock, deadline))) {
                left++;
                if (what & 64) {
                    weft_yield();
                }
                right++;
                weft_rwlock_write_unlock(&rwlock);
                atomic_fetch_add_explicit(&writes, 1, memory_order_relaxed);
            }
        } else if (done_or_ended(weft_rwlock_read(&rwlock, deadline))) {
            CHECK_EQ(left, right);
            if (what & 64) {
                weft_yield();
            }
            CHECK_EQ(left, right);
            weft_rwlock_read_unlock(&rwlock);
        }
        watchdog_progress();
    }
    return NULL;
}

TEST(rwlock_readers_see_whole_writes)
{
    run_disturbed("rwlock", read_and_write);
    CHECK_EQ(left, atomic_load(&writes));
    CHECK_EQ(right, left);
    weft_rwlock_deinit(&rwlock);
}

/* --- semaphore: permits are neither lost nor created --------------------------------------- */

enum { PERMITS = 5 };
static weft_sem sem;
static atomic_int out;

static void *take_and_give(void *arg)
{
    uint64_t state = check_seed() + (uint64_t)(uintptr_t)arg;
    for (long i = 0; i < check_scale(ROUNDS); i++) {
        int n = 1 + (int)(dice(&state) % 4);
        if (done_or_ended(weft_sem_acquire(&sem, (uint64_t)n, some_deadline(dice(&state))))) {
            CHECK(atomic_fetch_add(&out, n) + n <= PERMITS);
            if (dice(&state) % 2 == 0) {
                weft_yield();
            }
            atomic_fetch_sub(&out, n);
            weft_sem_release(&sem, (uint64_t)n);
        }
        watchdog_progress();
    }
    return NULL;
}

TEST(semaphore_permits_are_neither_lost_nor_created)
{
    weft_sem_init(&sem, PERMITS, NULL);
    run_disturbed("semaphore", take_and_give);
    CHECK_EQ(weft_sem_permits(&sem), PERMITS);
    weft_sem_deinit(&sem);
}

/* --- condition: a queue of one slot; every item put in is taken out --------------------------- */

static weft_mutex mutex;
static weft_cond filled, emptied;
static bool full;
static long put, taken;

/* Every fiber puts and takes alternately, and gives up at its deadline. */
static bool exchange(bool fill, int64_t deadline)
{
    int err = 0;
    if (!done_or_ended(weft_mutex_lock(&mutex, WEFT_FOREVER))) {
        return false;
    }
    while (full == fill && err == 0) {
        err = weft_cond_wait(fill ? &emptied : &filled, &mutex, deadline);
        CHECK(weft__mutex_is_mine(&mutex));
    }
    if (done_or_ended(err)) {
        full = fill;
        *(fill ? &put : &taken) += 1;
        weft_cond_signal(fill ? &filled : &emptied);
    } else if (full != fill) {
        weft_cond_signal(fill ? &emptied : &filled); /* a signal for this waiter, unused */
    }
    weft_mutex_unlock(&mutex);
    return err == 0;
}

static void *put_and_take(void *arg)
{
    uint64_t state = check_seed() + (uint64_t)(uintptr_t)arg;
    for (long i = 0; i < check_scale(ROUNDS / 4); i++) {
        /* No fiber can rely on a partner for ever. */
        exchange((i + (intptr_t)arg) % 2 == 0, weft_after(dice(&state) % 200000));
        watchdog_progress();
    }
    return NULL;
}

TEST(condition_queue_items_are_all_taken)
{
    run_disturbed("condition", put_and_take);
    CHECK_EQ(put, taken + full);
    printf("     %ld handed over\n", taken);
    weft_cond_deinit(&filled);
    weft_cond_deinit(&emptied);
    weft_mutex_deinit(&mutex);
}

/* --- condition without time limits: a token moves round --------------------------------------- */

enum { SEATS = 6 };
static weft_cond seats[SEATS];
static int at;
static long moves;

static void *sit(void *arg)
{
    int me = (int)(intptr_t)arg;
    for (long i = 0; i < check_scale(ROUNDS / 2); i++) {
        CHECK_EQ(weft_mutex_lock(&mutex, WEFT_FOREVER), 0);
        while (at != me) {
            CHECK_EQ(weft_cond_wait(&seats[me], &mutex, WEFT_FOREVER), 0);
        }
        at = (me + 1) % SEATS;
        moves++;
        weft_cond_signal(&seats[at]);
        weft_mutex_unlock(&mutex);
        watchdog_progress();
    }
    return NULL;
}

TEST(no_condition_signal_is_lost_without_time_limits)
{
    watchdog_start("token");
    weft_pool *a = watched_open(&(struct weft_pool_opts){.name = "a", .workers = 2});
    weft_pool *b = watched_open(&(struct weft_pool_opts){.name = "b", .workers = 1});
    weft_fiber sitting[SEATS - 1];
    for (intptr_t i = 0; i < SEATS - 1; i++) {
        CHECK_EQ(weft_pool_spawn(i % 3 ? a : b, &sitting[i], sit, (void *)i, NULL), 0);
    }
    sit((void *)(intptr_t)(SEATS - 1)); /* this thread */
    for (int i = 0; i < SEATS - 1; i++) {
        CHECK_EQ(weft_join(sitting[i], NULL, WEFT_FOREVER), 0);
    }
    CHECK_EQ(moves, SEATS * check_scale(ROUNDS / 2));
    watched_close(a);
    watched_close(b);
    watchdog_stop();
}

/* --- barrier and wait group: phases of many parties, disturbed -------------------------------- */

static weft_barrier barrier;
static weft_waitgroup group;
static atomic_long arrivals;

/* A party takes part until it has completed as many phases as all others. */
static void *keep_phase(void *arg)
{
    uint64_t state = check_seed() + (uint64_t)(uintptr_t)arg;
    bool shielded = false;
    for (long phase = 0; phase < check_scale(ROUNDS / 8); phase++) {
        int got;
        do {
            CHECK(atomic_load(&arrivals) <= (phase + 1) * (FIBERS + THREADS));
            int64_t deadline = some_deadline(dice(&state));
            got = weft_barrier_wait(&barrier, shielded ? WEFT_FOREVER : deadline);
            if (got == -ECANCELED) { /* from now on every wait would end like this */
                weft_fiber_shield_enter();
                shielded = true;
            }
        } while (got < 0);
        atomic_fetch_add(&arrivals, 1);
        watchdog_progress();
    }
    if (shielded) {
        weft_fiber_shield_leave();
    }
    weft_waitgroup_done(&group);
    return NULL;
}

TEST(every_party_takes_part_in_every_barrier_phase)
{
    weft_barrier_init(&barrier, FIBERS + THREADS, NULL);
    weft_waitgroup_add(&group, FIBERS + THREADS);
    run_disturbed("barrier", keep_phase);
    CHECK_EQ(weft_waitgroup_wait(&group, 0), 0);
    CHECK_EQ(atomic_load(&arrivals), (FIBERS + THREADS) * check_scale(ROUNDS / 8));
    weft_barrier_deinit(&barrier);
    weft_waitgroup_deinit(&group);
}
