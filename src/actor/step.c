/* The steps of an actor. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "actor/actor.h"
#include "base/assert.h"
#include "base/clock.h"
#include "sched/handle.h"
#include "sched/pool.h"

/* --- its mailbox ---------------------------------------------------------------------- */

/* A letter for another incarnation of the slot: nobody will read it. */
static bool is_stray(const weft_actor *actor, const struct weft__letter *letter)
{
    return letter->generation != (uint32_t)(actor->self >> 32) + 1;
}

static void keep(weft_actor *actor, struct weft__link *items)
{
    while (items) {
        struct weft__link *next = items->next;
        struct weft__letter *letter = (struct weft__letter *)(void *)items;
        if (is_stray(actor, letter)) {
            weft__letter_bury(letter, (uint32_t)actor->self);
        } else {
            items->next = NULL;
            *actor->kept_last = items;
            actor->kept_last = &items->next;
        }
        items = next;
    }
}

struct batch {
    struct weft__letter *letters[WEFT__BATCH_MOST];
    struct weft_actor_event events[WEFT__BATCH_MOST];
    size_t n;
    unsigned completed;
    const struct weft__letter *fatal; /* the first that ends it */
};

/* Of an end that it does not trap: it ends, too, or it is nothing. */
static bool is_fatal(const weft_actor *actor, const struct weft__letter *letter)
{
    return letter->kind == WEFT__LETTER_KILL ||
           (letter->kind == WEFT_EVENT_EXIT && letter->error && !actor->trap);
}

static bool is_nothing(const weft_actor *actor, const struct weft__letter *letter)
{
    return letter->kind == WEFT_EVENT_EXIT && !letter->error && !actor->trap;
}

static void add(struct batch *batch, struct weft__letter *letter)
{
    bool ends = letter->kind == WEFT_EVENT_EXIT || letter->kind == WEFT_EVENT_DOWN;
    batch->completed += letter->kind == WEFT_EVENT_COMPLETE;
    batch->letters[batch->n] = letter;
    batch->events[batch->n++] = (struct weft_actor_event){
        .kind = (enum weft_actor_event_kind)letter->kind,
        .error = letter->error,
        .tag = letter->tag,
        .from = {.node = letter->from_node, .host = letter->from_host, .id = letter->from_id},
        .topic = ends ? NULL : letter->topic,
        .buf = letter->buf,
        .reason = ends && letter->will ? letter->will->text : NULL,
    };
}

static struct weft__letter *pop_kept(weft_actor *actor)
{
    struct weft__letter *letter = (struct weft__letter *)(void *)actor->kept;
    actor->kept = actor->kept->next;
    if (!actor->kept) {
        actor->kept_last = &actor->kept;
    }
    return letter;
}

/* Senders may drop what it keeps: they and it take turns. */
static bool is_shared(const weft_actor *actor)
{
    return atomic_load_explicit(&actor->limit, memory_order_relaxed) >> WEFT__LIMIT_SHIFT ==
           WEFT_MAILBOX_DROP;
}

static void lock_kept(weft_actor *actor)
{
    if (is_shared(actor)) {
        weft__lock(&actor->lock);
    }
}

static void unlock_kept(weft_actor *actor)
{
    if (is_shared(actor)) {
        weft__unlock(&actor->lock);
    }
}

void weft__actor_shed(weft_actor *actor, weft_pid self)
{
    struct weft__letter *oldest = NULL;
    weft__lock(&actor->lock);
    uint64_t gate = atomic_load_explicit(&actor->gate, memory_order_relaxed);
    uint32_t limit = atomic_load_explicit(&actor->limit, memory_order_relaxed) & WEFT__LIMIT_MOST;
    /* It may have ended, or have taken them out itself. */
    if (weft__gate_generation(gate) == weft__pid_generation(self) &&
        weft__gate_count(gate) > limit) {
        keep(actor, weft__inbox_drain_local(&actor->user));
        if (actor
                ->kept) { /* else those in front of it are not pushed yet, and will shed themselves */
            oldest = pop_kept(actor);
            atomic_fetch_sub_explicit(&actor->gate, 1, memory_order_relaxed);
        }
    }
    weft__unlock(&actor->lock);
    if (oldest) {
        oldest->error = -ENOBUFS;
        weft__letter_bury(oldest, (uint32_t)self.id);
    }
}

/* Messages for the next step. */
static void gather_kept(weft_actor *actor, struct batch *batch, size_t max)
{
    size_t before = batch->n;
    lock_kept(actor);
    if (!actor->kept) {
        keep(actor, weft__inbox_drain_local(&actor->user));
    }
    while (actor->kept && batch->n < max) {
        add(batch, pop_kept(actor));
    }
    if (batch->n > before) {
        weft__gate_leave(actor, batch->n - before);
    }
    unlock_kept(actor);
}

/* What there is for the next step, up to a measure; what is not a message comes first. */
static void gather(weft_actor *actor, struct batch *batch, size_t max)
{
    batch->n = batch->completed = 0;
    batch->fatal = NULL;
    if (!actor->urgent) {
        actor->urgent = weft__inbox_drain_local(&actor->system);
    }
    while (actor->urgent && batch->n < max) {
        struct weft__letter *letter = (struct weft__letter *)(void *)actor->urgent;
        actor->urgent = actor->urgent->next;
        if (is_stray(actor, letter)) {
            weft__letter_bury(letter, (uint32_t)actor->self);
        } else if (is_nothing(actor, letter)) {
            weft__letter_free(letter);
        } else {
            batch->fatal = !batch->fatal && is_fatal(actor, letter) ? letter : batch->fatal;
            add(batch, letter);
        }
    }
    if (!batch->fatal && !actor->blocked) { /* fatal: they are dead letters, with the rest */
        gather_kept(actor, batch, max);
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

static bool has_letters(weft_actor *actor, bool blocked)
{
    if (actor->urgent || !weft__inbox_empty(&actor->system)) {
        return true;
    }
    if (blocked) {
        return false;
    }
    lock_kept(actor);
    bool any = actor->kept || !weft__inbox_empty(&actor->user);
    unlock_kept(actor);
    return any;
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
    atomic_store_explicit(&actor->asleep, 0, memory_order_relaxed);
    weft__task_disarm(task); /* whether or not somebody has fired it */
    return false;
}

/* --- steps ------------------------------------------------------------------------------------ */

void weft_out_continue(weft_out *out)
{
    out->status = WEFT__OUT_CONTINUE;
}

void weft_out_idle(weft_out *out)
{
    out->status = WEFT__OUT_IDLE;
}

void weft_out_wait(weft_out *out)
{
    out->status = WEFT__OUT_WAIT;
}

/* What was said of an end or of new code, and does not hold any more. */
static void drop_end(weft_out *out)
{
    if (out->result || out->will || out->new) {
        weft_buf_free(out->result);
        weft__will_unref(out->will);
        weft__new_code_free(out->new);
        out->result = NULL;
        out->will = NULL;
        out->new = NULL;
    }
}

void weft_out_done(weft_out *out, weft_buf *result)
{
    drop_end(out);
    out->status = WEFT__OUT_DONE;
    out->error = 0;
    out->result = result;
}

int weft_out_exit(weft_out *out, int reason, weft_buf *text)
{
    WEFT__REQUIRE(reason <= 0, "an actor exits by 0 or a negative errno, not by %d", reason);
    weft_out_done(out, NULL);
    out->error = reason;
    out->will = text ? weft__will_new(text) : NULL;
    return text && !out->will ? -ENOMEM : 0;
}

static bool is_forced(const struct weft__task *task)
{
    return weft__ident_flags(task) & WEFT__IDENT_CANCEL;
}

/* Does only a completion concern it? The table is in <weft/actor.h>. */
static bool is_blocked(const weft_actor *actor, const weft_out *out, int asked)
{
    return actor->pending > 0 &&
           (out->status == WEFT__OUT_WAIT || (out->status == WEFT__OUT_UNSAID && asked > 0));
}

static void finish(struct weft__worker *w, struct weft__task *task, struct weft__end *end)
{
    weft__actor_end(task->own, end);
    weft__body_end(w, task, NULL, 0);
}

/* Ends it by the letter, or by a cancel of its task: its host lost patience. */
static void end_forced(struct weft__worker *w, struct weft__task *task, struct batch *batch)
{
    weft_actor *actor = task->own;
    struct weft__end end = {.error = -ECANCELED};
    if (!batch->fatal) {
        atomic_fetch_add_explicit(&actor->host->forced, 1, memory_order_relaxed);
    } else if (batch->fatal->kind == WEFT_EVENT_EXIT) {
        end.error = batch->fatal->error;
        end.will = weft__will_ref(batch->fatal->will);
    }
    for (size_t i = 0; i < batch->n; i++) { /* it was not given them */
        weft__letter_bury(batch->letters[i], (uint32_t)actor->self);
    }
    finish(w, task, &end);
}

/* One stay on a worker. */
struct turn {
    size_t events;
    int64_t until; /* 0: the first step was not over yet */
};

/* After a step with n events: is it the turn of others? Most turns are of one step and need no clock. */
static bool is_over(struct turn *turn, const weft_host *host, size_t n)
{
    turn->events += n ? n : 1;
    if (turn->events >= host->turn_events) {
        return true;
    }
    int64_t now = weft__clock_ns();
    if (!turn->until) {
        turn->until = now + host->turn_ns;
    }
    return now >= turn->until;
}

static enum weft__body_step run(struct weft__worker *w, struct weft__task *task)
{
    weft_actor *actor = task->own;
    struct batch batch;
    struct turn turn = {0};
    size_t max = actor->kind->batch ? actor->kind->batch : actor->host->batch;
    if (task->claim.task) { /* it has waited */
        weft__body_waited(w, task);
        atomic_store_explicit(&actor->asleep, 0, memory_order_relaxed); /* nobody need fire that */
    }
    for (;;) {
        weft_out out;
        memset(&out, 0, offsetof(weft_out, few)); /* unsaid, and nothing asked for */
        bool forced = is_forced(task);
        gather(actor, &batch, forced ? 0 : max);
        actor->pending -= batch.completed < actor->pending ? batch.completed : actor->pending;
        if (batch.fatal || forced) {
            end_forced(w, task, &batch);
            return WEFT__BODY_END;
        }
        atomic_store_explicit(&w->topic, batch.n ? batch.events[batch.n - 1].topic : NULL,
                              memory_order_relaxed);
        int err = actor->kind->step(actor, batch.events, batch.n, &out);
        weft__count(&actor->steps, 1);
        forget(&batch);
        if (err) {
            weft__out_drop(&out);
            finish(w, task, &(struct weft__end){.error = err});
            return WEFT__BODY_END;
        }
        int asked = out.count ? weft__out_dispatch(&out, actor) : 0;
        if (asked < 0) {
            weft__out_drop(&out);
            finish(w, task, &(struct weft__end){.error = asked});
            return WEFT__BODY_END;
        }
        actor->pending += (uint32_t)asked;
        if (out.status == WEFT__OUT_DONE) {
            weft__new_code_free(out.new);
            finish(w, task,
                   &(struct weft__end){.error = out.error, .result = out.result, .will = out.will});
            return WEFT__BODY_END;
        }
        if (out.status == WEFT__OUT_UPGRADE) {
            weft__actor_upgrade(task, actor, &out);
            actor->blocked = false;
            if (is_over(&turn, actor->host, batch.n)) {
                break;
            }
            continue;
        }
        drop_end(&out);
        actor->blocked = is_blocked(actor, &out, asked);
        if (out.status != WEFT__OUT_CONTINUE && dozes(task, actor, actor->blocked)) {
            return WEFT__BODY_WAIT;
        }
        if (out.status == WEFT__OUT_CONTINUE || is_over(&turn, actor->host, batch.n)) {
            break;
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

/* "<0.1.17.3> counter" */
static size_t blame(const struct weft__task *task, char *buf, size_t size)
{
    const weft_actor *actor = task->own;
    size_t used = weft__pid_write(weft_actor_pid(actor), buf, size);
    const char *of = actor->kind->name;
    if (of && used < size) {
        buf[used++] = ' ';
    }
    while (of && *of && used < size) {
        buf[used++] = *of++;
    }
    return used;
}

const struct weft__body_kind weft__actor_body = {
    .what = "actor", .step = run, .name = name, .waits = waits, .blame = blame};

/* --- asking ---------------------------------------------------------------------------------- */

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
        .mailbox = weft__gate_count(atomic_load_explicit(&actor->gate, memory_order_relaxed)),
        .steps = atomic_load_explicit(&actor->steps, memory_order_relaxed),
        .age_ns = weft_now() - task->born,
    };
    weft__ident_unlock(task, ident);
    return 0;
}
