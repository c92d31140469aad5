/* Hopping: the running fiber changes its home, leaves its worker, and is queued at the new one. */
#include <errno.h>

#include <weft/hop.h>

#include "base/assert.h"
#include "sched/ident.h"
#include "sched/pool.h"
#include "sched/worker.h"

static void set_home(struct weft__task *self, weft_pool *pool, int pin)
{
    uint64_t ident;
    if (self->pin >= 0) {
        atomic_fetch_sub_explicit(&self->home->workers[self->pin].bound, 1, memory_order_relaxed);
    }
    if (pin >= 0) {
        atomic_fetch_add_explicit(&pool->workers[pin].bound, 1, memory_order_relaxed);
    }
    uint64_t generation = weft__task_handle(self) >> 32;
    bool live = weft__ident_lock(self, generation, 0, &ident); /* dumps and cancels read these */
    WEFT__ASSERT(live);
    self->home = pool;
    self->pin = (int16_t)pin;
    weft__ident_unlock(self, ident);
}

/* The old pool no longer counts the fiber, after it has been counted at the new one. */
static void count_departure(struct weft__worker *w)
{
    atomic_store_explicit(&w->counters.departed,
                          atomic_load_explicit(&w->counters.departed, memory_order_relaxed) + 1,
                          memory_order_release); /* pairs: weft__pool_live */
    weft__pool_release(w->pool, 1);
}

static bool is_there(const struct weft__worker *w, const weft_pool *pool, int worker)
{
    return w->pool == pool && (worker == WEFT_ANY_WORKER || worker == w->index);
}

int weft_switch_to(weft_pool *pool, int worker)
{
    struct weft__worker *w = weft__worker_self();
    struct weft__task *self = w ? w->current : NULL;
    if (!self) {
        return -ENXIO;
    }
    if (worker < WEFT_ANY_WORKER || worker >= (int)pool->worker_count) {
        return -EINVAL;
    }
    if (w->pool != pool) {
        int err = weft__pool_admit_outside(pool, 1);
        if (err) {
            return err;
        }
        count_departure(w);
    }
    bool moves = !is_there(w, pool, worker);
    if (self->home != pool || self->pin != worker) {
        set_home(self, pool, worker);
    }
    if (moves) {
        weft__worker_suspend(w, WEFT__POST_HOP);
    }
    return 0;
}

int weft_hop_enter(struct weft_hop *hop, weft_pool *pool, int worker)
{
    struct weft__worker *w = weft__worker_self();
    struct weft__task *self = w ? w->current : NULL;
    if (!self) {
        return -ENXIO;
    }
    if (worker < WEFT_ANY_WORKER || worker >= (int)pool->worker_count) {
        return -EINVAL;
    }
    hop->from = self->home;
    hop->from_worker = self->pin;
    if (is_there(w, pool, worker)) {
        hop->from = NULL; /* nothing to undo */
        return 0;
    }
    if (w->pool != pool) {
        int err = weft__pool_admit_outside(pool, 1);
        if (err) {
            return err;
        }
    }
    self->away++;
    atomic_store_explicit(&weft__task_rare(self)->origin, hop->from, memory_order_relaxed);
    set_home(self, pool, worker);
    weft__worker_suspend(w, WEFT__POST_HOP);
    return 0;
}

void weft_hop_leave(struct weft_hop *hop)
{
    struct weft__worker *w = weft__worker_self();
    struct weft__task *self = w ? w->current : NULL;
    WEFT__REQUIRE(self, "weft_hop_leave was called outside of a fiber");
    if (!hop->from) {
        return;
    }
    WEFT__REQUIRE(self->away > 0, "weft_hop_leave without weft_hop_enter");
    self->away--;
    atomic_store_explicit(&weft__task_rare(self)->origin, NULL, memory_order_relaxed);
    if (w->pool != hop->from) {
        count_departure(w); /* the pool of origin has counted the fiber all the time */
    }
    bool moves = !is_there(w, hop->from, hop->from_worker);
    set_home(self, hop->from, hop->from_worker);
    if (moves) {
        weft__worker_suspend(w, WEFT__POST_HOP);
    }
}

int weft_call_on(weft_pool *pool, int worker, weft_fn fn, void *arg, void **result)
{
    struct weft__worker *w = weft__worker_self();
    if (!w || !w->current) {
        struct weft_fiber_opts opts = {.bound = worker != WEFT_ANY_WORKER, .worker = worker};
        weft_fiber fiber;
        int err = weft_pool_spawn(pool, &fiber, fn, arg, &opts);
        return err ? err : weft_join(fiber, result, WEFT_FOREVER);
    }
    struct weft_hop hop;
    int err = weft_hop_enter(&hop, pool, worker);
    if (err) {
        return err;
    }
    void *value = fn(arg);
    weft_hop_leave(&hop);
    if (result) {
        *result = value;
    }
    return 0;
}
