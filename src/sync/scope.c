/* A child has a record on its own stack, from its start to its end; a stackless child has it in
 * separate memory. Start: the child links the record, so that a cancel finds it, and registers
 * itself as its own joiner. End: first, as the last of its cleanups, it records its result; then,
 * where joiners are notified, and under its ident lock like them, it unlinks the record and
 * decrements the count of live children. So the parent continues when a joiner would.
 *
 * Lock order: a fiber's ident lock, then the scope's. Hence cancelling the children takes one
 * record at a time off the list `running` under the scope's lock, and cancels that fiber by its
 * handle without the lock.
 *
 * The last child to be counted out fires the parent and then unlocks; the parent acquires the lock
 * once more before it returns, because the scope may be freed after that.
 *
 * Rejected designs: checking the deadline in each wait of a child (every wait would need a timer);
 * a fiber that keeps the deadline (one more fiber per scope).
 */
#include "sync/scope.h"

#include <errno.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/nonnull.h"
#include "fiber/cancel.h"
#include "sched/fiber_local.h"
#include "sched/pool.h"
#include "sched/stackless.h"
#include "sync/holder.h"
#include "task/ident.h"

#define EXPIRE_BATCH 256 /* children the timer cancels; a waiting parent cancels the rest */

struct weft__child {
    struct weft__waiter waiter; /* first: the waiter is the child */
    struct weft__node node;     /* its own joiner */
    struct weft__scope *scope;
    struct weft__child *next, **at; /* under the scope's lock */
    weft_fiber fiber;               /* 0: it has not started */
    struct weft_fiber_cleanup cleanup;
};

typedef int (*child_fn)(void *arg);

static struct weft__task *current(void)
{
    struct weft__worker *w = weft__worker_self();
    return w ? weft__current(w) : NULL;
}

/* --- cancelling ----------------------------------------------------------------------- */

static void link_child(struct weft__children *list, struct weft__child *child)
{
    child->next = list->first;
    child->at = &list->first;
    if (child->next) {
        child->next->at = &child->next;
    }
    list->first = child;
}

static void unlink_child(struct weft__child *child)
{
    *child->at = child->next;
    if (child->next) {
        child->next->at = child->at;
    }
}

/* Cancels up to `max` running children, except the caller. True: there may be more. */
static bool cancel_children(struct weft__scope *s, size_t max, struct weft__chain *ready)
{
    weft_fiber self = weft_self();
    for (size_t i = 0; i < max; i++) {
        weft__source_lock(&s->source);
        struct weft__child *child = s->running.first;
        weft_fiber fiber = child ? child->fiber : WEFT_NO_FIBER;
        if (child) {
            unlink_child(child);
            link_child(&s->cancelled_children, child);
        }
        weft__source_unlock(&s->source);
        if (!child) {
            return false;
        }
        if (fiber != self) {
            weft__cancel(fiber, WEFT__IDENT_CANCEL, ready); /* no effect if it has ended
                                                             * meanwhile */
        }
    }
    return true;
}

/* Under the lock: records the result of close, unless one was recorded before. */
static void record_result_locked(struct weft__scope *s, int err)
{
    if (s->result == 0) {
        s->result = err;
    }
}

static void cancel_with(struct weft__scope *s, int err)
{
    weft__source_lock(&s->source);
    record_result_locked(s, err);
    s->cancelled = true;
    weft__source_unlock(&s->source);
    cancel_children(s, SIZE_MAX, NULL);
}

void weft_scope_cancel(weft_scope *scope)
{
    WEFT__NONNULL(scope);
    struct weft__scope *s = weft__scope_of(scope);
    WEFT__REQUIRE(s->open, "weft_scope_cancel: the scope is not open");
    cancel_with(s, 0);
}

bool weft_scope_is_cancelled(weft_scope *scope)
{
    WEFT__NONNULL(scope);
    struct weft__scope *s = weft__scope_of(scope);
    weft__source_lock(&s->source);
    bool cancelled = s->cancelled;
    weft__source_unlock(&s->source);
    return cancelled;
}

/* Under the lock: the deadline has passed. */
static void expire_locked(struct weft__scope *s)
{
    if (!s->cancelled) {
        record_result_locked(s, s->live ? -ETIMEDOUT : 0);
        s->cancelled = s->expired = true;
    }
}

/* Called under the wheel's lock, which close takes as well. If there are very many children, the
 * parent cancels the rest if it is waiting. */
static void deadline_passed(struct weft__timer *timer, void *arg)
{
    struct weft__scope *s =
        (struct weft__scope *)(void *)((char *)timer - offsetof(struct weft__scope, timer));
    struct weft__chain *ready = arg;
    weft__source_lock(&s->source);
    expire_locked(s);
    weft__source_unlock(&s->source);
    if (cancel_children(s, EXPIRE_BATCH, ready)) {
        weft__source_lock(&s->source);
        struct weft__node *parent = weft__waitlist_pop(&s->source.waiters);
        bool waits = parent && weft__node_fire(parent, NULL, 0, ready);
        weft__source_unlock(&s->source);
        if (!waits) {
            cancel_children(s, SIZE_MAX, ready);
        }
    }
}

/* --- a child ------------------------------------------------------------------------------ */

/* Decrements the count of live children; the last child fires the parent. */
static void decrement_live(struct weft__scope *s, struct weft__child *child)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__source_lock(&s->source);
    if (child) {
        unlink_child(child);
    }
    if (--s->live == 0) {
        weft__source_fire_all(&s->source.waiters, 0, &ready);
    }
    weft__source_unlock(&s->source);
    weft__place_all(&ready, WEFT__FRONT); /* the scope may be freed by now */
}

/* Called where joiners are notified. */
static void child_ended(struct weft__waiter *waiter)
{
    struct weft__child *child = (struct weft__child *)(void *)waiter;
    decrement_live(child->scope, child);
}

static void record_child_result(struct weft__scope *s, int result)
{
    if (result < 0) {
        weft__source_lock(&s->source);
        record_result_locked(s, s->cancelled && result == -ECANCELED ? 0 : result);
        bool cancels = s->fail_fast && !s->cancelled;
        s->cancelled = s->cancelled || cancels;
        weft__source_unlock(&s->source);
        if (cancels) {
            cancel_children(s, SIZE_MAX, NULL);
        }
    }
}

/* The last of the child's cleanups: its result is known. */
static void child_exit(void *arg)
{
    struct weft__child *child = arg;
    record_child_result(child->scope, (int)(intptr_t)weft__task_rare(current())->result);
}

static void make_joiner(struct weft__child *child, struct weft__scope *s,
                        void (*ended)(struct weft__waiter *waiter))
{
    child->scope = s;
    weft__waiter_arm_notify(&child->waiter, ended);
    weft__node_init(&child->node, &child->waiter, 0);
    child->node.next = NULL;
}

/* From now on a cancel finds the child. */
static void link_started(struct weft__child *child, struct weft__scope *s)
{
    weft__source_lock(&s->source);
    bool cancelled = s->cancelled;
    link_child(cancelled ? &s->cancelled_children : &s->running, child);
    weft__source_unlock(&s->source);
    if (cancelled) {
        weft_cancel(child->fiber);
    }
}

static void child_start(struct weft__child *child, struct weft__scope *s)
{
    struct weft__task *task = current();
    make_joiner(child, s, child_ended);
    child->fiber = weft__task_handle(task);
    task->joiners = &child->node; /* the fiber is detached: it has no other joiners */
    weft__task_rare(task)->scope = s;
    weft_fiber_cleanup_push(&child->cleanup, child_exit, child);
    link_started(child, s);
}

/* Does not return, because the record must stay valid until the end. */
static void *child_run(struct weft__parent *parent, weft_fn fn, void *arg)
{
    struct weft__child child;
    struct weft__scope *s =
        (struct weft__scope *)(void *)((char *)parent - offsetof(struct weft__scope, parent));
    child_start(&child, s);
    int result = ((child_fn)(void (*)(void))fn)(arg);
    struct weft__task *task = current();
    if (weft__task_rare(task)->cleanups != &child.cleanup) {
        weft__local_check_nodes(task, &child);
    }
    weft_fiber_exit((void *)(intptr_t)result);
}

int weft__scope_admit(struct weft__scope *s)
{
    WEFT__REQUIRE(s->open, "weft_scope_spawn: the scope is not open");
    weft__source_lock(&s->source);
    int err = s->expired ? -ETIMEDOUT : s->cancelled ? -ECANCELED : 0;
    if (s->expired) {
        record_result_locked(s, err);
    }
    s->live += !err;
    weft__source_unlock(&s->source);
    return err;
}

int weft_scope_spawn(weft_scope *scope, weft_fiber *out, int (*fn)(void *arg), void *arg,
                     const struct weft_fiber_opts *opts)
{
    WEFT__NONNULL(scope);
    struct weft__scope *s = weft__scope_of(scope);
    int err = weft__scope_admit(s);
    if (err) {
        return err;
    }
    err = weft__spawn(s->pool, out,
                      &(struct weft__spawn_request){
                          .fn = (weft_fn)(void (*)(void))fn,
                          .arg = arg,
                          .opts = opts,
                          .parent = &s->parent,
                      });
    if (err) {
        decrement_live(s, NULL);
    }
    return err;
}

/* --- the parent ------------------------------------------------------------------------------ */

/* A fiber that the parent waits for: one of the children. */
static uint64_t some_child(uint64_t on)
{
    struct weft__scope *s = (struct weft__scope *)(uintptr_t)on;
    weft_fiber fiber = WEFT_NO_FIBER;
    if (weft__lock_try(&s->source.lock)) {
        struct weft__child *child =
            s->running.first ? s->running.first : s->cancelled_children.first;
        fiber = child ? child->fiber : WEFT_NO_FIBER;
        weft__unlock(&s->source.lock);
    }
    return fiber;
}

static const struct weft__wait_kind scope_kind = {
    .name = "scope", .holder = some_child, .label = weft__source_label};

/* Locked on entry, unlocked on return. `uninterruptible`: nothing but the children ends this
 * wait. */
static int wait_locked(struct weft__scope *s, bool uninterruptible)
{
    struct weft__waiter waiter;
    struct weft__node node;
    int64_t deadline = weft__scope_until(s);
    weft__waiter_arm(&waiter, uninterruptible ? WEFT__WAIT_OBJECT | WEFT__WAIT_UNABORTABLE
                                              : WEFT__WAIT_OBJECT);
    weft__node_init(&node, &waiter, 0);
    weft__waitlist_push(&s->source.waiters, &node);
    weft__source_unlock(&s->source);
    enum weft__reason reason =
        weft__waiter_park(&waiter, deadline, &scope_kind, (uint64_t)(uintptr_t)s);
    weft__source_leave(&s->source, &s->source.waiters, &node);
    return weft__reason_errno(reason);
}

/* The parent's wait has ended with this error: cancels the children accordingly, including those
 * that the timer has left. */
static void cancel_after_wait(struct weft__scope *s, int err)
{
    if (err == -ETIMEDOUT) {
        s->close_deadline = WEFT_FOREVER; /* also if the scope was cancelled before */
        weft__source_lock(&s->source);
        expire_locked(s);
        weft__source_unlock(&s->source);
    } else if (err) {
        cancel_with(s, err);
    }
    if (weft_scope_is_cancelled((weft_scope *)(void *)s)) {
        cancel_children(s, SIZE_MAX, NULL);
    }
}

static void wait_for_children(struct weft__scope *s, bool uninterruptible)
{
    if (uninterruptible) {
        weft_fiber_shield_enter();
    }
    weft__source_lock(&s->source);
    while (s->live > 0) {
        int err = wait_locked(s, uninterruptible);
        cancel_after_wait(s, err);
        if (err && err != -ETIMEDOUT) {
            uninterruptible = true;
            weft_fiber_shield_enter();
        }
        weft__source_lock(&s->source);
    }
    weft__source_unlock(&s->source);
    if (uninterruptible) {
        weft_fiber_shield_leave();
    }
}

/* False if the fiber has migrated for good: the wheel that holds the timer may be gone, and so may
 * the source of the fiber's deadline. */
static bool at_opener_pool(const struct weft__scope *s, const struct weft__task *task)
{
    return task->home == s->home || weft__migration_will_return_to(weft__task_rare(task), s->home);
}

static void end(struct weft__scope *s)
{
    struct weft__task *task = current();
    if (s->wheel) {
        WEFT__REQUIRE(!s->opener || at_opener_pool(s, task),
                      "a fiber has migrated to another pool for good with a scope "
                      "open that has a deadline");
        weft__wheel_cancel(s->wheel, &s->timer);
    }
    if (s->opener) {
        weft__task_rare(task)->scope = s->outer;
        weft__task_rare(task)->scope_name = s->outer ? s->outer->source.name : NULL;
    }
    s->open = false;
}

/* Called when the fiber ends with the scope open. */
static void close_as_cleanup(void *arg)
{
    struct weft__scope *s = arg;
    cancel_with(s, -ECANCELED);
    weft__scope_close_begin(s, WEFT_FOREVER);
    wait_for_children(s, true);
    end(s);
}

static const char *name_or_default(const char *name)
{
    return name ? name : "without a name";
}

static const char *name_of(const struct weft__scope *s)
{
    return name_or_default(s->source.name);
}

static struct weft__holder_text opener_of(const struct weft__scope *s)
{
    uint64_t task = (uint64_t)(uintptr_t)weft__slab_find((uint32_t)s->opener);
    return s->opener ? weft__holder_text(task)
                     : (struct weft__holder_text){.text = "a plain thread"};
}

/* In a fiber of either kind: applies the deadline of the enclosing scope, and starts a timer for
 * the deadline. */
static void start_deadline(struct weft__scope *s, struct weft__worker *w)
{
    if (s->outer && s->outer->deadline < s->deadline) {
        s->deadline = s->outer->deadline;
    }
    if (s->deadline <= weft_now()) {
        s->expired = s->cancelled = true;
    } else if (s->deadline != WEFT_FOREVER) {
        weft__timer_init(&s->timer, deadline_passed);
        s->wheel = &w->wheel;
        weft__wheel_add(s->wheel, &s->timer, s->deadline);
    }
}

static void open_in_fiber(struct weft__scope *s, struct weft__task *task)
{
    struct weft__rare *rare = weft__task_rare(task);
    s->opener = weft__task_handle(task);
    s->home = task->home;
    s->outer = rare->scope;
    rare->scope = s;
    rare->scope_name = s->source.name;
    weft_fiber_cleanup_push(&s->cleanup, close_as_cleanup, s);
}

/* The scope that a stackless task is a child of, or NULL. */
static struct weft__scope *scope_of_stackless(const struct weft__task *task)
{
    return task->stackless->scope ? task->stackless->scope(task) : NULL;
}

int weft_scope_open(weft_scope *scope, const struct weft_scope_opts *opts)
{
    WEFT__NONNULL(scope);
    static const struct weft_scope_opts defaults;
    struct weft__scope *s = weft__scope_of(scope);
    struct weft__worker *w = weft__worker_self();
    struct weft__task *task = w ? weft__running(w) : NULL;
    opts = opts ? opts : &defaults;
    if (!opts->pool && !task) {
        return weft__refuse(-EINVAL, "pool: must be given outside of a fiber");
    }
    weft__deadline_check(opts->deadline);
    *s = (struct weft__scope){
        .parent.run = child_run,
        .open = true,
        .fail_fast = opts->fail_fast,
        .deadline = opts->deadline ? opts->deadline : WEFT_FOREVER,
        .pool = opts->pool ? opts->pool : task->home,
    };
    weft__source_init(&s->source, &(struct weft_sync_opts){.name = opts->name});
    if (task && weft__task_is_stackless(task)) {
        s->outer = scope_of_stackless(task);
    } else if (task) {
        open_in_fiber(s, task);
    }
    if (task) {
        start_deadline(s, w);
    }
    return 0;
}

/* The scope's own deadline counts here only where no timer keeps it: in a plain thread. */
void weft__scope_close_begin(struct weft__scope *s, int64_t deadline)
{
    bool has_timer = s->opener || s->wheel;
    s->close_deadline = has_timer || s->expired || deadline < s->deadline ? deadline : s->deadline;
}

int weft_scope_close(weft_scope *scope, int64_t deadline)
{
    WEFT__NONNULL(scope);
    struct weft__scope *s = weft__scope_of(scope);
    struct weft__task *task = current();
    WEFT__REQUIRE(s->open, "weft_scope_close: the scope is not open");
    WEFT__REQUIRE(s->opener == (task ? weft__task_handle(task) : WEFT_NO_FIBER),
                  "weft_scope_close was not called by the opener of scope %s: %s", name_of(s),
                  opener_of(s).text);
    if (task) {
        WEFT__REQUIRE(weft__task_rare(task)->scope == s,
                      "weft_scope_close: scope %s is closed while scope %s, which was opened after "
                      "it, is open: %s has to close that first",
                      name_of(s), name_or_default(weft__task_rare(task)->scope_name),
                      opener_of(s).text);
        weft_fiber_cleanup_pop(&s->cleanup, false);
    }
    weft__scope_close_begin(s, deadline);
    wait_for_children(s, false);
    end(s);
    return s->result;
}

int64_t weft_scope_deadline(void)
{
    struct weft__worker *w = weft__worker_self();
    const struct weft__task *task = w ? weft__running(w) : NULL;
    const struct weft__scope *s = !task                           ? NULL
                                  : weft__task_is_stackless(task) ? scope_of_stackless(task)
                                                                  : weft__task_rare(task)->scope;
    return s ? s->deadline : WEFT_FOREVER;
}

/* --- stackless tasks -------------------------------------------------------------------------- */

static struct weft__child *child_of(const struct weft__node *node)
{
    return (struct weft__child *)(void *)((char *)(uintptr_t)node -
                                          offsetof(struct weft__child, node));
}

/* Called where joiners are notified. */
static void stackless_child_ended(struct weft__waiter *waiter)
{
    struct weft__child *child = (struct weft__child *)(void *)waiter;
    decrement_live(child->scope, child);
    weft__free(child);
}

struct weft__node *weft__scope_child_make(struct weft__scope *s)
{
    struct weft__child *child = weft__alloc(sizeof *child);
    if (!child) {
        return NULL;
    }
    make_joiner(child, s, stackless_child_ended);
    return &child->node;
}

void weft__scope_admit_undo(struct weft__scope *s, struct weft__node *node)
{
    weft__free(node ? child_of(node) : NULL);
    decrement_live(s, NULL);
}

bool weft__scope_child_has_started(const struct weft__node *node)
{
    return child_of(node)->fiber != WEFT_NO_FIBER;
}

void weft__scope_child_start(struct weft__node *node)
{
    struct weft__child *child = child_of(node);
    child->fiber = weft_self();
    link_started(child, child->scope);
}

void weft__scope_child_exit(struct weft__node *node, int status)
{
    record_child_result(child_of(node)->scope, status);
}

struct weft__scope *weft__scope_of_child(const struct weft__node *node)
{
    return child_of(node)->scope;
}

bool weft__scope_arm(struct weft__scope *s, struct weft__node *node)
{
    WEFT__REQUIRE(s->open && !s->opener, "a stackless task closes a scope that it did not open");
    weft__source_lock(&s->source);
    bool wait = s->live > 0;
    if (wait) {
        weft__waitlist_push(&s->source.waiters, node);
    }
    weft__source_unlock(&s->source);
    return wait;
}

bool weft__scope_finish(struct weft__scope *s, struct weft__node *node, enum weft__reason reason,
                        int *result)
{
    weft__source_leave(&s->source, &s->source.waiters, node);
    cancel_after_wait(s, weft__reason_errno(reason));
    weft__source_lock(&s->source);
    bool over = s->live == 0;
    weft__source_unlock(&s->source);
    if (over) {
        end(s);
        *result = s->result;
    }
    return over;
}
