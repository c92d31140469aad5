#include "command/call.h"

#include <errno.h>

#include <weft/actor_out.h>

#include "actor/topic_check.h"
#include "command/command_request.h"
#include "mailbox/pending.h"
#include "remote/route.h"

static _Atomic(uint64_t) calls, late; /* statistics */

int weft_actor_reply(uint64_t call, int error, weft_buf *buf)
{
    if (weft__pending_reply(call, error, buf)) {
        return 0;
    }
    atomic_fetch_add_explicit(&late, 1, memory_order_relaxed);
    return -ESRCH;
}

int weft_actor_call_transfer(uint64_t call, weft_pid to)
{
    return to.node == weft__node() ? weft__pending_transfer(call, to) : -EREMOTE;
}

void weft_actor_call_stats(struct weft_actor_call_stats *out)
{
    *out = (struct weft_actor_call_stats){
        .calls = atomic_load_explicit(&calls, memory_order_relaxed),
        .late = atomic_load_explicit(&late, memory_order_relaxed),
    };
}

/* --- calls by a fiber or thread -------------------------------------------------------------- */

static const struct weft__wait_kind reply_kind = {.name = "reply from an actor"};

/* A call by a fiber or thread, on the caller's stack. */
struct call {
    struct weft__pending_entry entry;
    struct weft__node node;
    struct weft__waiter waiter;
};

static int reserve(weft_actor *actor, weft_pid to, const struct weft__envelope *envelope,
                   int64_t deadline)
{
    if (to.node != weft__node()) {
        return -EREMOTE;
    }
    if (weft__envelope_is_message(envelope)) {
        return weft__envelope_reserve(actor, to, deadline);
    }
    return weft__actor_of(to) ? 0 : -ESRCH;
}

static void put(weft_actor *actor, weft_pid to, struct weft__envelope *envelope, int place)
{
    uint64_t ref = envelope->tag;
    if (weft__envelope_is_message(envelope)) {
        weft__envelope_put(actor, to, envelope, place);
    } else if (weft__envelope_post_system(to, envelope) != 0) {
        weft__pending_reply(ref, -EOWNERDEAD, NULL); /* the actor has just ended */
    }
}

/* The call could not be added to the pending table. */
static void undo_reserve(struct call *call, weft_pid to, struct weft__envelope *envelope)
{
    if (weft__waiter_disarm(&call->waiter) == WEFT__REASON_INTERRUPT) {
        weft_fiber_interrupt(weft_self()); /* the next wait gets it */
    }
    if (weft__envelope_is_message(envelope)) {
        weft__admission_unreserve(to);
    }
}

/* Returns 0 or an error; the reply is in the node. Once the call is in the pending table the end of
 * the actor may end the wait; no other thread knows the reference before the envelope is posted.
 * Takes the envelope. */
static int send_and_wait(struct call *call, weft_pid to, struct weft__envelope *envelope,
                         int64_t deadline)
{
    weft_actor *actor = weft__actor_find((uint32_t)to.id);
    int place = reserve(actor, to, envelope, deadline);
    if (place < 0) {
        weft__envelope_free(envelope);
        return place;
    }
    weft__waiter_arm(&call->waiter, WEFT__WAIT_OBJECT);
    int err = weft__pending_add_wait(&call->entry, actor, &envelope->tag);
    if (err) {
        undo_reserve(call, to, envelope);
        weft__envelope_free(envelope);
        return err;
    }
    uint64_t ref = envelope->tag;
    put(actor, to, envelope, place);
    enum weft__reason reason = weft__waiter_park(&call->waiter, deadline, &reply_kind, 0);
    if (weft__reason_is_done(reason)) {
        return call->node.status;
    }
    weft__pending_drop(ref, 1u << WEFT__PENDING_WAIT);
    call->node.value = NULL; /* a reply that lost the race may have set it; it frees the buffer */
    return weft__reason_errno(reason);
}

int weft__call(weft_pid to, struct weft__envelope *envelope, weft_buf **reply, int64_t deadline)
{
    struct call call;
    weft__node_init(&call.node, &call.waiter, 0);
    weft__pending_entry_init_wait(&call.entry, &call.node, to);
    int err = send_and_wait(&call, to, envelope, deadline > 0 ? deadline : 0);
    if (reply && !err) {
        *reply = call.node.value;
    } else {
        weft_buf_free(call.node.value);
    }
    return err;
}

int weft_actor_call(weft_pid to, weft_buf **reply, const char *topic, weft_buf *request,
                    int64_t deadline)
{
    weft__topic_check(topic);
    struct weft__envelope *envelope = weft__envelope_new(WEFT_EVENT_CALL, 0, request);
    if (!envelope) {
        weft_buf_free(request);
        return -ENOMEM;
    }
    envelope->topic = topic;
    weft__envelope_set_sender(envelope);
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    return weft__call(to, envelope, reply, deadline);
}

/* --- calls by a step -------------------------------------------------------------------------- */

struct call_request {
    struct weft__command_request request; /* first */
    weft_pid to;
    const char *topic;
    weft_buf *buf;
    int64_t deadline;
};

static void drop_call_request(struct weft__command_request *request)
{
    weft_buf_free(((struct call_request *)(void *)request)->buf);
}

int weft_out_call(weft_out *out, uint64_t tag, weft_pid to, const char *topic, weft_buf *request,
                  int64_t deadline)
{
    weft__topic_check(topic);
    struct call_request call_request = {.request.drop = drop_call_request,
                                        .to = to,
                                        .topic = topic,
                                        .buf = request,
                                        .deadline = deadline};
    return weft__command_request_issue(out, WEFT_COMMAND_CALL, tag, &call_request.request,
                                       sizeof call_request);
}

/* Send the request, with the reference as its tag. */
static int send_call(const struct call_request *call_request, uint64_t ref, weft_buf *request)
{
    struct weft__envelope *envelope = weft__envelope_new(WEFT_EVENT_CALL, ref, request);
    if (!envelope) {
        weft_buf_free(request);
        return -ENOMEM;
    }
    envelope->topic = call_request->topic;
    weft__envelope_set_sender(envelope);
    atomic_fetch_add_explicit(&calls, 1, memory_order_relaxed);
    int err = weft__envelope_send(call_request->to, envelope, WEFT_BY_POLICY);
    if (err) {
        weft__envelope_free(envelope);
    }
    return err;
}

int weft__call_handle(const struct weft_command *command, void *arg)
{
    struct call_request *call_request = weft__command_request_of(command);
    (void)arg;
    if (call_request->to.node != weft__node()) {
        weft_buf_free(command->arg);
        return -EREMOTE;
    }
    struct weft__pending_entry *entry =
        weft__pending_entry_new_call(command->actor, call_request->to, command->tag);
    uint64_t ref;
    int err = entry ? weft__pending_add(entry, call_request->deadline, 0, &ref) : -ENOMEM;
    if (err) {
        if (entry) {
            weft__pending_entry_free(entry);
        }
    } else {
        weft_buf *request = call_request->buf;
        call_request->buf = NULL;
        err = send_call(call_request, ref, request);
        /* If the entry is gone the call has completed already: by its deadline, or by the callee's
         * end. */
        if (err && !weft__pending_drop(ref, 1u << WEFT__PENDING_CALL)) {
            err = 0;
        }
    }
    weft_buf_free(command->arg);
    return err;
}
