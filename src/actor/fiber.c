#include "actor/fiber.h"

#include <string.h>

#include "actor/mailbox.h"
#include "actor/trace.h"
#include "base/alloc.h"
#include "sched/fork.h"
#include "sched/handle.h"
#include "sched/pool.h"

weft_actor *weft__actor_of_fiber(const struct weft__task *task)
{
    weft_actor *actor = weft__actor_find(task->slot);
    uint64_t gate = actor ? atomic_load_explicit(&actor->gate, memory_order_relaxed) : 0;
    uint64_t ident = atomic_load_explicit(&task->ident, memory_order_relaxed);
    return weft__gate_generation(gate) == (uint32_t)weft__ident_generation(ident) + 1 ? actor
                                                                                      : NULL;
}

weft_actor *weft_actor_self(void)
{
    const struct weft__worker *w = weft__worker_self();
    return w ? weft__actor_running(w) : NULL;
}

/* --- the end ---------------------------------------------------------------------------- */

static void forget(struct weft__mail *mail)
{
    if (mail->open) {
        mail->open->buf = mail->event.buf;
        weft__letter_free(mail->open);
        mail->open = NULL;
    }
}

static bool is_cancelled(const struct weft__task *task)
{
    return weft__ident_flags(task) & WEFT__IDENT_CANCEL;
}

static struct weft__task *here(void)
{
    return weft__current(weft__worker_self());
}

/* The thread that kills also cancels the fiber, maybe a moment later: cancel it now. Takes the
 * envelope. */
static void be_killed(weft_actor *actor, struct weft__mail *mail, struct weft__letter *letter)
{
    if (mail->fatal) {
        weft__letter_free(letter);
    } else {
        mail->fatal = letter;
        weft_cancel(actor->self);
    }
}

/* What a receive accepts; all zero: everything. */
struct filter {
    const char *topic;
    weft_wanted_fn wanted;
    void *arg;
};

static bool matches(const struct weft__letter *letter, const void *arg)
{
    const struct filter *filter = arg;
    if (filter->topic) {
        return weft__letter_is_message(letter) && letter->topic &&
               strcmp(letter->topic, filter->topic) == 0;
    }
    if (filter->wanted) {
        struct weft_actor_event event = weft__letter_event(letter);
        return filter->wanted(&event, filter->arg);
    }
    return true;
}

/* Return the first non-message envelope that the filter accepts; NULL: none. Envelopes that end the
 * actor are recorded in mail->fatal, the others stay queued. trapped: exit signals follow the
 * actor's `trap`; otherwise they end it. */
static struct weft__letter *find_system(weft_actor *actor, struct weft__mail *mail,
                                        const struct filter *filter, bool trapped)
{
    struct weft__link *others = NULL, **last = &others;
    struct weft__letter *letter;
    while ((letter = weft__mailbox_next(actor))) {
        bool exits = letter->kind == WEFT_EVENT_EXIT && letter->error;
        if (weft__letter_is_fatal(actor, letter) || (exits && !trapped)) {
            be_killed(actor, mail, letter);
        } else if (filter && matches(letter, filter)) {
            break;
        } else {
            *last = &letter->link;
            last = &letter->link.next;
        }
    }
    *last = actor->urgent;
    actor->urgent = others;
    return letter;
}

/* A thread that delivers an exit signal reads `trap` afterwards; this function checks for envelopes
 * after `trap` was written. So if that thread did not see the new value, and cancels, this function
 * finds the envelope. */
void weft__fiber_settle(weft_actor *actor)
{
    if (actor->urgent || !weft__inbox_empty(&actor->system)) {
        find_system(actor, weft__mail_of(actor), NULL, false);
    }
}

/* The exit of the actor: by the fatal envelope, or by the return value. Takes the contents of
 * mail. */
static struct weft__end how(weft_actor *actor, struct weft__mail *mail)
{
    struct weft__end end = {.error = mail->returned ? mail->status : 0};
    if (mail->fatal) {
        bool by_exit = mail->fatal->kind == WEFT_EVENT_EXIT;
        end.error = by_exit ? mail->fatal->error : -ECANCELED;
        end.will = by_exit ? weft__will_ref(mail->fatal->will) : NULL;
        weft__letter_free(mail->fatal);
    } else if (is_cancelled(here())) {
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
    if (mail->fatal || is_cancelled(here())) {
        weft__actor_abort(actor);
    }
    struct weft__end end = how(actor, mail);
    forget(mail);
    weft__actor_end(actor, &end);
}

static void *run(void *arg)
{
    weft_actor *actor = arg;
    struct weft__mail *mail = weft__mail_of(actor);
    weft_cleanup_push(&mail->at_end, end, actor);
    find_system(actor, mail, NULL, true);
    if (!mail->fatal && !is_cancelled(here())) {
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
    return weft__body_make(host->pool, &weft__actor_body, NULL,
                           &(struct weft__body_opts){.name = kind->name, .detached = true}, err);
}

void weft__actor_task_start(struct weft__task *task, weft_actor *actor)
{
    if (weft__task_is_body(task)) {
        weft__body_start(task, NULL, false);
    } else {
        weft__fiber_start(task, actor);
    }
}

void weft__actor_task_unmake(struct weft__task *task)
{
    if (weft__task_is_body(task)) {
        weft__body_unmake(task);
    } else {
        weft__fiber_unmake(task);
    }
}

bool weft__actor_state_make(weft_actor *actor, const struct weft_actor_kind *kind)
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
void weft__actor_break(weft_pid pid, bool always)
{
    uint64_t ident;
    struct weft__task *task = weft__handle_lock(pid.id, 0, &ident);
    if (!task) {
        return;
    }
    weft_actor *actor = weft__task_is_body(task) ? NULL : weft__actor_find(task->slot);
    bool ends =
        actor && (always || !atomic_load_explicit(
                                &actor->trap, memory_order_seq_cst)); /* pairs: weft_actor_trap */
    weft__ident_unlock(task, ident);
    if (ends) {
        weft_cancel(pid.id);
    }
}

/* --- receiving -------------------------------------------------------------------------------- */

static int give(weft_actor *actor, struct weft__mail *mail, struct weft__letter *letter,
                const struct weft_actor_event **out)
{
    if (weft__letter_is_message(letter)) {
        atomic_store_explicit(&mail->last, letter->topic, memory_order_relaxed);
    }
    weft__count(&actor->steps, 1);
    mail->received++;
    mail->open = letter;
    mail->event = weft__letter_event(letter);
    mail->trace = letter->trace;
    weft__trace_handled(actor, letter);
    *out = &mail->event;
    return 0;
}

static const struct weft__wait_kind receive_kind = {.name = "messages"};

/* Wait until something arrives. The banner of actor/actor.h has the argument. Returns 0 to check
 * again. */
static int doze(weft_actor *actor, struct weft__task *task, int64_t deadline)
{
    struct weft__waiter waiter;
    weft__waiter_arm(&waiter, WEFT__WAIT_OBJECT);
    atomic_store_explicit(&actor->asleep, waiter.ticket << WEFT__ASLEEP_SHIFT | WEFT__ASLEEP,
                          memory_order_seq_cst); /* pairs: wake */
    if (weft__mailbox_news(actor)) {
        atomic_store_explicit(&actor->asleep, 0, memory_order_relaxed);
        weft__waiter_hand_on(weft__task_disarm(task));
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
        weft__fork_check_fiber("weft_receive");
    }
    WEFT__REQUIRE(actor && actor->kind->run, "weft_receive was called outside of a fiber actor");
    struct weft__mail *mail = weft__mail_of(actor);
    struct weft__task *task = here();
    struct weft__link **from = NULL;
    struct weft__letter *letter;
    forget(mail);
    mail->trace = 0;
    if (mail->received >= actor->host->turn_events) {
        mail->received = 0;
        weft_yield();
    }
    int err = 0;
    for (;;) {
        letter = find_system(actor, mail, filter, true);
        if (mail->fatal || (is_cancelled(task) && task->shields == 0)) {
            err = -ECANCELED;
            break;
        }
        letter = letter ? letter : weft__mailbox_find(actor, matches, filter, &from);
        if (letter) {
            return give(actor, mail, letter, out);
        }
        mail->received = 0;
        err = err ? err : doze(actor, task, deadline);
        if (err && err != -ETIMEDOUT) {
            break;
        }
        if (err && !weft__mailbox_news(actor)) {
            break;
        }
    }
    if (letter) { /* a non-message envelope, which is never seen */
        weft__letter_free(letter);
    }
    return err;
}

int weft_receive(const struct weft_actor_event **out, int64_t deadline)
{
    return receive(out, &(struct filter){0}, deadline);
}

int weft_receive_topic(const struct weft_actor_event **out, const char *topic, int64_t deadline)
{
    return receive(out, &(struct filter){.topic = topic}, deadline);
}

int weft_receive_if(const struct weft_actor_event **out, weft_wanted_fn wanted, void *arg,
                    int64_t deadline)
{
    return receive(out, &(struct filter){.wanted = wanted, .arg = arg}, deadline);
}
