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

#include <weft/names.h>

#include "actor/fiber.h"
#include "actor/literal.h"
#include "actor/route.h"
#include "actor/tie.h"
#include "actor/trace.h"
#include "base/alloc.h"
#include "base/assert.h"
#include "base/need.h"
#include "sched/pool.h"

/* An actor that is being spawned. */
struct birth {
    struct weft__task *task;
    weft_actor *actor;
    weft_pid pid;
    struct weft__bond *link, *monitor;
    struct weft__name *name;
    struct weft__letter *first; /* the first message */
    struct weft__join *join;
    bool beaten; /* another actor has registered the name meanwhile */
};

static bool has_method(const struct weft_actor_kind *kind, const char *method)
{
    const char *const *known = kind->methods;
    while (known && *known && (!method || strcmp(*known, method) != 0)) {
        known++;
    }
    return !known || *known;
}

bool weft__kind_is_sound(const struct weft_actor_kind *kind)
{
    return !kind->step != !kind->run && kind->batch <= WEFT__BATCH_MOST &&
           (unsigned)kind->policy <= WEFT_MAILBOX_WAIT;
}

uint32_t weft__kind_limit(const struct weft_actor_kind *kind, const weft_host *host)
{
    uint32_t limit = kind->mailbox ? kind->mailbox : host->mailbox;
    limit = limit < WEFT__LIMIT_MOST ? limit : WEFT__LIMIT_MOST;
    return limit | (uint32_t)kind->policy << WEFT__LIMIT_SHIFT;
}

static void reset(weft_actor *actor, weft_host *host, const struct weft_actor_kind *kind,
                  const struct weft__task *task, const weft_actor *maker)
{
    weft__lock(&actor->lock);
    actor->there = true; /* from now on a thread that sweeps the inboxes leaves the envelopes to
                            this actor */
    weft__unlock(&actor->lock);
    actor->self = weft__task_handle(task);
    actor->kind = kind;
    actor->host = host;
    actor->parent = maker ? maker->self : 0;
    actor->parent_host = maker ? (uint16_t)maker->host->number : 0;
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

static void unmake(struct birth *birth)
{
    weft__bond_free(birth->link);
    weft__bond_free(birth->monitor);
    weft__name_free(birth->name);
    weft__actor_undo(birth->actor);
    weft__actor_task_unmake(birth->task);
}

/* Allocates what the options need: relations and the name. */
static int provide(struct birth *birth, weft_host *host, const struct weft_actor_spawn_opts *opts)
{
    int err = 0;
    if (opts->link && !(birth->link = weft__bond_new(birth->pid, weft_actor_pid(opts->self), 0))) {
        return -ENOMEM;
    }
    if (opts->monitor && !(birth->monitor = weft__bond_new(birth->pid, weft_actor_pid(opts->self),
                                                           weft__monitor_ref(birth->pid)))) {
        return -ENOMEM;
    }
    birth->name = opts->name ? weft__name_new(host, opts->name, birth->pid, &err) : NULL;
    return err;
}

static int make(struct birth *birth, weft_host *host, const struct weft_actor_kind *kind,
                const struct weft_actor_spawn_opts *opts)
{
    int err;
    birth->task = weft__actor_task_make(host, kind, &err);
    if (!birth->task) {
        WEFT__ASSERT(err);
        return err;
    }
    weft_actor *actor = weft__actor_at(birth->task->slot);
    if (!actor || !weft__actor_state_make(actor, kind)) {
        weft__actor_task_unmake(birth->task);
        return -ENOMEM;
    }
    /* in an init, `self` differs from the actor that runs on this thread */
    reset(actor, host, kind, birth->task, opts->self ? opts->self : weft_actor_self());
    birth->actor = actor;
    birth->pid = weft_actor_pid(actor);
    if (weft__task_is_body(birth->task)) {
        weft__body_set_own(birth->task, actor);
    }
    err = provide(birth, host, opts);
    if (err) {
        unmake(birth);
    }
    return err;
}

/* --- init and hooks --------------------------------------------------------------------------- */

static int begin(weft_actor *actor, const struct weft_actor_spawn_opts *opts)
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

static void tie_bond(struct weft__bond *bond)
{
    if (bond) {
        weft__pair_lock(bond->pids[0], bond->pids[1]);
        weft__bond_tie(bond);
        weft__pair_unlock(bond->pids[0], bond->pids[1]);
    }
}

static int show(struct birth *birth)
{
    weft_actor *actor = birth->actor;
    struct weft__letter *first = birth->first;
    struct weft__letter sent; /* after the publication senders may drop the first message */
    uint64_t gate = (uint64_t)weft__pid_generation(birth->pid) << WEFT__GATE_SHIFT;
    if (first) { /* before any message that can be sent from now on */
        weft__letter_address(first, birth->pid);
        first->link.next = NULL;
        actor->kept = &first->link;
        sent = *first;
        gate++;
    }
    weft__lock(&actor->lock);
    int err = weft__name_show_locked(actor, birth->name, gate);
    if (!err && birth->join) {
        weft__waiter_arm(birth->join->node.waiter, WEFT__WAIT_OBJECT);
        weft__join_add(actor, birth->join);
    }
    weft__unlock(&actor->lock);
    if (err) {
        actor->kept = NULL;
    } else if (first) {
        weft__trace_sent(birth->pid, &sent);
    }
    birth->beaten = err == -EEXIST;
    return err;
}

/* A concurrent stop sets `stopping` and then walks over all actors: either the walk saw this actor,
 * or this load sees `stopping`. */
static void look_stopped(weft_host *host, weft_pid pid)
{
    atomic_fetch_add_explicit(&host->spawned, 1, memory_order_seq_cst); /* pairs: say_stop */
    if (__builtin_expect(atomic_load_explicit(&host->stopping, memory_order_seq_cst), 0)) {
        weft__host_cancel(host, pid);
    }
}

/* Count the new actor, unless the limit is reached. Helper fibers of actors are not counted. */
static bool count_in(weft_host *host)
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
                         const struct weft_actor_spawn_opts *opts, struct birth *birth)
{
    int err = make(birth, host, kind, opts);
    if (err) {
        return err;
    }
    err = begin(birth->actor, opts);
    if (err) {
        unmake(birth);
        return err;
    }
    uint64_t ref = birth->monitor ? birth->monitor->ref : 0;
    tie_bond(birth->link);
    tie_bond(birth->monitor);
    birth->link = birth->monitor = NULL; /* owned by the lists */
    err = show(birth);
    if (err) {
        weft__actor_close(birth->actor);
        weft__hooks_end(birth->actor, host->hook_count, err);
        unmake(birth);
        return err;
    }
    if (opts->monitor) {
        *opts->monitor = ref;
    }
    weft__actor_task_start(birth->task, birth->actor);
    look_stopped(host, birth->pid);
    return 0;
}

/* Takes birth->first, unless it fails. */
static int spawn(weft_host *host, const struct weft_actor_kind *kind,
                 const struct weft_actor_spawn_opts *opts, struct birth *birth)
{
    if (!count_in(host)) {
        return -EAGAIN;
    }
    int err = spawn_counted(host, kind, opts, birth);
    if (err) {
        atomic_fetch_sub_explicit(&host->live, 1, memory_order_relaxed);
    }
    return err;
}

/* --- public calls ----------------------------------------------------------------------------- */

/* Returns 0, or the error why such an actor cannot be spawned. Freezes the host's handlers and
 * hooks. */
static int admits(weft_host *host, const struct weft_actor_kind *kind, const char *method)
{
    if (!weft__kind_is_sound(kind)) {
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
    WEFT__NEED(host);
    struct birth birth = {.join = NULL};
    int err = admits(host, kind, method);
    if (!err) {
        err = spawn(host, kind, &(struct weft_actor_spawn_opts){.method = method, .input = input},
                    &birth);
    }
    if (!err && out) {
        *out = birth.pid;
    }
    return err;
}

/* Sends the first message to the actor that has the name, or spawns it: 1, 0 or an error. */
static int spawn_named(weft_host *host, const struct weft_actor_kind *kind,
                       const struct weft_actor_spawn_opts *opts, struct birth *birth)
{
    struct weft__letter *first = birth->first;
    for (;;) {
        int err = weft_actor_whereis(host, opts->name, &birth->pid);
        if (!err) {
            err = first ? weft__letter_send(birth->pid, first, WEFT__AT_ONCE) : 0;
            if (err != -ESRCH) { /* else it has just ended */
                return err ? err : 1;
            }
        }
        *birth = (struct birth){.first = first};
        err = spawn(host, kind, opts, birth);
        if (!birth->beaten) { /* -EEXIST alone may come from init */
            return err;
        }
    }
}

/* Returns the envelope, or NULL and *err (0: no first message). */
static struct weft__letter *first_letter(const struct weft_actor_spawn_opts *opts, int *err)
{
    struct weft__letter *letter =
        opts->topic ? weft__letter_new(WEFT_EVENT_MESSAGE, opts->tag, opts->message) : NULL;
    if (!letter) {
        weft_buf_free(opts->message);
        *err = opts->topic ? -ENOMEM : 0;
        return NULL;
    }
    weft__topic_check(opts->topic);
    letter->topic = opts->topic;
    weft__letter_sign(letter);
    *err = 0;
    return letter;
}

int weft_actor_spawn_with(weft_host *host, weft_pid *out, const struct weft_actor_kind *kind,
                          const struct weft_actor_spawn_opts *options)
{
    WEFT__NEED(host);
    static const struct weft_actor_spawn_opts defaults;
    const struct weft_actor_spawn_opts *opts = options ? options : &defaults;
    struct birth birth = {.join = NULL};
    int err;
    birth.first = first_letter(opts, &err);
    struct weft__letter *first = birth.first;
    if (!err) {
        err = (opts->link || opts->monitor) && !opts->self ? -EINVAL
                                                           : admits(host, kind, opts->method);
    }
    if (!err) {
        err = opts->name ? spawn_named(host, kind, opts, &birth) : spawn(host, kind, opts, &birth);
    }
    if (err < 0) {
        if (first) {
            weft__letter_free(first);
        }
        return err;
    }
    if (out) {
        *out = birth.pid;
    }
    return err;
}

int weft_actor_exec(weft_host *host, const struct weft_actor_kind *kind, const char *method,
                    const weft_buf *input, weft_buf **result, int64_t deadline)
{
    WEFT__NEED(host);
    struct weft__waiter waiter;
    struct weft__join join;
    struct birth birth = {.join = &join};
    int err = admits(host, kind, method);
    if (err) {
        return err;
    }
    weft__node_init(&join.node, &waiter, 0);
    err = spawn(host, kind, &(struct weft_actor_spawn_opts){.method = method, .input = input},
                &birth);
    if (err) {
        return err;
    }
    err = weft__join_wait(birth.actor, &join, &waiter, result, deadline);
    if (err == -ETIMEDOUT || err == -ECANCELED || err == -EINTR) {
        /* If the error was the actor's own exit, the actor is gone, and the kill has no effect. */
        if (weft_actor_kill(birth.pid) == -ENOMEM) {
            weft_cancel(birth.pid.id);
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
