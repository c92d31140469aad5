/* A caller's bug ends the program with a line that says what was done. Each runs in a child; this
 * process never starts a thread. */
#include <fenv.h>
#include <signal.h>
#include <sys/resource.h>

#include <weft/hop.h>

#include "base/assert.h"
#include "fiber/sanitizer.h"
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

/* A fiber that does it, in a child's own pool. */
static void in_fiber(weft_fn fn)
{
    no_core();
    weft_run(fn, NULL, NULL, &(struct weft_pool_opts){.workers = 1});
}

static void nop(void *arg)
{
    (void)arg;
}

/* --- outside of fibers ------------------------------------------------------------- */

static void exits_outside(void *arg)
{
    no_core();
    weft_exit(arg);
}

static void pushes_outside(void *arg)
{
    struct weft_cleanup node;
    no_core();
    weft_cleanup_push(&node, nop, arg);
}

static void pops_outside(void *arg)
{
    struct weft_cleanup node = {.fn = nop};
    no_core();
    weft_cleanup_pop(&node, arg != NULL);
}

static void leaves_hop_outside(void *arg)
{
    struct weft_hop hop = {0};
    no_core();
    weft_hop_leave(&hop);
    (void)arg;
}

TEST(what_only_a_fiber_may_do_ends_a_plain_thread)
{
    expect_abort(exits_outside, "weft_exit was called outside of a fiber");
    expect_abort(pushes_outside, "weft_cleanup_push was called outside of a fiber");
    expect_abort(pops_outside, "weft_cleanup_pop");
    expect_abort(leaves_hop_outside, "weft_hop_leave was called outside of a fiber");
}

/* --- cleanups and keys ---------------------------------------------------------------- */

static void *pops_the_wrong_one(void *arg)
{
    struct weft_cleanup a, b;
    weft_cleanup_push(&a, nop, arg);
    weft_cleanup_push(&b, nop, arg);
    weft_cleanup_pop(&a, true);
    return NULL;
}

static void pops_wrongly(void *arg)
{
    (void)arg;
    in_fiber(pops_the_wrong_one);
}

static void *returns_from_the_frame_of_a_node(void *arg)
{
    struct weft_cleanup node;
    weft_cleanup_push(&node, nop, arg);
    return NULL;
}

static void returns_with_node(void *arg)
{
    (void)arg;
    in_fiber(returns_from_the_frame_of_a_node);
}

static void *pops_one_too_many(void *arg)
{
    struct weft_cleanup a;
    weft_cleanup_push(&a, nop, arg);
    weft_cleanup_pop(&a, true);
    weft_cleanup_pop(&a, true);
    return NULL;
}

static void pops_too_often(void *arg)
{
    (void)arg;
    in_fiber(pops_one_too_many);
}

TEST(cleanups_are_popped_from_the_top)
{
    expect_abort(pops_wrongly, "weft_cleanup_pop: not the top of the fiber's cleanups");
    expect_abort(pops_too_often, "weft_cleanup_pop: not the top of the fiber's cleanups");
}

static void *sets_a_wrong_key(void *arg)
{
    weft_set_local(3, arg);
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
    return weft_get_local(UINT32_MAX);
}

static void gets_wrongly(void *arg)
{
    (void)arg;
    in_fiber(gets_a_wrong_key);
}

TEST(a_cleanup_is_popped_before_its_frame_is_left)
{
    if (!WEFT__ASAN) { /* which finds that out by itself */
        expect_abort(returns_with_node,
                     "main returned from the frame of a cleanup that it had not popped");
    }
}

TEST(a_key_that_was_not_created_is_no_key)
{
    expect_abort(sets_wrongly, "3 is not a key");
    expect_abort(gets_wrongly, "4294967295 is not a key");
}

/* --- hops -------------------------------------------------------------------------------- */

static void *leaves_without_entering(void *arg)
{
    struct weft_hop hop = {.from = weft_pool_self(), .from_worker = -1};
    weft_hop_leave(&hop);
    return arg;
}

static void leaves_hop(void *arg)
{
    (void)arg;
    in_fiber(leaves_without_entering);
}

TEST(a_hop_is_left_by_who_entered_it)
{
    expect_abort(leaves_hop, "weft_hop_leave: not the innermost hop of this fiber");
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

TEST(a_pool_is_stopped_before_it_is_destroyed)
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

TEST(a_debug_build_sees_a_fiber_that_changes_rounding_without_having_asked)
{
    if (WEFT_DEBUG) {
        expect_abort(changes_mode_and_yields, "without fp_env");
        expect_abort(changes_mode_and_ends, "without fp_env");
    }
}
