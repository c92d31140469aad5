/* labels: valgrind */
#include <weft/sync.h>

#include "sync/barrier.h"
#include "sync/fixture.h"
#include "sync/stackless.h"

#define MS INT64_C(1000000)
enum { PARTIES = 4, PHASES = 30 };

static weft_barrier barrier;
static int steps[PARTIES]; /* plain: the barrier orders them */
static atomic_int lasts;

static void fresh(unsigned parties)
{
    weft_barrier_init(&barrier, parties, &(struct weft_sync_opts){.name = "gate"});
    memset(steps, 0, sizeof steps);
    atomic_store(&lasts, 0);
}

static void *walk(void *arg)
{
    int me = (int)(intptr_t)arg;
    for (int phase = 1; phase <= PHASES; phase++) {
        steps[me] = phase;
        int last = weft_barrier_wait(&barrier, WEFT_FOREVER);
        CHECK(last == 0 || last == 1);
        atomic_fetch_add(&lasts, last);
        for (int i = 0; i < PARTIES; i++) {
            CHECK_EQ(steps[i], phase);
        }
        CHECK(weft_barrier_wait(&barrier, WEFT_FOREVER) >= 0); /* all have checked */
    }
    return NULL;
}

static void *walk_together(void *arg)
{
    weft_fiber fibers[PARTIES];
    for (intptr_t i = 0; i < PARTIES; i++) {
        CHECK_EQ(weft_spawn(&fibers[i], walk, (void *)i, NULL), 0);
    }
    for (int i = 0; i < PARTIES; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    CHECK_EQ(atomic_load(&lasts), PHASES);
    return arg;
}

TEST(barrier_joins_all_parties_each_phase_and_names_one_last)
{
    fresh(PARTIES);
    run_in_fiber(1, walk_together, NULL);
    fresh(PARTIES);
    run_in_fiber(3, walk_together, NULL);
    weft_barrier_deinit(&barrier);
    fresh(1);
    CHECK_EQ(weft_barrier_wait(&barrier, 0), 1);
    weft_barrier_deinit(&barrier);
}

static void *wait_once(void *arg)
{
    (void)arg;
    return (void *)(intptr_t)weft_barrier_wait(&barrier, WEFT_FOREVER);
}

static weft_fiber waiting(void)
{
    return waiting_in(wait_once, NULL);
}

static void *leave(void *arg)
{
    weft_fiber stays = waiting(), cancelled = waiting();
    CHECK_EQ(weft_cancel(cancelled), 0);
    joined(cancelled, -ECANCELED);
    weft_fiber interrupted = waiting();
    CHECK_EQ(weft_fiber_interrupt(interrupted), 0);
    joined(interrupted, -EINTR);
    CHECK_EQ(weft_barrier_wait(&barrier, 0), -ETIMEDOUT);
    CHECK_EQ(weft_barrier_wait(&barrier, weft_after(MS)), -ETIMEDOUT);
    weft_fiber second = waiting(); /* of three: the barrier is not broken */
    CHECK_EQ(weft_barrier_wait(&barrier, 0), 1);
    joined(stays, 0);
    joined(second, 0);
    return arg;
}

TEST(party_giving_up_barrier_wait_has_not_arrived)
{
    fresh(3);
    run_in_fiber(1, leave, NULL);
    run_in_fiber(2, leave, NULL);
    weft_barrier_deinit(&barrier);
}

TEST(stackless_task_arrives_at_barrier)
{
    struct body body, late;
    fresh(2);
    struct weft__barrier *b = weft__barrier_of(&barrier);
    body_arm(&body);
    body_arm(&late);
    CHECK(weft__barrier_arm(b, &body.node));
    CHECK(!weft__barrier_arm(b, &late.node));
    CHECK(body_told(&body));
    CHECK(weft__barrier_finish(b, &body.node));
    body_disarm(&late);

    /* Its deadline has passed, but the last party arrived before it left: the phase is over for
     * both. */
    body_arm(&body);
    CHECK(weft__barrier_arm(b, &body.node));
    CHECK(body_end(&body, WEFT__REASON_TIMEOUT));
    CHECK_EQ(weft_barrier_wait(&barrier, 0), 1);
    CHECK(weft__barrier_finish(b, &body.node));

    body_arm(&body);
    CHECK(weft__barrier_arm(b, &body.node));
    CHECK(body_end(&body, WEFT__REASON_TIMEOUT));
    CHECK(!weft__barrier_finish(b, &body.node));
    CHECK_EQ(weft_barrier_wait(&barrier, 0), -ETIMEDOUT);
    weft_barrier_deinit(&barrier);
}

TEST(threads_and_pools_share_one_barrier)
{
    fresh(PARTIES);
    weft_pool *a = pool_open(&(struct weft_pool_opts){.workers = 1, .name = "a"});
    weft_pool *b = pool_open(&(struct weft_pool_opts){.workers = 2, .name = "b"});
    pthread_t threads[2];
    CHECK_EQ(weft_pool_spawn(a, NULL, walk, (void *)0, NULL), 0);
    CHECK_EQ(weft_pool_spawn(b, NULL, walk, (void *)1, NULL), 0);
    threads[0] = thread_open(walk, (void *)2);
    threads[1] = thread_open(walk, (void *)3);
    thread_close(threads[0]);
    thread_close(threads[1]);
    pool_close(a);
    pool_close(b);
    CHECK_EQ(atomic_load(&lasts), PHASES);
    weft_barrier_deinit(&barrier);
}

static void *use_owned(void *arg)
{
    weft_barrier_init(&barrier, 3,
                      &(struct weft_sync_opts){.name = "mine", .owner = weft_pool_self()});
    leave(NULL);
    if (arg) {
        thread_close(thread_open(wait_once, NULL));
    }
    weft_barrier_deinit(&barrier);
    return NULL;
}

TEST(owned_barrier_aborts_when_used_by_non_owner)
{
    used_by_owner_only(use_owned);
}

static void *destroy_while_waited_on(void *arg)
{
    waiting();
    weft_barrier_deinit(&barrier);
    return arg;
}

static void uses_zero(void *arg)
{
    memset(arg, 0, sizeof(weft_barrier));
    weft_barrier_wait(arg, 0);
}

TEST(barrier_misuse_aborts_with_message)
{
    fresh(2);
    must_stop_in_fiber(destroy_while_waited_on, NULL,
                       "barrier gate was destroyed while a fiber or thread waits on it");
    must_stop(uses_zero, &barrier, "a barrier was not initialised");
}
