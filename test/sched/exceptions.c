/* C++ exceptions: each fiber has its own exception state on any worker. This program imitates the
 * relevant part of the C++ runtime in C, so that the test runs in every lane; test/install/cxx does
 * the same with real exceptions. */
/* labels: valgrind */
#include "pool/fixture.h"

struct globals {
    void *caught;
    unsigned uncaught;
};

struct exception {
    struct exception *below;
    bool gone;
};

struct globals *__cxa_get_globals(void);
void __cxa_end_catch(void);

static _Thread_local struct globals of_thread;

__attribute__((noinline)) struct globals *__cxa_get_globals(void)
{
    struct globals *at = &of_thread; /* docs/thread-locals.md */
    __asm__ volatile("" : "+r"(at)::"memory");
    return at;
}

static void begin_catch(struct exception *exception)
{
    struct globals *globals = __cxa_get_globals();
    exception->below = globals->caught;
    exception->gone = false;
    globals->caught = exception;
}

void __cxa_end_catch(void)
{
    struct globals *globals = __cxa_get_globals();
    struct exception *exception = globals->caught;
    globals->caught = exception->below;
    exception->gone = true;
}

static void check_state(const void *caught, unsigned uncaught)
{
    CHECK(__cxa_get_globals()->caught == caught);
    CHECK_EQ(__cxa_get_globals()->uncaught, uncaught);
}

static void wait_somehow(int i)
{
    if (i % 5 == 0) {
        CHECK_EQ(weft_fiber_park(weft_after(1000)), -ETIMEDOUT);
    } else {
        weft_yield();
    }
}

#define FIBERS 16
#define TURNS 25

static void *catches(void *arg)
{
    struct exception outer, inner;
    unsigned uncaught = (unsigned)(intptr_t)arg;
    check_state(NULL, 0); /* the fiber that ran here before has taken its state along */
    begin_catch(&outer);
    for (int i = 0; i < TURNS; i++) {
        wait_somehow(i);
        check_state(&outer, 0);
        begin_catch(&inner);
        __cxa_get_globals()->uncaught = uncaught;
        wait_somehow(i + 1);
        check_state(&inner, uncaught);
        __cxa_get_globals()->uncaught = 0;
        __cxa_end_catch();
        CHECK(inner.gone && !outer.gone);
    }
    check_state(&outer, 0);
    __cxa_end_catch();
    check_state(NULL, 0);
    return arg;
}

static void *catches_nothing(void *arg)
{
    for (int i = 0; i < TURNS; i++) {
        check_state(NULL, 0);
        wait_somehow(i);
    }
    return arg;
}

static void *run_all(void *arg)
{
    weft_fiber fibers[FIBERS];
    for (intptr_t i = 0; i < FIBERS; i++) {
        /* Fibers with their own floating-point control words take the same path. */
        struct weft_fiber_opts opts = {.fp_env = i % 4 == 0};
        CHECK_EQ(weft_spawn(&fibers[i], i % 3 ? catches : catches_nothing, (void *)i, &opts), 0);
    }
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    return arg;
}

TEST(cxx_exceptions_are_per_fiber)
{
    run_in_fiber(1, run_all, NULL);
    run_in_fiber(4, run_all, NULL);
}

static weft_pool *pools[2];

static void *catches_and_hops(void *arg)
{
    struct exception exception;
    begin_catch(&exception);
    for (int i = 0; i < TURNS; i++) {
        CHECK_EQ(weft_fiber_migrate(pools[i % 2], WEFT_ANY_WORKER), 0);
        check_state(&exception, 0);
    }
    __cxa_end_catch();
    check_state(NULL, 0);
    return arg;
}

TEST(cxx_exceptions_migrate_with_fiber)
{
    weft_fiber fibers[FIBERS];
    for (int i = 0; i < 2; i++) {
        pools[i] = pool_open(&(struct weft_pool_opts){.workers = 1, .hog_ns = -1});
    }
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_pool_spawn(pools[1], &fibers[i], catches_and_hops, NULL, NULL), 0);
    }
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
    }
    pool_close(pools[0]);
    pool_close(pools[1]);
}

static struct exception two[2];

static void *exits_while_it_catches(void *arg)
{
    begin_catch(&two[0]);
    begin_catch(&two[1]);
    weft_yield();
    weft_fiber_exit(arg);
}

static void *runs_after_it(void *arg)
{
    weft_fiber fiber;
    void *result = NULL;
    CHECK_EQ(weft_spawn(&fiber, exits_while_it_catches, arg, NULL), 0);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK(result == arg);
    CHECK(two[0].gone && two[1].gone);
    CHECK_EQ(weft_spawn(&fiber, catches_nothing, arg, NULL), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    return arg;
}

TEST(fiber_exit_inside_catch_releases_exceptions)
{
    int mark;
    CHECK(run_in_fiber(1, runs_after_it, &mark) == &mark);
}

TEST(thread_running_fibers_inside_catch_keeps_its_exceptions)
{
    struct exception exception;
    begin_catch(&exception);
    run_in_fiber(1, run_all, NULL);
    check_state(&exception, 0);
    run_in_fiber(4, catches_nothing, NULL);
    check_state(&exception, 0);
    __cxa_end_catch();
}
