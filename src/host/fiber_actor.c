#include "actor/fiber_actor.h"

#include <string.h>

#include "actor/trace.h"
#include "base/alloc.h"
#include "mailbox/mailbox.h"
#include "sched/pool.h"
#include "task/fork.h"
#include "task/handle.h"

weft_actor *weft__actor_of_fiber(const struct weft__task *task)
{
    weft_actor *actor = weft__actor_find(task->slot);
    uint64_t admission = actor ? atomic_load_explicit(&actor->admission, memory_order_relaxed) : 0;
    uint64_t ident = atomic_load_explicit(&task->ident, memory_order_relaxed);
    return weft__admission_generation(admission) == (uint32_t)weft__ident_generation(ident) + 1
               ? actor
               : NULL;
}

weft_actor *weft_actor_self(void)
{
    const struct weft__worker *w = weft__worker_self();
    return w ? weft__actor_running(w) : NULL;
}

/* --- the end ---------------------------------------------------------------------------- */

static void free_current(struct weft__mail *mail)
{
    if (mail->current) {
        mail->current->buf = mail->event.buf;
        weft__envelope_free(mail->current);
        mail->current = NULL;
    }
}

static bool is_cancelled(const struct weft__task *task)
{
    return weft__ident_flags(task) & WEFT__IDENT_CANCEL;
}

static struct weft__task *current_task(void)
{
    return weft__current(weft__worker_self());
}

/* The thread that kills also cancels the fiber, maybe a moment later: cancel it now. Takes the
 * envelope. */
static void set_fatal(weft_actor *actor, struct weft__mail *mail, struct weft__envelope *envelope)
{
    if (mail->fatal) {
        weft__envelope_free(envelope);
    } else {
        mail->fatal = envelope;
        weft_cancel(actor->self);
    }
}

/* What a receive accepts; all zero: everything. */
struct filter {
    const char *topic;
    weft_actor_filter_fn wanted;
    void *arg;
};

static bool matches(const struct weft__envelope *envelope, const void *arg)
{
    const struct filter *filter = arg;
    if (filter->topic) {
        return weft__envelope_is_message(envelope) && envelope->topic &&
               strcmp(envelope->topic, filter->topic) == 0;
    }
    if (filter->wanted) {
        struct weft_actor_event event = weft__envelope_event(envelope);
        return filter->wanted(&event, filter->arg);
    }
    return true;
}

/* Return the first non-message envelope that the filter accepts; NULL: none. Envelopes that end the
 * actor are recorded in mail->fatal, the others stay queued. trapped: exit signals follow the
 * actor's `trap`; otherwise they end it. */
static struct weft__envelope *find_system(weft_actor *actor, struct weft__mail *mail,
                                          const struct filter *filter, bool trapped)
{
    struct weft__link *others = NULL, **last = &others;
    struct weft__envelope *envelope;
    while ((envelope = weft__mailbox_next(actor))) {
        bool exits = envelope->kind == WEFT_EVENT_EXIT && envelope->error;
        if (weft__envelope_is_fatal(actor, envelope) || (exits && !trapped)) {
            set_fatal(actor, mail, envelope);
        } else if (filter && matches(envelope, filter)) {
            break;
        } else {
            *last = &envelope->link;
            last = &envelope->link.next;
        }
    }
    *last = actor->urgent;
    actor->urgent = others;
    return envelope;
}

/* A thread that delivers an exit signal reads `trap` afterwards; this function checks for envelopes
 * after `trap` was written. So if that thread did not see the new value, and cancels, this function
 * finds the envelope. */
void weft__fiber_apply_exits(weft_actor *actor)
{
    if (actor->urgent || !weft__inbox_is_empty(&actor->system)) {
        find_system(actor, weft__mail_of(actor), NULL, false);
    }
}

/* The exit of the actor: by the fatal envelope, or by the return value. Takes the contents of
 * mail. */
static struct weft__end exit_of(weft_actor *actor, struct weft__mail *mail)
{
    struct weft__end end = {.error = mail->returned ? mail->status : 0};
    if (mail->fatal) {
        bool by_exit = mail->fatal->kind == WEFT_EVENT_EXIT;
        end.error = by_exit ? mail->fatal->error : -ECANCELED;
        end.exit_reason = by_exit ? weft__exit_reason_ref(mail->fatal->exit_reason) : NULL;
        weft__envelope_free(mail->fatal);
    } else if (is_cancelled(current_task())) {
        weft__host_count_forced(actor->host);
        end.error = -ECANCELED;
    }
    if (end.error) {
        weft_buf_free(mail->result);
    } else {
        end.result = mail->result;
    }
    return end;
}

/* The last cleanup of the fiber, however it ends. */
static void end(void *arg)
{
    weft_actor *actor = arg;
    struct weft__mail *mail = weft__mail_of(actor);
    find_system(actor, mail, NULL, true);
    if (mail->fatal || is_cancelled(current_task())) {
        weft__actor_abort(actor);
    }
    struct weft__end end = exit_of(actor, mail);
    free_current(mail);
    weft__actor_end(actor, &end);
}

static void *run(void *arg)
{
    weft_actor *actor = arg;
    struct weft__mail *mail = weft__mail_of(actor);
    weft_fiber_cleanup_push(&mail->at_end, end, actor);
    find_system(actor, mail, NULL, true);
    if (!mail->fatal && !is_cancelled(current_task())) {
        mail->status = actor->kind->run(actor, &mail->result);
        mail->returned = true;
    }
    return NULL;
}

/* --- the start ------------------------------------------------------------------------------ */

struct weft__task *weft__actor_task_make(weft_host *host, const struct weft_actor_kind *kind,
                                         int *err)
{
    if (kind->run) {
        return weft__fiber_make(
            host->pool, run,
            &(struct weft_fiber_opts){.name = kind->name, .stack_bytes = kind->stack_bytes}, err);
    }
    return weft__stackless_make(
        host->pool, &weft__actor_body, NULL,
        &(struct weft__stackless_opts){.name = kind->name, .detached = true}, err);
}

void weft__actor_task_start(struct weft__task *task, weft_actor *actor)
{
    if (weft__task_is_stackless(task)) {
        weft__stackless_start(task, NULL, false);
    } else {
        weft__fiber_start(task, actor);
    }
}

void weft__actor_task_unmake(struct weft__task *task)
{
    if (weft__task_is_stackless(task)) {
        weft__stackless_unmake(task);
    } else {
        weft__fiber_unmake(task);
    }
}

bool weft__actor_state_alloc(weft_actor *actor, const struct weft_actor_kind *kind)
{
    actor->state = NULL;
    if (kind->state_bytes > PTRDIFF_MAX) { /* the sum below would wrap */
        return false;
    }
    if (!kind->run) {
        actor->state = kind->state_bytes ? weft__alloc(kind->state_bytes) : NULL;
        return actor->state || !kind->state_bytes;
    }
    struct weft__mail *mail = weft__alloc(sizeof *mail + kind->state_bytes);
    if (mail) {
        actor->state = mail + 1;
    }
    return mail != NULL;
}

void weft__actor_state_free(weft_actor *actor, const struct weft_actor_kind *kind)
{
    weft__free(kind->run ? (void *)weft__mail_of(actor) : actor->state);
    actor->state = NULL;
}

/* While its ident is locked the task does not end, and the record belongs to its actor. */
void weft__actor_cancel_fiber(weft_pid pid, bool always)
{
    uint64_t ident;
    struct weft__task *task = weft__handle_lock(pid.id, 0, &ident);
    if (!task) {
        return;
    }
    weft_actor *actor = weft__task_is_stackless(task) ? NULL : weft__actor_find(task->slot);
    bool ends =
        actor && (always || !atomic_load_explicit(
                                &actor->trap, memory_order_seq_cst)); /* pairs: weft_actor_trap */
    weft__ident_unlock(task, ident);
    if (ends) {
        weft_cancel(pid.id);
    }
}

/* --- receiving -------------------------------------------------------------------------------- */

static int return_event(weft_actor *actor, struct weft__mail *mail, struct weft__envelope *envelope,
                        const struct weft_actor_event **out)
{
    if (weft__envelope_is_message(envelope)) {
        atomic_store_explicit(&mail->last, envelope->topic, memory_order_relaxed);
    }
    weft__count(&actor->steps, 1);
    mail->received++;
    mail->current = envelope;
    mail->event = weft__envelope_event(envelope);
    mail->trace = envelope->trace;
    weft__actor_trace_handled(actor, envelope);
    *out = &mail->event;
    return 0;
}

static const struct weft__wait_kind receive_kind = {.name = "messages"};

/* Wait until something arrives. The banner of actor/actor.h has the argument. Returns 0 to check
 * again. */
static int wait_for_mail(weft_actor *actor, struct weft__task *task, int64_t deadline)
{
    struct weft__waiter waiter;
    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT);
    atomic_store_explicit(&actor->asleep, waiter.ticket << WEFT__ASLEEP_SHIFT | WEFT__ASLEEP,
                          memory_order_seq_cst); /* pairs: wake */
    if (weft__mailbox_has_new(actor)) {
        atomic_store_explicit(&actor->asleep, 0, memory_order_relaxed);
        weft__waiter_defer(weft__task_disarm(task));
        return 0;
    }
    enum weft__reason reason = weft__waiter_park(&waiter, deadline, &receive_kind, 0);
    atomic_store_explicit(&actor->asleep, 0, memory_order_relaxed); /* no sender needs to fire it */
    return reason == WEFT__REASON_DONE ? 0 : weft__reason_errno(reason);
}

static int receive(const struct weft_actor_event **out, const struct filter *filter,
                   int64_t deadline)
{
    weft_actor *actor = weft_actor_self();
    if (!actor) {
        weft__fork_check_fiber("weft_actor_receive");
    }
    WEFT__REQUIRE(actor && actor->kind->run,
                  "weft_actor_receive was called outside of a fiber actor");
    struct weft__mail *mail = weft__mail_of(actor);
    struct weft__task *task = current_task();
    struct weft__link **from = NULL;
    struct weft__envelope *envelope;
    free_current(mail);
    mail->trace = 0;
    if (mail->received >= actor->host->turn_events) {
        mail->received = 0;
        weft_yield();
    }
    int err = 0;
    for (;;) {
        envelope = find_system(actor, mail, filter, true);
        if (mail->fatal || (is_cancelled(task) && task->shields == 0)) {
            err = -ECANCELED;
            break;
        }
        envelope = envelope ? envelope : weft__mailbox_find(actor, matches, filter, &from);
        if (envelope) {
            return return_event(actor, mail, envelope, out);
        }
        mail->received = 0;
        err = err ? err : wait_for_mail(actor, task, deadline);
        if (err && err != -ETIMEDOUT) {
            break;
        }
        if (err && !weft__mailbox_has_new(actor)) {
            break;
        }
    }
    if (envelope) { /* a non-message envelope, which is never seen */
        weft__envelope_free(envelope);
    }
    return err;
}

int weft_actor_receive(const struct weft_actor_event **out, int64_t deadline)
{
    return receive(out, &(struct filter){0}, deadline);
}

int weft_actor_receive_topic(const struct weft_actor_event **out, const char *topic,
                             int64_t deadline)
{
    return receive(out, &(struct filter){.topic = topic}, deadline);
}

int weft_actor_receive_if(const struct weft_actor_event **out, weft_actor_filter_fn wanted,
                          void *arg, int64_t deadline)
{
    return receive(out, &(struct filter){.wanted = wanted, .arg = arg}, deadline);
}
