/* Which victim an idle worker steals from. */
#include "pool/fixture.h"
#include "watchdog/watchdog.h"

enum { WORKERS = 4, STEALS = 60, FRESH = 32 * STEALS + 64 }; /* a steal takes at most 32 */

static struct {
    weft_pool *pool;
    atomic_int present, ready, over;
    uint64_t steals; /* as of the thief's last check */
    int victims[STEALS], n;
} scene;

/* The first stolen task runs at once. So a fiber that sees one more steal than before was the first
 * task of that steal, and `arg` names its victim. Only worker 0 runs these fibers, except for those
 * at the end. */
static void *note_victim(void *arg)
{
    struct weft_worker_stats stats;
    if (weft_worker_self() != 0 || atomic_load(&scene.over)) {
        return NULL;
    }
    CHECK_EQ(weft_worker_stats(scene.pool, &stats, 0), 0);
    if (stats.steals != scene.steals) {
        scene.steals = stats.steals;
        scene.victims[scene.n++] = (int)(intptr_t)arg;
        if (scene.n == STEALS) {
            atomic_store(&scene.over, 1);
        }
    }
    return NULL;
}

/* Waits until all workers arrive: an idle worker would steal the tasks of the others. */
static void meet(atomic_int *here)
{
    atomic_fetch_add(here, 1);
    while (atomic_load(here) < WORKERS) {
        sched_yield();
    }
}

/* Occupies its worker, with more tasks in its fresh queue than all steals together could take. */
static void *be_a_victim(void *arg)
{
    meet(&scene.present);
    for (int i = 0; i < FRESH; i++) {
        CHECK_EQ(weft_spawn(NULL, note_victim, arg, &(struct weft_fiber_opts){.detached = true}),
                 0);
    }
    meet(&scene.ready);
    while (!atomic_load(&scene.over)) {
        sched_yield();
    }
    return NULL;
}

static void *be_the_thief(void *arg)
{
    meet(&scene.present);
    meet(&scene.ready);
    return arg;
}

/* Is the victim chosen in a fixed cycle? */
static bool has_period(int period)
{
    int i = 0;
    while (i + period < STEALS && scene.victims[i] == scene.victims[i + period]) {
        i++;
    }
    return i + period == STEALS;
}

/* All three victims have work all the time. With a randomly chosen victim each gets its share, in
 * no fixed order: thieves that always start with the same victim, or go round, would collide at one
 * queue. For 60 steals a random choice fails this test once in 10^7 runs. */
TEST(steal_victim_is_chosen_at_random)
{
    int of[WORKERS] = {0};
    weft__watchdog_set_tick(3600 * INT64_C(1000000000)); /* it would move hogs' queued tasks */
    scene.pool = pool_open(&(struct weft_pool_opts){.workers = WORKERS, .hog_ns = -1});
    for (int i = 0; i < WORKERS; i++) {
        struct weft_fiber_opts bound = {.bound = true, .worker = i, .detached = true};
        CHECK_EQ(weft_pool_spawn(scene.pool, NULL, i ? be_a_victim : be_the_thief,
                                 (void *)(intptr_t)i, &bound),
                 0);
    }
    while (!atomic_load(&scene.over)) {
        sched_yield();
    }
    pool_close(scene.pool);
    for (int i = 0; i < STEALS; i++) {
        of[scene.victims[i]]++;
    }
    CHECK(of[1] > 0 && of[2] > 0 && of[3] > 0);
    for (int period = 1; period <= 2 * WORKERS; period++) {
        CHECK(!has_period(period));
    }
}
