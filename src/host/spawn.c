/* Spawning an actor.
 *
 *   1. a task and a record that no other thread knows; memory for every later step
 *   2. init, then the hooks: user code, which may refuse the actor
 *   3. under the lock: the name, if it is free; the relations; the admission word, after which any
 *      thread may know the actor
 *   4. the first message, and the task runs
 *
 * A failure undoes the earlier steps in reverse order, up to 3; after that nothing fails. `close`
 * is called if init succeeded and the actor is discarded.
 */
#include <errno.h>
#include <string.h>

#include <weft/actor.h>

#include "actor/fiber_actor.h"
#include "actor/topic_check.h"
#include "actor/trace.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/nonnull.h"
#include "relation/relation.h"
#include "remote/route.h"
#include "sched/pool.h"

/* An actor that is being spawned. */
struct new_actor {
    struct weft__task *task;
    weft_actor *actor;
    weft_pid pid;
    struct weft__pair_relation *link, *monitor;
    struct weft__name *name;
    struct weft__envelope *first; /* the first message */
    struct weft__join *join;
    bool name_taken; /* another actor has registered the name meanwhile */
};

static bool has_method(const struct weft_actor_kind *kind, const char *method)
{
    const char *const *known = kind->methods;
    while (known && *known && (!method || strcmp(*known, method) != 0)) {
        known++;
    }
    return !known || *known;
}

bool weft__kind_is_valid(const struct weft_actor_kind *kind)
{
    return !kind->step != !kind->run && kind->batch <= WEFT__BATCH_MAX &&
           (unsigned)kind->policy <= WEFT_MAILBOX_WAIT;
}

uint32_t weft__kind_limit(const struct weft_actor_kind *kind, const weft_host *host)
{
    uint32_t limit = kind->mailbox ? kind->mailbox : host->mailbox;
    limit = limit < WEFT__LIMIT_MAX ? limit : WEFT__LIMIT_MAX;
    return limit | (uint32_t)kind->policy << WEFT__LIMIT_SHIFT;
}

static void reset(weft_actor *actor, weft_host *host, const struct weft_actor_kind *kind,
                  const struct weft__task *task, const weft_actor *parent)
{
    weft__lock(&actor->lock);
    actor->live_state =
        true; /* from now on a thread that sweeps the inboxes leaves the envelopes to
                            this actor */
    weft__unlock(&actor->lock);
    actor->self = weft__task_handle(task);
    actor->kind = kind;
    actor->host = host;
    actor->parent = parent ? parent->self : 0;
    actor->parent_host = parent ? (uint16_t)parent->host->number : 0;
    actor->kept = NULL;
    actor->urgent = NULL;
    actor->pending = 0;
    actor->blocked = false;
    actor->due = true;
    atomic_store_explicit(&actor->trap, kind->trap, memory_order_relaxed);
    atomic_store_explicit(&actor->steps, 0, memory_order_relaxed);
    atomic_store_explicit(&actor->asleep, 0, memory_order_relaxed);
    atomic_store_explicit(&actor->limit, weft__kind_limit(kind, host), memory_order_relaxed);
}

static void freeze(weft_host *host)
{
    if (!atomic_load_explicit(&host->frozen, memory_order_acquire)) {
        weft__lock(&host->lock);
        atomic_store_explicit(&host->frozen, true, memory_order_release);
        weft__unlock(&host->lock);
    }
}

/* --- allocation ------------------------------------------------------------------------------- */

static void discard(struct new_actor *new_actor)
{
    weft__pair_relation_free(new_actor->link);
    weft__pair_relation_free(new_actor->monitor);
    weft__name_free(new_actor->name);
    weft__actor_undo(new_actor->actor);
    weft__actor_task_unmake(new_actor->task);
}

/* Allocates what the options need: relations and the name. */
static int allocate_options(struct new_actor *new_actor, weft_host *host,
                            const struct weft_actor_spawn_opts *opts)
{
    int err = 0;
    if (opts->link && !(new_actor->link = weft__pair_relation_new(new_actor->pid,
                                                                  weft_actor_pid(opts->self), 0))) {
        return -ENOMEM;
    }
    if (opts->monitor &&
        !(new_actor->monitor = weft__pair_relation_new(new_actor->pid, weft_actor_pid(opts->self),
                                                       weft__monitor_ref(new_actor->pid)))) {
        return -ENOMEM;
    }
    new_actor->name = opts->name ? weft__name_new(host, opts->name, new_actor->pid, &err) : NULL;
    return err;
}

static int allocate(struct new_actor *new_actor, weft_host *host,
                    const struct weft_actor_kind *kind, const struct weft_actor_spawn_opts *opts)
{
    int err;
    new_actor->task = weft__actor_task_make(host, kind, &err);
    if (!new_actor->task) {
        WEFT__ASSERT(err);
        return err;
    }
    weft_actor *actor = weft__actor_at(new_actor->task->slot);
    if (!actor || !weft__actor_state_alloc(actor, kind)) {
        weft__actor_task_unmake(new_actor->task);
        return -ENOMEM;
    }
    /* in an init, `self` differs from the actor that runs on this thread */
    reset(actor, host, kind, new_actor->task, opts->self ? opts->self : weft_actor_self());
    new_actor->actor = actor;
    new_actor->pid = weft_actor_pid(actor);
    if (weft__task_is_stackless(new_actor->task)) {
        weft__stackless_set_data(new_actor->task, actor);
    }
    err = allocate_options(new_actor, host, opts);
    if (err) {
        discard(new_actor);
    }
    return err;
}

/* --- init and hooks --------------------------------------------------------------------------- */

static int run_init(weft_actor *actor, const struct weft_actor_spawn_opts *opts)
{
    int err = actor->kind->init ? actor->kind->init(actor, opts->method, opts->input) : 0;
    if (err) {
        return err;
    }
    size_t agreed = weft__hooks_start(actor, &err);
    if (err) {
        weft__actor_close(actor);
        weft__hooks_end(actor, agreed, err);
    }
    return err;
}

/* --- publication ------------------------------------------------------------------------------ */

static void add_relation(struct weft__pair_relation *pair)
{
    if (pair) {
        weft__actor_pair_lock(pair->pids[0], pair->pids[1]);
        weft__pair_relation_add(pair);
        weft__actor_pair_unlock(pair->pids[0], pair->pids[1]);
    }
}

static int publish(struct new_actor *new_actor)
{
    weft_actor *actor = new_actor->actor;
    struct weft__envelope *first = new_actor->first;
    struct weft__envelope sent; /* after the publication senders may drop the first message */
    uint64_t admission = (uint64_t)weft__pid_generation(new_actor->pid) << WEFT__ADMISSION_SHIFT;
    if (first) { /* before any message that can be sent from now on */
        weft__envelope_address(first, new_actor->pid);
        first->link.next = NULL;
        actor->kept = &first->link;
        sent = *first;
        admission++;
    }
    weft__lock(&actor->lock);
    int err = weft__name_publish_locked(actor, new_actor->name, admission);
    if (!err && new_actor->join) {
        weft__waiter_arm(new_actor->join->node.waiter, WEFT__WAIT_OBJECT);
        weft__join_add(actor, new_actor->join);
    }
    weft__unlock(&actor->lock);
    if (err) {
        actor->kept = NULL;
    } else if (first) {
        weft__actor_trace_sent(new_actor->pid, &sent);
    }
    new_actor->name_taken = err == -EEXIST;
    return err;
}

/* A concurrent stop sets `stopping` and then walks over all actors: either the walk saw this actor,
 * or this load sees `stopping`. */
static void check_stopping(weft_host *host, weft_pid pid)
{
    atomic_fetch_add_explicit(&host->spawned, 1, memory_order_seq_cst); /* pairs: begin_stop */
    if (__builtin_expect(atomic_load_explicit(&host->stopping, memory_order_seq_cst), 0)) {
        weft__host_cancel(host, pid);
    }
}

/* Count the new actor, unless the limit is reached. Helper fibers of actors are not counted. */
static bool count_new_actor(weft_host *host)
{
    uint64_t live = atomic_load_explicit(&host->live, memory_order_relaxed);
    do {
        if (live >= host->max_actors) {
            return false;
        }
    } while (!atomic_compare_exchange_weak_explicit(&host->live, &live, live + 1,
                                                    memory_order_relaxed, memory_order_relaxed));
    return true;
}

static int spawn_counted(weft_host *host, const struct weft_actor_kind *kind,
                         const struct weft_actor_spawn_opts *opts, struct new_actor *new_actor)
{
    int err = allocate(new_actor, host, kind, opts);
    if (err) {
        return err;
    }
    err = run_init(new_actor->actor, opts);
    if (err) {
        discard(new_actor);
        return err;
    }
    uint64_t ref = new_actor->monitor ? new_actor->monitor->ref : 0;
    add_relation(new_actor->link);
    add_relation(new_actor->monitor);
    new_actor->link = new_actor->monitor = NULL; /* owned by the lists */
    err = publish(new_actor);
    if (err) {
        weft__actor_close(new_actor->actor);
        weft__hooks_end(new_actor->actor, host->hook_count, err);
        discard(new_actor);
        return err;
    }
    if (opts->monitor) {
        *opts->monitor = ref;
    }
    weft__actor_task_start(new_actor->task, new_actor->actor);
    check_stopping(host, new_actor->pid);
    return 0;
}

/* Takes birth->first, unless it fails. */
static int spawn(weft_host *host, const struct weft_actor_kind *kind,
                 const struct weft_actor_spawn_opts *opts, struct new_actor *new_actor)
{
    if (!count_new_actor(host)) {
        return -EAGAIN;
    }
    int err = spawn_counted(host, kind, opts, new_actor);
    if (err) {
        atomic_fetch_sub_explicit(&host->live, 1, memory_order_relaxed);
    }
    return err;
}

/* --- public calls ----------------------------------------------------------------------------- */

/* Returns 0, or the error why such an actor cannot be spawned. Freezes the host's handlers and
 * hooks. */
static int check_spawn(weft_host *host, const struct weft_actor_kind *kind, const char *method)
{
    if (!weft__kind_is_valid(kind)) {
        return -EINVAL;
    }
    if (!has_method(kind, method)) {
        return -ENOENT;
    }
    freeze(host);
    return atomic_load_explicit(&host->stopping, memory_order_acquire) ? -ESHUTDOWN : 0;
}

int weft_actor_spawn(weft_host *host, weft_pid *out, const struct weft_actor_kind *kind,
                     const char *method, const weft_buf *input)
{
    WEFT__NONNULL(host);
    struct new_actor new_actor = {.join = NULL};
    int err = check_spawn(host, kind, method);
    if (!err) {
        err = spawn(host, kind, &(struct weft_actor_spawn_opts){.method = method, .input = input},
                    &new_actor);
    }
    if (!err && out) {
        *out = new_actor.pid;
    }
    return err;
}

/* Sends the first message to the actor that has the name, or spawns it: 1, 0 or an error. */
static int spawn_named(weft_host *host, const struct weft_actor_kind *kind,
                       const struct weft_actor_spawn_opts *opts, struct new_actor *new_actor)
{
    struct weft__envelope *first = new_actor->first;
    for (;;) {
        int err = weft_actor_whereis(host, &new_actor->pid, opts->name);
        if (!err) {
            err = first ? weft__envelope_send(new_actor->pid, first, WEFT_BY_POLICY) : 0;
            if (err != -ESRCH) { /* else it has just ended */
                return err ? err : 1;
            }
        }
        *new_actor = (struct new_actor){.first = first};
        err = spawn(host, kind, opts, new_actor);
        if (!new_actor->name_taken) { /* -EEXIST alone may come from init */
            return err;
        }
    }
}

/* Returns the envelope, or NULL and *err (0: no first message). */
static struct weft__envelope *new_first_message(const struct weft_actor_spawn_opts *opts, int *err)
{
    struct weft__envelope *envelope =
        opts->topic ? weft__envelope_new(WEFT_EVENT_MESSAGE, opts->tag, opts->message) : NULL;
    if (!envelope) {
        weft_buf_free(opts->message);
        *err = opts->topic ? -ENOMEM : 0;
        return NULL;
    }
    weft__topic_check(opts->topic);
    envelope->topic = opts->topic;
    weft__envelope_set_sender(envelope);
    *err = 0;
    return envelope;
}

int weft_actor_spawn_with(weft_host *host, weft_pid *out, const struct weft_actor_kind *kind,
                          const struct weft_actor_spawn_opts *options)
{
    WEFT__NONNULL(host);
    static const struct weft_actor_spawn_opts defaults;
    const struct weft_actor_spawn_opts *opts = options ? options : &defaults;
    struct new_actor new_actor = {.join = NULL};
    int err;
    new_actor.first = new_first_message(opts, &err);
    struct weft__envelope *first = new_actor.first;
    if (!err) {
        err = (opts->link || opts->monitor) && !opts->self ? -EINVAL
                                                           : check_spawn(host, kind, opts->method);
    }
    if (!err) {
        err = opts->name ? spawn_named(host, kind, opts, &new_actor)
                         : spawn(host, kind, opts, &new_actor);
    }
    if (err < 0) {
        if (first) {
            weft__envelope_free(first);
        }
        return err;
    }
    if (out) {
        *out = new_actor.pid;
    }
    return err;
}

int weft_actor_exec(weft_host *host, weft_buf **result, const struct weft_actor_kind *kind,
                    const char *method, const weft_buf *input, int64_t deadline)
{
    WEFT__NONNULL(host);
    struct weft__waiter waiter;
    struct weft__join join;
    struct new_actor new_actor = {.join = &join};
    int err = check_spawn(host, kind, method);
    if (err) {
        return err;
    }
    weft__node_init(&join.node, &waiter, 0);
    err = spawn(host, kind, &(struct weft_actor_spawn_opts){.method = method, .input = input},
                &new_actor);
    if (err) {
        return err;
    }
    err = weft__join_wait(new_actor.actor, &join, &waiter, result, deadline);
    if (err == -ETIMEDOUT || err == -ECANCELED || err == -EINTR) {
        /* If the error was the actor's own exit, the actor is gone, and the kill has no effect. */
        if (weft_actor_kill(new_actor.pid) == -ENOMEM) {
            weft_cancel(new_actor.pid.id);
        }
    }
    return err;
}

/* --- accessors -------------------------------------------------------------------------------- */

void *weft_actor_state(weft_actor *self)
{
    return self->state;
}

weft_pid weft_actor_pid(const weft_actor *self)
{
    return weft__actor_pid(self);
}

weft_host *weft_actor_host(const weft_actor *self)
{
    return self->host;
}
