/* A caller's bug aborts the program with a line that names the bug. Each bug runs in a child; this
 * process never starts a thread. */
#include <fenv.h>
#include <signal.h>
#include <sys/resource.h>

#include <weft/fiber.h>

#include "base/assert.h"
#include "context/sanitizer.h"
#include "fixture.h"

static void expect_abort(void (*fn)(void *), const char *message)
{
    char err[CHECK_ERR];
    int status = check_child(fn, NULL, err, sizeof err);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGABRT || strstr(err, message) == NULL ||
        strstr(err, "weft: ") == NULL) {
        fprintf(stderr, "expected: %s\nfound: %s\n", message, err);
        CHECK(WIFSIGNALED(status));
        CHECK_EQ(WTERMSIG(status), SIGABRT);
        CHECK(strstr(err, message) != NULL);
        CHECK(strstr(err, "weft: ") != NULL);
    }
}

static void no_core(void)
{
    setrlimit(RLIMIT_CORE, &(struct rlimit){0, 0});
}

/* Runs the buggy function in a fiber of the child's own pool. */
static void in_fiber(weft_fn fn)
{
    no_core();
    weft_run(NULL, fn, NULL, &(struct weft_pool_opts){.workers = 1}, WEFT_FOREVER);
}

static void nop(void *arg)
{
    (void)arg;
}

/* --- outside of fibers ------------------------------------------------------------- */

static void exits_outside(void *arg)
{
    no_core();
    weft_fiber_exit(arg);
}

static void pushes_outside(void *arg)
{
    struct weft_fiber_cleanup node;
    no_core();
    weft_fiber_cleanup_push(&node, nop, arg);
}

static void pops_outside(void *arg)
{
    struct weft_fiber_cleanup node = {.fn = nop};
    no_core();
    weft_fiber_cleanup_pop(&node, arg != NULL);
}

static void leaves_hop_outside(void *arg)
{
    struct weft_migration hop = {0};
    no_core();
    weft_migration_leave(&hop);
    (void)arg;
}

TEST(fiber_only_call_from_plain_thread_aborts)
{
    expect_abort(exits_outside, "weft_fiber_exit was called outside of a fiber");
    expect_abort(pushes_outside, "weft_fiber_cleanup_push was called outside of a fiber");
    expect_abort(pops_outside, "weft_fiber_cleanup_pop");
    expect_abort(leaves_hop_outside, "weft_migration_leave was called outside of a fiber");
}

/* --- cleanups and keys ---------------------------------------------------------------- */

static void *pops_the_wrong_one(void *arg)
{
    struct weft_fiber_cleanup a, b;
    weft_fiber_cleanup_push(&a, nop, arg);
    weft_fiber_cleanup_push(&b, nop, arg);
    weft_fiber_cleanup_pop(&a, true);
    return NULL;
}

static void pops_wrongly(void *arg)
{
    (void)arg;
    in_fiber(pops_the_wrong_one);
}

static void *returns_from_the_frame_of_a_node(void *arg)
{
    struct weft_fiber_cleanup node;
    weft_fiber_cleanup_push(&node, nop, arg);
    return NULL;
}

static void returns_with_node(void *arg)
{
    (void)arg;
    in_fiber(returns_from_the_frame_of_a_node);
}

static void *pops_one_too_many(void *arg)
{
    struct weft_fiber_cleanup a;
    weft_fiber_cleanup_push(&a, nop, arg);
    weft_fiber_cleanup_pop(&a, true);
    weft_fiber_cleanup_pop(&a, true);
    return NULL;
}

static void pops_too_often(void *arg)
{
    (void)arg;
    in_fiber(pops_one_too_many);
}

TEST(cleanup_pop_out_of_order_aborts)
{
    expect_abort(pops_wrongly, "weft_fiber_cleanup_pop: not the top of the fiber's cleanups");
    expect_abort(pops_too_often, "weft_fiber_cleanup_pop: not the top of the fiber's cleanups");
}

static void *sets_a_wrong_key(void *arg)
{
    weft_fiber_set_local(3, arg);
    return NULL;
}

static void sets_wrongly(void *arg)
{
    (void)arg;
    in_fiber(sets_a_wrong_key);
}

static void *gets_a_wrong_key(void *arg)
{
    (void)arg;
    return weft_fiber_get_local(UINT32_MAX);
}

static void gets_wrongly(void *arg)
{
    (void)arg;
    in_fiber(gets_a_wrong_key);
}

TEST(return_with_cleanup_pushed_aborts)
{
    if (!WEFT__ASAN) { /* ASan finds this bug by itself */
        expect_abort(returns_with_node,
                     "main returned from the frame of a cleanup that it had not popped");
    }
}

TEST(use_of_uncreated_key_aborts)
{
    expect_abort(sets_wrongly, "3 is not a key");
    expect_abort(gets_wrongly, "4294967295 is not a key");
}

/* --- migration --------------------------------------------------------------------------- */

static void *leaves_without_entering(void *arg)
{
    struct weft_migration hop = {.from = weft_pool_self(), .from_worker = -1};
    weft_migration_leave(&hop);
    return arg;
}

static void leaves_hop(void *arg)
{
    (void)arg;
    in_fiber(leaves_without_entering);
}

TEST(migration_leave_without_enter_aborts)
{
    expect_abort(leaves_hop,
                 "weft_migration_leave: not the innermost migration scope of this fiber");
}

/* --- pools ----------------------------------------------------------------------------------- */

static void destroys_running_pool(void *arg)
{
    (void)arg;
    no_core();
    weft_pool_destroy(pool_open(&(struct weft_pool_opts){.workers = 1, .name = "busy"}));
}

static void *nothing(void *arg)
{
    return arg;
}

static void destroys_pool_with_fibers(void *arg)
{
    weft_pool *pool;
    no_core();
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1, .name = "full"}), 0);
    CHECK_EQ(weft_pool_submit(pool, nothing, arg), 0);
    weft_pool_destroy(pool);
}

TEST(destroy_of_running_pool_or_pool_with_fibers_aborts)
{
    expect_abort(destroys_running_pool,
                 "pool busy is destroyed before it was stopped: call weft_pool_stop first");
    expect_abort(destroys_pool_with_fibers, "pool full is destroyed with fibers in it");
}

/* --- floating point --------------------------------------------------------------------------- */

static void *yields_with_changed_mode(void *arg)
{
    fesetround(FE_UPWARD);
    for (int i = 0; i < 200; i++) {
        weft_yield();
    }
    return arg;
}

static void changes_mode_and_yields(void *arg)
{
    (void)arg;
    in_fiber(yields_with_changed_mode);
}

static void *ends_with_changed_mode(void *arg)
{
    fesetround(FE_UPWARD);
    return arg;
}

static void changes_mode_and_ends(void *arg)
{
    (void)arg;
    in_fiber(ends_with_changed_mode);
}

TEST(debug_build_aborts_on_rounding_change_without_fp_env)
{
    if (WEFT_DEBUG) {
        expect_abort(changes_mode_and_yields, "without fp_env");
        expect_abort(changes_mode_and_ends, "without fp_env");
    }
}
