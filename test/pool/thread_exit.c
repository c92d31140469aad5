/* Threads that Weft owns or borrows: pthread_cancel does not end them, and a fiber or function that
 * calls pthread_exit is named in a message, instead of leaving a program that hangs. */
/* not under: asan tsan valgrind qemu */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "check.h"

/* --- pthread_cancel ------------------------------------------------------------------------- */

static void *is_cancelled_and_goes_on(void *arg)
{
    int state;
    CHECK_EQ(pthread_cancel(pthread_self()), 0);
    pthread_testcancel();
    CHECK_EQ(weft_sleep(weft_after(1000000)),
             0); /* its worker sleeps in the kernel, at cancellation points */
    pthread_testcancel();
    CHECK_EQ(pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &state), 0);
    CHECK_EQ(state, PTHREAD_CANCEL_DISABLE);
    return arg;
}

TEST(pthread_cancel_of_worker_thread_has_no_effect)
{
    weft_pool *pool;
    weft_fiber fiber;
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 2}), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    for (int i = 0; i < 2; i++) {
        const struct weft_fiber_opts opts = {.bound = true, .worker = i};
        CHECK_EQ(weft_pool_spawn(pool, &fiber, is_cancelled_and_goes_on, NULL, &opts), 0);
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    }
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
}

TEST(pthread_cancel_of_blocking_thread_has_no_effect)
{
    int arg;
    void *result = NULL;
    CHECK_EQ(weft_blocking_call(NULL, &result, is_cancelled_and_goes_on, &arg, WEFT_FOREVER), 0);
    CHECK(result == &arg);
}

/* The caller's thread is borrowed: a cancel takes effect after Weft has returned it. */
static atomic_bool given_back;

static void *lends_its_thread(void *arg)
{
    CHECK_EQ(weft_run(NULL, is_cancelled_and_goes_on, NULL, &(struct weft_pool_opts){.workers = 1},
                      WEFT_FOREVER),
             0);
    atomic_store(&given_back, true);
    pthread_testcancel();
    return arg;
}

TEST(pthread_cancel_of_caller_is_deferred_until_run_returns)
{
    pthread_t thread;
    void *result = NULL;
    CHECK_EQ(pthread_create(&thread, NULL, lends_its_thread, NULL), 0);
    CHECK_EQ(pthread_join(thread, &result), 0);
    CHECK(atomic_load(&given_back));
    CHECK(result == PTHREAD_CANCELED);
}

/* --- pthread_exit ----------------------------------------------------------------------------- */

static void *exits(void *arg)
{
    if (!arg) {
        CHECK_EQ(weft_fiber_set_name("quitter"), 0);
    }
    pthread_exit(NULL);
}

static void expect_abort(void (*fn)(void *), const char *const *words)
{
    char text[CHECK_ERR];
    int status = check_child(fn, NULL, text, sizeof text);
    bool all = WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
    for (; *words; words++) {
        all = all && strstr(text, *words);
    }
    if (!all) {
        fprintf(stderr, "%s\n", text);
    }
    CHECK(all);
}

#define EXPECT_ABORT(fn, ...) expect_abort(fn, (const char *const[]){__VA_ARGS__, NULL})

static void in_a_pool(void *arg)
{
    weft_pool *pool;
    weft_fiber fiber;
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1, .name = "far"}), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    CHECK_EQ(weft_pool_spawn(pool, &fiber, exits, arg, NULL), 0);
    weft_join(fiber, NULL, WEFT_FOREVER);
}

static void on_the_callers_thread(void *arg)
{
    weft_run(NULL, exits, arg, &(struct weft_pool_opts){.workers = 1, .name = "near"},
             WEFT_FOREVER);
}

static void in_a_hosts_loop(void *arg)
{
    weft_pool *pool;
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1, .caller = true}), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    CHECK_EQ(weft_pool_spawn(pool, NULL, exits, arg, NULL), 0);
    for (;;) {
        weft_pool_poll(pool);
    }
}

TEST(pthread_exit_in_fiber_aborts_with_fiber_name)
{
    EXPECT_ABORT(in_a_pool, "fiber #", " quitter has ended its thread, worker 0 of pool far, by",
                 "pthread_exit", "weft_fiber_exit");
    EXPECT_ABORT(on_the_callers_thread, " quitter has ended its thread, worker 0 of pool near");
    EXPECT_ABORT(in_a_hosts_loop, " quitter has ended its thread, worker 0 of pool weft");
}

static void in_the_blocking_pool(void *arg)
{
    weft_blocking_call(NULL, NULL, exits, &arg, WEFT_FOREVER);
}

TEST(pthread_exit_in_blocking_function_aborts_with_message)
{
    EXPECT_ABORT(in_the_blocking_pool, "a function that the blocking pool ",
                 " runs has ended its thread by pthread_exit");
}

static void times_out(weft_timer *timer, void *arg, uint64_t times)
{
    (void)timer, (void)arg, (void)times;
    pthread_exit(NULL);
}

static void *waits_for_timer(void *arg)
{
    static weft_timer timer;
    weft_timer_init(&timer, times_out, NULL, NULL);
    weft_timer_set(&timer, weft_after(1000000));
    weft_sleep(WEFT_FOREVER);
    return arg;
}

static void in_a_callback(void *arg)
{
    weft_run(NULL, waits_for_timer, arg, &(struct weft_pool_opts){.workers = 1}, WEFT_FOREVER);
}

TEST(pthread_exit_in_timer_callback_aborts_with_message)
{
    EXPECT_ABORT(in_a_callback, "a callback has ended its thread, worker 0 of pool weft",
                 "return from the callback");
}
