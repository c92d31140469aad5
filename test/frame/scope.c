/* labels: valgrind */
/* Scopes and frames: stackless children, and a stackless parent. */
#include "frame/script.h"

/* --- a parent that is a frame ---------------------------------------------------------------- */

struct parent {
    weft_frame frame;
    struct weft_wait wait, other;
    weft_scope scope;
    struct weft_scope_opts opts;
    struct script *children;
    int n, status, spawned;
    weft_future *lingers; /* awaited before the scope */
    bool cancels;
    int (*fn)(void *arg); /* an additional child with a stack */
    _Atomic(bool) opened;
    int64_t close_ns; /* deadline of the close, from now; 0: none */
};

static enum weft_step closed(weft_frame *f, struct weft_got got)
{
    SELF(parent);
    self->status = got.status;
    return weft_frame_return(f, NULL);
}

static enum weft_step closes(weft_frame *f, struct weft_got got)
{
    SELF(parent);
    (void)got;
    if (self->cancels) {
        weft_scope_cancel(&self->scope);
    }
    return weft_frame_await_scope(f, &self->wait, &self->scope,
                                  self->close_ns ? weft_after(self->close_ns) : WEFT_FOREVER,
                                  WEFT_THEN(closed));
}

static enum weft_step opens(weft_frame *f, struct weft_got got)
{
    SELF(parent);
    (void)got;
    CHECK_EQ(weft_scope_open(&self->scope, &self->opts), 0);
    for (int i = 0; i < self->n; i++) {
        int err = weft_scope_spawn_frame(&self->scope, NULL, &self->children[i].frame, NULL);
        CHECK(err == 0 || err == -ECANCELED || err == -ETIMEDOUT);
        self->spawned += !err;
    }
    if (self->fn) {
        int err = weft_scope_spawn(&self->scope, NULL, self->fn, self, NULL);
        CHECK(err == 0 || err == -ECANCELED); /* one of the others may have failed */
    }
    atomic_store(&self->opened, true);
    return self->lingers ? weft_frame_await_future(f, &self->other, self->lingers, WEFT_FOREVER,
                                                   WEFT_THEN(closes))
                         : closes(f, got);
}

static const struct weft_frame_kind parenting = {.name = "parent", .start = opens};

static struct parent parent_of(struct script *children, int n)
{
    struct parent p = {.children = children, .n = n, .status = 77};
    weft_frame_init(&p.frame, &parenting);
    return p;
}

static void all(struct script *children, int n, const char *body, const char *handle,
                const char *finally)
{
    for (int i = 0; i < n; i++) {
        children[i] = script("c", body, handle, finally);
    }
}

/* Notes of several threads have no order: they are not checked. */
#define MANY 12

EACH_HOME(frame_scope_close_waits_for_all_children)
{
    struct script children[MANY];
    for (int n = 0; n <= MANY; n += 6) {
        all(children, n, "sysr", "x", "syd");
        struct parent p = parent_of(children, n);
        CHECK_EQ(home_run(home, &p.frame, NULL), 0);
        CHECK_EQ(p.status, 0);
        for (int i = 0; i < n; i++) {
            CHECK_EQ(children[i].part, 'F');
            CHECK_EQ(*children[i].next, 0); /* its finally ran to the end */
        }
    }
    notes_are(NULL);
}

EACH_HOME(frame_scope_close_returns_error_of_child)
{
    struct script children[3];
    all(children, 3, "sr", "x", "d");
    children[1] = script("c", "st", NULL, "d");
    struct parent p = parent_of(children, 3);
    CHECK_EQ(home_run(home, &p.frame, NULL), 0);
    CHECK_EQ(p.status, B_CODE);
    CHECK_EQ(take_reports(), 1);
    notes_are(NULL);
}

EACH_HOME(fail_fast_cancels_siblings_and_their_finally_can_wait)
{
    struct script children[MANY];
    all(children, MANY, "s", NULL, "yyd");
    for (int i = 0; i < MANY; i++) {
        children[i].until = WEFT_FOREVER;
    }
    children[4] = script("c", "yt", NULL, "d");
    struct parent p = parent_of(children, MANY);
    p.opts.fail_fast = true;
    CHECK_EQ(home_run(home, &p.frame, NULL), 0);
    CHECK_EQ(p.status, B_CODE);
    CHECK_EQ(take_reports(), 1); /* the cancel of the others is not reported */
    notes_are(NULL);
}

EACH_HOME(scope_cancel_reaches_frame_children)
{
    struct script children[MANY];
    weft_future *go;
    CHECK_EQ(weft_future_create(&go, NULL), 0);
    all(children, MANY, "s", NULL, "yd");
    for (int i = 0; i < MANY; i++) {
        children[i].until = WEFT_FOREVER;
    }
    struct parent p = parent_of(children, MANY);
    p.cancels = true;
    p.lingers = go;
    weft_fiber fiber = home_waiting(home, &p.frame);
    weft_future_complete(go, NULL);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(p.status, 0);
    weft_future_unref(go);
    notes_are(NULL);
}

/* Also while the parent waits for something else. */
EACH_HOME(scope_deadline_reaches_frame_children)
{
    for (int i = 0; i < 2; i++) {
        struct script children[MANY];
        weft_future *go;
        CHECK_EQ(weft_future_create(&go, NULL), 0);
        all(children, MANY, "s", NULL, "yd");
        for (int k = 0; k < MANY; k++) {
            children[k].until = WEFT_FOREVER;
        }
        struct parent p = parent_of(children, MANY);
        p.opts.deadline = weft_after(2 * MS);
        p.lingers = i ? go : NULL;
        weft_fiber fiber = home_spawn(home, &p.frame);
        if (i) {
            while (!atomic_load(&p.opened) || !weft_scope_is_cancelled(&p.scope)) {
                weft_yield();
            }
            weft_future_complete(go, NULL);
        }
        CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
        CHECK_EQ(p.status, -ETIMEDOUT);
        weft_future_unref(go);
    }
    notes_are(NULL);
}

EACH_HOME(deadline_of_frame_scope_close_cancels_children)
{
    struct script children[MANY];
    all(children, MANY, "s", NULL, "yd");
    for (int i = 0; i < MANY; i++) {
        children[i].until = WEFT_FOREVER;
    }
    struct parent p = parent_of(children, MANY);
    p.close_ns = 2 * MS;
    CHECK_EQ(weft_join(home_spawn(home, &p.frame), NULL, WEFT_FOREVER), 0);
    CHECK_EQ(p.status, -ETIMEDOUT);
    notes_are(NULL);
}

EACH_HOME(scope_with_past_deadline_rejects_frame_children)
{
    struct script child = script("c", "r", NULL, "d");
    struct parent p = parent_of(&child, 1);
    p.opts.deadline = weft_now();
    CHECK_EQ(home_run(home, &p.frame, NULL), 0);
    CHECK_EQ(p.spawned, 0);
    CHECK_EQ(p.status, -ETIMEDOUT);
}

static void ended_parent(struct home *home, bool cancel)
{
    struct script children[MANY];
    all(children, MANY, "s", NULL, "ysd");
    for (int i = 0; i < MANY; i++) {
        children[i].until = WEFT_FOREVER;
    }
    struct parent p = parent_of(children, MANY);
    weft_fiber fiber = home_waiting(home, &p.frame);
    while (!atomic_load(&p.opened)) {
        weft_yield();
    }
    for (int i = 0; i < MANY; i++) {
        children[i].finally = "yd";
    }
    CHECK_EQ(cancel ? weft_cancel(fiber) : weft_fiber_interrupt(fiber), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(p.status, cancel ? -ECANCELED : -EINTR);
    for (int i = 0; i < MANY; i++) {
        CHECK(!children[i].next || children[i].part == 'F');
    }
    notes_are(NULL);
}

EACH_HOME(cancelled_frame_parent_cancels_children_and_keeps_waiting)
{
    ended_parent(home, true);
}

EACH_HOME(interrupted_frame_parent_cancels_children_and_keeps_waiting)
{
    ended_parent(home, false);
}

static int waits_for_ever(void *arg)
{
    (void)arg;
    return weft_sleep(WEFT_FOREVER);
}

static int fails(void *arg)
{
    (void)arg;
    return -ENOSPC;
}

EACH_HOME(frame_and_stackful_children_behave_alike)
{
    struct script child = script("c", "yt", NULL, "d");
    struct parent p = parent_of(&child, 1);
    p.opts.fail_fast = true;
    p.fn = waits_for_ever;
    CHECK_EQ(home_run(home, &p.frame, NULL), 0);
    CHECK_EQ(p.status, B_CODE);
    child = script("c", "s", NULL, "d");
    child.until = WEFT_FOREVER;
    p = parent_of(&child, 1);
    p.opts.fail_fast = true;
    p.fn = fails;
    CHECK_EQ(home_run(home, &p.frame, NULL), 0);
    CHECK_EQ(p.status, -ENOSPC);
    CHECK_EQ(take_reports(), 1);
    notes_are(NULL);
}

/* --- a parent with a stack -------------------------------------------------------------------- */

struct asks {
    weft_frame frame;
    struct weft_wait wait;
    weft_scope inner;
    int64_t expected;
    struct script grandchild;
    int status;
    bool began;
};

static enum weft_step inner_closed(weft_frame *f, struct weft_got got)
{
    SELF(asks);
    self->status = got.status;
    return weft_frame_return(f, NULL);
}

/* The enclosing scopes apply to the frame and to the scopes it opens. */
static enum weft_step asks(weft_frame *f, struct weft_got got)
{
    SELF(asks);
    (void)got;
    CHECK_EQ(weft_scope_deadline(), self->expected);
    CHECK_EQ(weft_scope_open(&self->inner, NULL), 0);
    self->grandchild = script("g", "s", NULL, "d");
    self->grandchild.until = WEFT_FOREVER;
    int err = weft_scope_spawn_frame(&self->inner, NULL, &self->grandchild.frame, NULL);
    CHECK(err == 0 || err == -ETIMEDOUT);
    self->began = err == 0;
    weft_fiber_shield_enter(); /* not ended by the outer cancel: by the inherited deadline */
    return weft_frame_await_scope(f, &self->wait, &self->inner, WEFT_FOREVER,
                                  WEFT_THEN(inner_closed));
}

static const struct weft_frame_kind asking = {.name = "asks", .start = asks};

/* Repeats with more time, if the machine was too slow for all children to begin in time. */
static void *opens_with_deadline(void *arg)
{
    struct asks child = {.began = false};
    (void)arg;
    for (int64_t time = 2 * MS; !child.began; time *= 2) {
        weft_scope scope;
        child = (struct asks){.expected = weft_after(time)};
        weft_frame_init(&child.frame, &asking);
        CHECK_EQ(weft_scope_open(&scope, &(struct weft_scope_opts){.deadline = child.expected}), 0);
        int err = weft_scope_spawn_frame(&scope, NULL, &child.frame, NULL);
        CHECK(err == 0 || err == -ETIMEDOUT);
        err = weft_scope_close(&scope, WEFT_FOREVER);
        CHECK(err == -ETIMEDOUT || err == 0); /* the child's own timer may have ended it first */
        CHECK(!child.began || child.status == -ETIMEDOUT);
    }
    return NULL;
}

EACH_HOME(scope_deadline_is_inherited_by_frame_children)
{
    CHECK_EQ(weft_join(home_spawn_fn(home, opens_with_deadline, NULL), NULL, WEFT_FOREVER), 0);
    notes_are(NULL);
}

static void *opens_many(void *arg)
{
    static struct script children[200];
    weft_scope scope;
    weft_fiber fiber;
    (void)arg;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    for (int i = 0; i < 200; i++) {
        children[i] = script("c", "s", NULL, "d");
        children[i].until = WEFT_FOREVER;
        CHECK_EQ(weft_scope_spawn_frame(&scope, &fiber, &children[i].frame,
                                        &(struct weft_fiber_opts){.name = "child"}),
                 0);
        CHECK_EQ(weft_join(fiber, NULL, 0), -EINVAL); /* it belongs to the scope */
    }
    if (children[0].next == NULL) {
        weft_yield();
    }
    weft_scope_cancel(&scope); /* also those that have not started */
    struct script late = script("late", "r", NULL, "d");
    CHECK_EQ(weft_scope_spawn_frame(&scope, NULL, &late.frame, NULL), -ECANCELED);
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), 0);
    return NULL;
}

EACH_HOME(stackful_fiber_can_have_frame_children)
{
    CHECK_EQ(weft_join(home_spawn_fn(home, opens_many, NULL), NULL, WEFT_FOREVER), 0);
    CHECK_EQ(take_reports(), 0);
    notes_are(NULL);
}

TEST(plain_thread_can_have_frame_children_in_pool)
{
    struct home home;
    struct script child = script("c", "syr", NULL, "sd");
    weft_scope scope;
    home_open(&home, false);
    CHECK_EQ(weft_scope_open(&scope, &(struct weft_scope_opts){.pool = home.pool}), 0);
    CHECK_EQ(weft_scope_spawn_frame(&scope, NULL, &child.frame, NULL), 0);
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), 0);
    home_close(&home);
    notes_are(NULL);
}
