/* Envelopes: allocation, admission, delivery. */
#include <errno.h>
#include <string.h>

#include "actor/fiber_actor.h"
#include "actor/step_state.h"
#include "actor/topic_check.h"
#include "actor/trace.h"
#include "base/assert.h"
#include "mailbox/admission.h"
#include "mailbox/mailbox.h"
#include "remote/route.h"
#include "task/slab.h"

struct weft__envelope *weft__envelope_new(enum weft_actor_event_kind kind, uint64_t tag,
                                          weft_buf *buf)
{
    struct weft__envelope *envelope =
        weft__small_get(weft__small_self(), weft__small_class(sizeof *envelope), sizeof *envelope);
    if (envelope) {
        *envelope = (struct weft__envelope){.kind = (uint8_t)kind, .tag = tag, .buf = buf};
    }
    return envelope;
}

void weft__envelope_free(struct weft__envelope *envelope)
{
    weft__envelope_free_local(weft__small_self(), envelope);
}

/* End the actor's wait, if this kind of envelope may end it. Of several senders the ticket admits
 * one. */
static inline void wake(weft_actor *actor, uint32_t slot, bool system)
{
    struct weft__task *task = weft__slab_find(slot);
    weft__task_state_after(task); /* pairs: try_sleep */
    /* pairs: wait_for_mail */
    uint64_t asleep = atomic_load_explicit(&actor->asleep, memory_order_seq_cst);
    if (!asleep || (!system && (asleep & WEFT__ASLEEP_BLOCKED))) {
        return;
    }
    if (weft__task_fire(task, asleep >> WEFT__ASLEEP_SHIFT, WEFT__REASON_DONE) ==
        WEFT__FIRE_ENQUEUE) {
        weft__place(task, WEFT__BACK);
    }
}

/* Discard envelopes that arrived when the record was empty. The banner of actor/actor.h has the
 * argument. */
static __attribute__((noinline)) void sweep(weft_actor *actor, uint32_t slot)
{
    struct weft__link *user = NULL, *system = NULL;
    weft__lock(&actor->lock);
    if (!actor->live_state) {
        user = weft__inbox_drain_local(&actor->user);
        system = weft__inbox_drain_local(&actor->system);
    }
    weft__unlock(&actor->lock);
    weft__envelopes_discard(user, slot);
    weft__envelopes_discard(system, slot);
}

bool weft__actor_push(weft_actor *actor, weft_pid to, struct weft__envelope *envelope)
{
    weft__envelope_address(envelope, to);
    return weft__inbox_push_remote(
        weft__envelope_is_message(envelope) ? &actor->user : &actor->system, &envelope->link);
}

/* The actor may have ended before the envelope arrived. */
static inline void check_admission(weft_actor *actor, weft_pid to)
{
    uint64_t admission =
        atomic_load_explicit(&actor->admission, memory_order_seq_cst); /* pairs: close_admission */
    if (__builtin_expect(weft__admission_generation(admission) != weft__pid_generation(to), 0)) {
        sweep(actor, (uint32_t)to.id);
    }
}

void weft__actor_wake(weft_actor *actor, weft_pid to, bool system)
{
    wake(actor, (uint32_t)to.id, system);
    check_admission(actor, to);
}

/* Inlined into its callers: most envelopes are messages that a step sends. */
static inline __attribute__((always_inline)) void
deliver(weft_actor *actor, weft_pid to, struct weft__envelope *envelope, bool system)
{
    weft__envelope_address(envelope, to);
    if (weft__inbox_push_remote(system ? &actor->system : &actor->user, &envelope->link)) {
        wake(actor, (uint32_t)to.id, system);
    }
    check_admission(actor, to);
}

void weft__actor_deliver(weft_actor *actor, weft_pid to, struct weft__envelope *envelope)
{
    deliver(actor, to, envelope, !weft__envelope_is_message(envelope));
}

/* The chain number that the actor is handling, maybe from another node, is propagated; new numbers
 * are created only while messages are traced. */
static inline void set_trace(struct weft__envelope *envelope, const struct weft__worker *w,
                             const weft_actor *actor)
{
    envelope->trace = actor ? weft__actor_trace_id(actor, w) : 0;
    if (weft__actor_trace_is_on() && !envelope->trace && envelope->kind != WEFT_EVENT_COMPLETE) {
        envelope->trace = weft__actor_trace_new_id();
    }
}

void weft__envelope_set_trace(struct weft__envelope *envelope)
{
    const struct weft__worker *w = weft__worker_self();
    set_trace(envelope, w, w ? weft__actor_running(w) : NULL);
}

static inline void set_sender(struct weft__envelope *envelope, const struct weft__worker *w)
{
    const weft_actor *actor = w ? weft__actor_running(w) : NULL;
    if (actor) {
        weft_pid self = weft__actor_pid(actor);
        envelope->from_id = self.id;
        envelope->from_host = self.host;
        envelope->from_node = self.node;
    }
    set_trace(envelope, w, actor);
}

void weft__envelope_set_sender(struct weft__envelope *envelope)
{
    set_sender(envelope, weft__worker_self());
}

/* A step, or a callback of the pool, cannot wait. */
static bool can_wait(void)
{
    const struct weft__worker *w = weft__worker_self();
    return !w || weft__current(w);
}

/* The mailbox is full. WEFT_BY_POLICY: waits only if the actor's policy says so and the caller is a
 * fiber. */
static __attribute__((noinline)) int
wait_for_capacity(weft_actor *actor, weft_pid to, enum weft_mailbox_policy policy, int64_t deadline)
{
    if (!can_wait()) {
        return -ENOBUFS;
    }
    if (deadline != WEFT_BY_POLICY) {
        return weft__admission_wait(actor, to, deadline);
    }
    return policy == WEFT_MAILBOX_WAIT && weft__worker_self()
               ? weft__admission_wait(actor, to, WEFT_FOREVER)
               : -ENOBUFS;
}

/* A step that has a send credit for this receiver. */
static inline bool has_credit(const struct weft__worker *w, weft_pid to)
{
    const struct weft__step_state *step = weft__step_state_read(w);
    return __builtin_expect(step->credits_to == to.id, 0) && step->credits_left;
}

static inline int reserve(weft_actor *actor, weft_pid to, struct weft__worker *w, int64_t deadline)
{
    enum weft_mailbox_policy policy;
    if (w && has_credit(w, to)) {
        weft__step_state(w)->credits_left--;
        return weft__admission_reserve_by_credit(actor, to);
    }
    int place = weft__admission_reserve(actor, to, &policy);
    return place == -ENOBUFS ? wait_for_capacity(actor, to, policy, deadline) : place;
}

static inline __attribute__((always_inline)) void put(weft_actor *actor, weft_pid to,
                                                      struct weft__envelope *envelope, int place)
{
    weft__actor_trace_sent(to, envelope);
    deliver(actor, to, envelope, false);
    if (__builtin_expect(place, 0)) {
        weft__mailbox_drop_excess(actor, to);
    }
}

int weft__envelope_reserve(weft_actor *actor, weft_pid to, int64_t deadline)
{
    return reserve(actor, to, weft__worker_self(), deadline);
}

void weft__envelope_put(weft_actor *actor, weft_pid to, struct weft__envelope *envelope, int place)
{
    put(actor, to, envelope, place);
}

static inline __attribute__((always_inline)) int submit(weft_actor *actor, weft_pid to,
                                                        struct weft__envelope *envelope,
                                                        struct weft__worker *w, int64_t deadline)
{
    int place = reserve(actor, to, w, deadline);
    if (__builtin_expect(place < 0, 0)) {
        return place;
    }
    put(actor, to, envelope, place);
    return 0;
}

int weft__envelope_send(weft_pid to, struct weft__envelope *envelope, int64_t deadline)
{
    return submit(weft__actor_find((uint32_t)to.id), to, envelope, weft__worker_self(), deadline);
}

/* The envelope was not admitted. */
static __attribute__((noinline)) int drop_unsent(weft_pid to, struct weft__envelope *envelope,
                                                 int err)
{
    if (err == -ESRCH) {
        weft__envelope_address(envelope, to);
        weft__envelope_discard(envelope, (uint32_t)to.id);
    } else {
        weft__envelope_free(envelope);
    }
    return err;
}

static inline __attribute__((always_inline)) int post(weft_actor *actor, weft_pid to,
                                                      struct weft__envelope *envelope,
                                                      struct weft__worker *w, int64_t deadline)
{
    if (__builtin_expect(to.node != weft__node(), 0)) {
        return weft__route_envelope(to, envelope);
    }
    int err = submit(actor, to, envelope, w, deadline);
    return __builtin_expect(err, 0) ? drop_unsent(to, envelope, err) : 0;
}

int weft__envelope_post(weft_pid to, struct weft__envelope *envelope, int64_t deadline)
{
    return post(weft__actor_find((uint32_t)to.id), to, envelope, weft__worker_self(), deadline);
}

static inline __attribute__((always_inline)) int
send_message(weft_pid to, const char *topic, uint64_t tag, weft_buf *buf, int64_t deadline)
{
    struct weft__worker *w = weft__worker_self();
    weft_actor *actor = weft__actor_find((uint32_t)to.id);
    /* A rejected sender retries often: reject before an envelope is allocated. */
    if (deadline == WEFT_BY_POLICY && to.node == weft__node() &&
        __builtin_expect(weft__admission_would_refuse(actor, to), 0) && !(w && has_credit(w, to))) {
        weft_buf_free(buf);
        return -ENOBUFS;
    }
    struct weft__small_cache *small = w ? &w->small : NULL;
    unsigned class = weft__small_class(sizeof(struct weft__envelope));
    if (WEFT_DEBUG || !small || !small->free[class]) { /* costly: on a worker check a sample only */
        weft__topic_check(topic);
    }
    struct weft__envelope *envelope = weft__small_get(small, class, sizeof *envelope);
    if (__builtin_expect(!envelope, 0)) {
        weft_buf_free(buf);
        return -ENOMEM;
    }
    *envelope =
        (struct weft__envelope){.kind = WEFT_EVENT_MESSAGE, .tag = tag, .topic = topic, .buf = buf};
    set_sender(envelope, w);
    return post(actor, to, envelope, w, deadline);
}

static __attribute__((noinline)) int send_until(weft_pid to, const char *topic, uint64_t tag,
                                                weft_buf *buf, int64_t deadline)
{
    return send_message(to, topic, tag, buf, deadline > 0 ? deadline : 0);
}

int weft_actor_send(weft_pid to, const char *topic, uint64_t tag, weft_buf *buf, int64_t deadline)
{
    /* Compiled twice: the usual send tests no deadline. */
    return __builtin_expect(deadline == WEFT_BY_POLICY, 1)
               ? send_message(to, topic, tag, buf, WEFT_BY_POLICY)
               : send_until(to, topic, tag, buf, deadline);
}

/* --- envelopes that are not messages -------------------------------------------------------- */

/* Needs no place in the mailbox. Takes the envelope. */
int weft__envelope_post_system(weft_pid to, struct weft__envelope *envelope)
{
    if (__builtin_expect(to.node != weft__node(), 0)) {
        return weft__route_envelope(to, envelope);
    }
    weft_actor *actor = weft__actor_of(to);
    if (!actor) {
        weft__envelope_free(envelope);
        return -ESRCH;
    }
    weft__actor_trace_sent(to, envelope);
    weft__actor_deliver(actor, to, envelope);
    return 0;
}

int weft__envelope_complete(weft_pid actor, struct weft__envelope *envelope, int error,
                            weft_buf *buf)
{
    envelope->error = error;
    envelope->buf = buf;
    weft__envelope_set_trace(envelope);
    return weft__envelope_post_system(actor, envelope);
}

int weft_command_complete(weft_pid actor, uint64_t tag, int error, weft_buf *buf)
{
    struct weft__envelope *envelope = weft__envelope_new(WEFT_EVENT_COMPLETE, tag, NULL);
    if (!envelope) {
        weft_buf_free(buf);
        return -ENOMEM;
    }
    return weft__envelope_complete(actor, envelope, error, buf);
}

static int send_event(weft_pid to, unsigned kind, weft_buf *buf)
{
    struct weft__envelope *envelope = weft__envelope_new((enum weft_actor_event_kind)kind, 0, buf);
    if (!envelope) {
        weft_buf_free(buf);
        return -ENOMEM;
    }
    weft__envelope_set_sender(envelope);
    return weft__envelope_post_system(to, envelope);
}

int weft_actor_cancel(weft_pid pid, const char *reason)
{
    weft_buf *buf = reason ? weft_buf_copy(reason, strlen(reason) + 1) : NULL;
    return reason && !buf ? -ENOMEM : send_event(pid, WEFT_EVENT_CANCEL, buf);
}

int weft_actor_kill(weft_pid pid)
{
    if (pid.node != weft__node()) {
        return -EREMOTE;
    }
    int err = send_event(pid, WEFT__ENVELOPE_KILL, NULL);
    if (!err) {
        weft__actor_cancel_fiber(pid, true);
    }
    return err;
}
