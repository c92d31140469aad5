/* Under the kernel's limits (address space, descriptors) calls return the documented errors and
 * leave nothing half-made, and everything works again after a limit is lifted or fibers have
 * ended. */
/* not under: asan tsan valgrind qemu */
#include <sys/resource.h>

#include "pool/fixture.h"

#define MOST 5000

static size_t address_space(void)
{
    FILE *statm = fopen("/proc/self/statm", "r");
    unsigned long pages;
    CHECK(statm != NULL);
    CHECK_EQ(fscanf(statm, "%lu", &pages), 1);
    fclose(statm);
    return pages * (size_t)sysconf(_SC_PAGESIZE);
}

static void allow_more_address_space(size_t bytes)
{
    struct rlimit limit;
    CHECK_EQ(getrlimit(RLIMIT_AS, &limit), 0);
    limit.rlim_cur = bytes == SIZE_MAX ? limit.rlim_max : address_space() + bytes;
    CHECK_EQ(setrlimit(RLIMIT_AS, &limit), 0);
}

static void lift_limit(void)
{
    allow_more_address_space(SIZE_MAX);
}

static void expect_success(void (*fn)(void *))
{
    char err[CHECK_ERR];
    int status = check_child(fn, NULL, err, sizeof err);
    printf("%s", err);
    fflush(stdout);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

static atomic_int parked;

static void *park(void *arg)
{
    atomic_fetch_add(&parked, 1);
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    return arg;
}

static weft_fiber fibers[MOST];

/* Spawns until the kernel refuses; every created fiber also gets its stack. */
static int fill(weft_pool *pool, size_t stack_bytes)
{
    struct weft_fiber_opts opts = {.stack_bytes = stack_bytes};
    int made = 0, err;
    atomic_store(&parked, 0);
    while ((err = weft_pool_spawn(pool, &fibers[made], park, NULL, &opts)) == 0) {
        CHECK(++made < MOST);
    }
    CHECK_EQ(err, -ENOMEM);
    await_count(&parked, made);
    CHECK_EQ(pool_live(pool), made);
    return made;
}

static void empty(int made)
{
    for (int i = 0; i < made; i++) {
        CHECK_EQ(weft_fiber_unpark(fibers[i]), 0);
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
}

static void fill_again_and_again(size_t stack_bytes, size_t room, int least)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 3});
    allow_more_address_space(room);
    int first = fill(pool, stack_bytes);
    fprintf(stderr, "%zu KiB: %d fibers in %zu MiB", stack_bytes >> 10, first, room >> 20);
    CHECK(first >= least);
    for (int round = 0; round < 3; round++) {
        empty(round == 0 ? first : fill(pool, stack_bytes));
        await_idle(pool);
    }
    int again = fill(pool, stack_bytes);
    fprintf(stderr, ", then %d\n", again);
    CHECK(again >= first / 2); /* workers keep some stacks in their caches */
    lift_limit();
    CHECK_EQ(weft_pool_spawn(pool, &fibers[again], park, NULL, NULL), 0);
    empty(again + 1);
    pool_close(pool);
}

static void fill_small_stacks(void *arg)
{
    (void)arg;
    fill_again_and_again(64 * 1024, (size_t)64 << 20, 300);
}

static void fill_large_stacks(void *arg)
{
    (void)arg;
    fill_again_and_again((size_t)4 << 20, (size_t)100 << 20, 10);
}

static void fill_largest_stacks(void *arg)
{
    (void)arg;
    fill_again_and_again((size_t)64 << 20, (size_t)300 << 20, 2);
}

TEST(spawn_fails_at_memory_limit_and_recovers_below_limit)
{
    expect_success(fill_small_stacks);
    expect_success(fill_large_stacks);
    expect_success(fill_largest_stacks);
}

static void *nothing(void *arg)
{
    return arg;
}

/* One fiber with a large stack must not reserve 64 such stacks. */
static void be_modest(void *arg)
{
    (void)arg;
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    CHECK_EQ(weft_pool_call(pool, NULL, WEFT_ANY_WORKER, nothing, NULL, WEFT_FOREVER), 0);
    struct weft_fiber_opts opts = {.stack_bytes = (size_t)16 << 20};
    size_t before = address_space();
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_pool_spawn(pool, &fibers[0], nothing, NULL, &opts), 0);
        CHECK_EQ(weft_join(fibers[0], NULL, WEFT_FOREVER), 0);
    }
    CHECK(address_space() - before <= (size_t)200 << 20);
    pool_close(pool);
}

TEST(large_stack_does_not_reserve_many_stacks)
{
    expect_success(be_modest);
}

/* --- pools ------------------------------------------------------------------------------------ */

static atomic_int ran;

static void *count(void *arg)
{
    atomic_fetch_add(&ran, 1);
    return arg;
}

static void start_without_room(void *arg)
{
    weft_pool *pool;
    pthread_attr_t attr;
    (void)arg;
    CHECK_EQ(pthread_attr_init(&attr),
             0); /* otherwise a thread's stack is as large as `ulimit -s` says */
    CHECK_EQ(pthread_attr_setstacksize(&attr, (size_t)8 << 20), 0);
    CHECK_EQ(pthread_setattr_default_np(&attr), 0);
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 8}), 0);
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(weft_pool_submit(pool, count, NULL), 0);
    }
    allow_more_address_space((size_t)20 << 20); /* for two threads' stacks */
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_pool_start(pool), -EAGAIN);
    }
    lift_limit();
    CHECK_EQ(weft_pool_start(pool), 0);
    pool_close(pool);
    CHECK_EQ(atomic_load(&ran), 100); /* none lost, none twice */
}

TEST(pool_start_without_threads_fails_and_can_be_retried)
{
    expect_success(start_without_room);
}

static void create_without_room(void *arg)
{
    weft_pool *pool;
    struct weft_pool_opts opts = {.workers = 1000, .ring_slots = 65536, .fresh_slots = 65536};
    (void)arg;
    allow_more_address_space((size_t)64 << 20);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_pool_create(&pool, &opts), -ENOMEM);
    }
    opts.workers = 32; /* the memory taken for the large pool is free again */
    CHECK_EQ(weft_pool_create(&pool, &opts), 0);
    weft_pool_destroy(pool);
}

TEST(failed_pool_create_leaks_nothing)
{
    expect_success(create_without_room);
}

static void create_without_descriptors(void *arg)
{
    weft_pool *pool;
    struct weft_pool_opts opts = {.workers = 1, .caller = true};
    struct rlimit none = {0, 0}, before;
    (void)arg;
    CHECK_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
    none.rlim_max = before.rlim_max;
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
    CHECK_EQ(weft_pool_create(&pool, &opts), -EMFILE);
    CHECK_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
    CHECK_EQ(weft_pool_create(&pool, &opts), 0); /* the thread can still become a caller */
    weft_pool_destroy(pool);
}

TEST(pool_create_without_descriptors_fails)
{
    expect_success(create_without_descriptors);
}
