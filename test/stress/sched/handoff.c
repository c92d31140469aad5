/* Park/unpark hand-offs without any time limits: after one lost wake-up its ring stands still,
 * which the watchdog detects from outside.
 *
 * A token moves round a ring of fibers. The holder hands the token on by one weft_fiber_unpark and
 * waits for its return by one weft_fiber_park, so every park must be ended by exactly one unpark: a
 * spurious return, a permit kept too long or a permit used twice shows as a missing token.
 *
 * A normal run makes 4 * 10^5 hand-offs; WEFT_STRESS=25000 makes 10^8.
 */
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "check.h"
#include "stress/watchdog.h"

#define MOST_FIBERS 8
#define MOST_RINGS 64

struct ring;

struct seat {
    struct ring *ring;
    weft_fiber fiber;
    weft_fiber next; /* the fiber it hands the token to */
    atomic_bool *next_holds;
    atomic_bool holds; /* it has the token, or is about to be woken with it */
    long laps;
};

struct ring {
    struct seat seats[MOST_FIBERS];
    int fibers;
};

static atomic_long handed;

static void hand_on(struct seat *seat)
{
    CHECK(atomic_exchange_explicit(&seat->holds, false, memory_order_relaxed));
    CHECK(!atomic_exchange_explicit(seat->next_holds, true, memory_order_relaxed));
    CHECK_EQ(weft_fiber_unpark(seat->next), 0);
}

static void *sit(void *arg)
{
    struct seat *seat = arg;
    for (long lap = 0; lap < seat->laps; lap++) {
        CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
        CHECK(atomic_load_explicit(&seat->holds, memory_order_relaxed));
        if (lap + 1 < seat->laps || seat != &seat->ring->seats[seat->ring->fibers - 1]) {
            hand_on(seat);
        }
        if (lap % 64 == 0) {
            watchdog_progress();
        }
    }
    atomic_fetch_add(&handed, seat->laps);
    return NULL;
}

/* The pools of a ring's fibers; some of them may be the same pool. */
struct stage {
    const char *name;
    weft_pool *pools[2];
    int rings, fibers;
    bool bound; /* each fiber to another worker */
    long handoffs;
};

static void ring_open(const struct stage *stage, struct ring *ring, int number)
{
    ring->fibers = stage->fibers;
    for (int i = 0; i < ring->fibers; i++) {
        struct seat *seat = &ring->seats[i];
        *seat =
            (struct seat){.ring = ring, .laps = stage->handoffs / stage->rings / stage->fibers + 1};
        CHECK_EQ(weft_fiber_create(&seat->fiber, sit, seat, NULL), 0);
    }
    for (int i = 0; i < ring->fibers; i++) {
        struct seat *next = &ring->seats[(i + 1) % ring->fibers];
        ring->seats[i].next = next->fiber;
        ring->seats[i].next_holds = &next->holds;
    }
    for (int i = 0; i < ring->fibers; i++) {
        weft_pool *pool = stage->pools[i % 2];
        int worker = stage->bound ? (number + i) % (int)weft_pool_workers(pool) : WEFT_ANY_WORKER;
        CHECK_EQ(weft_fiber_submit(ring->seats[i].fiber, pool, worker), 0);
    }
}

static void stage_run(const struct stage *stage)
{
    static struct ring rings[MOST_RINGS];
    long before = atomic_load(&handed);
    double start = check_seconds();
    watchdog.what = stage->name;
    for (int r = 0; r < stage->rings; r++) {
        ring_open(stage, &rings[r], r);
    }
    for (int r = 0; r < stage->rings; r++) {
        atomic_store(&rings[r].seats[0].holds, true);
        CHECK_EQ(weft_fiber_unpark(rings[r].seats[0].fiber), 0);
    }
    for (int r = 0; r < stage->rings; r++) {
        for (int i = 0; i < rings[r].fibers; i++) {
            CHECK_EQ(weft_join(rings[r].seats[i].fiber, NULL, WEFT_FOREVER), 0);
        }
        CHECK(atomic_load(&rings[r].seats[rings[r].fibers - 1].holds));
    }
    long n = atomic_load(&handed) - before;
    printf("     %-40s %9ld hand-offs, %.2f us each\n", stage->name, n,
           (check_seconds() - start) * 1e6 / (double)n);
    fflush(stdout);
}

static weft_pool *pool_open(const char *name, unsigned workers, int64_t spin_ns)
{
    const struct weft_pool_opts opts = {
        .name = name, .workers = workers, .ring_slots = 4, .fresh_slots = 2, .spin_ns = spin_ns};
    return watched_open(&opts);
}

/* The rings differ in how often a worker has to be woken: never for a pair on a busy worker, every
 * time for one pair that is bound to two otherwise idle workers. */
TEST(every_park_handoff_arrives_without_time_limits)
{
    watchdog_start("handoff");
    weft_pool *a = pool_open("a", 2, 0), *b = pool_open("b", 3, -1), *one = pool_open("one", 1, 0);
    weft_pool *crowd = pool_open("crowd", 16, 0);
    long n = check_scale(400000);
    const struct stage stages[] = {
        {"pairs on one worker", {one, one}, 32, 2, false, n * 40 / 100},
        {"pairs on two workers", {a, a}, 32, 2, false, n * 25 / 100},
        {"rings of 7 on 16 workers", {crowd, crowd}, 24, 7, false, n * 15 / 100},
        {"one free pair", {a, a}, 1, 2, false, n * 5 / 100},
        {"bound rings of 5 on 3 workers", {b, b}, 12, 5, true, n * 7 / 100},
        {"pairs across pools", {a, b}, 8, 2, false, n * 4 / 100},
        {"one pair across pools", {a, b}, 1, 2, false, n / 100},
        {"one bound pair, workers asleep between", {b, b}, 1, 2, true, n / 100},
        {"bound rings across pools, 16 workers", {crowd, b}, 16, 6, true, n * 2 / 100},
    };
    for (size_t i = 0; i < sizeof stages / sizeof *stages; i++) {
        stage_run(&stages[i]);
    }
    watched_close(crowd);
    watched_close(one);
    watched_close(b);
    watched_close(a);
    printf("     %ld hand-offs in all\n", atomic_load(&handed));
    CHECK(atomic_load(&handed) >= n);
    watchdog_stop();
}

/* --- threads and fibers --------------------------------------------------------- */

struct duel {
    weft_fiber fiber;
    sem_t answered;
    long rounds;
    long asked; /* plain on purpose: the hand-off itself orders it */
};

static void *answer(void *arg)
{
    struct duel *duel = arg;
    for (long i = 0; i < duel->rounds; i++) {
        CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
        CHECK_EQ(duel->asked, i);
        CHECK_EQ(sem_post(&duel->answered), 0);
    }
    return NULL;
}

static void *ask(void *arg)
{
    struct duel *duel = arg;
    for (long i = 0; i < duel->rounds; i++) {
        duel->asked = i;
        CHECK_EQ(weft_fiber_unpark(duel->fiber), 0);
        while (sem_wait(&duel->answered) != 0) {
        }
        if (i % 64 == 0) {
            watchdog_progress();
        }
    }
    CHECK_EQ(weft_join(duel->fiber, NULL, WEFT_FOREVER), 0);
    return NULL;
}

TEST(thread_fiber_handoffs_arrive_without_time_limits)
{
    enum { DUELS = 4 };
    struct duel duels[DUELS];
    pthread_t threads[DUELS];
    watchdog_start("threads and fibers");
    weft_pool *pool = pool_open("duel", 2, 0);
    for (int i = 0; i < DUELS; i++) {
        duels[i] = (struct duel){.rounds = check_scale(2500)};
        CHECK_EQ(sem_init(&duels[i].answered, 0, 0), 0);
        struct weft_fiber_opts opts = {.bound = i % 2, .worker = i / 2};
        CHECK_EQ(weft_pool_spawn(pool, &duels[i].fiber, answer, &duels[i], &opts), 0);
    }
    for (int i = 0; i < DUELS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, ask, &duels[i]), 0);
    }
    for (int i = 0; i < DUELS; i++) {
        CHECK_EQ(pthread_join(threads[i], NULL), 0);
        sem_destroy(&duels[i].answered);
    }
    watched_close(pool);
    watchdog_stop();
}
