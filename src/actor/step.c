/* The life of an actor: start, steps, end. */
#include <errno.h>
#include <string.h>

#include "actor/actor.h"
#include "base/alloc.h"
#include "sched/handle.h"
#include "sched/pool.h"

#define MOST_BATCH 64u
#define TURN_STEPS 16u /* before others have theirs */

enum status {
    UNSAID,
    CONTINUES,
    IDLES,
    WAITS,
    IS_DONE,
};

/* --- its mailbox ---------------------------------------------------------------------- */

/* A letter for another incarnation of the slot: nobody will read it. */
static bool is_stray(const weft_actor *actor, const struct weft__letter *letter)
{
    return letter->generation != (uint32_t)(actor->self >> 32) + 1;
}

static void bury(weft_actor *actor, struct weft__letter *letter)
{
    atomic_fetch_add_explicit(&actor->host->dead, 1, memory_order_relaxed);
    weft__letter_free(letter);
}

static void keep(weft_actor *actor, struct weft__link *items)
{
    while (items) {
        struct weft__link *next = items->next;
        struct weft__letter *letter = (struct weft__letter *)(void *)items;
        if (is_stray(actor, letter)) {
            bury(actor, letter);
        } else {
            items->next = NULL;
            *actor->kept_last = items;
            actor->kept_last = &items->next;
        }
        items = next;
    }
}

struct batch {
    struct weft__letter *letters[MOST_BATCH];
    struct weft_actor_event events[MOST_BATCH];
    size_t n;
    unsigned completed;
    bool killed;
};

static void add(struct batch *batch, struct weft__letter *letter)
{
    batch->killed = batch->killed || letter->kind == WEFT__LETTER_KILL;
    batch->completed += letter->kind == WEFT_EVENT_COMPLETE;
    batch->letters[batch->n] = letter;
    batch->events[batch->n++] = (struct weft_actor_event){
        .kind = (enum weft_actor_event_kind)letter->kind,
        .error = letter->error,
        .tag = letter->tag,
        .from = {.node = letter->from_node, .host = letter->from_host, .id = letter->from_id},
        .topic = letter->topic,
        .buf = letter->buf,
    };
}

/* What there is for the next step, up to a measure; what is not a message comes first. */
static void gather(weft_actor *actor, struct batch *batch, size_t max)
{
    batch->n = batch->completed = 0;
    batch->killed = false;
    if (!actor->urgent) {
        actor->urgent = weft__inbox_drain_local(&actor->system);
    }
    while (actor->urgent && batch->n < MOST_BATCH) {
        struct weft__letter *letter = (struct weft__letter *)(void *)actor->urgent;
        actor->urgent = actor->urgent->next;
        if (is_stray(actor, letter)) {
            bury(actor, letter);
        } else {
            add(batch, letter);
        }
    }
    size_t before = batch->n;
    if (!actor->kept) {
        keep(actor, weft__inbox_drain_local(&actor->user));
    }
    while (actor->kept && batch->n < max) {
        struct weft__letter *letter = (struct weft__letter *)(void *)actor->kept;
        actor->kept = actor->kept->next;
        if (!actor->kept) {
            actor->kept_last = &actor->kept;
        }
        add(batch, letter);
    }
    if (batch->n > before) {
        atomic_fetch_sub_explicit(&actor->gate, batch->n - before, memory_order_relaxed);
    }
}

static void forget(struct batch *batch)
{
    for (size_t i = 0; i < batch->n; i++) {
        batch->letters[i]->buf = batch->events[i].buf;
        weft__letter_free(batch->letters[i]);
    }
}

weft_buf *weft_actor_take(const struct weft_actor_event *event)
{
    struct weft_actor_event *mine = (struct weft_actor_event *)(uintptr_t)event;
    weft_buf *buf = mine->buf;
    mine->buf = NULL;
    return buf;
}

/* --- sleeping ----------------------------------------------------------------------------- */

static bool has_letters(const weft_actor *actor, bool blocked)
{
    return actor->urgent || !weft__inbox_empty(&actor->system) ||
           (!blocked && (actor->kept || !weft__inbox_empty(&actor->user)));
}

/* The banner of actor/actor.h has the argument. True: it waits. */
static bool dozes(struct weft__task *task, weft_actor *actor, bool blocked)
{
    if (has_letters(actor, blocked)) {
        return false;
    }
    weft__body_arm(task, WEFT__WAIT_OBJECT);
    atomic_store_explicit(&actor->asleep,
                          task->claim.ticket << WEFT__ASLEEP_SHIFT |
                              (blocked ? WEFT__ASLEEP_BLOCKED : 0) | WEFT__ASLEEP,
                          memory_order_seq_cst); /* pairs: wake */
    if (!has_letters(actor, blocked)) {
        return true;
    }
    atomic_exchange_explicit(&actor->asleep, 0, memory_order_acq_rel);
    weft__task_disarm(task); /* whether or not somebody has fired it */
    return false;
}

/* --- its end -------------------------------------------------------------------------------- */

static void drop_all(weft_actor *actor)
{
    keep(actor, weft__inbox_drain_local(&actor->user));
    keep(actor, weft__inbox_drain_local(&actor->system));
    keep(actor, actor->urgent);
    actor->urgent = NULL;
    while (actor->kept) {
        struct weft__letter *letter = (struct weft__letter *)(void *)actor->kept;
        actor->kept = actor->kept->next;
        bury(actor, letter);
    }
    actor->kept_last = &actor->kept;
}

/* Who waits for the end is told; the first one has the result. */
static void tell_watchers(weft_actor *actor, weft_buf *result, int status)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__lock(&actor->lock);
    struct weft__node *node = actor->watchers;
    actor->watchers = NULL;
    while (node) {
        struct weft__node *next = node->next;
        if (weft__node_fire(node, result, status, &ready)) {
            result = NULL;
        }
        node = next;
    }
    weft__unlock(&actor->lock);
    weft__place_many(&ready);
    weft_buf_free(result);
}

static void finish(struct weft__worker *w, struct weft__task *task, weft_buf *result, int status)
{
    weft_actor *actor = task->own;
    weft_host *host = actor->host;
    if (actor->kind->close) {
        actor->kind->close(actor);
    }
    weft__lock(&actor->lock); /* nobody comes to wait any more: they look at the gate under it */
    atomic_store_explicit(&actor->gate, 0, memory_order_release);
    weft__unlock(&actor->lock);
    drop_all(actor);
    weft__free(actor->state);
    actor->state = NULL;
    tell_watchers(actor, result, status);
    atomic_fetch_add_explicit(&host->ended, 1, memory_order_relaxed);
    weft__body_end(w, task, NULL, 0);
}

/* --- steps ------------------------------------------------------------------------------------ */

void weft_out_continue(weft_out *out)
{
    out->status = CONTINUES;
}

void weft_out_idle(weft_out *out)
{
    out->status = IDLES;
}

void weft_out_wait(weft_out *out)
{
    out->status = WAITS;
}

void weft_out_done(weft_out *out, weft_buf *result)
{
    weft_buf_free(out->result);
    out->status = IS_DONE;
    out->result = result;
}

static bool is_forced(const struct weft__task *task)
{
    return weft__ident_flags(task) & WEFT__IDENT_CANCEL;
}

/* Does only a completion concern it? The table is in <weft/actor.h>. */
static bool is_blocked(const weft_actor *actor, const weft_out *out, unsigned asked)
{
    return actor->pending > 0 && (out->status == WAITS || (out->status == UNSAID && asked > 0));
}

static enum weft__body_step run(struct weft__worker *w, struct weft__task *task)
{
    weft_actor *actor = task->own;
    struct batch batch;
    size_t max = actor->host->batch;
    if (task->claim.task) { /* it has waited */
        weft__body_waited(w, task);
    }
    for (unsigned i = 0; i < TURN_STEPS; i++) {
        weft_out out = {.status = UNSAID};
        gather(actor, &batch, max);
        actor->pending -= batch.completed < actor->pending ? batch.completed : actor->pending;
        if (batch.killed || is_forced(task)) {
            forget(&batch);
            atomic_fetch_add_explicit(&actor->host->forced, !batch.killed, memory_order_relaxed);
            finish(w, task, NULL, -ECANCELED);
            return WEFT__BODY_END;
        }
        int err = actor->kind->step(actor, batch.events, batch.n, &out);
        weft__count(&actor->steps, 1);
        forget(&batch);
        if (err) {
            weft__out_drop(&out);
            finish(w, task, NULL, err);
            return WEFT__BODY_END;
        }
        unsigned asked = weft__out_dispatch(&out, actor);
        actor->pending += asked;
        if (out.status == IS_DONE) {
            finish(w, task, out.result, 0);
            return WEFT__BODY_END;
        }
        if (out.status != CONTINUES && dozes(task, actor, is_blocked(actor, &out, asked))) {
            return WEFT__BODY_WAIT;
        }
    }
    task->claim.task = NULL;
    return WEFT__BODY_YIELD;
}

static const char *name(const struct weft__task *task)
{
    const weft_actor *actor = task->own;
    return actor->kind->name;
}

static const struct weft__wait_kind idle_kind = {.name = "messages"};

static struct weft__body_wait waits(const struct weft__task *task)
{
    (void)task;
    return (struct weft__body_wait){.kind = &idle_kind};
}

const struct weft__body_kind weft__actor_body = {
    .what = "actor", .step = run, .name = name, .waits = waits};

/* --- its start ----------------------------------------------------------------------------------- */

static bool has_method(const struct weft_actor_kind *kind, const char *method)
{
    const char *const *known = kind->methods;
    while (known && *known && (!method || strcmp(*known, method) != 0)) {
        known++;
    }
    return !known || *known;
}

static void reset(weft_actor *actor, weft_host *host, const struct weft_actor_kind *kind,
                  const struct weft__task *task)
{
    const struct weft__worker *w = weft__worker_self();
    const struct weft__task *maker = w ? weft__running(w) : NULL;
    actor->self = weft__task_handle(task);
    actor->kind = kind;
    actor->host = host;
    actor->parent = maker ? weft__task_handle(maker) : 0;
    actor->kept = NULL;
    actor->kept_last = &actor->kept;
    actor->urgent = NULL;
    actor->pending = 0;
    atomic_store_explicit(&actor->steps, 0, memory_order_relaxed);
    atomic_store_explicit(&actor->asleep, 0, memory_order_relaxed);
    atomic_store_explicit(&actor->limit, kind->mailbox ? kind->mailbox : host->mailbox,
                          memory_order_relaxed);
}

int weft_actor_spawn(weft_host *host, weft_pid *out, const struct weft_actor_kind *kind,
                     const char *method, const weft_buf *input)
{
    struct weft__body_opts opts = {.name = kind->name, .detached = true};
    int err;
    if (!kind->step) {
        return -EINVAL;
    }
    if (!has_method(kind, method)) {
        return -ENOENT;
    }
    if (!atomic_load_explicit(&host->frozen, memory_order_acquire)) {
        weft__lock(&host->lock);
        atomic_store_explicit(&host->frozen, true, memory_order_release);
        weft__unlock(&host->lock);
    }
    struct weft__task *task = weft__body_make(host->pool, &weft__actor_body, NULL, &opts, &err);
    if (!task) {
        return err;
    }
    weft_actor *actor = weft__actor_at(task->slot);
    void *state = actor && kind->state_bytes ? weft__alloc(kind->state_bytes) : NULL;
    if (!actor || (kind->state_bytes && !state)) {
        weft__body_unmake(task);
        return -ENOMEM;
    }
    reset(actor, host, kind, task);
    actor->state = state;
    weft__body_set_own(task, actor);
    task->claim.task = NULL;
    err = kind->init ? kind->init(actor, method, input) : 0;
    if (err) {
        weft__free(state);
        actor->state = NULL;
        weft__body_unmake(task);
        return err;
    }
    weft_pid pid = weft_actor_pid(actor);
    if (out) {
        *out = pid;
    }
    atomic_fetch_add_explicit(&host->spawned, 1, memory_order_relaxed);
    atomic_store_explicit(&actor->gate, (uint64_t)weft__pid_generation(pid) << WEFT__GATE_SHIFT,
                          memory_order_release);
    weft__body_start(task, NULL, false);
    return 0;
}

void *weft_actor_state(weft_actor *self)
{
    return self->state;
}

weft_pid weft_actor_pid(const weft_actor *self)
{
    return (weft_pid){.host = self->host->number, .id = self->self};
}

/* --- waiting for its end, asking ----------------------------------------------------------------- */

static const struct weft__wait_kind end_kind = {.name = "end of an actor"};

int weft_actor_join(weft_pid pid, weft_buf **result, int64_t deadline)
{
    weft_actor *actor = weft__actor_find((uint32_t)pid.id);
    struct weft__waiter waiter;
    struct weft__node node;
    if (!actor) {
        return -ESRCH;
    }
    weft__lock(&actor->lock);
    if (weft__actor_of(pid) != actor) {
        weft__unlock(&actor->lock);
        return -ESRCH;
    }
    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT);
    weft__node_init(&node, &waiter, 0);
    node.next = actor->watchers;
    actor->watchers = &node;
    weft__unlock(&actor->lock);
    enum weft__reason reason = weft__waiter_park(&waiter, deadline, &end_kind, 0);
    if (weft__reason_done(reason)) {
        if (result) {
            *result = node.value;
        } else {
            weft_buf_free(node.value);
        }
        return node.status;
    }
    weft__lock(&actor->lock);
    for (struct weft__node **at = &actor->watchers; *at; at = &(*at)->next) {
        if (*at == &node) {
            *at = node.next;
            break;
        }
    }
    weft__unlock(&actor->lock);
    return weft__reason_errno(reason);
}

const char *weft_actor_state_name(enum weft_actor_state state)
{
    static const char *const names[] = {"ready", "running", "blocked", "idle", "complete"};
    return (unsigned)state < sizeof names / sizeof *names ? names[state] : "unknown";
}

int weft_actor_look(weft_pid pid, struct weft_actor_info *out)
{
    weft_actor *actor = weft__actor_find((uint32_t)pid.id);
    uint64_t ident;
    if (!actor) {
        return -ESRCH;
    }
    struct weft__task *task = weft__handle_lock_running(pid.id, 0, &ident);
    if (!task || weft__actor_of(pid) != actor) { /* while the lock is held it does not end */
        if (task) {
            weft__ident_unlock(task, ident);
        }
        return -ESRCH;
    }
    uint64_t asleep = atomic_load_explicit(&actor->asleep, memory_order_relaxed);
    enum weft_fiber_state state = weft__fiber_state_of(weft__task_state(task));
    *out = (struct weft_actor_info){
        .pid = pid,
        .parent = {.id = actor->parent},
        .kind = actor->kind->name,
        .state = state == WEFT_FIBER_RUNNING     ? WEFT_ACTOR_RUNNING
                 : state != WEFT_FIBER_WAITING   ? WEFT_ACTOR_READY
                 : asleep & WEFT__ASLEEP_BLOCKED ? WEFT_ACTOR_BLOCKED
                                                 : WEFT_ACTOR_IDLE,
        .mailbox = (uint32_t)atomic_load_explicit(&actor->gate, memory_order_relaxed),
        .steps = atomic_load_explicit(&actor->steps, memory_order_relaxed),
        .age_ns = weft_now() - task->born,
    };
    weft__ident_unlock(task, ident);
    return 0;
}
