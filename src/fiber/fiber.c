/* Creating and ending fibers, with a stack and without. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/clock.h"
#include "base/nonnull.h"
#include "base/objname.h"
#include "fiber/cancel.h"
#include "fiber/hook_binding.h"
#include "sched/fiber_local.h"
#include "sched/group_scheduler.h"
#include "sched/pool.h"
#include "sched/stackless.h"
#include "task/fork.h"
#include "task/handle.h"
#include "task/parent.h"
#include "task/spawn.h"
#include "wait/waiter.h"
#include "worker/spawner.h"
#include "worker/worker.h"

/* --- creating ------------------------------------------------------------------ */

static const struct weft_fiber_opts no_opts;

/* Returns the stack class, or -EINVAL. */
static int check_opts(const struct weft_fiber_opts *opts, const weft_pool *pool)
{
    if (opts->bound && pool && (opts->worker < 0 || (unsigned)opts->worker >= pool->worker_count)) {
        return -EINVAL;
    }
    if (opts->stack_bytes) {
        return weft__stack_class(opts->stack_bytes);
    }
    int class = pool ? pool->stack_class : weft__stack_class(WEFT__STACK_DEFAULT);
    int least = opts->hooked ? weft__stack_class(WEFT__HOOKED_STACK_BYTES) : 0;
    return class > least ? class : least;
}

static inline int worker_of(const struct weft_fiber_opts *opts, weft_pool *pool)
{
    if (opts->bound) {
        return opts->worker;
    }
    return __builtin_expect(opts->hooked, 0) ? weft__hooked_choose_worker(pool) : -1;
}

static inline void assign_home(struct weft__task *task, weft_pool *pool, int pin)
{
    task->home = pool;
    task->pin = (int16_t)pin;
    if (pin >= 0) {
        atomic_fetch_add_explicit(&pool->workers[pin].bound, 1, memory_order_relaxed);
    }
}

/* Turns the initialised block into a live fiber. */
static inline void make_live(struct weft__task *task, uint64_t flags)
{
    uint64_t ident = atomic_load_explicit(&task->ident, memory_order_relaxed);
    ident |= WEFT__IDENT_LIVE | flags;
    /* Release: a thread that reaches the fiber, by its handle or by walking all slots, finds it
     * initialised. After this the fields are written only under the lock. pairs:
     * weft__ident_lock */
    atomic_store_explicit(&task->ident, ident, memory_order_release);
}

/* Copies a grouped fiber's name. Returns NULL without memory. */
static __attribute__((noinline)) char *copy_label(const char *name, size_t most)
{
    size_t size = weft__objname_fit(name, most) + 1;
    char *label = weft__alloc(size);
    if (label) {
        memcpy(label, name, size - 1);
        label[size - 1] = 0;
    }
    return label;
}

/* Adds the task to a dispatcher's group. Returns 0, -ENOMEM or -ESHUTDOWN; after success nothing
 * may fail: queue/intake.h. */
static inline int add_to_group(struct weft__task *task, weft_pool *pool,
                               const struct weft__group_member *member, const char *name)
{
    char *label = name ? copy_label(name, sizeof task->name) : NULL;
    if (name && !label) {
        return -ENOMEM;
    }
    if (member->intake && !weft__intake_enter(member->intake)) {
        weft__free(label);
        return -ESHUTDOWN;
    }
    task->flags |= WEFT__TASK_GROUPED | (member->daemon ? WEFT__TASK_DAEMON : 0);
    task->turn = member->front; /* until it starts: weft__group_sched_start */
    task->label = label;
    task->group = member->group;
    task->signals = member->signals ? member->signals : 1;
    task->home = pool;
    task->pin = 0; /* not counted as bound: there is no other worker to compare with */
    return 0;
}

/* Must a sanitizer or the C++ runtime learn of switches? Either for all fibers or for none. */
static inline uint8_t instrumented_flag(void)
{
    return weft__asan_is_present() || weft__exceptions_are_supported() ? WEFT__TASK_INSTRUMENTED
                                                                       : 0;
}

/* A fiber to be made, with every default filled in. */
struct plan {
    struct weft__spawn_request request;
    weft_pool *pool; /* its home; NULL: it is submitted later */
    unsigned stack_class;
    uint64_t ident_flags; /* WEFT__IDENT_RIGHT or WEFT__IDENT_DETACHED */
    int64_t born;
};

/* Takes a control block and a stack credit. Returns NULL without memory. */
static inline struct weft__task *take_block(struct weft__spawner *spawner, unsigned stack_class)
{
    if (__builtin_expect(weft__spawner_take_credit(spawner, stack_class) != 0, 0)) {
        return NULL;
    }
    struct weft__task *task = weft__slab_get(&spawner->blocks);
    if (__builtin_expect(!task, 0)) {
        weft__spawner_give_credit(spawner, stack_class);
    }
    return task;
}

static inline uint8_t plan_flags(const struct weft__spawn_request *request)
{
    return (uint8_t)((request->opts->fp_env ? WEFT__TASK_FP_ENV : 0) |
                     (request->parent ? WEFT__TASK_CHILD : 0) |
                     (request->opts->hooked ? WEFT__TASK_HOOKED : 0) | instrumented_flag());
}

/* Gives the task its name and its place: a group, a pool, or none yet. Returns an error of
 * add_to_group. */
static inline int name_and_place(struct weft__task *task, const struct plan *plan)
{
    const struct weft_fiber_opts *opts = plan->request.opts;
    if (__builtin_expect(plan->request.member != NULL, 0)) {
        return add_to_group(task, plan->pool, plan->request.member, opts->name);
    }
    task->name[0] = 0;
    if (__builtin_expect(opts->name != NULL, 0)) {
        weft__objname_truncate(task->name, sizeof task->name, opts->name);
    }
    assign_home(task, plan->pool, plan->pool ? worker_of(opts, plan->pool) : -1);
    return 0;
}

/* Creates a control block with a stack credit: FRESH, or CREATED if the plan has no pool. Returns
 * NULL on error, and *err is the error. */
static inline __attribute__((always_inline)) struct weft__task *
make(struct weft__spawner *spawner, const struct plan *plan, int *err)
{
    struct weft__task *task = take_block(spawner, plan->stack_class);
    if (__builtin_expect(!task, 0)) {
        *err = -ENOMEM;
        return NULL;
    }
    task->stack = NULL;
    task->stack_class = (uint8_t)plan->stack_class;
    task->flags = plan_flags(&plan->request);
    atomic_store_explicit(&task->ran_on, -1, memory_order_relaxed);
    task->fn = plan->request.fn;
    task->value = plan->request.arg;
    task->shields = 0;
    task->joiners = (struct weft__node *)(void *)plan->request.parent;
    task->born = plan->born;
    *err = name_and_place(task, plan);
    if (__builtin_expect(*err != 0, 0)) {
        weft__slab_put(&spawner->blocks, task);
        weft__spawner_give_credit(spawner, plan->stack_class);
        return NULL;
    }
    if (plan->pool) {
        weft__task_create_fresh(task);
    } else {
        weft__task_create(task);
    }
    make_live(task, plan->ident_flags);
    return task;
}

/* Undoes make for a fiber that no thread can have seen running. */
static void unmake(struct weft__spawner *spawner, struct weft__task *task)
{
    unsigned class = task->stack_class;
    bool stackless = weft__task_is_stackless(task);
    weft__spawner_retire(spawner, task);
    if (!stackless) {
        weft__spawner_give_credit(spawner, class);
    }
}

/* Returns the calling worker if it runs a task of this pool now, else NULL. */
static inline struct weft__worker *worker_inside(const weft_pool *pool, struct weft__worker *w)
{
    return w && w->pool == pool && (weft__running(w) || (w->group_sched && w->group_sched->running))
               ? w
               : NULL;
}

/* Reserves capacity for n more fibers. A stop refuses only fibers that come from outside the
 * pool. */
static inline int admit(weft_pool *pool, const struct weft__worker *inside, uint64_t n)
{
    return inside ? weft__pool_admit(pool, n) : weft__pool_admit_outside(pool, n);
}

static inline int admit_one(weft_pool *pool, const struct weft__worker *inside, bool is_successor)
{
    if (!is_successor) {
        return admit(pool, inside, 1);
    }
    WEFT__ASSERT(inside);
    weft__pool_admit_successor(pool);
    return 0;
}

static void unadmit(weft_pool *pool, const struct weft__worker *inside, uint64_t n)
{
    if (inside) {
        weft__pool_release(pool, n);
    } else {
        weft__pool_unadmit_outside(pool, n);
    }
}

/* Checked after a fiber was made and placed: does the pool already cancel its fibers, and may the
 * walk over all fibers have missed this one? A spawner on a worker may still read the old flag
 * while its fiber is not yet visible to the walk. So every worker repeats the walk at the first
 * tick at which it sees the flag, after everything it has made. A push from outside is a full
 * barrier. pairs: weft__pool_cancel_all */
static inline uint32_t pending_cancel_flags(const weft_pool *pool)
{
    return atomic_load_explicit(&pool->cancelling, memory_order_seq_cst);
}

static __attribute__((noinline, cold)) void cancel_new_fiber(weft_fiber fiber,
                                                             const weft_pool *pool)
{
    weft__cancel(fiber, pending_cancel_flags(pool), NULL);
}

/* A fiber spawned by a dispatcher's fiber joins the same group and inherits the daemon flag. From
 * outside, the group must be named. */
static const struct weft__group_member *member_here(const struct weft__worker *inside,
                                                    struct weft__group_member *here)
{
    if (!inside) {
        return NULL;
    }
    const struct weft__task *maker = weft__running(inside);
    *here = (struct weft__group_member){
        .group = inside->group_sched->running->index,
        .daemon = maker && (maker->flags & WEFT__TASK_DAEMON),
    };
    return here;
}

/* Starts a task that is complete and admitted; *out is its handle. */
static inline void launch(weft_pool *pool, struct weft__worker *inside, struct weft__task *task,
                          weft_fiber *out)
{
    weft_fiber fiber = weft__task_handle(task);
    if (out) {
        *out = fiber; /* before it can run and end */
    }
    if (inside) {
        weft__count(&inside->counters.spawned, 1);
        WEFT__TRACE(inside, WEFT__TRACE_SPAWN, fiber);
    }
    if (inside && inside->group_sched) {
        weft__group_sched_start(inside->group_sched, task);
    } else {
        weft__place_fresh(inside, task);
    }
    if (__builtin_expect(pending_cancel_flags(pool), 0)) {
        cancel_new_fiber(fiber, pool);
    }
}

/* The time at which a fiber was made: as exact as the worker's clock. */
static inline int64_t creation_time(const struct weft__worker *w)
{
    return w ? w->now : weft__clock_coarse_ns();
}

/* Admits the planned fiber to its pool and makes it. Returns NULL on error, and *err is the
 * error. */
static inline __attribute__((always_inline)) struct weft__task *
admit_and_make(struct weft__worker *w, const struct weft__worker *inside, const struct plan *plan,
               int *err)
{
    struct weft__spawner *spawner = weft__spawner_of(w);
    *err = __builtin_expect(spawner != NULL, 1)
               ? admit_one(plan->pool, inside, plan->request.is_successor)
               : -ENOMEM;
    if (__builtin_expect(*err, 0)) {
        return NULL;
    }
    struct weft__task *task = make(spawner, plan, err);
    if (__builtin_expect(!task, 0)) {
        unadmit(plan->pool, inside, 1);
    }
    return task;
}

static inline __attribute__((always_inline)) int
spawn(struct weft__worker *w, weft_pool *pool, weft_fiber *out, struct weft__spawn_request request)
{
    struct weft__worker *inside = worker_inside(pool, w);
    struct weft__group_member here;
    request.opts = request.opts ? request.opts : &no_opts;
    int class = check_opts(request.opts, pool);
    if (__builtin_expect(pool->group_sched && !request.member, 0)) {
        request.member = member_here(inside, &here);
    }
    if (__builtin_expect(class < 0 || !request.fn || (pool->group_sched && !request.member), 0)) {
        return -EINVAL;
    }
    bool joinable = out && !request.opts->detached && !request.parent;
    struct plan plan = {
        .request = request,
        .pool = pool,
        .stack_class = (unsigned)class,
        .ident_flags = joinable ? WEFT__IDENT_RIGHT : WEFT__IDENT_DETACHED,
        .born = creation_time(w),
    };
    int err;
    struct weft__task *task = admit_and_make(w, inside, &plan, &err);
    if (__builtin_expect(task != NULL, 1)) {
        launch(pool, inside, task, out);
    }
    return err;
}

int weft__spawn(weft_pool *pool, weft_fiber *out, const struct weft__spawn_request *request)
{
    return spawn(weft__worker_self(), pool, out, *request);
}

int weft_pool_spawn(weft_pool *pool, weft_fiber *out, weft_fn fn, void *arg,
                    const struct weft_fiber_opts *opts)
{
    WEFT__NONNULL(pool);
    return spawn(weft__worker_self(), pool, out,
                 (struct weft__spawn_request){.fn = fn, .arg = arg, .opts = opts});
}

int weft_spawn(weft_fiber *out, weft_fn fn, void *arg, const struct weft_fiber_opts *opts)
{
    struct weft__worker *w = weft__worker_self();
    if (__builtin_expect(!w || !worker_inside(w->pool, w), 0)) {
        weft__fork_check_fiber("weft_spawn");
        return -ENXIO;
    }
    return spawn(w, w->pool, out, (struct weft__spawn_request){.fn = fn, .arg = arg, .opts = opts});
}

int weft_pool_submit(weft_pool *pool, weft_fn fn, void *arg)
{
    WEFT__NONNULL(pool);
    return spawn(weft__worker_self(), pool, NULL,
                 (struct weft__spawn_request){.fn = fn, .arg = arg});
}

/* Takes back the tasks of a batch that could not be completed. */
static void unmake_batch(struct weft__spawner *spawner, struct weft__chain *made)
{
    struct weft__link *link;
    while ((link = weft__chain_pop(made))) {
        unmake(spawner, weft__task_of(link));
    }
}

/* Makes a detached fiber for each job. Returns 0, or -ENOMEM with none made. */
static int make_batch(struct weft__spawner *spawner, struct plan *plan, const struct weft_job *jobs,
                      size_t n, struct weft__chain *made)
{
    int err;
    weft__chain_init(made);
    for (size_t i = 0; i < n; i++) {
        plan->request.fn = jobs[i].fn;
        plan->request.arg = jobs[i].arg;
        struct weft__task *task = make(spawner, plan, &err);
        if (!task) {
            unmake_batch(spawner, made);
            return err;
        }
        weft__chain_push(made, &task->link);
    }
    return 0;
}

int weft_pool_submit_batch(weft_pool *pool, const struct weft_job *jobs, size_t n)
{
    WEFT__NONNULL(pool);
    struct weft__worker *w = weft__worker_self();
    struct weft__worker *inside = worker_inside(pool, w);
    struct weft__spawner *spawner = weft__spawner_of(w);
    for (size_t i = 0; i < n; i++) {
        if (!jobs[i].fn) {
            return -EINVAL;
        }
    }
    if (!spawner) {
        return -ENOMEM;
    }
    if (pool->group_sched) {
        return -EINVAL; /* a group must be named */
    }
    int err = admit(pool, inside, n);
    if (err) {
        return err;
    }
    struct plan plan = {
        .request = {.opts = &no_opts},
        .pool = pool,
        .stack_class = pool->stack_class,
        .ident_flags = WEFT__IDENT_DETACHED,
        .born = creation_time(w),
    };
    struct weft__chain made;
    err = make_batch(spawner, &plan, jobs, n, &made);
    if (err) {
        unadmit(pool, inside, n);
        return err;
    }
    if (inside) {
        weft__count(&inside->counters.spawned, n);
    }
    weft__global_push_chain(&pool->global, &made);
    weft__idle_notify(&pool->idle);
    if (__builtin_expect(pending_cancel_flags(pool), 0)) {
        weft__pool_cancel_walk(pool);
    }
    return 0;
}

struct weft__task *weft__fiber_make(weft_pool *pool, weft_fn fn, const struct weft_fiber_opts *opts,
                                    int *err)
{
    struct weft__worker *w = weft__worker_self();
    int class = check_opts(opts, pool);
    if (class < 0 || pool->group_sched) {
        *err = -EINVAL;
        return NULL;
    }
    struct plan plan = {
        .request = {.fn = fn, .opts = opts},
        .pool = pool,
        .stack_class = (unsigned)class,
        .ident_flags = WEFT__IDENT_DETACHED,
        .born = creation_time(w),
    };
    return admit_and_make(w, worker_inside(pool, w), &plan, err);
}

void weft__fiber_start(struct weft__task *task, void *arg)
{
    weft_pool *pool = task->home;
    task->value = arg;
    launch(pool, worker_inside(pool, weft__worker_self()), task, NULL);
}

/* Undoes admit_and_make, and its counterpart for a stackless task. */
static void unmake_and_unadmit(struct weft__task *task)
{
    weft_pool *pool = task->home;
    struct weft__worker *w = weft__worker_self();
    unmake(weft__spawner_of(w), task);
    unadmit(pool, worker_inside(pool, w), 1);
}

void weft__fiber_unmake(struct weft__task *task)
{
    uint64_t ident = atomic_load_explicit(&task->ident, memory_order_relaxed);
    bool live =
        weft__ident_lock(task, weft__ident_generation(ident), 0, &ident); /* a walk may hold it */
    WEFT__ASSERT(live);
    unmake_and_unadmit(task);
}

int weft_fiber_create(weft_fiber *out, weft_fn fn, void *arg, const struct weft_fiber_opts *opts)
{
    struct weft__spawner *spawner = weft__spawner_of(weft__worker_self());
    opts = opts ? opts : &no_opts;
    int class = check_opts(opts, NULL), err = -ENOMEM;
    if (class < 0 || !fn || !out) {
        return -EINVAL;
    }
    struct plan plan = {
        .request = {.fn = fn, .arg = arg, .opts = opts},
        .stack_class = (unsigned)class,
        .ident_flags = opts->detached ? WEFT__IDENT_DETACHED : WEFT__IDENT_RIGHT,
        .born = weft__clock_ns(),
    };
    struct weft__task *task = spawner ? make(spawner, &plan, &err) : NULL;
    if (task) {
        *out = weft__task_handle(task);
    }
    return err;
}

/* Under the ident lock: submits a created fiber to the pool. `worker`: -1 for any. */
static int submit_locked(struct weft__task *task, weft_pool *pool,
                         const struct weft__worker *inside, int worker)
{
    if (!weft__task_submit(task)) {
        return -EALREADY;
    }
    int err = admit(pool, inside, 1);
    if (err) {
        weft__task_unsubmit(task);
        return err;
    }
    if (worker < 0 && (task->flags & WEFT__TASK_HOOKED)) {
        worker = weft__hooked_choose_worker(pool);
    }
    assign_home(task, pool, worker);
    return 0;
}

int weft_fiber_submit(weft_fiber fiber, weft_pool *pool, int worker)
{
    WEFT__NONNULL(pool);
    struct weft__worker *inside = worker_inside(pool, weft__worker_self());
    if (worker < WEFT_ANY_WORKER || worker >= (int)pool->worker_count || pool->group_sched) {
        return -EINVAL;
    }
    uint64_t ident;
    struct weft__task *task = weft__handle_lock(fiber, 0, &ident);
    if (!task) {
        return weft__handle_missing(fiber);
    }
    int err = submit_locked(task, pool, inside, worker);
    weft__ident_unlock(task, ident);
    if (!err) {
        launch(pool, inside, task, NULL);
    }
    return err;
}

/* Under the ident lock: ends the wait of every joiner. Returns the number of joiners that were
 * still waiting. */
static unsigned fire_joiners_locked(struct weft__task *task, int status, struct weft__chain *ready)
{
    unsigned fired = 0;
    struct weft__node *node = NULL, *latest = task->joiners;
    task->joiners = NULL;
    while (latest) { /* joiners resume in the order in which they came */
        struct weft__node *earlier = latest->next;
        latest->next = node;
        node = latest;
        latest = earlier;
    }
    while (node) {
        struct weft__node *next = node->next; /* once fired, the node may be gone */
        fired += weft__node_fire(node, task->value, status, ready);
        node = next;
    }
    return fired;
}

int weft_fiber_discard(weft_fiber fiber)
{
    struct weft__spawner *spawner = weft__spawner_of(weft__worker_self());
    uint64_t ident;
    struct weft__task *task = weft__handle_lock(fiber, 0, &ident);
    if (!task) {
        return weft__handle_missing(fiber);
    }
    if (weft__task_state(task) != WEFT__TASK_CREATED || !spawner) {
        weft__ident_unlock(task, ident);
        return spawner ? -EALREADY : -ENOMEM;
    }
    struct weft__chain ready;
    weft__chain_init(&ready);
    fire_joiners_locked(task, -ECANCELED, &ready); /* it will never end */
    unmake(spawner, task);
    weft__place_all(&ready, WEFT__BACK);
    return 0;
}

/* --- ending --------------------------------------------------------------------- */

/* Publishes the fiber's result and frees its control block, or leaves the block to its joiners. */
static inline __attribute__((always_inline)) void
publish_result(struct weft__worker *w, struct weft__task *self, int status)
{
    struct weft__chain ready = {0};
    uint64_t ident;
    bool live = weft__ident_lock(
        self, weft__ident_generation(atomic_load_explicit(&self->ident, memory_order_relaxed)), 0,
        &ident);
    WEFT__ASSERT(live);
    unsigned rights = weft__ident_rights(ident);
    if (self->joiners) {
        weft__chain_init(&ready);
        unsigned taken = fire_joiners_locked(self, status, &ready);
        rights -= taken < rights ? taken : rights;
    }
    weft__task_finish(self);
    if (rights == 0) {
        weft__spawner_retire(&w->spawner, self);
    } else {
        ident = (ident & ~(uint64_t)WEFT__IDENT_RIGHTS) | rights * (uint64_t)WEFT__IDENT_RIGHT;
        self->was_home = w->pool->serial; /* it may outlive the pool */
        weft__count(&w->counters.unjoined, 1);
        weft__ident_unlock(self, ident | WEFT__IDENT_DONE);
    }
    weft__place_all(&ready, WEFT__BACK);
}

/* Does not notify a stop of the last fiber: its worker checks when it runs out of work. Release: a
 * stop that counts this fiber as ended sees what the fiber wrote. pairs: weft__pool_live */
static inline void count_finished(struct weft__worker *w)
{
    atomic_store_explicit(&w->counters.finished,
                          atomic_load_explicit(&w->counters.finished, memory_order_relaxed) + 1,
                          memory_order_release);
}

/* Removes the task from its worker's count of bound tasks, or from its group. */
static inline void leave_worker(struct weft__worker *w, const struct weft__task *task)
{
    if (__builtin_expect(task->flags & WEFT__TASK_GROUPED, 0)) {
        weft__group_sched_end(w->group_sched, task);
    } else if (__builtin_expect(task->pin >= 0, 0)) {
        atomic_fetch_sub_explicit(&w->bound, 1, memory_order_relaxed);
    }
}

/* The end of every task, with or without a stack: leaves its place, then publishes its result. */
static inline __attribute__((always_inline)) void finish(struct weft__worker *w,
                                                         struct weft__task *task, int status)
{
    leave_worker(w, task);
    weft__pool_release(w->pool, 1); /* before the joiners: they may spawn in its place */
    publish_result(w, task, status);
    count_finished(w);
}

/* In a catch block: releases the caught exceptions, as the end of that block would. Their
 * destructors may wait and migrate to another worker. */
static __attribute__((noinline, cold)) void release_exceptions(void)
{
    if (!weft__exceptions_are_supported()) {
        return;
    }
    while (weft__exceptions_end_catch && weft__exceptions_at()->caught) {
        weft__exceptions_end_catch();
    }
    *weft__exceptions_at() = (struct weft__exceptions){0};
}

void weft_fiber_exit(void *result)
{
    struct weft__worker *w = weft__worker_self();
    struct weft__task *self = w ? weft__current(w) : NULL;
    if (__builtin_expect(!self, 0)) {
        weft__fork_check_fiber("weft_fiber_exit");
        weft__panic(__FILE__, __LINE__, "weft_fiber_exit was called outside of a fiber");
    }
    struct weft__rare *rare = weft__task_rare(self);
    if (__builtin_expect(self->flags & WEFT__TASK_INSTRUMENTED, 0)) {
        release_exceptions();
        w = weft__worker_self();
    }
    if (rare->cleanups || rare->locals_used) {
        rare->result = result;
        weft__local_run_cleanups(rare); /* may wait and migrate to another worker */
        w = weft__worker_self();
    }
    if (__builtin_expect(rare->migrations != NULL, 0)) {
        weft__migration_leave_all(rare); /* the pool it came from waits for it */
        w = weft__worker_self();
    }
    weft__held_abandon(self);
    self->value = result;
    if (__builtin_expect(self->flags & WEFT__TASK_FP_ENV, 0)) {
        weft__fp_set(weft__fp_default());
    } else if (WEFT_DEBUG) {
        weft__worker_check_fp(self);
    }
    struct weft__stack *stack = self->stack;
    unsigned class = self->stack_class;
    WEFT__TRACE(w, WEFT__TRACE_END, weft__task_handle(self));
    if (__builtin_expect(self->flags & WEFT__TASK_INSTRUMENTED, 0)) {
        /* Also before the joiners: the program may end, and the stale contents of this stack are
         * no leak roots then. */
        weft__asan_detach(weft__stack_bottom(stack, class), weft__stack_bytes(class));
    }
    weft__spawner_give_credit(&w->spawner, class);
    finish(w, self, 0);
    weft__worker_end_fiber(w, stack, class);
}

/* --- stackless tasks -------------------------------------------------------------- */

/* Open-coded because these are created by the million. */
static void name_stackless(struct weft__task *task, const char *name)
{
    size_t len = name ? weft__objname_fit(name, sizeof task->name) : 0;
    if (len) {
        memcpy(task->name, name, len);
    }
    task->name[len] = 0;
}

static inline __attribute__((always_inline)) struct weft__task *
make_stackless(struct weft__worker *w, struct weft__worker *inside, weft_pool *pool,
               const struct weft__stackless_kind *kind, void *own,
               const struct weft__stackless_opts *opts, int *err)
{
    struct weft__spawner *spawner = weft__spawner_of(w);
    struct weft__group_member here;
    const struct weft__group_member *member = &opts->member;
    if (pool->group_sched && opts->inherit_group && !(member = member_here(inside, &here))) {
        *err = -EINVAL; /* a group must be named */
        return NULL;
    }
    *err = spawner ? admit_one(pool, inside, opts->is_successor) : -ENOMEM;
    if (*err) {
        return NULL;
    }
    struct weft__task *task = weft__slab_get(&spawner->blocks);
    if (!task) {
        *err = -ENOMEM;
        goto unadmit;
    }
    weft__stackless_set_data(task, own);
    task->claim.task = task;
    task->deadline = NULL;
    task->stack_class = UINT8_MAX;
    task->flags = WEFT__TASK_STACKLESS;
    atomic_store_explicit(&task->ran_on, -1, memory_order_relaxed);
    task->stackless = kind;
    task->value = NULL;
    task->shields = 0;
    task->joiners = opts->joiner;
    task->born = creation_time(w);
    if (!pool->group_sched) {
        name_stackless(task, opts->name);
        assign_home(task, pool, opts->bound ? opts->worker : -1);
    } else if ((*err = add_to_group(task, pool, member, opts->name)) != 0) {
        weft__slab_put(&spawner->blocks, task);
        goto unadmit;
    }
    weft__task_create_fresh(task);
    return task;

unadmit:
    unadmit(pool, inside, 1);
    return NULL;
}

struct weft__task *weft__stackless_make(weft_pool *pool, const struct weft__stackless_kind *kind,
                                        void *own, const struct weft__stackless_opts *opts,
                                        int *err)
{
    struct weft__worker *w = weft__worker_self();
    return make_stackless(w, worker_inside(pool, w), pool, kind, own, opts, err);
}

void weft__stackless_unmake(struct weft__task *task)
{
    unmake_and_unadmit(task);
}

static inline void start_stackless(struct weft__worker *inside, weft_pool *pool,
                                   struct weft__task *task, weft_fiber *out, bool joinable)
{
    make_live(task, joinable ? WEFT__IDENT_RIGHT : WEFT__IDENT_DETACHED);
    launch(pool, inside, task, out);
}

void weft__stackless_start(struct weft__task *task, weft_fiber *out, bool joinable)
{
    weft_pool *pool = task->home;
    start_stackless(worker_inside(pool, weft__worker_self()), pool, task, out, joinable);
}

__attribute__((noinline)) int weft__stackless_spawn(weft_pool *pool, weft_fiber *out,
                                                    const struct weft__stackless_kind *kind,
                                                    void *own,
                                                    const struct weft__stackless_opts *opts)
{
    struct weft__worker *w = weft__worker_self_inline(), *inside = worker_inside(pool, w);
    int err;
    struct weft__task *task = make_stackless(w, inside, pool, kind, own, opts, &err);
    if (task) {
        start_stackless(inside, pool, task, out, out && !opts->detached && !opts->joiner);
    }
    return err;
}

void weft__stackless_end(struct weft__worker *w, struct weft__task *task, void *value, int status)
{
    if (__builtin_expect(task->deadline != NULL, 0)) {
        weft__stackless_drop_deadline(w, task);
    }
    task->value = value;
    task->claim.ticket = (uint64_t)(int64_t)status; /* for later joiners */
    WEFT__TRACE(w, WEFT__TRACE_END, weft__task_handle(task));
    finish(w, task, status);
}
