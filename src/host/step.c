/* Running an actor in steps: collecting its events, calling its kind's step, carrying out the
 * output, and sleeping. */
#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "actor/fiber_actor.h"
#include "actor/step_state.h"
#include "actor/trace.h"
#include "base/assert.h"
#include "base/clock.h"
#include "mailbox/admission.h"
#include "mailbox/mailbox.h"
#include "mailbox/pending.h"
#include "remote/route.h"
#include "sched/pool.h"

/* --- the events of a step --------------------------------------------------------------- */

struct batch {
    struct weft__envelope *envelopes[WEFT__BATCH_MAX];
    struct weft_actor_event events[WEFT__BATCH_MAX];
    size_t n;
    unsigned completed;
    const struct weft__envelope *fatal; /* the first that ends the actor */
    struct weft__envelope *credit;      /* the last that grants a send credit */
};

/* Collect the events for the next step, at most `max`; non-message events first. While messages are
 * traced, collect one only, so that the step belongs to one chain. */
static void collect_events(weft_actor *actor, struct batch *batch, size_t max)
{
    struct weft__envelope *envelope;
    max = weft__actor_trace_is_on() && max ? 1 : max;
    batch->n = batch->completed = 0;
    batch->fatal = NULL;
    batch->credit = NULL;
    while (batch->n < max && weft__mailbox_has_any(actor, true) &&
           (envelope = weft__mailbox_next(actor))) {
        batch->fatal =
            !batch->fatal && weft__envelope_is_fatal(actor, envelope) ? envelope : batch->fatal;
        batch->completed += envelope->kind == WEFT_EVENT_COMPLETE;
        batch->credit = envelope->credit ? envelope : batch->credit;
        batch->envelopes[batch->n++] = envelope;
    }
    if (!batch->fatal && !actor->blocked) { /* fatal: messages become dead letters */
        batch->n += weft__mailbox_take(actor, batch->envelopes + batch->n, max - batch->n);
    }
    for (size_t i = 0; i < batch->n; i++) {
        batch->events[i] = weft__envelope_event(batch->envelopes[i]);
    }
}

/* Free an envelope that is not a message. A call that the step has not answered is from now on
 * known to the actor's code. */
static __attribute__((noinline)) void free_system(struct weft__small_cache *small,
                                                  struct weft__envelope *envelope)
{
    if (envelope->kind == WEFT_EVENT_CALL && weft__pending_has(envelope->tag)) {
        weft__pending_mark_seen(envelope->tag);
    }
    weft__envelope_free_local(small, envelope);
}

static void free_events(struct weft__worker *w, struct batch *batch)
{
    for (size_t i = 0; i < batch->n; i++) {
        struct weft__envelope *envelope = batch->envelopes[i];
        envelope->buf = batch->events[i].buf;
        if (envelope->kind == WEFT_EVENT_MESSAGE) {
            weft__envelope_free_local(&w->small, envelope);
        } else {
            free_system(&w->small, envelope);
        }
    }
}

weft_buf *weft_actor_take_buf(const struct weft_actor_event *event)
{
    struct weft_actor_event *mine = (struct weft_actor_event *)(uintptr_t)event;
    weft_buf *buf = mine->buf;
    mine->buf = NULL;
    return buf;
}

/* --- sleeping ----------------------------------------------------------------------------- */

/* The actor has taken back its own wait. */
static void resume_running(struct weft__worker *w, struct weft__task *task, weft_actor *actor)
{
    weft__task_run(task);
    weft__stackless_set_running(w, task);
    atomic_store_explicit(&actor->asleep, 0, memory_order_relaxed); /* no sender needs to fire it */
}

static uint64_t asleep_word(uint64_t ticket, bool blocked)
{
    return ticket << WEFT__ASLEEP_SHIFT | (blocked ? WEFT__ASLEEP_BLOCKED : 0) | WEFT__ASLEEP;
}

/* For a mailbox whose messages senders move under the actor's lock: the actor can check only while
 * it owns itself, as a fiber does. */
static __attribute__((noinline)) bool
try_sleep_shared(struct weft__worker *w, struct weft__task *task, weft_actor *actor, bool blocked)
{
    weft__stackless_arm(task, WEFT__WAIT_OBJECT);
    atomic_store_explicit(&actor->asleep, asleep_word(task->claim.ticket, blocked),
                          memory_order_seq_cst); /* pairs: wake */
    if (weft__mailbox_has_any(actor, blocked)) {
        atomic_store_explicit(&actor->asleep, 0, memory_order_relaxed);
        /* Whatever fired the wait can be dropped: a message is queued anyway, a cancel stays set,
         * and an interrupt, which wakes a sleeping actor, has no effect because a step has no call
         * that could return -EINTR. */
        enum weft__reason any = weft__task_disarm(task);
        (void)any;
        return false;
    }
    weft__stackless_clear_running(w);
    if (weft__waiter_settle(task)) {
        return true;
    }
    resume_running(w, task, actor);
    return false;
}

/* The banner of actor/actor.h has the argument. Returns true if the actor waits, or was woken by
 * another thread: the caller must not touch it. */
static bool try_sleep(struct weft__worker *w, struct weft__task *task, weft_actor *actor,
                      bool blocked)
{
    if (weft__mailbox_has_any(actor, blocked)) {
        return false;
    }
    if (blocked) { /* otherwise it has taken everything */
        weft__admission_end_turn(actor);
    }
    if (__builtin_expect(weft__mailbox_is_shared(actor), 0)) {
        return try_sleep_shared(w, task, actor, blocked);
    }
    weft__stackless_arm(task, WEFT__WAIT_OBJECT);
    uint64_t ticket = task->claim.ticket;
    atomic_store_explicit(&actor->asleep, asleep_word(ticket, blocked),
                          memory_order_relaxed); /* released by settle */
    weft__stackless_clear_running(w);
    if (weft__waiter_settle(task)) { /* pairs: wake */
        if (!weft__mailbox_has_arrivals(actor, blocked) ||
            weft__task_fire(task, ticket, WEFT__REASON_DONE) != WEFT__FIRE_ENQUEUE) {
            return true;
        }
    }
    resume_running(w, task, actor);
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

/* Drop the end or the upgrade that a later output has replaced. */
static void drop_end(weft_out *out)
{
    if (out->result || out->exit_reason || out->new) {
        weft_buf_free(out->result);
        weft__exit_reason_unref(out->exit_reason);
        weft__new_code_free(out->new);
        out->result = NULL;
        out->exit_reason = NULL;
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
    WEFT__REQUIRE(reason <= 0, "weft_out_exit: the reason must be 0 or a negative errno, not %d",
                  reason);
    weft_out_done(out, NULL);
    out->error = reason;
    out->exit_reason = text ? weft__exit_reason_new(text) : NULL;
    return text && !out->exit_reason ? -ENOMEM : 0;
}

static bool is_forced(const struct weft__task *task)
{
    return weft__ident_flags(task) & WEFT__IDENT_CANCEL;
}

/* Does the actor wait for completions only? The table is in <weft/actor.h>. */
static bool is_blocked(const weft_actor *actor, const weft_out *out, int issued)
{
    return actor->pending > 0 &&
           (out->status == WEFT__OUT_WAIT || (out->status == WEFT__OUT_NONE && issued > 0));
}

static void finish(struct weft__worker *w, struct weft__task *task, struct weft__end *end)
{
    weft__step_state(w)->handled_trace = 0;
    weft__actor_end(task->own, end);
    weft__stackless_end(w, task, NULL, 0);
}

/* End the actor because of the fatal envelope, or because its task was cancelled: the deadline of
 * weft_host_stop has passed. */
static void end_forced(struct weft__worker *w, struct weft__task *task, struct batch *batch)
{
    weft_actor *actor = task->own;
    struct weft__end end = {.error = -ECANCELED};
    if (!batch->fatal) {
        weft__host_count_forced(actor->host);
    } else if (batch->fatal->kind == WEFT_EVENT_EXIT) {
        end.error = batch->fatal->error;
        end.exit_reason = weft__exit_reason_ref(batch->fatal->exit_reason);
    }
    weft__actor_abort(actor);
    for (size_t i = 0; i < batch->n; i++) { /* the actor never received them */
        weft__envelope_discard(batch->envelopes[i], (uint32_t)actor->self);
    }
    finish(w, task, &end);
}

/* One turn on a worker. */
struct turn {
    size_t events;
    int64_t until; /* 0: the first step is not over yet */
};

/* After a step with n events: is the turn used up? Most turns have one step and need no clock. */
static bool is_over(struct turn *turn, const weft_host *host, size_t n)
{
    turn->events += n ? n : 1;
    if (turn->events >= host->turn_events) {
        return true;
    }
    int64_t now = weft__clock_ns();
    if (!turn->until) {
        turn->until = weft__clock_add(now, host->turn_ns);
    }
    return now >= turn->until;
}

/* For inspection: record the topic of the last message. Without a message the former one stays. */
static void record_topic(struct weft__task *task, const struct batch *batch)
{
    size_t i = batch->n;
    while (i > 0 && !weft__envelope_is_message(batch->envelopes[i - 1])) {
        i--;
    }
    if (i > 0) {
        weft__stackless_set_note(task, batch->envelopes[i - 1]->topic);
    }
}

/* The actor's message had to wait for capacity: in this step it may send more, unless another of
 * its messages waits for the same receiver. */
static __attribute__((noinline)) void begin_credit(struct weft__worker *w, const weft_actor *actor,
                                                   struct weft__envelope *envelope)
{
    weft_pid to = weft__envelope_from(envelope);
    envelope->credit = false; /* otherwise freeing the envelope would end the credit */
    weft__send_credit_begin(to);
    weft__step_state(w)->credits_to = to.id;
    weft__step_state(w)->credits_left =
        weft__pending_has_send(weft_actor_pid(actor), to) ? 0 : WEFT__SEND_CREDIT_MAX;
}

static __attribute__((noinline)) void end_credit(struct weft__worker *w)
{
    weft_pid to = {.id = weft__step_state(w)->credits_to};
    weft__step_state(w)->credits_to = 0;
    weft__send_credit_end(to);
}

/* What follows a step. */
enum next {
    ENDED,
    SLEEP,      /* unless something has arrived */
    AGAIN,      /* unless its turn is used up */
    YIELD_TURN, /* then again */
};

static enum next end_with_error(struct weft__worker *w, struct weft__task *task, weft_out *out,
                                int error)
{
    weft__out_drop(out);
    finish(w, task, &(struct weft__end){.error = error});
    return ENDED;
}

/* Call the step and carry out its output. */
static enum next run_step(struct weft__worker *w, struct weft__task *task, struct batch *batch)
{
    weft_actor *actor = task->own;
    weft_out out;
    memset(&out, 0, offsetof(weft_out, inline_commands)); /* no status, no commands */
    if (batch->n == 1) {
        weft__step_state(w)->handled_trace = batch->envelopes[0]->trace;
        weft__actor_trace_handled(actor, batch->envelopes[0]);
    }
    int err = actor->kind->step(actor, batch->events, batch->n, &out);
    weft__count(&actor->steps, 1);
    free_events(w, batch);
    if (err) {
        return end_with_error(w, task, &out, err);
    }
    int issued = 0;
    if (out.count) {
        issued = weft__out_dispatch(&out, actor);
        if (issued < 0) {
            return end_with_error(w, task, &out, issued);
        }
        actor->pending += (uint32_t)issued;
    }
    weft__step_state(w)->handled_trace = 0;
    if (out.status == WEFT__OUT_DONE) {
        finish(w, task,
               &(struct weft__end){
                   .error = out.error, .result = out.result, .exit_reason = out.exit_reason});
        return ENDED;
    }
    if (out.status == WEFT__OUT_UPGRADE) {
        weft__actor_upgrade(actor, &out);
        actor->blocked = false;
        return AGAIN;
    }
    drop_end(&out);
    if (out.status == WEFT__OUT_CONTINUE) {
        actor->due = true;
    }
    bool blocked = is_blocked(actor, &out, issued);
    if (actor->blocked != blocked) {
        actor->blocked = blocked;
    }
    return out.status == WEFT__OUT_CONTINUE ? YIELD_TURN : SLEEP;
}

static enum weft__stackless_step run(struct weft__worker *w, struct weft__task *task)
{
    weft_actor *actor = task->own;
    struct batch batch;
    struct turn turn = {0};
    bool due = actor->due;
    if (due) {
        actor->due = false;
    }
    if (atomic_load_explicit(&actor->asleep, memory_order_relaxed)) {
        weft__stackless_wait_reason(w, task);
        /* no sender needs to fire it */
        atomic_store_explicit(&actor->asleep, 0, memory_order_relaxed);
    }
    for (;;) {
        size_t max = actor->kind->batch ? actor->kind->batch : actor->host->batch;
        bool forced = is_forced(task);
        enum next next = SLEEP;
        collect_events(actor, &batch, forced ? 0 : max);
        if (batch.completed) {
            actor->pending -= batch.completed < actor->pending ? batch.completed : actor->pending;
        }
        if (batch.fatal || forced) {
            end_forced(w, task, &batch);
            return WEFT__STACKLESS_END;
        }
        if (batch.n || due) { /* otherwise nothing relevant has arrived */
            due = false;
            record_topic(task, &batch);
            if (__builtin_expect(batch.credit != NULL, 0)) {
                begin_credit(w, actor, batch.credit);
            }
            next = run_step(w, task, &batch);
            if (__builtin_expect(weft__step_state(w)->credits_to != 0, 0)) {
                end_credit(w);
            }
        }
        if (next == ENDED) {
            return WEFT__STACKLESS_END;
        }
        if (next == SLEEP && try_sleep(w, task, actor, actor->blocked)) {
            return WEFT__STACKLESS_GONE;
        }
        if (next == YIELD_TURN || is_over(&turn, actor->host, batch.n)) {
            break;
        }
    }
    weft__admission_end_turn(actor);
    return WEFT__STACKLESS_YIELD;
}

static const char *name(const struct weft__task *task)
{
    const weft_actor *actor = task->own;
    return actor->kind->name;
}

static const struct weft__wait_kind idle_kind = {.name = "messages"};

static struct weft__wait_info waits(const struct weft__task *task)
{
    (void)task;
    return (struct weft__wait_info){.kind = &idle_kind};
}

/* "<0.1.17.3> counter" */
static size_t identify(const struct weft__task *task, char *buf, size_t size)
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

const struct weft__stackless_kind weft__actor_body = {
    .what = "actor", .step = run, .name = name, .waits = waits, .identify = identify};
