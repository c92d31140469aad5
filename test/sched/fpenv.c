/* Floating-point control: a fiber that asks for it keeps its rounding mode across switches and
 * workers, and no other fiber or thread sees that mode. */
#include <fenv.h>

#include "pool/fixture.h"

/* Forces the hardware to compute what a compiler would fold. */
static volatile double unit = 1.0, three = 3.0;
static volatile float unitf = 1.0f, threef = 3.0f;

static __attribute__((noinline)) double third(void)
{
    return unit / three;
}

static __attribute__((noinline)) float thirdf(void)
{
    return unitf / threef;
}

static const int modes[] = {FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO};

static void check_mode(int mode)
{
    double nearest = 0x1.5555555555555p-2;
    CHECK_EQ(fegetround(), mode);
    CHECK(mode == FE_UPWARD ? third() > nearest : third() == nearest);
    CHECK(mode == FE_TONEAREST || mode == FE_UPWARD ? thirdf() == 0x1.555556p-2f
                                                    : thirdf() == 0x1.555554p-2f);
}

static void wait_somehow(int i)
{
    if (i % 5 == 0) {
        CHECK_EQ(weft_fiber_park(weft_after(1000)), -ETIMEDOUT);
    } else {
        weft_yield();
    }
}

static void *keeps_its_mode(void *arg)
{
    int mode = modes[(intptr_t)arg % 4];
    check_mode(FE_TONEAREST); /* nothing is inherited from the previous fiber */
    CHECK_EQ(fesetround(mode), 0);
    for (int i = 0; i < 25; i++) {
        check_mode(mode);
        wait_somehow(i);
        check_mode(mode);
    }
    return NULL; /* without resetting it */
}

static void *exits_in_its_mode(void *arg)
{
    CHECK_EQ(fesetround(FE_UPWARD), 0);
    weft_fiber_exit(arg);
}

static void *has_the_default(void *arg)
{
    for (int i = 0; i < 25; i++) {
        check_mode(FE_TONEAREST);
        wait_somehow(i);
    }
    return arg;
}

static weft_fiber spawn(weft_fn fn, intptr_t arg, bool fp_env)
{
    struct weft_fiber_opts opts = {.fp_env = fp_env};
    weft_fiber fiber;
    CHECK_EQ(weft_spawn(&fiber, fn, (void *)arg, &opts), 0);
    return fiber;
}

#define FIBERS 30

static void *mixes_modes(void *arg)
{
    weft_fiber fibers[FIBERS];
    (void)arg;
    check_mode(FE_TONEAREST);
    for (intptr_t i = 0; i < FIBERS; i++) {
        weft_fn fn = i % 3 == 0 ? has_the_default : i % 3 == 1 ? keeps_its_mode : exits_in_its_mode;
        fibers[i] = spawn(fn, i, i % 3 != 0);
    }
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
        check_mode(FE_TONEAREST);
    }
    return NULL;
}

TEST(rounding_mode_is_private_to_fiber)
{
    run_in_fiber(1, mixes_modes, NULL);
    check_mode(FE_TONEAREST);
    run_in_fiber(3, mixes_modes, NULL);
    check_mode(FE_TONEAREST);
}

static void changes_mode(void *arg)
{
    check_mode(FE_DOWNWARD);
    CHECK_EQ(fesetround(FE_UPWARD), 0);
    weft_yield();
    check_mode(FE_UPWARD);
    (void)arg;
}

static void *ends_in_a_changed_mode(void *arg)
{
    struct weft_fiber_cleanup node;
    CHECK_EQ(fesetround(FE_DOWNWARD), 0);
    weft_fiber_cleanup_push(&node, changes_mode, NULL);
    weft_fiber_exit(arg);
}

static void *runs_after_a_changed_mode(void *arg)
{
    (void)arg;
    for (int i = 0; i < 10; i++) {
        weft_fiber odd = spawn(ends_in_a_changed_mode, 0, true);
        weft_fiber even = spawn(has_the_default, 0, false);
        CHECK_EQ(weft_join(odd, NULL, WEFT_FOREVER), 0);
        check_mode(FE_TONEAREST);
        CHECK_EQ(weft_join(even, NULL, WEFT_FOREVER), 0);
    }
    return NULL;
}

TEST(cleanups_run_in_rounding_mode_of_fiber_and_leak_none)
{
    run_in_fiber(1, runs_after_a_changed_mode, NULL);
    run_in_fiber(2, runs_after_a_changed_mode, NULL);
}

/* A program may choose a mode for its own threads before it uses Weft. */
TEST(fiber_starts_with_default_rounding_mode)
{
    CHECK_EQ(fesetround(FE_UPWARD), 0);
    run_in_fiber(1, mixes_modes, NULL);
    check_mode(FE_UPWARD); /* and the thread has its own mode again */
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2}); /* threads inherit it */
    weft_fiber fiber;
    CHECK_EQ(weft_pool_spawn(pool, &fiber, mixes_modes, NULL, NULL), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    pool_close(pool);
    check_mode(FE_UPWARD);
    CHECK_EQ(fesetround(FE_TONEAREST), 0);
}
