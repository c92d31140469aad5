/* The life cycle of a group; dispatch/dispatcher.h describes it. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/error.h"
#include "base/nonnull.h"
#include "base/objname.h"
#include "dispatch/dispatcher.h"
#include "fiber/cancel.h"
#include "sched/pool.h"
#include "task/ident.h"
#include "task/slab.h"
#include "task/spawn.h"

#define DEFAULT_SLICE 1024u

static void set_phase(weft_group *group, enum weft__group_phase phase)
{
    atomic_store_explicit(&group->phase, phase, memory_order_release);
}

/* True if the group has its turn on the calling thread. */
static bool is_inside(const weft_group *group)
{
    const struct weft__worker *w = weft__worker_self();
    return w && w->group_sched && w->group_sched->running == &group->queues;
}

/* --- life ---------------------------------------------------------------------------- */

/* Under the dispatcher's lock: return an unused group number, 0 if all are used. */
static unsigned number_locked(weft_dispatcher *d)
{
    for (unsigned i = 0; i < WEFT__GROUPS - 1; i++) {
        unsigned number = d->last_number % (WEFT__GROUPS - 1) + 1;
        d->last_number = number;
        if (!d->rounds.queues[number]) {
            return number;
        }
    }
    return 0;
}

static int add_to_dispatcher(weft_group *group)
{
    weft_dispatcher *d = group->dispatcher;
    weft__lock(&d->lock);
    bool stopping = atomic_load_explicit(&d->stopping, memory_order_relaxed);
    unsigned number = stopping ? 0 : number_locked(d);
    if (number) {
        group->queues.index = (uint16_t)number;
        d->rounds.queues[number] = &group->queues;
        group->next = d->groups;
        d->groups = group;
        d->unfinished++;
        weft_event_reset(&d->empty);
    }
    weft__unlock(&d->lock);
    return stopping ? -ESHUTDOWN : number ? 0 : -EAGAIN;
}

static void group_free(weft_group *group)
{
    weft__free(group->name);
    weft__free(group);
}

int weft_group_create(weft_dispatcher *d, weft_group **out, const struct weft_group_opts *options)
{
    WEFT__NONNULL_AS(d, "dispatcher");
    static const struct weft_group_opts defaults;
    const struct weft_group_opts *opts = options ? options : &defaults;
    if (opts->on_fatal > WEFT_FATAL_ABORTS) {
        return weft__refuse(-EINVAL, "on_fatal: must be one of enum weft_on_fatal");
    }
    weft__pool_check_fork(d->pool);
    weft_group *group = weft__alloc(sizeof *group);
    if (!group) {
        return -ENOMEM;
    }
    weft_future *finished = NULL;
    group->name = weft__objname_copy(opts->name ? opts->name : "group");
    int err =
        group->name
            ? weft_future_create(&finished, &(struct weft_sync_opts){.name = "the end of a group"})
            : -ENOMEM;
    if (err) {
        group_free(group);
        return err;
    }
    weft__group_queues_init(&group->queues, &d->rounds);
    group->queues.name = group->name;
    group->queues.slice = opts->slice ? opts->slice : DEFAULT_SLICE;
    group->dispatcher = d;
    group->on_fatal = opts->on_fatal;
    group->finished = finished;
    weft_event_init(&group->stop, &(struct weft_sync_opts){.name = "stop", .group = group});
    err = add_to_dispatcher(group);
    if (err) {
        weft_future_unref(finished);
        group_free(group);
        return err;
    }
    *out = group;
    return 0;
}

void weft_group_destroy(weft_group *group)
{
    weft_dispatcher *d = group->dispatcher;
    WEFT__REQUIRE(weft__group_phase(group) == WEFT__GROUP_FINISHED,
                  "group %s is destroyed before it has finished", group->name);
    weft__lock(&d->lock);
    weft_group **at = &d->groups;
    while (*at != group) {
        at = &(*at)->next;
    }
    *at = group->next;
    d->rounds.queues[group->queues.index] = NULL;
    weft__unlock(&d->lock);
    weft_future_unref(group->finished);
    group_free(group);
}

/* --- spawn -------------------------------------------------------------------------- */

int weft_group_spawn(weft_group *group, weft_fiber *out, weft_fn fn, void *arg,
                     const struct weft_member_opts *opts)
{
    WEFT__NONNULL(group);
    static const struct weft_member_opts defaults;
    opts = opts ? opts : &defaults;
    struct weft__group_member member;
    struct weft_fiber_opts inner = {
        .name = opts->name,
        .stack_bytes = opts->stack_bytes,
        .detached = opts->detached,
        .fp_env = opts->fp_env,
    };
    int err = weft__group_admit(group, weft__worker_self(), opts, &member);
    if (err) {
        return err;
    }
    return weft__spawn(group->dispatcher->pool, out,
                       &(struct weft__spawn_request){
                           .fn = fn,
                           .arg = arg,
                           .opts = &inner,
                           .member = &member,
                       });
}

/* --- posted functions ------------------------- */

struct post {
    struct weft__command command; /* first member */
    void (*fn)(void *arg);
    void *arg;
};

static void run_post(struct weft__command *command)
{
    struct post *post = (struct post *)(void *)command;
    void (*fn)(void *) = post->fn;
    void *arg = post->arg;
    weft__free(post);
    fn(arg);
}

int weft_group_post(weft_group *group, void (*fn)(void *arg), void *arg)
{
    WEFT__NONNULL(group);
    if (is_inside(group)) {
        fn(arg);
        return 0;
    }
    weft__pool_check_fork(group->dispatcher->pool);
    struct post *post = weft__alloc(sizeof *post);
    if (!post) {
        return -ENOMEM;
    }
    post->command = (struct weft__command){.run = run_post, .queues = &group->queues};
    post->fn = fn;
    post->arg = arg;
    if (!weft__intake_enter(&group->queues.intake)) {
        weft__free(post);
        return -ESHUTDOWN;
    }
    weft__group_sched_post(group->queues.rounds, &post->command);
    return 0;
}

_Static_assert(sizeof(struct weft__command) == sizeof(((struct weft_post *)0)->weft_private),
               "the public storage");

static void run_submitted(struct weft__command *command)
{
    struct weft_post *post =
        (struct weft_post *)(void *)((char *)command - offsetof(struct weft_post, weft_private));
    post->fn(post);
}

int weft_group_submit(weft_group *group, struct weft_post *post)
{
    WEFT__NONNULL(group);
    struct weft__command *command = (struct weft__command *)(void *)post->weft_private;
    if (is_inside(group)) {
        post->fn(post);
        return 0;
    }
    weft__pool_check_fork(group->dispatcher->pool);
    if (!weft__intake_enter(&group->queues.intake)) {
        return -ESHUTDOWN;
    }
    command->run = run_submitted;
    command->queues = &group->queues;
    weft__group_sched_post(group->queues.rounds, command);
    return 0;
}

/* --- stopping ------------------------- */

void weft__group_stop_here(weft_group *group)
{
    if (weft__group_phase(group) == WEFT__GROUP_RUNNING) {
        set_phase(group, WEFT__GROUP_STOPPING);
        weft_event_set(&group->stop);
    }
}

static void run_stop(struct weft__command *command)
{
    weft__group_stop_here(weft__group_of(command->queues));
}

void weft_group_stop(weft_group *group)
{
    WEFT__NONNULL(group);
    weft__pool_check_fork(group->dispatcher->pool);
    if (atomic_exchange_explicit(&group->stop_asked, 1, memory_order_relaxed)) {
        return;
    }
    if (is_inside(group)) { /* weft__group_settle runs after this turn or post */
        weft__group_stop_here(group);
        return;
    }
    group->stop_command = (struct weft__command){.run = run_stop, .queues = &group->queues};
    if (weft__intake_enter(&group->queues.intake)) {
        weft__group_sched_post(group->queues.rounds, &group->stop_command);
    }
}

bool weft_group_is_stopping(const weft_group *group)
{
    WEFT__NONNULL(group);
    return atomic_load_explicit(&group->stop_asked, memory_order_relaxed) != 0 ||
           weft__group_phase(group) != WEFT__GROUP_RUNNING;
}

int weft_group_sleep(int64_t deadline)
{
    weft_group *group = weft_group_self();
    WEFT__REQUIRE(group, "weft_group_sleep was called outside of a group");
    if (weft_event_is_set(&group->stop)) {
        weft_yield();
        return weft_sleep(weft_after(0)); /* a wait, so that a cancelled fiber gets -ECANCELED */
    }
    return weft_event_wait(&group->stop, deadline);
}

void weft_group_fail(int err)
{
    weft_group *group = weft_group_self();
    WEFT__REQUIRE(group && err < 0, "weft_group_fail: %d, %s", err,
                  group ? "which is no error" : "outside of a group");
    if (group->on_fatal == WEFT_FATAL_ABORTS) {
        weft__panic(__FILE__, __LINE__, "group %s failed: %s", group->name, weft_strerror(err));
    }
    group->error = group->error ? group->error : err;
    weft_group_stop(group);
    if (group->on_fatal == WEFT_FATAL_STOPS_DISPATCHER) {
        weft_dispatcher_request_stop(group->dispatcher);
    }
}

/* Under the task's ident lock: is the task a live daemon of this group? */
static bool is_daemon_of(const struct weft__task *task, const weft_group *group)
{
    return task->home == group->dispatcher->pool && (task->flags & WEFT__TASK_DAEMON) &&
           task->group == group->queues.index;
}

static void cancel_daemons(weft_group *group)
{
    uint32_t slots = weft__slab_slots();
    for (uint32_t slot = 1; slot <= slots; slot++) {
        struct weft__task *task = weft__slab_find(slot);
        uint64_t ident = atomic_load_explicit(&task->ident, memory_order_acquire);
        if (!(ident & WEFT__IDENT_LIVE) || (ident & WEFT__IDENT_DONE) ||
            !weft__ident_lock(task, weft__ident_generation(ident), 0, &ident)) {
            continue;
        }
        bool ours = is_daemon_of(task, group);
        weft_fiber fiber = weft__task_handle(task);
        weft__ident_unlock(task, ident);
        if (ours) {
            weft__cancel(fiber, WEFT__IDENT_CANCEL, NULL);
        }
    }
}

static void publish_snapshot(weft_group *group)
{
    struct weft__group_queues *r = &group->queues;
    struct weft__group_snapshot *s = &group->snapshot;
    uint64_t version = atomic_load_explicit(&s->version, memory_order_relaxed);
    atomic_store_explicit(&s->version, version + 1, memory_order_relaxed);
    /* Release for each: a reader that sees one of them also sees that the version was odd.
     * pairs: weft_group_stats */
    atomic_store_explicit(&s->turns, r->turns, memory_order_release);
    atomic_store_explicit(&s->executed, r->executed, memory_order_release);
    atomic_store_explicit(&s->fibers, r->live, memory_order_release);
    atomic_store_explicit(&s->daemons, r->daemons, memory_order_release);
    atomic_store_explicit(&s->ready, r->queued, memory_order_release);
    atomic_store_explicit(&s->version, version + 2, memory_order_release);
}

void weft__group_settle(struct weft__group_queues *queues)
{
    weft_group *group = weft__group_of(queues);
    weft_dispatcher *d = group->dispatcher;
    enum weft__group_phase phase = weft__group_phase(group);
    publish_snapshot(group);
    if (phase == WEFT__GROUP_RUNNING || phase == WEFT__GROUP_FINISHED || queues->live > 0 ||
        !weft__intake_is_empty(&queues->intake)) {
        return;
    }
    if (queues->daemons > 0) {
        set_phase(group, WEFT__GROUP_FINISHING);
        if (group->daemons_cancelled != queues->daemons_ever) {
            group->daemons_cancelled = queues->daemons_ever;
            cancel_daemons(group); /* each end calls this function again */
        }
        return;
    }
    if (!weft__intake_close(&queues->intake)) {
        return; /* the arrival calls this function again */
    }
    weft_future *finished = weft_future_ref(group->finished);
    int error = group->error;
    set_phase(group, WEFT__GROUP_FINISHED);
    weft__dispatcher_group_finished(d);
    if (error) {
        weft_future_fail(finished, error);
    } else {
        weft_future_complete(finished, NULL);
    }
    weft_future_unref(finished);
}

/* --- queries ------------------------- */

weft_future *weft_group_finished(weft_group *group)
{
    WEFT__NONNULL(group);
    return group->finished;
}

weft_group *weft_group_self(void)
{
    const struct weft__worker *w = weft__worker_self();
    return w && w->group_sched && w->group_sched->running ? weft__group_of(w->group_sched->running)
                                                          : NULL;
}

weft_dispatcher *weft_group_dispatcher(const weft_group *group)
{
    WEFT__NONNULL(group);
    return group->dispatcher;
}

const char *weft_group_name(const weft_group *group)
{
    WEFT__NONNULL(group);
    return group->name;
}

/* Fill in the current activity and the phase. */
static void read_state(const weft_group *group, struct weft_group_stats *out)
{
    static const enum weft_group_state states[] = {
        [WEFT__GROUP_QUEUES_IDLE] = WEFT_GROUP_RUNNING,
        [WEFT__GROUP_QUEUES_READY] = WEFT_GROUP_READY,
        [WEFT__GROUP_QUEUES_EXECUTING] = WEFT_GROUP_EXECUTING,
    };
    if (weft__group_phase(group) == WEFT__GROUP_FINISHED) {
        out->state = WEFT_GROUP_FINISHED;
        return;
    }
    enum weft__group_activity now = weft__group_queues_activity(&group->queues);
    out->executing = now == WEFT__GROUP_QUEUES_EXECUTING;
    out->state = weft_group_is_stopping(group) ? WEFT_GROUP_STOPPING : states[now];
}

const char *weft_group_state_name(enum weft_group_state state)
{
    static const char *const names[] = {"running", "ready", "executing", "stopping", "finished"};
    return names[state];
}

void weft_group_stats(const weft_group *group, struct weft_group_stats *out)
{
    WEFT__NONNULL(group);
    const struct weft__group_snapshot *s = &group->snapshot;
    uint64_t version, again;
    do {
        version = atomic_load_explicit(&s->version, memory_order_acquire);
        *out = (struct weft_group_stats){
            .turns = atomic_load_explicit(&s->turns, memory_order_acquire),
            .executed = atomic_load_explicit(&s->executed, memory_order_acquire),
            .fibers = atomic_load_explicit(&s->fibers, memory_order_acquire),
            .daemons = atomic_load_explicit(&s->daemons, memory_order_acquire),
            .ready = atomic_load_explicit(&s->ready, memory_order_acquire),
        };
        again = atomic_load_explicit(&s->version, memory_order_relaxed);
    } while (version != again || (version & 1));
    read_state(group, out);
}
