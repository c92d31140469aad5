/* Envelopes: allocation, admission, delivery. */
#include <errno.h>
#include <string.h>

#include "actor/fiber.h"
#include "actor/gate.h"
#include "actor/literal.h"
#include "actor/mailbox.h"
#include "actor/route.h"
#include "actor/trace.h"
#include "base/assert.h"
#include "sched/slab.h"

struct weft__letter *weft__letter_new(enum weft_actor_event_kind kind, uint64_t tag, weft_buf *buf)
{
    struct weft__letter *letter =
        weft__small_get(weft__small_here(), weft__small_class(sizeof *letter), sizeof *letter);
    if (letter) {
        *letter = (struct weft__letter){.kind = (uint8_t)kind, .tag = tag, .buf = buf};
    }
    return letter;
}

void weft__letter_free(struct weft__letter *letter)
{
    weft__letter_free_local(weft__small_here(), letter);
}

/* End the actor's wait, if this kind of envelope may end it. Of several senders the ticket admits
 * one. */
static inline void wake(weft_actor *actor, uint32_t slot, bool system)
{
    struct weft__task *task = weft__slab_find(slot);
    weft__task_state_after(task); /* pairs: dozes */
    /* pairs: wait_for_mail */
    uint64_t asleep = atomic_load_explicit(&actor->asleep, memory_order_seq_cst);
    if (!asleep || (!system && (asleep & WEFT__ASLEEP_BLOCKED))) {
        return;
    }
    if (weft__task_fire(task, asleep >> WEFT__ASLEEP_SHIFT, WEFT__REASON_DONE) ==
        WEFT__FIRE_ENQUEUE) {
        weft__place(task);
    }
}

/* Discard envelopes that arrived when the record was empty. The banner of actor/actor.h has the
 * argument. */
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

/* The actor may have ended before the envelope arrived. */
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

/* Inlined into its callers: most envelopes are messages that a step sends. */
static inline __attribute__((always_inline)) void deliver(weft_actor *actor, weft_pid to,
                                                          struct weft__letter *letter, bool system)
{
    weft__letter_address(letter, to);
    if (weft__inbox_push_remote(system ? &actor->system : &actor->user, &letter->link)) {
        wake(actor, (uint32_t)to.id, system);
    }
    look_at_gate(actor, to);
}

void weft__actor_deliver(weft_actor *actor, weft_pid to, struct weft__letter *letter)
{
    deliver(actor, to, letter, !weft__letter_is_message(letter));
}

/* The chain number that the actor is handling, maybe from another node, is propagated; new numbers
 * are created only while messages are traced. */
static inline void join_chain(struct weft__letter *letter, const struct weft__worker *w,
                              const weft_actor *actor)
{
    letter->trace = actor ? weft__trace_of(actor, w) : 0;
    if (weft__trace_is_on() && !letter->trace && letter->kind != WEFT_EVENT_COMPLETE) {
        letter->trace = weft__trace_new();
    }
}

void weft__letter_chain(struct weft__letter *letter)
{
    const struct weft__worker *w = weft__worker_self();
    join_chain(letter, w, w ? weft__actor_running(w) : NULL);
}

static inline void sign(struct weft__letter *letter, const struct weft__worker *w)
{
    const weft_actor *actor = w ? weft__actor_running(w) : NULL;
    if (actor) {
        weft_pid self = weft__actor_pid(actor);
        letter->from_id = self.id;
        letter->from_host = self.host;
        letter->from_node = self.node;
    }
    join_chain(letter, w, actor);
}

void weft__letter_sign(struct weft__letter *letter)
{
    sign(letter, weft__worker_self());
}

/* A step, or a callback of the pool, cannot wait. */
static bool may_wait(void)
{
    const struct weft__worker *w = weft__worker_self();
    return !w || weft__current(w);
}

/* The mailbox is full. WEFT__AT_ONCE: waits only if the actor's policy says so and the caller is a
 * fiber. */
static __attribute__((noinline)) int
wait_for_room(weft_actor *actor, weft_pid to, enum weft_mailbox_policy policy, int64_t deadline)
{
    if (!may_wait()) {
        return -ENOBUFS;
    }
    if (deadline != WEFT__AT_ONCE) {
        return weft__gate_await(actor, to, deadline);
    }
    return policy == WEFT_MAILBOX_WAIT && weft__worker_self()
               ? weft__gate_await(actor, to, WEFT_FOREVER)
               : -ENOBUFS;
}

/* A step that has a send credit for this receiver. */
static inline bool passes(const struct weft__worker *w, weft_pid to)
{
    return __builtin_expect(w->pass_to == to.id, 0) && w->pass_left;
}

static inline int enter(weft_actor *actor, weft_pid to, struct weft__worker *w, int64_t deadline)
{
    enum weft_mailbox_policy policy;
    if (w && passes(w, to)) {
        w->pass_left--;
        return weft__gate_pass(actor, to);
    }
    int place = weft__gate_enter(actor, to, &policy);
    return place == -ENOBUFS ? wait_for_room(actor, to, policy, deadline) : place;
}

static inline __attribute__((always_inline)) void put(weft_actor *actor, weft_pid to,
                                                      struct weft__letter *letter, int place)
{
    weft__trace_sent(to, letter);
    deliver(actor, to, letter, false);
    if (__builtin_expect(place, 0)) {
        weft__mailbox_shed(actor, to);
    }
}

int weft__letter_enter(weft_actor *actor, weft_pid to, int64_t deadline)
{
    return enter(actor, to, weft__worker_self(), deadline);
}

void weft__letter_put(weft_actor *actor, weft_pid to, struct weft__letter *letter, int place)
{
    put(actor, to, letter, place);
}

static inline __attribute__((always_inline)) int submit(weft_actor *actor, weft_pid to,
                                                        struct weft__letter *letter,
                                                        struct weft__worker *w, int64_t deadline)
{
    int place = enter(actor, to, w, deadline);
    if (__builtin_expect(place < 0, 0)) {
        return place;
    }
    put(actor, to, letter, place);
    return 0;
}

int weft__letter_send(weft_pid to, struct weft__letter *letter, int64_t deadline)
{
    return submit(weft__actor_find((uint32_t)to.id), to, letter, weft__worker_self(), deadline);
}

/* The envelope was not admitted. */
static __attribute__((noinline)) int give_up(weft_pid to, struct weft__letter *letter, int err)
{
    if (err == -ESRCH) {
        weft__letter_address(letter, to);
        weft__letter_bury(letter, (uint32_t)to.id);
    } else {
        weft__letter_free(letter);
    }
    return err;
}

static inline __attribute__((always_inline)) int post(weft_actor *actor, weft_pid to,
                                                      struct weft__letter *letter,
                                                      struct weft__worker *w, int64_t deadline)
{
    if (__builtin_expect(to.node != weft__node(), 0)) {
        return weft__route_letter(to, letter);
    }
    int err = submit(actor, to, letter, w, deadline);
    return __builtin_expect(err, 0) ? give_up(to, letter, err) : 0;
}

int weft__letter_post(weft_pid to, struct weft__letter *letter, int64_t deadline)
{
    return post(weft__actor_find((uint32_t)to.id), to, letter, weft__worker_self(), deadline);
}

static inline __attribute__((always_inline)) int
send_message(weft_pid to, const char *topic, uint64_t tag, weft_buf *buf, int64_t deadline)
{
    struct weft__worker *w = weft__worker_self();
    weft_actor *actor = weft__actor_find((uint32_t)to.id);
    /* A rejected sender retries often: reject before an envelope is allocated. */
    if (deadline == WEFT__AT_ONCE && to.node == weft__node() &&
        __builtin_expect(weft__gate_refuses(actor, to), 0) && !(w && passes(w, to))) {
        weft_buf_free(buf);
        return -ENOBUFS;
    }
    struct weft__small *small = w ? &w->small : NULL;
    unsigned class = weft__small_class(sizeof(struct weft__letter));
    if (WEFT_DEBUG || !small || !small->free[class]) { /* costly: on a worker check a sample only */
        weft__topic_check(topic);
    }
    struct weft__letter *letter = weft__small_get(small, class, sizeof *letter);
    if (__builtin_expect(!letter, 0)) {
        weft_buf_free(buf);
        return -ENOMEM;
    }
    *letter =
        (struct weft__letter){.kind = WEFT_EVENT_MESSAGE, .tag = tag, .topic = topic, .buf = buf};
    sign(letter, w);
    return post(actor, to, letter, w, deadline);
}

int weft_actor_send(weft_pid to, const char *topic, uint64_t tag, weft_buf *buf)
{
    return send_message(to, topic, tag, buf, WEFT__AT_ONCE);
}

int weft_actor_send_until(weft_pid to, const char *topic, uint64_t tag, weft_buf *buf,
                          int64_t deadline)
{
    return send_message(to, topic, tag, buf, deadline > 0 ? deadline : 0);
}

/* --- envelopes that are not messages -------------------------------------------------------- */

/* Needs no place in the mailbox. Takes the envelope. */
int weft__letter_post_system(weft_pid to, struct weft__letter *letter)
{
    if (__builtin_expect(to.node != weft__node(), 0)) {
        return weft__route_letter(to, letter);
    }
    weft_actor *actor = weft__actor_of(to);
    if (!actor) {
        weft__letter_free(letter);
        return -ESRCH;
    }
    weft__trace_sent(to, letter);
    weft__actor_deliver(actor, to, letter);
    return 0;
}

int weft__letter_complete(weft_pid actor, struct weft__letter *letter, int error, weft_buf *buf)
{
    letter->error = error;
    letter->buf = buf;
    weft__letter_chain(letter);
    return weft__letter_post_system(actor, letter);
}

int weft_complete(weft_pid actor, uint64_t tag, int error, weft_buf *buf)
{
    struct weft__letter *letter = weft__letter_new(WEFT_EVENT_COMPLETE, tag, NULL);
    if (!letter) {
        weft_buf_free(buf);
        return -ENOMEM;
    }
    return weft__letter_complete(actor, letter, error, buf);
}

static int tell(weft_pid to, unsigned kind, weft_buf *buf)
{
    struct weft__letter *letter = weft__letter_new((enum weft_actor_event_kind)kind, 0, buf);
    if (!letter) {
        weft_buf_free(buf);
        return -ENOMEM;
    }
    weft__letter_sign(letter);
    return weft__letter_post_system(to, letter);
}

int weft_actor_cancel(weft_pid pid, const char *reason)
{
    weft_buf *buf = reason ? weft_buf_copy(reason, strlen(reason) + 1) : NULL;
    return reason && !buf ? -ENOMEM : tell(pid, WEFT_EVENT_CANCEL, buf);
}

int weft_actor_kill(weft_pid pid)
{
    if (pid.node != weft__node()) {
        return -EREMOTE;
    }
    int err = tell(pid, WEFT__LETTER_KILL, NULL);
    if (!err) {
        weft__actor_break(pid, true);
    }
    return err;
}
