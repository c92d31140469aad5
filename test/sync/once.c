/* labels: valgrind */
#include <weft/sync.h>

#include "sync/fixture.h"
#include "sync/once.h"
#include "sync/stackless.h"

#define MS INT64_C(1000000)

static weft_once once;
static int calls; /* plain: once orders it */
static atomic_int entered;
static atomic_bool go;

static void fresh(void)
{
    weft_once_init(&once, &(struct weft_sync_opts){.name = "dawn"});
    calls = 0;
    atomic_store(&entered, 0);
    atomic_store(&go, false);
}

static void count(void *arg)
{
    (void)arg;
    atomic_fetch_add(&entered, 1);
    while (!atomic_load(&go)) {
        weft_yield();
    }
    calls++;
}

static void *ask(void *arg)
{
    (void)arg;
    int err = weft_once_call(&once, count, NULL, WEFT_FOREVER);
    if (err == 0) {
        CHECK_EQ(calls, 1);
    }
    return (void *)(intptr_t)err;
}

static weft_fiber asking(void)
{
    weft_fiber fiber;
    CHECK_EQ(weft_spawn(&fiber, ask, NULL, NULL), 0);
    return fiber;
}

static void *ask_together(void *arg)
{
    weft_fiber first = asking();
    await_count(&entered, 1);
    CHECK_EQ(weft_once_call(&once, count, NULL, 0), -ETIMEDOUT);
    CHECK_EQ(weft_once_call(&once, count, NULL, weft_after(MS)), -ETIMEDOUT);
    weft_fiber waits = asking(), cancelled = asking(), interrupted = asking();
    await_state(waits, WEFT_FIBER_WAITING);
    await_state(cancelled, WEFT_FIBER_WAITING);
    await_state(interrupted, WEFT_FIBER_WAITING);
    CHECK_EQ(weft_cancel(cancelled), 0);
    CHECK_EQ(weft_fiber_interrupt(interrupted), 0);
    joined(cancelled, -ECANCELED);
    joined(interrupted, -EINTR);
    CHECK_EQ(weft_cancel(first), 0); /* the call just continues */
    CHECK(!weft_once_is_done(&once));
    atomic_store(&go, true);
    joined(first, 0);
    joined(waits, 0);
    CHECK(weft_once_is_done(&once));
    CHECK_EQ(weft_once_call(&once, count, NULL, 0), 0);
    CHECK_EQ(calls, 1);
    return arg;
}

TEST(once_calls_function_once_and_others_wait)
{
    fresh();
    run_in_fiber(1, ask_together, NULL);
    weft_once_deinit(&once);
}

TEST(threads_and_pools_share_one_once)
{
    fresh();
    atomic_store(&go, true);
    weft_pool *a = pool_open(&(struct weft_pool_opts){.workers = 1, .name = "a"});
    weft_pool *b = pool_open(&(struct weft_pool_opts){.workers = 2, .name = "b"});
    pthread_t thread = thread_open(ask, NULL);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(weft_pool_submit(i % 2 ? a : b, ask, NULL), 0);
    }
    CHECK_EQ((intptr_t)thread_close(thread), 0);
    pool_close(a);
    pool_close(b);
    CHECK_EQ(calls, 1);
    weft_once_deinit(&once);
}

TEST(stackless_task_waits_for_once)
{
    enum { ME = 8 << 3 | WEFT__HOLDER_THREAD, YOU = 9 << 3 | WEFT__HOLDER_THREAD };
    struct body body;
    fresh();
    struct weft__once *o = weft__once_of(&once);
    body_arm(&body);
    CHECK_EQ(weft__once_arm(o, &body.node, ME), WEFT__ONCE_CALL);
    CHECK_EQ(weft__once_arm(o, &body.node, YOU), WEFT__ONCE_WAIT);
    CHECK(!body_told(&body));
    weft__once_done(o);
    CHECK(body_told(&body));
    weft__once_finish(o, &body.node);
    CHECK_EQ(weft__once_arm(o, &body.node, YOU), WEFT__ONCE_DONE);
    weft_once_deinit(&once);
}

static void *use_owned(void *arg)
{
    weft_once_init(&once, &(struct weft_sync_opts){.name = "mine", .owner = weft_pool_self()});
    calls = 0;
    atomic_store(&entered, 0);
    atomic_store(&go, false);
    ask_together(NULL);
    if (arg) {
        weft_once_init(&once, &(struct weft_sync_opts){.name = "mine", .owner = weft_pool_self()});
        thread_close(thread_open(ask, NULL));
    }
    weft_once_deinit(&once);
    return NULL;
}

TEST(owned_once_aborts_when_used_by_non_owner)
{
    used_by_owner_only(use_owned);
}

/* --- caller bugs ---------------------------------------------------------------------- */

static void ask_again(void *arg)
{
    weft_once_call(&once, ask_again, arg, WEFT_FOREVER);
}

static void leave(void *arg)
{
    weft_fiber_exit(arg);
}

static void *asks_within(void *arg)
{
    weft_once_call(&once, ask_again, NULL, WEFT_FOREVER);
    return arg;
}

static void *leaves_by_exit(void *arg)
{
    weft_once_call(&once, leave, NULL, WEFT_FOREVER);
    return arg;
}

static void *destroys_while_waited_on(void *arg)
{
    asking();
    await_count(&entered, 1);
    weft_fiber second = asking();
    await_state(second, WEFT_FIBER_WAITING);
    weft_once_deinit(&once);
    return arg;
}

TEST(once_misuse_aborts_with_message)
{
    fresh();
    must_stop_in_fiber(asks_within, NULL, "once dawn is called again by its own function");
    must_stop_in_fiber(leaves_by_exit, NULL,
                       "the function that once dawn calls has left by weft_fiber_exit");
    must_stop_in_fiber(destroys_while_waited_on, NULL,
                       "once dawn was destroyed while a fiber or thread waits on it");
}
