/* Shared by the frame tests: a place to run in, once a group and once a pool with two workers, and
 * frames that record what they do as text.
 *
 *     EACH_HOME(name)     // a test that runs in both; `home` is where
 *     {
 *         weft_fiber fiber = home_spawn(home, &frame);
 *         ...
 *     }
 */
#ifndef WEFT_TEST_FRAME_FIXTURE_H
#define WEFT_TEST_FRAME_FIXTURE_H

#include "pool/fixture.h"

#define MS INT64_C(1000000)
#define SELF(type) struct type *self = (struct type *)f

struct home {
    weft_pool *pool; /* or */
    weft_dispatcher *dispatcher;
    weft_group *group, *other; /* two of its groups */
};

__attribute__((unused)) static void home_open_on(struct home *home, bool grouped,
                                                 enum weft_driver driver)
{
    *home = (struct home){0};
    if (!grouped) {
        home->pool = pool_open(&(struct weft_pool_opts){.workers = 2, .driver = driver});
        return;
    }
    CHECK_EQ(
        weft_dispatcher_create(&home->dispatcher, &(struct weft_dispatcher_opts){.driver = driver}),
        0);
    CHECK_EQ(weft_dispatcher_start(home->dispatcher), 0);
    CHECK_EQ(weft_group_create(home->dispatcher, &home->group,
                               &(struct weft_group_opts){.name = "first"}),
             0);
    CHECK_EQ(weft_group_create(home->dispatcher, &home->other,
                               &(struct weft_group_opts){.name = "second"}),
             0);
}

__attribute__((unused)) static void home_open(struct home *home, bool grouped)
{
    home_open_on(home, grouped, WEFT_DRIVER_AUTO);
}

/* Checks that all fibers have ended and the groups have finished on their own. */
__attribute__((unused)) static void home_close(struct home *home)
{
    if (home->pool) {
        pool_close(home->pool);
        return;
    }
    CHECK_EQ(weft_dispatcher_stop(home->dispatcher, NULL, 0, WEFT_FOREVER), 0);
    weft_dispatcher_destroy(home->dispatcher);
}

__attribute__((unused)) static weft_fiber home_spawn(const struct home *home, weft_frame *frame)
{
    weft_fiber fiber;
    CHECK_EQ(home->pool ? weft_pool_spawn_frame(home->pool, &fiber, frame, NULL)
                        : weft_group_spawn_frame(home->group, &fiber, frame, NULL),
             0);
    return fiber;
}

/* Spawns a fiber with a stack in the same place. */
__attribute__((unused)) static weft_fiber home_spawn_fn(const struct home *home, weft_fn fn,
                                                        void *arg)
{
    weft_fiber fiber;
    CHECK_EQ(home->pool ? weft_pool_spawn(home->pool, &fiber, fn, arg, NULL)
                        : weft_group_spawn(home->group, &fiber, fn, arg, NULL),
             0);
    return fiber;
}

/* Runs the frame as a fiber to its end; returns the result of its join. */
__attribute__((unused)) static int home_run(const struct home *home, weft_frame *frame, void **out)
{
    return weft_join(home_spawn(home, frame), out, WEFT_FOREVER);
}

#define EACH_HOME(name)                                                                            \
    static void home_run_##name(struct home *home);                                                \
    TEST(name)                                                                                     \
    {                                                                                              \
        for (int i = 0; i < 2; i++) {                                                              \
            struct home here;                                                                      \
            home_open(&here, i == 0);                                                              \
            home_run_##name(&here);                                                                \
            home_close(&here);                                                                     \
        }                                                                                          \
    }                                                                                              \
    static void home_run_##name(__attribute__((unused)) struct home *home)

/* Waits, as a plain thread, until the fiber waits. */
__attribute__((unused)) static weft_fiber home_waiting(const struct home *home, weft_frame *frame)
{
    weft_fiber fiber = home_spawn(home, frame);
    await_state(fiber, WEFT_FIBER_WAITING);
    return fiber;
}

/* --- recorded events, as text -------------------------------------------------------------- */

static char noted[512];
static pthread_mutex_t noting = PTHREAD_MUTEX_INITIALIZER;

__attribute__((unused)) static void notes_add(const char *what)
{
    pthread_mutex_lock(&noting);
    size_t used = strlen(noted);
    snprintf(noted + used, sizeof noted - used, "%s%s", used ? " " : "", what);
    pthread_mutex_unlock(&noting);
}

/* NULL: not checked. */
__attribute__((unused)) static void notes_are(const char *expected)
{
    pthread_mutex_lock(&noting);
    if (expected) {
        CHECK_STR(noted, expected);
    }
    noted[0] = 0;
    pthread_mutex_unlock(&noting);
}

/* --- errors that end a fiber ------------------------------------------------------------------ */

static atomic_int reported;
static _Atomic(int) reported_code;

__attribute__((unused)) static void count_report(weft_fiber fiber, const char *name,
                                                 const weft_error *error)
{
    (void)fiber, (void)name;
    atomic_store(&reported_code, weft_error_code(error));
    atomic_fetch_add(&reported, 1);
}

/* From now on errors are counted, and not printed. */
__attribute__((constructor)) static void count_reports(void)
{
    weft_frame_on_error(count_report);
}

__attribute__((unused)) static int take_reports(void)
{
    return atomic_exchange(&reported, 0);
}

#endif
