#include "mailbox/pending_send.h"

#include <errno.h>
#include <string.h>

#include "actor/step_state.h"
#include "actor/trace.h"
#include "mailbox/mailbox.h"
#include "remote/route.h"

/* Create the completion, with the receiver as `from`. Returns NULL if there is no memory. */
static struct weft__envelope *completion_of(const struct weft_command *command, weft_pid to)
{
    struct weft__envelope *completion = weft__envelope_new(WEFT_EVENT_COMPLETE, command->tag, NULL);
    if (completion) {
        weft__envelope_set_trace(completion);
        completion->from_node = to.node;
        completion->from_host = to.host;
        completion->from_id = to.id;
    }
    return completion;
}

static bool may_wait(weft_pid to, int64_t deadline)
{
    const weft_actor *actor = weft__actor_find((uint32_t)to.id);
    uint32_t limit = actor ? atomic_load_explicit(&actor->limit, memory_order_relaxed) : 0;
    return deadline != WEFT_BY_POLICY || limit >> WEFT__LIMIT_SHIFT == WEFT_MAILBOX_WAIT;
}

/* The timer is initialised only if there is a deadline. */
static struct weft__pending_send *make(const struct weft_command *command, weft_pid to,
                                       struct weft__envelope *envelope,
                                       struct weft__envelope *completion)
{
    struct weft__pending_send *send =
        weft__small_get(weft__small_self(), weft__small_class(sizeof *send), sizeof *send);
    if (send) {
        memset(&send->entry, 0, offsetof(struct weft__pending_entry, timer));
        send->entry.kind = WEFT__PENDING_SEND;
        send->entry.to = command->actor;
        send->entry.envelope = completion;
        send->sender = (struct weft__sender){.to = to, .envelope = envelope};
    }
    return send;
}

void weft__pending_send_free(struct weft__pending_send *send)
{
    weft__small_put(weft__small_self(), weft__small_class(sizeof *send), send);
}

/* The mailbox is full. Takes both envelopes unless it fails. Returns as weft__admission_enqueue. */
static int wait_for_capacity(const struct weft_command *command, weft_pid to,
                             struct weft__envelope *envelope, struct weft__envelope *completion,
                             int64_t deadline)
{
    struct weft__pending_send *send = make(command, to, envelope, completion);
    if (!send) {
        return -ENOMEM;
    }
    weft__step_state(weft__worker_self())->credits_left = 0; /* later messages must arrive later */
    int place =
        weft__pending_queue_send(send, deadline == WEFT_BY_POLICY ? WEFT_FOREVER : deadline);
    if (place != WEFT__ADMISSION_QUEUED) {
        weft__pending_send_free(send);
    }
    return place;
}

static void put_traced(weft_actor *actor, weft_pid to, struct weft__envelope *envelope, int place)
{
    weft__actor_deliver(actor, to, envelope);
    if (place > 0) {
        weft__mailbox_drop_excess(actor, to);
    }
}

/* Returns 0 if the message was admitted or waits. */
static int submit(const struct weft_command *command, weft_pid to, struct weft__envelope *envelope,
                  struct weft__envelope *completion, int64_t deadline)
{
    weft_actor *actor = weft__actor_find((uint32_t)to.id);
    int place = weft__envelope_reserve(actor, to, WEFT_BY_POLICY);
    bool full = place == -ENOBUFS && may_wait(to, deadline);
    if (full) {
        weft__actor_trace_sent(to, envelope); /* before any thread can take it */
        place = wait_for_capacity(command, to, envelope, completion, deadline);
    }
    if (place < 0 || place == WEFT__ADMISSION_QUEUED) {
        return place < 0 ? place : 0;
    }
    if (full) {
        put_traced(actor, to, envelope, place);
    } else {
        weft__envelope_put(actor, to, envelope, place);
    }
    weft__envelope_post_system(command->actor, completion);
    return 0;
}

/* As submit, but takes the envelope also on an error. */
static int send_local(const struct weft_command *command, weft_pid to,
                      struct weft__envelope *envelope, struct weft__envelope *completion,
                      int64_t deadline)
{
    int err = submit(command, to, envelope, completion, deadline);
    if (err == -ESRCH) {
        weft__envelope_address(envelope, to);
        weft__envelope_discard(envelope, (uint32_t)to.id);
    } else if (err) {
        weft__envelope_free(envelope);
    }
    return err;
}

int weft__pending_send_start(const struct weft_command *command, weft_pid to,
                             struct weft__envelope *envelope, int64_t deadline)
{
    struct weft__envelope *completion = completion_of(command, to);
    if (!completion) {
        weft__envelope_free(envelope);
        return -ENOMEM;
    }
    bool remote = to.node != weft__node();
    int err = remote ? weft__route_envelope(to, envelope)
                     : send_local(command, to, envelope, completion, deadline);
    if (err || remote) { /* needs no memory: the event has happened */
        completion->error = err;
        weft__envelope_post_system(command->actor, completion);
    }
    return 0;
}

void weft__pending_send_complete(struct weft__pending_send *send, int error)
{
    weft_pid to = send->entry.to;
    bool credit = send->sender.credit && !error;
    struct weft__envelope *completion = weft__pending_take_send(send);
    completion->error = error;
    completion->credit = credit;
    weft__envelope_post_system(to, completion); /* if the sender has ended, its credit ends, too */
}
