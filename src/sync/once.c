#include "sync/once.h"
#include "base/nonnull.h"

enum {
    DONE = 1,
};

static uint64_t caller_of(uint64_t on)
{
    const struct weft__once *o = (const struct weft__once *)(uintptr_t)on;
    return weft__holder_fiber(atomic_load_explicit(&o->word, memory_order_relaxed));
}

static const struct weft__wait_kind once_kind = {
    .name = "once", .holder = caller_of, .label = weft__source_label};

void weft_once_init(weft_once *once, const struct weft_sync_opts *opts)
{
    WEFT__NONNULL(once);
    struct weft__once *o = weft__once_of(once);
    weft__source_init(&o->source, opts);
    atomic_init(&o->word, 0);
}

void weft_once_deinit(weft_once *once)
{
    WEFT__NONNULL(once);
    weft__source_deinit(&weft__once_of(once)->source, "once");
}

static bool is_done(const struct weft__once *o)
{
    return atomic_load_explicit(&o->word, memory_order_acquire) ==
           DONE; /* pairs: weft__once_done */
}

bool weft_once_is_done(const weft_once *once)
{
    WEFT__NONNULL(once);
    return is_done((const struct weft__once *)(const void *)once);
}

/* Under the lock. */
static enum weft__once_action next_action_locked(struct weft__once *o, uint64_t self)
{
    uint64_t word = atomic_load_explicit(&o->word, memory_order_relaxed);
    if (word == DONE) {
        return WEFT__ONCE_DONE;
    }
    WEFT__REQUIRE(word != self, "once %s is called again by its own function",
                  o->source.name ? o->source.name : "without a name");
    if (word == 0) {
        atomic_store_explicit(&o->word, self, memory_order_relaxed);
        return WEFT__ONCE_CALL;
    }
    return WEFT__ONCE_WAIT;
}

enum weft__once_action weft__once_arm(struct weft__once *o, struct weft__node *node, uint64_t self)
{
    weft__source_lock(&o->source);
    enum weft__once_action turn = next_action_locked(o, self);
    if (turn == WEFT__ONCE_WAIT) {
        weft__waitlist_push(&o->source.waiters, node);
    }
    weft__source_unlock(&o->source);
    return turn;
}

void weft__once_done(struct weft__once *o)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__source_lock(&o->source);
    atomic_store_explicit(&o->word, DONE, memory_order_release); /* pairs: is_done */
    weft__source_fire_all(&o->source.waiters, 0, &ready);
    weft__source_unlock(&o->source);
    weft__place_all(&ready, WEFT__FRONT);
}

void weft__once_finish(struct weft__once *o, struct weft__node *node)
{
    weft__source_leave(&o->source, &o->source.waiters, node);
}

static void left_by_exit(void *arg)
{
    const struct weft__once *o = arg;
    weft__panic(__FILE__, __LINE__, "the function that once %s calls has left by weft_fiber_exit",
                o->source.name ? o->source.name : "without a name");
}

static void call(struct weft__once *o, void (*fn)(void *arg), void *arg)
{
    struct weft_fiber_cleanup guard;
    const struct weft__worker *w = weft__worker_self();
    bool fiber = w && weft__current(w); /* only fibers with a stack have cleanups */
    if (fiber) {
        weft_fiber_cleanup_push(&guard, left_by_exit, o);
    }
    fn(arg);
    if (fiber) {
        weft_fiber_cleanup_pop(&guard, false);
    }
    weft__once_done(o);
}

int weft_once_call(weft_once *once, void (*fn)(void *arg), void *arg, int64_t deadline)
{
    WEFT__NONNULL(once);
    struct weft__once *o = weft__once_of(once);
    if (is_done(o)) {
        return 0;
    }
    weft__source_lock(&o->source);
    enum weft__once_action turn = next_action_locked(o, weft__holder_of(weft__holder_caller()));
    if (turn == WEFT__ONCE_WAIT) {
        struct weft__node node;
        weft__node_init(&node, NULL, 0);
        return weft__source_wait_locked(&o->source, &o->source.waiters, &node, deadline,
                                        &once_kind);
    }
    weft__source_unlock(&o->source);
    if (turn == WEFT__ONCE_CALL) {
        call(o, fn, arg);
    }
    return 0;
}
