/* A scope whose parent is a stackless task: the parent arms the wait for its children and is
 * notified. */
/* labels: valgrind */
#include <weft/scope.h>
#include <weft/sync.h>

#include "pool/fixture.h"
#include "sync/scope.h"
#include "sync/stackless.h"

#define HOUR INT64_C(3600000000000)

static atomic_int ended;

static void open_in(weft_scope *scope, weft_pool *pool, int64_t deadline)
{
    atomic_store(&ended, 0);
    CHECK_EQ(
        weft_scope_open(
            scope, &(struct weft_scope_opts){.name = "family", .pool = pool, .deadline = deadline}),
        0);
}

static int parks(void *arg)
{
    (void)arg;
    int err = weft_fiber_park(WEFT_FOREVER);
    atomic_fetch_add(&ended, 1);
    return err;
}

static weft_fiber child_of(weft_scope *scope, int (*fn)(void *))
{
    weft_fiber child;
    CHECK_EQ(weft_scope_spawn(scope, &child, fn, NULL, NULL), 0);
    await_state(child, WEFT_FIBER_WAITING);
    return child;
}

static weft_event gate;

/* Ignores that it is cancelled. */
static int passes_the_gate(void *arg)
{
    (void)arg;
    weft_fiber_shield_enter();
    CHECK_EQ(weft_event_wait(&gate, WEFT_FOREVER), 0);
    weft_fiber_shield_leave();
    atomic_fetch_add(&ended, 1);
    return 0;
}

/* The stackless task's wait, which the last child ends. */
static int last_child_tells(struct body *body, struct weft__scope *s)
{
    int result = 1;
    while (!body_told(body)) {
        sched_yield();
    }
    CHECK(weft__scope_finish(s, &body->node, weft__waiter_reason(&body->waiter), &result));
    CHECK(!s->open);
    return result;
}

TEST(stackless_scope_close_waits_for_last_child)
{
    struct body body;
    int result = 1;
    weft_scope scope;
    struct weft__scope *s = weft__scope_of(&scope);
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    open_in(&scope, pool, 0);
    body_arm(&body);
    CHECK(!weft__scope_arm(s, &body.node)); /* no children */
    body_disarm(&body);
    CHECK(weft__scope_finish(s, &body.node, WEFT__REASON_NONE, &result) && result == 0);

    open_in(&scope, pool, 0);
    weft_fiber first = child_of(&scope, parks), last = child_of(&scope, parks);
    body_arm(&body);
    CHECK(weft__scope_arm(s, &body.node));
    CHECK_EQ(weft_fiber_unpark(first), 0);
    while (weft_fiber_unpark(first) != -ESRCH) {
        sched_yield();
    }
    CHECK(!body_told(&body));
    CHECK_EQ(weft_fiber_unpark(last), 0);
    CHECK_EQ(last_child_tells(&body, s), 0);
    CHECK_EQ(atomic_load(&ended), 2);
    pool_close(pool);
}

TEST(stackless_scope_close_still_waits_when_cancelled_or_late)
{
    const enum weft__reason reasons[] = {WEFT__REASON_CANCEL, WEFT__REASON_INTERRUPT,
                                         WEFT__REASON_TIMEOUT};
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    for (int i = 0; i < 3; i++) {
        struct body body;
        weft_scope scope;
        struct weft__scope *s = weft__scope_of(&scope);
        int result = 1, expects = weft__reason_errno(reasons[i]);
        int64_t deadline = weft_after(HOUR);
        open_in(&scope, pool, deadline);
        weft__scope_close_begin(s, WEFT_FOREVER);
        CHECK_EQ(weft__scope_until(s), deadline);
        weft_event_init(&gate, NULL);
        child_of(&scope, passes_the_gate);
        body_arm(&body);
        CHECK(weft__scope_arm(s, &body.node));
        CHECK(body_end(&body, reasons[i]));
        CHECK(!weft__scope_finish(s, &body.node, reasons[i], &result));
        CHECK(weft_scope_is_cancelled(&scope));
        CHECK_EQ(weft__scope_until(s),
                 reasons[i] == WEFT__REASON_TIMEOUT ? WEFT_FOREVER : deadline);
        body_arm(&body);
        CHECK(weft__scope_arm(s, &body.node));
        weft_event_set(&gate);
        CHECK_EQ(last_child_tells(&body, s), expects);
        CHECK_EQ(atomic_load(&ended), 1);
        weft_event_deinit(&gate);
    }
    pool_close(pool);
}
