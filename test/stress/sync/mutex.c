/* Fibers of two pools and plain threads compete for a few mutexes, with deadlines, cancels and
 * interrupts. A mutex protects plain memory, which must add up; some waits have no time limit, so
 * that a lost wake-up is a stall, which the watchdog detects. */
enum { MUTEXES = 3, FIBERS = 24, THREADS = 2 };

#include "stress/sync/cancel_storm.h"

static struct guarded {
    weft_mutex mutex;
    long taken; /* plain: the lock orders it */
    bool inside;
} guarded[MUTEXES];
static atomic_long taken, refused;

static void *take(void *arg)
{
    uint64_t state = check_seed() + (uint64_t)(uintptr_t)arg;
    long rounds = check_scale(4000);
    for (long i = 0; i < rounds; i++) {
        struct guarded *g = &guarded[dice(&state) % MUTEXES];
        if (!done_or_ended(weft_mutex_lock(&g->mutex, some_deadline(dice(&state))))) {
            atomic_fetch_add_explicit(&refused, 1, memory_order_relaxed);
            continue;
        }
        CHECK(!g->inside);
        g->inside = true;
        if (dice(&state) % 4 == 0) {
            weft_yield();
        }
        g->taken++;
        CHECK(g->inside);
        g->inside = false;
        weft_mutex_unlock(&g->mutex);
        atomic_fetch_add_explicit(&taken, 1, memory_order_relaxed);
        watchdog_progress();
    }
    return NULL;
}

TEST(mutex_protected_counters_add_up)
{
    run_disturbed("mutex", take);
    long sum = 0;
    for (int i = 0; i < MUTEXES; i++) {
        sum += guarded[i].taken;
        weft_mutex_deinit(&guarded[i].mutex);
    }
    printf("     %ld locks, %ld waits that ended otherwise\n", sum, atomic_load(&refused));
    CHECK_EQ(sum, atomic_load(&taken));
    CHECK_EQ(sum + atomic_load(&refused), (FIBERS + THREADS) * check_scale(4000));
}
