/* Fiber stacks: sizes, when a stack is attached, high-water marks. */
#include "context/stack.h"

#include "context/overflow.h"
#include "pool/fixture.h"

#define PAGE ((size_t)sysconf(_SC_PAGESIZE))

/* --- sizes ----------------------------------------------------------------------------------- */

static void *own_size(void *arg)
{
    size_t size, high_water;
    (void)arg;
    CHECK_EQ(weft_fiber_stack(weft_self(), &size, &high_water), 0);
    CHECK(high_water > 0 && high_water <= size);
    return (void *)size;
}

static size_t size_given(weft_pool *pool, size_t wanted)
{
    struct weft_fiber_opts opts = {.stack_bytes = wanted};
    weft_fiber fiber;
    void *size;
    CHECK_EQ(weft_pool_spawn(pool, &fiber, own_size, NULL, &opts), 0);
    CHECK_EQ(weft_join(fiber, &size, WEFT_FOREVER), 0);
    return (size_t)size;
}

TEST(fiber_gets_at_least_requested_stack)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1, .stack_bytes = 200000});
    CHECK_EQ(size_given(pool, 0), 256 * 1024); /* the pool's default */
    CHECK_EQ(size_given(pool, 1), 16 * 1024);
    CHECK_EQ(size_given(pool, 16 * 1024 + 1), 32 * 1024);
    CHECK_EQ(size_given(pool, 64 * 1024), 64 * 1024);
    CHECK_EQ(size_given(pool, (size_t)64 << 20), (size_t)64 << 20);
    struct weft_fiber_opts opts = {.stack_bytes = ((size_t)64 << 20) + 1};
    CHECK_EQ(weft_pool_spawn(pool, NULL, own_size, NULL, &opts), -EINVAL);
    pool_close(pool);
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.stack_bytes = SIZE_MAX}), -EINVAL);
}

static void *use_large_stack(void *arg)
{
    recurse_below(__builtin_frame_address(0), ((size_t)1 << 20) - 16 * 1024);
    return arg;
}

TEST(large_stack_is_usable_to_its_end)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    struct weft_fiber_opts opts = {.stack_bytes = 1 << 20};
    weft_fiber fiber;
    CHECK_EQ(weft_pool_spawn(pool, &fiber, use_large_stack, NULL, &opts), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    pool_close(pool);
}

/* --- high-water marks ------------------------------------------------------------------------- */

static void *park(void *arg)
{
    CHECK_EQ(weft_fiber_park(WEFT_FOREVER), 0);
    return arg;
}

static void *sink_then_park(void *depth)
{
    recurse_below(__builtin_frame_address(0), (size_t)depth);
    return park(NULL);
}

static size_t high_water_of(weft_fiber fiber)
{
    size_t size, high_water;
    CHECK_EQ(weft_fiber_stack(fiber, &size, &high_water), 0);
    return high_water;
}

static void *measure_marks(void *arg)
{
    size_t depths[] = {0, 20 * 1024, 100 * 1024, 240 * 1024};
    for (int i = 0; i < 4; i++) {
        struct weft_fiber_opts opts = {.stack_bytes = 256 * 1024};
        weft_fiber fiber;
        CHECK_EQ(weft_spawn(&fiber, sink_then_park, (void *)depths[i], &opts), 0);
        await_state(fiber, WEFT_FIBER_WAITING);
        size_t mark = high_water_of(fiber); /* of another, suspended fiber */
        CHECK(mark >= depths[i]);
        CHECK(mark <= depths[i] + 8 * 1024 + 2 * PAGE); /* first frames, one too many */
        CHECK_EQ(mark % PAGE, 0);
        CHECK_EQ(weft_fiber_unpark(fiber), 0);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    }
    return arg;
}

TEST(stack_high_water_mark_follows_deepest_call)
{
    run_in_fiber(1, measure_marks, NULL);
}

TEST(fiber_without_stack_has_no_high_water_mark)
{
    size_t size = 1, high_water = 1;
    weft_fiber fiber;
    CHECK_EQ(weft_fiber_create(&fiber, park, NULL, NULL), 0);
    CHECK_EQ(weft_fiber_stack(fiber, &size, &high_water), 0);
    CHECK_EQ(size, 0);
    CHECK_EQ(high_water, 0);
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    CHECK_EQ(weft_fiber_submit(fiber, pool, WEFT_ANY_WORKER), 0);
    await_state(fiber, WEFT_FIBER_WAITING);
    CHECK_EQ(weft_fiber_stack(fiber, &size, &high_water), 0);
    CHECK_EQ(size, 64 * 1024);
    CHECK_EQ(weft_fiber_unpark(fiber), 0);
    await_state(fiber, WEFT_FIBER_DONE);
    CHECK_EQ(weft_fiber_stack(fiber, &size, &high_water), 0);
    CHECK_EQ(size, 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_fiber_stack(fiber, &size, &high_water), -ESRCH);
    pool_close(pool);
}

static void *ask_marks(void *fiber)
{
    for (int i = 0; i < 500; i++) {
        size_t size, high_water;
        int err = weft_fiber_stack(*(weft_fiber *)fiber, &size, &high_water);
        CHECK(err == 0 || err == -ESRCH);
        CHECK(err || high_water <= size);
    }
    return NULL;
}

static void *spawn_and_be_asked(void *arg)
{
    for (int i = 0; i < 200; i++) {
        weft_fiber fiber;
        CHECK_EQ(weft_spawn(&fiber, own_size, NULL, NULL), 0);
        pthread_t asker = 0;
        if (i % 20 == 0) {
            asker = thread_open(ask_marks, &fiber);
        }
        weft_yield();
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
        if (asker) {
            thread_close(asker);
        }
    }
    return arg;
}

TEST(high_water_mark_is_readable_while_fiber_starts_and_ends)
{
    run_in_fiber(2, spawn_and_be_asked, NULL);
}

/* --- attaching -------------------------------------------------------------------------------- */

static size_t carved(void)
{
    struct weft_memory_stats memory;
    weft_memory_stats(&memory);
    return memory.stacks;
}

static void *nothing(void *arg)
{
    return arg;
}

#define MANY 1000

TEST(fiber_that_never_ran_has_no_stack)
{
    static weft_fiber fibers[MANY];
    struct weft_fiber_opts opts = {.stack_bytes = 32 * 1024};
    size_t before = carved();
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(weft_fiber_create(&fibers[i], nothing, NULL, &opts), 0);
    }
    CHECK_EQ(carved(), before);
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(weft_fiber_discard(fibers[i]), 0);
    }
}

static void *spawn_many(void *arg)
{
    struct weft_fiber_opts opts = {.stack_bytes = 128 * 1024};
    size_t before = carved();
    for (int i = 0; i < MANY; i++) {
        CHECK_EQ(weft_spawn(NULL, nothing, NULL, &opts), 0);
    }
    weft_fiber last;
    CHECK_EQ(weft_spawn(&last, nothing, NULL, &opts), 0);
    CHECK_EQ(weft_join(last, NULL, WEFT_FOREVER), 0);
    for (int i = 0; i < MANY; i++) {
        weft_yield();
    }
    CHECK(carved() <= before + 1);
    return arg;
}

TEST(fibers_that_never_wait_share_one_stack)
{
    run_in_fiber(1, spawn_many, NULL);
}

/* --- recycling -------------------------------------------------------------------------------- */

/* The address of errno must not be kept across a yield: the fiber may resume on another thread. */
__attribute__((noinline)) static int *errno_here(void)
{
    int *here = &errno;
    __asm__ volatile("" : "+r"(here)::"memory");
    return here;
}

static void *leave_traces(void *arg)
{
    weft_fiber_key *key = arg;
    CHECK(weft_fiber_get_local(*key) == NULL); /* no value of the stack's previous user */
    CHECK_EQ(*errno_here(), 0);
    CHECK_EQ(weft_fiber_set_local(*key, arg), 0);
    recurse_below(__builtin_frame_address(0), 8 * 1024);
    *errno_here() = EPROTO;
    weft_yield();
    CHECK_EQ(*errno_here(), EPROTO);
    CHECK(weft_fiber_get_local(*key) == arg);
    return NULL;
}

TEST(recycled_stack_keeps_no_state_of_previous_fiber)
{
    weft_fiber_key key;
    CHECK_EQ(weft_fiber_key_create(&key, NULL), 0);
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    for (int i = 0; i < 2000; i++) {
        CHECK_EQ(weft_pool_submit(pool, leave_traces, &key), 0);
        if (i % 500 == 0) {
            weft_memory_trim();
        }
    }
    pool_close(pool);
}
