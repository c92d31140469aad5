/* Letters: making, delivering, and what becomes of those that nobody reads. */
#include <errno.h>
#include <string.h>

#include "actor/actor.h"
#include "sched/slab.h"

static struct weft__small *small_here(void)
{
    struct weft__worker *w = weft__worker_self();
    return w ? &w->small : NULL;
}

struct weft__letter *weft__letter_new(enum weft_actor_event_kind kind, uint64_t tag, weft_buf *buf)
{
    struct weft__letter *letter =
        weft__small_get(small_here(), weft__small_class(sizeof *letter), sizeof *letter);
    if (letter) {
        *letter = (struct weft__letter){.kind = (uint8_t)kind, .tag = tag, .buf = buf};
    }
    return letter;
}

void weft__letter_free(struct weft__letter *letter)
{
    if (letter->buf) {
        weft_buf_free(letter->buf);
    }
    if (letter->kind == WEFT_EVENT_EXIT || letter->kind == WEFT_EVENT_DOWN) {
        weft__will_unref(letter->will);
    }
    weft__small_put(small_here(), weft__small_class(sizeof *letter), letter);
}

/* Ends the wait that the actor is in, if this may end it. Of several senders the ticket lets one. */
static void wake(weft_actor *actor, uint32_t slot, bool system)
{
    uint64_t asleep = atomic_load_explicit(&actor->asleep, memory_order_seq_cst); /* pairs: dozes */
    if (!asleep || (!system && (asleep & WEFT__ASLEEP_BLOCKED))) {
        return;
    }
    struct weft__task *task = weft__slab_find(slot);
    if (weft__task_fire(task, asleep >> WEFT__ASLEEP_SHIFT, WEFT__REASON_DONE) ==
        WEFT__FIRE_ENQUEUE) {
        weft__place(task);
    }
}

/* Letters that came when nobody was there. The banner of actor/actor.h has the argument. */
static __attribute__((noinline)) void sweep(weft_actor *actor, uint32_t slot)
{
    struct weft__link *user = NULL, *system = NULL;
    weft__lock(&actor->lock);
    if (!actor->there) {
        user = weft__inbox_drain_local(&actor->user);
        system = weft__inbox_drain_local(&actor->system);
    }
    weft__unlock(&actor->lock);
    weft__letters_bury(user, slot);
    weft__letters_bury(system, slot);
}

bool weft__actor_push(weft_actor *actor, weft_pid to, struct weft__letter *letter)
{
    weft__letter_address(letter, to);
    return weft__inbox_push_remote(weft__letter_is_message(letter) ? &actor->user : &actor->system,
                                   &letter->link);
}

/* It may have ended before the letter came. */
static inline void look_at_gate(weft_actor *actor, weft_pid to)
{
    uint64_t gate = atomic_load_explicit(&actor->gate, memory_order_seq_cst); /* pairs: shut_gate */
    if (__builtin_expect(weft__gate_generation(gate) != weft__pid_generation(to), 0)) {
        sweep(actor, (uint32_t)to.id);
    }
}

void weft__actor_wake(weft_actor *actor, weft_pid to, bool system)
{
    wake(actor, (uint32_t)to.id, system);
    look_at_gate(actor, to);
}

void weft__actor_deliver(weft_actor *actor, weft_pid to, struct weft__letter *letter)
{
    bool system = !weft__letter_is_message(letter);
    if (weft__actor_push(actor, to, letter)) {
        wake(actor, (uint32_t)to.id, system);
    }
    look_at_gate(actor, to);
}

void weft__letter_sign(struct weft__letter *letter)
{
    const struct weft__worker *w = weft__worker_self();
    const struct weft__task *task = w ? atomic_load_explicit(&w->body, memory_order_relaxed) : NULL;
    if (task && task->body == &weft__actor_body) {
        weft_pid self = weft_actor_pid(task->own);
        letter->from_id = self.id;
        letter->from_host = self.host;
        letter->from_node = self.node;
    }
}

/* May it wait here? In a step, or in a callback of the pool, nobody can. */
static bool may_wait(void)
{
    const struct weft__worker *w = weft__worker_self();
    return !w || weft__current(w);
}

/* A place at the gate; WEFT__AT_ONCE: waits only if the actor says so and a fiber asks. */
static int enter(weft_actor *actor, weft_pid to, int64_t deadline)
{
    enum weft_mailbox_policy policy;
    int err = weft__gate_enter(actor, to, &policy);
    if (err != -ENOBUFS || !may_wait()) {
        return err;
    }
    if (deadline != WEFT__AT_ONCE) {
        return weft__gate_await(actor, to, deadline);
    }
    return policy == WEFT_MAILBOX_WAIT && weft__worker_self()
               ? weft__gate_await(actor, to, WEFT_FOREVER)
               : err;
}

int weft__letter_enter(weft_pid to, int64_t deadline)
{
    return enter(weft__actor_find((uint32_t)to.id), to, deadline);
}

void weft__letter_post(weft_pid to, struct weft__letter *letter, int place)
{
    weft_actor *actor = weft__actor_find((uint32_t)to.id);
    weft__actor_deliver(actor, to, letter);
    if (place) {
        weft__actor_shed(actor, to);
    }
}

int weft__letter_send(weft_pid to, struct weft__letter *letter, int64_t deadline)
{
    int place = weft__letter_enter(to, deadline);
    if (place >= 0) {
        weft__letter_post(to, letter, place);
    }
    return place < 0 ? place : 0;
}

static int post(weft_pid to, const char *topic, uint64_t tag, weft_buf *buf, int64_t deadline)
{
    struct weft__letter *letter = weft__letter_new(WEFT_EVENT_MESSAGE, tag, buf);
    if (!letter) {
        weft_buf_free(buf);
        return -ENOMEM;
    }
    letter->topic = topic;
    weft__letter_sign(letter);
    int err = weft__letter_send(to, letter, deadline);
    if (err == -ESRCH) {
        weft__letter_address(letter, to);
        weft__letter_bury(letter, (uint32_t)to.id);
    } else if (err) {
        weft__letter_free(letter);
    }
    return err;
}

int weft_actor_send(weft_pid to, const char *topic, uint64_t tag, weft_buf *buf)
{
    return post(to, topic, tag, buf, WEFT__AT_ONCE);
}

int weft_actor_send_until(weft_pid to, const char *topic, uint64_t tag, weft_buf *buf,
                          int64_t deadline)
{
    return post(to, topic, tag, buf, deadline > 0 ? deadline : 0);
}

/* --- what is not a message ------------------------------------------------------------------ */

int weft_complete(weft_pid actor, uint64_t tag, int error, weft_buf *buf)
{
    weft_actor *to = weft__actor_of(actor);
    struct weft__letter *letter = to ? weft__letter_new(WEFT_EVENT_COMPLETE, tag, buf) : NULL;
    if (!letter) {
        weft_buf_free(buf);
        return to ? -ENOMEM : -ESRCH;
    }
    letter->error = error;
    weft__actor_deliver(to, actor, letter);
    return 0;
}

static int tell(weft_pid to, unsigned kind, weft_buf *buf)
{
    weft_actor *actor = weft__actor_of(to);
    struct weft__letter *letter =
        actor ? weft__letter_new((enum weft_actor_event_kind)kind, 0, buf) : NULL;
    if (!letter) {
        weft_buf_free(buf);
        return actor ? -ENOMEM : -ESRCH;
    }
    weft__letter_sign(letter);
    weft__actor_deliver(actor, to, letter);
    return 0;
}

int weft_actor_cancel(weft_pid pid, const char *reason)
{
    weft_buf *buf = reason ? weft_buf_copy(reason, strlen(reason) + 1) : NULL;
    return reason && !buf ? -ENOMEM : tell(pid, WEFT_EVENT_CANCEL, buf);
}

int weft_actor_kill(weft_pid pid)
{
    return tell(pid, WEFT__LETTER_KILL, NULL);
}
