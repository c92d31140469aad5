/* Fibers of two pools and plain threads take a few mutexes from one another, with deadlines, cancels and interrupts
 * mixed in. What a mutex protects is plain memory and must add up; the waits of the patient have no time limit, so
 * that a lost wake-up stands still and is seen by the watchdog.
 */
#include "sched/fixture.h"
#include "stress/watchdog.h"

enum { MUTEXES = 3, FIBERS = 24, THREADS = 2 };

static struct guarded {
    weft_mutex mutex;
    long taken; /* plain: the lock orders it */
    bool inside;
} guarded[MUTEXES];
static atomic_long taken, refused;
static weft_fiber fibers[FIBERS];
static atomic_bool over;

/* What a lock is asked with: mostly for ever. */
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

static void *take(void *arg)
{
    uint64_t state = check_seed() + (uint64_t)(uintptr_t)arg;
    long rounds = check_scale(4000);
    for (long i = 0; i < rounds; i++) {
        struct guarded *g = &guarded[dice(&state) % MUTEXES];
        int err = weft_mutex_lock(&g->mutex, some_deadline(dice(&state)));
        if (err != 0) {
            CHECK(err == -ETIMEDOUT || err == -ECANCELED || err == -EINTR);
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

/* Interrupts everybody by turns, and cancels every third in the end. */
static void *disturb(void *arg)
{
    uint64_t state = check_seed() + 77;
    while (!atomic_load(&over)) {
        weft_interrupt(fibers[dice(&state) % FIBERS]);
        if (dice(&state) % 64 == 0) {
            weft_cancel(fibers[dice(&state) % FIBERS / 3 * 3]);
        }
        sched_yield();
    }
    return arg;
}

static weft_pool *watched_open(const char *name, unsigned workers)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.name = name, .workers = workers});
    watchdog_watch(pool);
    return pool;
}

static void watched_close(weft_pool *pool)
{
    watchdog_forget(pool);
    pool_close(pool);
}

TEST(what_mutexes_protect_adds_up)
{
    watchdog_start("mutex");
    weft_pool *a = watched_open("a", 2), *b = watched_open("b", 1);
    pthread_t threads[THREADS];
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_pool_spawn(i % 4 ? a : b, &fibers[i], take, (void *)(intptr_t)(i + 1), NULL),
                 0);
    }
    for (int i = 0; i < THREADS; i++) {
        threads[i] = thread_open(take, (void *)(intptr_t)(100 + i));
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
    long sum = 0;
    for (int i = 0; i < MUTEXES; i++) {
        sum += guarded[i].taken;
        weft_mutex_deinit(&guarded[i].mutex);
    }
    printf("     %ld locks, %ld waits that ended otherwise\n", sum, atomic_load(&refused));
    CHECK_EQ(sum, atomic_load(&taken));
    CHECK_EQ(sum + atomic_load(&refused), (FIBERS + THREADS) * check_scale(4000));
    watchdog_stop();
}
