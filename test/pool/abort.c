/* WEFT_STOP_ABORT cancels fibers through every shield. It does not cut short a parent's wait for
 * its children, because the children are aborted themselves. */
/* labels: valgrind */
#include "fixture.h"

#define MS INT64_C(1000000)
#define WAIT_LIMIT (20000 * MS)

static atomic_int waiting, ended;
static weft_event event;

static void fresh(void)
{
    atomic_store(&waiting, 0);
    atomic_store(&ended, 0);
    weft_event_init(&event, NULL);
}

static void *shielded(void *arg)
{
    weft_fiber_shield_enter();
    weft_fiber_shield_enter();
    atomic_fetch_add(&waiting, 1);
    CHECK_EQ(weft_event_wait(&event, WEFT_FOREVER), -ECANCELED);
    CHECK(weft_fiber_is_cancelled());
    CHECK_EQ(weft_sleep(weft_after(MS)), -ECANCELED); /* every wait from now on */
    weft_fiber_shield_leave();
    CHECK_EQ(weft_fiber_park(weft_after(MS)), -ECANCELED);
    weft_fiber_shield_leave();
    atomic_fetch_add(&ended, 1);
    return arg;
}

TEST(abort_ends_waits_inside_shields)
{
    fresh();
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    for (int i = 0; i < 6; i++) {
        CHECK_EQ(weft_pool_submit(pool, shielded, NULL), 0);
    }
    await_count(&waiting, 6);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_ABORT, weft_after(WAIT_LIMIT)), 0);
    CHECK_EQ(atomic_load(&ended), 6);
    weft_pool_destroy(pool);
    weft_event_deinit(&event);
}

/* A cancel does not end a shielded wait: the stop waits for the shielded fiber until an abort ends
 * it. */
static void stops_twice(void *arg)
{
    (void)arg;
    fresh();
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1, .name = "stubborn"});
    CHECK_EQ(weft_pool_submit(pool, shielded, NULL), 0);
    await_count(&waiting, 1);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_CANCEL, weft_after(10 * MS)), -EBUSY);
    CHECK_EQ(atomic_load(&ended), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_ABORT, weft_after(WAIT_LIMIT)), 0);
    CHECK_EQ(atomic_load(&ended), 1);
    weft_pool_destroy(pool);
}

TEST(abort_completes_where_cancelling_stop_is_busy)
{
    char err[CHECK_ERR];
    int status = check_child(stops_twice, NULL, err, sizeof err);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    CHECK(strstr(err, "pool stubborn: fibers have not ended although they were cancelled"));
    CHECK(strstr(err, "event")); /* the dump says what the fiber waits for */
}

/* A fiber that is spawned during an abort is aborted. */
static void *makes_children(void *arg)
{
    while (!weft_fiber_is_cancelled()) {
        CHECK_EQ(weft_spawn(NULL, shielded, NULL, NULL), 0);
        weft_yield();
    }
    return arg;
}

TEST(abort_reaches_every_fiber_being_spawned)
{
    for (long i = 0, n = check_scale(20) + 3; i < n; i++) {
        fresh();
        weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
        CHECK_EQ(weft_pool_submit(pool, makes_children, NULL), 0);
        CHECK_EQ(weft_pool_submit(pool, makes_children, NULL), 0);
        await_count(&waiting, 10);
        CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_ABORT, weft_after(WAIT_LIMIT)), 0);
        CHECK_EQ(atomic_load(&ended), atomic_load(&waiting));
        weft_pool_destroy(pool);
        weft_event_deinit(&event);
    }
}

/* --- scopes ----------------------------------------------------------------------------------- */

static int shielded_child(void *arg)
{
    shielded(arg);
    for (int i = 0; i < 30; i++) {
        weft_yield(); /* the child ends slowly */
    }
    atomic_fetch_add(&ended, 10);
    return -ECANCELED;
}

static void *shielded_parent(void *arg)
{
    weft_scope scope;
    weft_fiber_shield_enter();
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    CHECK_EQ(weft_scope_spawn(&scope, NULL, shielded_child, NULL, NULL), 0);
    CHECK_EQ(weft_scope_spawn(&scope, NULL, shielded_child, NULL, NULL), 0);
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), -ECANCELED);
    CHECK_EQ(atomic_load(&ended), 2 * 11); /* not before the children */
    weft_fiber_shield_leave();
    return arg;
}

TEST(scope_close_outlasts_abort_until_children_ended)
{
    fresh();
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    CHECK_EQ(weft_pool_submit(pool, shielded_parent, NULL), 0);
    await_count(&waiting, 2);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_ABORT, weft_after(WAIT_LIMIT)), 0);
    CHECK_EQ(atomic_load(&ended), 2 * 11);
    weft_pool_destroy(pool);
    weft_event_deinit(&event);
}

/* The abort arrives when the parent is already cancelled and waits for its last child. */
static void *cancelled_parent(void *arg)
{
    weft_scope scope;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    CHECK_EQ(weft_scope_spawn(&scope, NULL, shielded_child, NULL, NULL), 0);
    CHECK_EQ(weft_cancel(weft_self()), 0);
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), -ECANCELED);
    CHECK_EQ(atomic_load(&ended), 11);
    return arg;
}

TEST(scope_close_waiting_for_last_child_outlasts_abort)
{
    fresh();
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    weft_fiber parent;
    CHECK_EQ(weft_pool_spawn(pool, &parent, cancelled_parent, NULL, NULL), 0);
    await_count(&waiting, 1);
    await_state(parent, WEFT_FIBER_WAITING);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_ABORT, weft_after(WAIT_LIMIT)), 0);
    CHECK_EQ(atomic_load(&ended), 11);
    CHECK_EQ(weft_join(parent, NULL, 0), 0);
    weft_pool_destroy(pool);
    weft_event_deinit(&event);
}
