/* labels: valgrind */
#include <weft/scope.h>

#include "base/alloc.h"
#include "context/sanitizer.h"
#include "pool/fixture.h"
#include "sync/scope.h"

#define MS INT64_C(1000000)
#define HOUR (3600 * 1000 * MS)

static atomic_int started, ended, expected;

static void fresh(void)
{
    atomic_store(&started, 0);
    atomic_store(&ended, 0);
    atomic_store(&expected, 0);
}

/* Child functions: the argument is the return value, unless the name says otherwise. */

static int returns(void *arg)
{
    atomic_fetch_add(&started, 1);
    weft_yield();
    atomic_fetch_add(&ended, 1);
    return (int)(intptr_t)arg;
}

static int parks(void *arg)
{
    (void)arg;
    atomic_fetch_add(&started, 1);
    int err = weft_fiber_park(WEFT_FOREVER);
    atomic_fetch_add(&ended, 1);
    return err;
}

/* Cancelled, but ends slowly. */
static int parks_then_works(void *arg)
{
    int err = parks(NULL);
    weft_fiber_shield_enter();
    CHECK_EQ(weft_sleep(weft_after(MS)), 0);
    weft_fiber_shield_leave();
    atomic_fetch_add(&ended, 10);
    return arg ? (int)(intptr_t)arg : err;
}

static void open_it(weft_scope *scope, struct weft_scope_opts opts)
{
    fresh();
    CHECK_EQ(weft_scope_open(scope, &opts), 0);
}

static void spawn(weft_scope *scope, int (*fn)(void *), intptr_t arg)
{
    CHECK_EQ(weft_scope_spawn(scope, NULL, fn, (void *)arg, NULL), 0);
}

/* Spawns into a scope whose deadline may already have passed; the expected value of `ended` is
 * added up in `expected`. */
static void spawn_in_time(weft_scope *scope, int (*fn)(void *))
{
    int err = weft_scope_spawn(scope, NULL, fn, NULL, NULL);
    CHECK(err == 0 || err == -ETIMEDOUT);
    if (err == 0) {
        atomic_fetch_add(&expected, fn == parks ? 1 : fn == parks_then_works ? 11 : 0);
    }
}

static void check_all_ended(void)
{
    CHECK_EQ(atomic_load(&ended), atomic_load(&expected));
}

#define OPTS(...) ((struct weft_scope_opts){.name = "family", __VA_ARGS__})

/* Runs fn with one worker and with two, and checks that no fiber is left. */
static void run(weft_fn fn)
{
    for (unsigned workers = 1; workers <= 2; workers++) {
        run_in_fiber(workers, fn, NULL);
    }
}

/* --- waiting for all ------------------------------------------------------------------------- */

static void *waits_for_all(void *arg)
{
    weft_scope scope;
    weft_fiber child;
    char name[16];
    open_it(&scope, OPTS(0));
    CHECK_EQ(weft_scope_deadline(), WEFT_FOREVER);
    for (int i = 0; i < 20; i++) {
        spawn(&scope, returns, i);
    }
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&ended), 20);

    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), 0); /* no children */

    open_it(&scope, OPTS(0));
    CHECK_EQ(weft_scope_spawn(&scope, &child, parks, NULL,
                              &(struct weft_fiber_opts){.name = "child", .stack_bytes = 32768}),
             0);
    await_state(child, WEFT_FIBER_WAITING);
    CHECK_EQ(weft_fiber_name(child, name, sizeof name), 0);
    CHECK_STR(name, "child");
    CHECK_EQ(weft_join(child, NULL, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_fiber_unpark(child), 0);
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), 0);
    CHECK_EQ(weft_fiber_unpark(child), -ESRCH);
    return arg;
}

TEST(scope_close_waits_for_every_child)
{
    run(waits_for_all);
}

static int spawns_more(void *arg)
{
    weft_scope *scope = arg;
    if (atomic_fetch_add(&started, 1) < 30) {
        CHECK_EQ(weft_scope_spawn(scope, NULL, spawns_more, scope, NULL), 0);
        weft_yield();
        CHECK_EQ(weft_scope_spawn(scope, NULL, returns, NULL, NULL), 0);
    }
    atomic_fetch_add(&ended, 1);
    return 0;
}

static void *children_spawn(void *arg)
{
    weft_scope scope;
    open_it(&scope, OPTS(0));
    spawn(&scope, spawns_more, (intptr_t)&scope);
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&started), atomic_load(&ended));
    CHECK(atomic_load(&ended) > 30);
    return arg;
}

TEST(children_can_spawn_into_closing_scope)
{
    run(children_spawn);
}

static int exits(void *arg)
{
    weft_fiber_exit(arg);
}

static atomic_int destroyed;

static void destroys(void *value)
{
    (void)value;
    weft_yield();
    atomic_fetch_add(&destroyed, 1);
}

static weft_fiber_key key;

static int exits_with_local(void *arg)
{
    CHECK_EQ(weft_fiber_set_local(key, &destroyed), 0);
    weft_fiber_exit(arg);
}

static void *children_exit(void *arg)
{
    weft_scope scope;
    open_it(&scope, OPTS(0));
    spawn(&scope, exits, 7);
    spawn(&scope, exits_with_local, -EIO);
    spawn(&scope, exits, 0);
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), -EIO);
    CHECK_EQ(atomic_load(&destroyed), 1);
    atomic_store(&destroyed, 0);
    return arg;
}

TEST(scope_close_waits_for_cleanups_of_child_that_calls_exit)
{
    CHECK_EQ(weft_fiber_key_create(&key, destroys), 0);
    run(children_exit);
}

/* --- failures --------------------------------------------------------------------------------- */

static void *first_failure(void *arg)
{
    weft_scope scope;
    open_it(&scope, OPTS(0));
    spawn(&scope, returns, 3);
    spawn(&scope, returns, -EIO);
    spawn(&scope, returns, 0);
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), -EIO);
    CHECK_EQ(atomic_load(&ended), 3); /* the others were not affected */

    open_it(&scope, OPTS(.fail_fast = true));
    for (int i = 0; i < 10; i++) {
        spawn(&scope, i % 2 ? parks : parks_then_works, 0);
    }
    await_count(&started, 10);
    CHECK(!weft_scope_is_cancelled(&scope));
    spawn(&scope, returns, -ERANGE);
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), -ERANGE);
    CHECK_EQ(atomic_load(&ended), 10 + 5 * 10 + 1);
    return arg;
}

TEST(scope_close_returns_first_failure_and_fail_fast_cancels_rest)
{
    run(first_failure);
}

static void *failure_meanwhile(void *arg)
{
    weft_scope scope;
    open_it(&scope, OPTS(.fail_fast = true));
    spawn(&scope, returns, -EIO);
    while (!weft_scope_is_cancelled(&scope)) {
        weft_yield();
    }
    CHECK(!weft_fiber_is_cancelled()); /* the parent is not its own child */
    CHECK_EQ(weft_scope_spawn(&scope, NULL, returns, NULL, NULL), -ECANCELED);
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), -EIO);
    return arg;
}

TEST(cancelled_scope_rejects_new_children)
{
    run(failure_meanwhile);
}

static void *cancels_it(void *arg)
{
    weft_scope scope;
    open_it(&scope, OPTS(0));
    for (int i = 0; i < 8; i++) {
        spawn(&scope, parks, 0);
    }
    await_count(&started, 8);
    weft_scope_cancel(&scope);
    weft_scope_cancel(&scope);
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), 0); /* being cancelled is not a failure */
    CHECK_EQ(atomic_load(&ended), 8);

    open_it(&scope, OPTS(0));
    spawn(&scope, parks, 0);
    spawn(&scope, parks_then_works, -EIO);
    await_count(&started, 2);
    weft_scope_cancel(&scope);
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), -EIO); /* this is a failure */

    open_it(&scope, OPTS(0));
    spawn(&scope, parks, 0); /* maybe not started yet */
    weft_scope_cancel(&scope);
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&ended), 1);
    return arg;
}

static int cancels_its_scope(void *arg)
{
    weft_scope_cancel(arg);
    CHECK(!weft_fiber_is_cancelled()); /* the scope does not cancel its caller */
    return 0;
}

static void *child_cancels_it(void *arg)
{
    weft_scope scope;
    open_it(&scope, OPTS(0));
    spawn(&scope, parks, 0);
    spawn(&scope, cancels_its_scope, (intptr_t)&scope);
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&ended), 1);
    return arg;
}

TEST(scope_cancel_reaches_every_child_and_close_still_waits)
{
    run(cancels_it);
    run(child_cancels_it);
}

/* --- the parent's waits ----------------------------------------------------------------------- */

static weft_scope shared;

static void *parent_of_three(void *arg)
{
    (void)arg;
    open_it(&shared, OPTS(0));
    spawn(&shared, parks, 0);
    spawn(&shared, parks_then_works, 0);
    spawn(&shared, parks, 0);
    int err = weft_scope_close(&shared, WEFT_FOREVER);
    CHECK_EQ(atomic_load(&ended), 3 + 10);
    if (err == -EINTR) {
        CHECK(!weft_fiber_is_interrupted());
        CHECK_EQ(weft_fiber_park(0), -ETIMEDOUT);
    } else {
        CHECK_EQ(weft_fiber_park(weft_now()), -ECANCELED); /* the shield is gone */
    }
    struct weft_fiber_ended_wait what;
    CHECK_EQ(weft_fiber_ended_wait(&what), 0);
    CHECK_STR(what.what, err == -EINTR ? "scope" : "park");
    return (void *)(intptr_t)err;
}

static void *cancels_the_parent(void *arg)
{
    for (int i = 0; i < 2; i++) {
        weft_fiber parent;
        void *result;
        CHECK_EQ(weft_spawn(&parent, parent_of_three, NULL, NULL), 0);
        await_count(&started, 3);
        await_state(parent, WEFT_FIBER_WAITING);
        CHECK_EQ(i ? weft_cancel(parent) : weft_fiber_interrupt(parent), 0);
        CHECK_EQ(weft_join(parent, &result, WEFT_FOREVER), 0);
        CHECK_EQ((intptr_t)result, i ? -ECANCELED : -EINTR);
        fresh();
    }
    return arg;
}

TEST(parent_cancelled_or_interrupted_in_close_ends_children_first)
{
    run(cancels_the_parent);
}

/* What an observer sees: while the parent waits, its state names one of its children. */
static void *looks_at_the_parent(void *arg)
{
    weft_fiber parent, child;
    CHECK_EQ(weft_spawn(&parent, parent_of_three, NULL, NULL), 0);
    await_count(&started, 3);
    await_state(parent, WEFT_FIBER_WAITING);
    struct weft__task *task = weft__slab_find((uint32_t)parent);
    CHECK(weft__task_hold(task));
    const struct weft__wait_kind *kind = task->note->kind;
    uint64_t on = task->note->on;
    CHECK_STR(kind->name, "scope");
    CHECK_STR(kind->label(on), "family");
    child = kind->holder(on);
    enum weft_fiber_state state;
    CHECK_EQ(weft_fiber_state(child, &state), 0);
    CHECK(child != parent);
    CHECK(!weft__task_unhold(task));
    CHECK_EQ(weft_cancel(parent), 0);
    CHECK_EQ(weft_join(parent, NULL, WEFT_FOREVER), 0);
    return arg;
}

TEST(waiting_scope_parent_names_child)
{
    run_in_fiber(1, looks_at_the_parent, NULL);
}

/* --- deadlines -------------------------------------------------------------------------------- */

static void *deadline_in_close(void *arg)
{
    weft_scope scope;
    int64_t deadline = weft_after(3 * MS);
    open_it(&scope, OPTS(.deadline = deadline));
    CHECK_EQ(weft_scope_deadline(), deadline);
    spawn_in_time(&scope, parks);
    spawn_in_time(&scope, parks_then_works);
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    check_all_ended();
    CHECK_EQ(weft_scope_deadline(), WEFT_FOREVER);

    /* Not reached: the deadline is far away. */
    open_it(&scope, OPTS(.deadline = weft_after(HOUR)));
    spawn(&scope, returns, 0);
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), 0);
    return arg;
}

static void *deadline_elsewhere(void *arg)
{
    weft_scope scope;
    open_it(&scope, OPTS(.deadline = weft_after(2 * MS)));
    spawn_in_time(&scope, parks);
    spawn_in_time(&scope, parks);
    while (!weft_scope_is_cancelled(&scope) || atomic_load(&ended) < atomic_load(&expected)) {
        CHECK_EQ(weft_sleep(weft_after(MS / 2)), 0); /* no fiber is in close */
    }
    CHECK_EQ(weft_scope_spawn(&scope, NULL, parks, NULL, NULL), -ETIMEDOUT);
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), -ETIMEDOUT);

    open_it(&scope, OPTS(.deadline = weft_now()));
    CHECK_EQ(weft_scope_spawn(&scope, NULL, parks, NULL, NULL), -ETIMEDOUT);
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), -ETIMEDOUT);
    open_it(&scope, OPTS(.deadline = weft_now()));
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), 0); /* nothing was late */
    return arg;
}

TEST(scope_deadline_cancels_children)
{
    run(deadline_in_close);
    run(deadline_elsewhere);
}

static weft_pool *other_pool;

static void *deadline_of_close(void *arg)
{
    weft_scope scope;
    int64_t deadline = weft_after(3 * MS);
    open_it(&scope, OPTS(.fail_fast = false));
    spawn_in_time(&scope, parks);
    spawn_in_time(&scope, parks_then_works);
    CHECK_EQ(weft_scope_close(&scope, deadline), -ETIMEDOUT);
    CHECK(weft_now() >= deadline);
    check_all_ended();

    /* The nearer of two counts, whichever it is. */
    open_it(&scope, OPTS(.deadline = weft_after(HOUR)));
    spawn_in_time(&scope, parks);
    CHECK_EQ(weft_scope_close(&scope, weft_after(MS)), -ETIMEDOUT);
    open_it(&scope, OPTS(.deadline = weft_after(MS)));
    spawn_in_time(&scope, parks);
    CHECK_EQ(weft_scope_close(&scope, weft_after(HOUR)), -ETIMEDOUT);

    /* Nothing was late. */
    open_it(&scope, OPTS(.fail_fast = false));
    spawn(&scope, returns, 0);
    CHECK_EQ(weft_scope_close(&scope, weft_after(HOUR)), 0);
    open_it(&scope, OPTS(.fail_fast = false));
    CHECK_EQ(weft_scope_close(&scope, 0), 0);

    /* A cancelled scope stays cancelled: the deadline adds nothing. */
    open_it(&scope, OPTS(.fail_fast = false));
    spawn_in_time(&scope, parks_then_works);
    weft_scope_cancel(&scope);
    CHECK_EQ(weft_scope_close(&scope, weft_after(1)), 0);
    check_all_ended();
    return arg;
}

TEST(deadline_of_scope_close_cancels_children)
{
    run(deadline_of_close);
    other_pool = pool_open(&(struct weft_pool_opts){.workers = 2, .name = "other"});
    weft_scope scope;
    open_it(&scope, OPTS(.pool = other_pool));
    spawn_in_time(&scope, parks_then_works);
    CHECK_EQ(weft_scope_close(&scope, weft_after(2 * MS)), -ETIMEDOUT);
    check_all_ended();
    pool_close(other_pool);
}

static int opens_another(void *arg)
{
    int64_t inherited = weft_scope_deadline();
    weft_scope scope, inner;
    CHECK(inherited < HOUR + weft_now());
    CHECK_EQ(weft_scope_open(&scope, &OPTS(.deadline = weft_after(2 * HOUR))), 0);
    CHECK_EQ(weft_scope_deadline(), inherited); /* the nearer */
    CHECK_EQ(weft_scope_open(&inner, &OPTS(.deadline = inherited - 1)), 0);
    CHECK_EQ(weft_scope_deadline(), inherited - 1);
    CHECK_EQ(weft_scope_close(&inner, WEFT_FOREVER), 0);
    spawn_in_time(&scope, parks);
    spawn_in_time(&scope, parks_then_works);
    int err = weft_scope_close(&scope, WEFT_FOREVER);
    CHECK(err == -ETIMEDOUT || err == -ECANCELED); /* depends on which came first */
    CHECK_EQ(weft_scope_deadline(), inherited);
    (void)arg;
    return err;
}

static void *nested(void *arg)
{
    weft_scope scope;
    open_it(&scope, OPTS(.deadline = weft_after(20 * MS)));
    spawn_in_time(&scope, opens_another);
    spawn_in_time(&scope, opens_another);
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), -ETIMEDOUT);
    check_all_ended();
    return arg;
}

TEST(nested_scope_inherits_earlier_deadline)
{
    run(nested);
}

static int parent_of_two(void *arg)
{
    weft_scope scope;
    (void)arg;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    spawn(&scope, parks, 0);
    spawn(&scope, parks_then_works, 0);
    int err = weft_scope_close(&scope, WEFT_FOREVER);
    CHECK_EQ(err, -ECANCELED);
    return err;
}

static void *cancel_from_above(void *arg)
{
    weft_scope scope;
    open_it(&scope, OPTS(0));
    spawn(&scope, parent_of_two, 0);
    spawn(&scope, parent_of_two, 0);
    await_count(&started, 4);
    weft_scope_cancel(&scope);
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&ended), 2 * (2 + 10));
    return arg;
}

TEST(scope_cancel_reaches_nested_scopes)
{
    run(cancel_from_above);
}

/* --- the parent ends -------------------------------------------------------------------------- */

static void *exits_with_open_scopes(void *arg)
{
    weft_scope outer, inner;
    CHECK_EQ(weft_scope_open(&outer, &OPTS(.deadline = weft_after(HOUR))), 0);
    CHECK_EQ(weft_scope_open(&inner, NULL), 0);
    spawn(&outer, parks_then_works, 0);
    spawn(&inner, parks_then_works, 0);
    weft_fiber_exit(arg);
}

static void *joins_it(void *arg)
{
    weft_fiber fiber;
    void *result;
    fresh();
    CHECK_EQ(weft_spawn(&fiber, exits_with_open_scopes, &fiber, NULL), 0);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK(result == &fiber);
    CHECK_EQ(atomic_load(&ended), 2 * (1 + 10));
    return arg;
}

TEST(exit_with_open_scopes_ends_their_children_first)
{
    run(joins_it);
}

/* --- pools and threads ------------------------------------------------------------------------ */

static int returns_where(void *arg)
{
    CHECK(weft_pool_self() == other_pool);
    return returns(arg);
}

static void *children_elsewhere(void *arg)
{
    weft_scope scope;
    open_it(&scope, OPTS(.pool = other_pool));
    for (int i = 0; i < 10; i++) {
        spawn(&scope, returns_where, 0);
    }
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&ended), 10);
    open_it(&scope, OPTS(.pool = other_pool, .deadline = weft_after(2 * MS)));
    spawn_in_time(&scope, parks_then_works);
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), -ETIMEDOUT);
    check_all_ended();
    open_it(&scope, OPTS(.pool = other_pool, .fail_fast = true));
    spawn(&scope, parks, 0);
    spawn(&scope, returns_where, -EIO);
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), -EIO);
    return arg;
}

TEST(scope_parent_can_be_thread_with_children_in_other_pool)
{
    weft_scope scope;
    other_pool = pool_open(&(struct weft_pool_opts){.workers = 2, .name = "other"});
    run(children_elsewhere);
    children_elsewhere(NULL);
    CHECK_EQ(weft_scope_open(&scope, NULL), -EINVAL);
    CHECK_STR(weft_last_error(), "pool: must be given outside of a fiber");
    CHECK_EQ(weft_scope_deadline(), WEFT_FOREVER);
    pool_close(other_pool);
}

static void *closes_in_a_hop(void *arg)
{
    weft_scope scope;
    struct weft_migration hop;
    open_it(&scope, OPTS(.deadline = weft_after(HOUR)));
    spawn(&scope, returns, 0);
    CHECK_EQ(weft_migration_enter(&hop, other_pool, WEFT_ANY_WORKER), 0);
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), 0);
    weft_migration_leave(&hop);
    return arg;
}

TEST(scope_can_be_closed_inside_scoped_migration)
{
    other_pool = pool_open(&(struct weft_pool_opts){.workers = 1, .name = "other"});
    run(closes_in_a_hop);
    pool_close(other_pool);
}

/* --- limits ----------------------------------------------------------------------------------- */

static void *spawn_fails(void *arg)
{
    weft_scope scope;
    open_it(&scope, OPTS(0));
    spawn(&scope, returns, 0);
    CHECK_EQ(weft_scope_spawn(&scope, NULL, NULL, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_scope_spawn(&scope, NULL, returns, NULL,
                              &(struct weft_fiber_opts){.bound = true, .worker = 99}),
             -EINVAL);
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER),
             0); /* a child that failed to spawn is not waited for */
    CHECK_EQ(atomic_load(&ended), 1);
    return arg;
}

TEST(failed_spawn_leaves_scope_unchanged)
{
    run(spawn_fails);
}

static void *needs_no_memory(void *arg)
{
    weft_scope scope;
    for (int round = 0; round < 2; round++) {
        open_it(&scope, OPTS(.deadline = weft_after(HOUR)));
        for (int i = 0; i < 40; i++) {
            spawn(&scope, returns, 0);
        }
        CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), 0);
        if (round == 0) {
            weft__alloc_fail_after(0, false); /* start counting; stacks and blocks exist now */
        }
    }
    CHECK_EQ(weft__alloc_requests(), 0);
    return arg;
}

TEST(scope_child_needs_no_memory_beyond_its_fiber)
{
    run_in_fiber(1, needs_no_memory, NULL);
}

/* --- misuse ----------------------------------------------------------------------------------- */

static void *closes_the_outer(void *arg)
{
    weft_scope outer, inner;
    CHECK_EQ(weft_scope_open(&outer, &(struct weft_scope_opts){.name = "outer"}), 0);
    CHECK_EQ(weft_scope_open(&inner, &(struct weft_scope_opts){.name = "inner"}), 0);
    weft_scope_close(&outer, WEFT_FOREVER);
    return arg;
}

static int closes_its_parents(void *arg)
{
    weft_scope_close(arg, WEFT_FOREVER);
    return 0;
}

static void *child_closes(void *arg)
{
    CHECK_EQ(weft_scope_open(&shared, NULL), 0);
    spawn(&shared, closes_its_parents, (intptr_t)&shared);
    weft_scope_close(&shared, WEFT_FOREVER);
    return arg;
}

static void *closes_twice(void *arg)
{
    CHECK_EQ(weft_scope_open(&shared, NULL), 0);
    CHECK_EQ(weft_scope_close(&shared, WEFT_FOREVER), 0);
    weft_scope_close(&shared, WEFT_FOREVER);
    return arg;
}

static void *spawns_into_closed(void *arg)
{
    CHECK_EQ(weft_scope_open(&shared, NULL), 0);
    CHECK_EQ(weft_scope_close(&shared, WEFT_FOREVER), 0);
    weft_scope_spawn(&shared, NULL, returns, NULL, NULL);
    return arg;
}

static __attribute__((noinline)) void open_and_return(void)
{
    weft_scope scope;
    CHECK_EQ(weft_scope_open(&scope, &(struct weft_scope_opts){.name = "uploads"}), 0);
    __asm__ volatile("" ::"r"(&scope) : "memory");
}

static void *returns_with_open(void *arg)
{
    open_and_return();
    return arg;
}

static int child_returns_with_open(void *arg)
{
    (void)arg;
    open_and_return();
    return 0;
}

static void *child_leaves_open(void *arg)
{
    CHECK_EQ(weft_scope_open(&shared, NULL), 0);
    CHECK_EQ(weft_scope_spawn(&shared, NULL, child_returns_with_open, NULL,
                              &(struct weft_fiber_opts){.name = "child"}),
             0);
    weft_scope_close(&shared, WEFT_FOREVER);
    return arg;
}

static void misuses(void *fn)
{
    run_in_fiber(1, *(weft_fn *)fn, NULL);
}

TEST(scope_misuse_aborts_with_message)
{
    static const struct {
        weft_fn fn;
        const char *says;
    } cases[] = {
        {closes_the_outer, "weft_scope_close: scope outer is closed while scope inner, which was "
                           "opened after it, is open: fiber #"},
        {child_closes, "weft_scope_close was not called by the opener of scope without a "
                       "name: fiber #"},
        {closes_twice, "weft_scope_close: the scope is not open"},
        {spawns_into_closed, "weft_scope_spawn: the scope is not open"},
        {returns_with_open, " main returned with scope uploads open: call weft_scope_close before"},
        {child_leaves_open,
         " child returned with scope uploads open: call weft_scope_close before"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char err[CHECK_ERR];
        weft_fn fn = cases[i].fn;
        CHECK(WIFSIGNALED(check_child(misuses, &fn, err, sizeof err)));
        bool found = strstr(err, cases[i].says) ||
                     (WEFT__ASAN && strstr(err, "stack-use-after-return")); /* ASan reports it */
        if (!found) {
            fprintf(stderr, "case %zu: %s\n", i, err);
        }
        CHECK(found);
    }
}

/* Last, because it leaves many stacks, which slow down every later fork. */
static void *many_at_the_deadline(void *arg)
{
    weft_scope scope;
    open_it(&scope, OPTS(.deadline = weft_after(20 * MS)));
    for (int i = 0; i < 400; i++) {
        spawn_in_time(&scope, parks);
    }
    if (arg) {
        while (!weft_scope_is_cancelled(&scope) || atomic_load(&ended) < atomic_load(&expected)) {
            CHECK_EQ(weft_sleep(weft_after(MS)), 0);
        }
    }
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), -ETIMEDOUT);
    check_all_ended();
    return NULL;
}

TEST(scope_deadline_with_many_children_cancels_every_child)
{
    run_in_fiber(2, many_at_the_deadline, NULL);
    run_in_fiber(1, many_at_the_deadline, &shared);
}
