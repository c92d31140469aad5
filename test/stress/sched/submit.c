/* Submit against park: an outside thread posts one task, waits until it ran, waits a little, and
 * posts the next, so that the task arrives when the workers are just giving up their search,
 * entering the idle word, or falling asleep. There are no time limits: a submit that no worker
 * notices is a stall.
 *
 * A normal run makes 10^4 rounds of each kind, 10^5 with WEFT_STRESS=1000.
 */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "base/cpu.h"
#include "base/rand.h"
#include "check.h"
#include "stress/watchdog.h"

struct poster {
    weft_pool *pool;
    long rounds;
    int64_t spin_ns;
    sem_t ran;
    long count; /* plain on purpose: written by the task, read by the poster after `ran` */
    struct weft__rand rand;
    pthread_t thread;
};

static void *task(void *arg)
{
    struct poster *poster = arg;
    poster->count++;
    CHECK_EQ(sem_post(&poster->ran), 0);
    return NULL;
}

static void wait_for_tasks(struct poster *poster, long n)
{
    for (; n > 0; n--) {
        while (sem_wait(&poster->ran) != 0) {
        }
    }
}

/* Up to twice the spin window, mostly close to its end. */
static void idle_a_while(struct poster *poster)
{
    uint32_t dice = weft__rand_next(&poster->rand);
    int64_t ns = dice % 4 == 0 ? (int64_t)(dice >> 8) % 20000
                               : poster->spin_ns / 2 + (int64_t)(dice >> 8) % (poster->spin_ns + 1);
    for (int64_t end = weft_now() + ns; weft_now() < end;) {
        weft__cpu_pause();
    }
}

/* Submits by one of the ways from outside. Returns how many tasks it created. */
static long post(struct poster *poster)
{
    uint32_t dice = weft__rand_next(&poster->rand) >> 8;
    unsigned workers = weft_pool_workers(poster->pool);
    struct weft_fiber_opts bound = {.bound = true, .worker = (int)(dice / 8 % workers)};
    const struct weft_job jobs[] = {{task, poster}};
    weft_fiber fiber;
    switch (dice % 8) {
    case 0:
    case 1:
        CHECK_EQ(weft_pool_spawn(poster->pool, NULL, task, poster, &bound), 0);
        break;
    case 2:
        CHECK_EQ(weft_pool_submit_batch(poster->pool, jobs, 1), 0);
        break;
    case 3:
        CHECK_EQ(weft_pool_spawn(poster->pool, &fiber, task, poster, NULL), 0);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
        break;
    case 4:
        CHECK_EQ(weft_fiber_create(&fiber, task, poster, NULL), 0);
        CHECK_EQ(weft_fiber_submit(fiber, poster->pool, bound.worker), 0);
        CHECK_EQ(weft_fiber_detach(fiber), 0);
        break;
    default:
        CHECK_EQ(weft_pool_submit(poster->pool, task, poster), 0);
        break;
    }
    return 1;
}

static void *poster_main(void *arg)
{
    struct poster *poster = arg;
    long posted = 0;
    for (long i = 0; i < poster->rounds; i++) {
        long n = post(poster);
        wait_for_tasks(poster, n);
        posted += n;
        CHECK_EQ(poster->count, posted);
        idle_a_while(poster);
        if (i % 16 == 0) {
            watchdog_progress();
        }
    }
    return NULL;
}

static void poster_open(struct poster *poster, void *(*run)(void *), weft_pool *pool,
                        int64_t spin_ns, long rounds)
{
    static unsigned opened;
    *poster =
        (struct poster){.pool = pool, .rounds = rounds, .spin_ns = spin_ns > 0 ? spin_ns : 1000};
    weft__rand_seed(&poster->rand, check_seed() + opened++);
    CHECK_EQ(sem_init(&poster->ran, 0, 0), 0);
    CHECK_EQ(pthread_create(&poster->thread, NULL, run, poster), 0);
}

static void poster_close(struct poster *poster)
{
    CHECK_EQ(pthread_join(poster->thread, NULL), 0);
    sem_destroy(&poster->ran);
}

static void posters_run(int n, unsigned workers, int64_t spin_ns, long rounds)
{
    struct poster posters[4];
    weft_pool *pool;
    struct weft_pool_opts opts = {
        .workers = workers, .spin_ns = spin_ns, .ring_slots = 4, .fresh_slots = 2};
    CHECK_EQ(weft_pool_create(&pool, &opts), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    watchdog_watch(pool);
    for (int i = 0; i < n; i++) {
        poster_open(&posters[i], poster_main, pool, spin_ns, rounds / n + 1);
    }
    for (int i = 0; i < n; i++) {
        poster_close(&posters[i]);
    }
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    watchdog_forget(pool);
    weft_pool_destroy(pool);
}

TEST(submit_to_worker_falling_asleep_is_run)
{
    watchdog_start("submit, one worker");
    posters_run(1, 1, 2000, check_scale(5000));
    posters_run(1, 1, -1, check_scale(5000));
    watchdog_stop();
}

TEST(submit_to_workers_falling_asleep_is_run)
{
    watchdog_start("submit, some workers");
    posters_run(1, 3, 2000, check_scale(4000));
    posters_run(1, 2, -1, check_scale(3000));
    posters_run(3, 4, 5000, check_scale(3000));
    watchdog_stop();
}

/* --- a host's loop as the only worker ------------------------------------------ */

static atomic_int posting;

static void *host_poster_main(void *arg)
{
    struct poster *poster = arg;
    poster_main(poster);
    atomic_fetch_sub(&posting, 1);
    CHECK_EQ(weft_pool_submit(poster->pool, task, poster), 0); /* so that the host checks */
    return NULL;
}

TEST(submit_to_host_waiting_on_pool_fd_is_run)
{
    enum { POSTERS = 2 };
    struct poster posters[POSTERS];
    weft_pool *pool;
    struct weft_pool_opts opts = {.workers = 1, .caller = true, .ring_slots = 4, .fresh_slots = 2};
    watchdog_start("submit to a host");
    CHECK_EQ(weft_pool_create(&pool, &opts), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    watchdog_watch(pool);
    atomic_store(&posting, POSTERS);
    for (int i = 0; i < POSTERS; i++) {
        poster_open(&posters[i], host_poster_main, pool, 2000, check_scale(3000));
    }
    do {
        struct pollfd ready = {.fd = weft_pool_fd(pool), .events = POLLIN};
        CHECK(weft_pool_poll(pool) >= 0);
        CHECK_EQ(weft_pool_next_deadline(pool), WEFT_FOREVER);
        if (atomic_load(&posting) > 0) {
            int n = poll(&ready, 1, -1);
            CHECK(n == 1 || errno == EINTR); /* the watchdog may interrupt this thread */
        }
    } while (atomic_load(&posting) > 0);
    for (int i = 0; i < POSTERS; i++) {
        poster_close(&posters[i]);
    }
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    watchdog_forget(pool);
    weft_pool_destroy(pool);
    watchdog_stop();
}
