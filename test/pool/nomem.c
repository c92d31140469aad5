/* Allocation failures: in each run one request fails, or all requests from some point on. Each call
 * returns an error or succeeds, nothing is half-made or leaked, and everything works again
 * afterwards. */
#include "base/alloc.h"

#include "context/sanitizer.h"
#include "pool/fixture.h"

#if WEFT__ASAN
#include <sanitizer/lsan_interface.h>
#endif

static void count_up(void *counter)
{
    atomic_fetch_add((atomic_int *)counter, 1);
}

static void *count(void *counter)
{
    count_up(counter);
    return counter;
}

/* --- one run that uses everything that allocates ----------------------------------------- */

#define CHILDREN 40
#define JOBS 10

struct run {
    weft_pool *pool;
    int errors; /* calls that failed */
    atomic_int expected, ran;
};

/* The only errors that a failed allocation may lead to. */
static bool refused(struct run *run, int err)
{
    CHECK(err == 0 || err == -ENOMEM || err == -EAGAIN);
    run->errors += err != 0;
    return err != 0;
}

static void *be_parent(void *arg)
{
    struct run *run = arg;
    weft_fiber child;
    for (int i = 0; i < CHILDREN; i++) { /* more than the fresh queue holds: the queue grows */
        int err = weft_spawn(NULL, count, &run->ran, NULL);
        atomic_fetch_add(&run->expected, !refused(run, err));
    }
    int err =
        weft_spawn(&child, count, &run->ran, &(struct weft_fiber_opts){.stack_bytes = 1 << 19});
    if (!refused(run, err)) {
        atomic_fetch_add(&run->expected, 1);
        CHECK_EQ(weft_join(child, NULL, WEFT_FOREVER), 0);
    }
    return NULL;
}

static void spawn_sizes(struct run *run)
{
    weft_fiber fibers[6] = {0};
    for (int i = 0; i < 6; i++) {
        struct weft_fiber_opts opts = {.stack_bytes = (size_t)16384 << (2 * i), .name = "sized"};
        if (!refused(run, weft_pool_spawn(run->pool, &fibers[i], count, &run->ran, &opts))) {
            atomic_fetch_add(&run->expected, 1);
        }
    }
    for (int i = 0; i < 6; i++) {
        void *result = NULL;
        if (fibers[i] != WEFT_NO_FIBER) {
            CHECK_EQ(weft_join(fibers[i], &result, WEFT_FOREVER), 0);
            CHECK(result == &run->ran);
        }
    }
}

static void submit_jobs(struct run *run)
{
    struct weft_job jobs[JOBS];
    for (int i = 0; i < JOBS; i++) {
        jobs[i] = (struct weft_job){count, &run->ran};
    }
    if (!refused(run, weft_pool_submit_batch(run->pool, jobs, JOBS))) {
        atomic_fetch_add(&run->expected, JOBS);
    }
}

static void create_and_submit(struct run *run)
{
    weft_fiber one, other;
    if (!refused(run, weft_fiber_create(&one, count, &run->ran, NULL))) {
        int err = weft_fiber_submit(one, run->pool, 1);
        if (refused(run, err)) {
            CHECK_EQ(weft_fiber_discard(one), 0);
        } else {
            atomic_fetch_add(&run->expected, 1);
            CHECK_EQ(weft_join(one, NULL, WEFT_FOREVER), 0);
        }
    }
    if (!refused(run, weft_fiber_create(&other, count, &run->ran, NULL))) {
        CHECK_EQ(weft_fiber_discard(other), 0);
    }
}

/* Returns how many calls failed. */
static int use_everything(void)
{
    struct run run = {0};
    struct weft_pool_opts opts = {.workers = 2, .ring_slots = 4, .fresh_slots = 2};
    weft_pool_set *pools;
    if (!refused(&run, weft_pool_set_create(&pools, &(struct weft_pool_set_opts){.members = 2}))) {
        weft_pool_set_destroy(pools);
    }
    if (refused(&run, weft_pool_create(&run.pool, &opts))) {
        return run.errors;
    }
    if (!refused(&run, weft_pool_start(run.pool))) {
        weft_fiber parent;
        spawn_sizes(&run);
        submit_jobs(&run);
        create_and_submit(&run);
        if (!refused(&run, weft_pool_spawn(run.pool, &parent, be_parent, &run, NULL))) {
            CHECK_EQ(weft_join(parent, NULL, WEFT_FOREVER), 0);
        }
        CHECK_EQ(weft_pool_stop(run.pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    }
    weft_pool_destroy(run.pool);
    CHECK_EQ(atomic_load(&run.ran), atomic_load(&run.expected));
    return run.errors;
}

/* --- the sweep ------------------------------------------------------------------------------- */

struct failure {
    long k;
    bool sticky;
};

enum { UNTOUCHED = 10, SURVIVED = 11, REFUSED = 12 };

/* A separate process for each k: stacks and control blocks are reserved for the life of the
 * process. */
static void fail_in_child(void *arg)
{
    const struct failure *failure = arg;
    weft__alloc_fail_after(failure->k, failure->sticky);
    int errors = use_everything();
    bool reached = weft__alloc_requests() >= failure->k;
    weft__alloc_fail_after(0, false);
    CHECK(reached || errors == 0);
    CHECK_EQ(use_everything(), 0);
#if WEFT__ASAN
    CHECK_EQ(__lsan_do_recoverable_leak_check(), 0);
#endif
    _exit(!reached ? UNTOUCHED : errors ? REFUSED : SURVIVED);
}

static void sweep(bool sticky)
{
    long refusals = 0;
    for (long k = 1;; k++) {
        char err[CHECK_ERR];
        struct failure failure = {k, sticky};
        int status = check_child(fail_in_child, &failure, err, sizeof err);
        if (!WIFEXITED(status) || WEXITSTATUS(status) < UNTOUCHED) {
            printf("request %ld, sticky %d:\n%s\n", k, sticky, err);
            fflush(stdout);
            CHECK(!"the child failed");
        }
        if (WEXITSTATUS(status) == UNTOUCHED) {
            printf("%ld requests, %ld of them lead to an error\n", k - 1, refusals);
            CHECK(k > 10);
            break;
        }
        refusals += WEXITSTATUS(status) == REFUSED;
        CHECK(k < 1000);
    }
    CHECK(refusals > 0);
}

TEST(pool_survives_failure_of_any_single_allocation)
{
    sweep(false);
}

TEST(pool_survives_failure_of_all_allocations_from_any_point)
{
    sweep(true);
}

/* --- afterwards ------------------------------------------------------------------------------- */

static atomic_int parked;

static void *park(void *arg)
{
    atomic_fetch_add(&parked, 1);
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    return arg;
}

#define MOST 4096

/* Spawns until there is no memory; returns the number of fibers. */
static int fill(weft_pool *pool, weft_fiber *fibers, size_t stack_bytes)
{
    struct weft_fiber_opts opts = {.stack_bytes = stack_bytes};
    int made = 0, err;
    atomic_store(&parked, 0);
    weft__alloc_fail_after(1, true);
    while ((err = weft_pool_spawn(pool, &fibers[made], park, NULL, &opts)) == 0) {
        CHECK(++made < MOST);
    }
    CHECK_EQ(err, -ENOMEM);
    await_count(&parked, made); /* every created fiber got its stack */
    return made;
}

static void empty(const weft_fiber *fibers, int made)
{
    for (int i = 0; i < made; i++) {
        CHECK_EQ(weft_fiber_unpark(fibers[i]), 0);
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
}

/* Stack credits of ended fibers stay with the workers on which they ended; a sleeping worker keeps
 * none. */
static void spawn_when_idle(weft_pool *pool, size_t stack_bytes, atomic_int *ran)
{
    struct weft_fiber_opts opts = {.stack_bytes = stack_bytes};
    weft_fiber fiber;
    await_idle(pool);
    CHECK_EQ(weft_pool_spawn(pool, &fiber, count, ran, &opts), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    await_idle(pool);
}

static void fill_and_empty(size_t stack_bytes)
{
    static weft_fiber fibers[MOST];
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 4});
    atomic_int ran = 0;
    CHECK_EQ(weft_pool_call(pool, NULL, WEFT_ANY_WORKER, count, &ran, WEFT_FOREVER), 0);
    spawn_when_idle(pool, stack_bytes, &ran); /* reserves some stacks of this size */
    for (int round = 0; round < 5; round++) {
        int made = fill(pool, fibers, stack_bytes);
        CHECK(made > 0);
        CHECK_EQ(pool_live(pool), made);
        empty(fibers, made);
        spawn_when_idle(pool, stack_bytes, &ran);
    }
    weft__alloc_fail_after(0, false);
    spawn_when_idle(pool, stack_bytes, &ran);
    pool_close(pool);
    CHECK_EQ(atomic_load(&ran), 8);
}

TEST(spawn_after_enomem_works_again_when_fibers_ended)
{
    fill_and_empty(64 * 1024);
    fill_and_empty(1024 * 1024);
    fill_and_empty((size_t)64 * 1024 * 1024);
}

static void *burst(void *ran)
{
    weft__alloc_fail_after(1,
                           true); /* the fresh queue cannot grow: the global queue takes the rest */
    for (int i = 0; i < 50; i++) {
        CHECK_EQ(weft_spawn(NULL, count, ran, NULL), 0);
    }
    weft__alloc_fail_after(0, false);
    return NULL;
}

TEST(fresh_queue_that_cannot_grow_loses_no_fiber)
{
    atomic_int ran = 0;
    struct weft_pool_opts opts = {.workers = 2, .ring_slots = 4, .fresh_slots = 2};
    weft_pool *pool = pool_open(&opts);
    /* Reserves control blocks and credits for the burst, on whichever worker runs it. */
    struct weft_job jobs[200];
    for (int i = 0; i < 200; i++) {
        jobs[i] = (struct weft_job){count, &ran};
    }
    CHECK_EQ(weft_pool_submit_batch(pool, jobs, 200), 0);
    await_count(&ran, 200);
    CHECK_EQ(weft_pool_call(pool, NULL, WEFT_ANY_WORKER, burst, &ran, WEFT_FOREVER), 0);
    pool_close(pool);
    CHECK_EQ(atomic_load(&ran), 250);
}

TEST(batch_submit_without_memory_runs_all_or_none)
{
    enum { MANY = 3000 };
    static struct weft_job jobs[MANY];
    atomic_int ran = 0;
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2, .stack_bytes = 1 << 17});
    for (int i = 0; i < MANY; i++) {
        jobs[i] = (struct weft_job){count, &ran};
    }
    CHECK_EQ(weft_pool_submit_batch(pool, jobs, 10), 0);
    weft__alloc_fail_after(1, true);
    CHECK_EQ(weft_pool_submit_batch(pool, jobs, MANY), -ENOMEM); /* after some were created */
    weft__alloc_fail_after(0, false);
    CHECK_EQ(weft_pool_submit_batch(pool, jobs, MANY), 0);
    pool_close(pool);
    CHECK_EQ(atomic_load(&ran), 10 + MANY);
}
