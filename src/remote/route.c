#include "remote/route.h"

#include <errno.h>

#include <weft/actor.h>

#include "actor/trace.h"
#include "base/alloc.h"
#include "base/nonnull.h"

/* The receiver of one node. */
struct route {
    struct route *next;
    struct weft_receiver *receiver;
    uint32_t node;
    _Atomic(uint32_t) calls; /* calls of the receiver that are running */
};

_Atomic(uint32_t) weft__this_node;

static struct weft__lock lock;
/* under the lock */
static struct route *routes;
static bool frozen;

static struct {
    _Atomic(uint64_t) sent, refused, unreachable, received, dead;
} counts;

static void count(_Atomic(uint64_t) *what)
{
    atomic_fetch_add_explicit(what, 1, memory_order_relaxed);
}

/* --- this node -------------------------------------------------------------------------------- */

int weft_node_set_id(uint32_t node)
{
    weft__lock(&lock);
    int err = frozen ? -EBUSY : 0;
    if (!err) {
        frozen = true;
        atomic_store_explicit(&weft__this_node, node, memory_order_relaxed);
    }
    weft__unlock(&lock);
    return err;
}

uint32_t weft_node_id(void)
{
    return weft__node();
}

void weft__node_freeze(void)
{
    weft__lock(&lock);
    frozen = true;
    weft__unlock(&lock);
}

/* --- routes to other nodes -------------------------------------------------------------------- */

static struct route **find_slot(uint32_t node)
{
    struct route **at = &routes;
    while (*at && (*at)->node != node) {
        at = &(*at)->next;
    }
    return at;
}

int weft_route_add(uint32_t node, struct weft_receiver *receiver)
{
    if (node == weft__node()) {
        return -EINVAL;
    }
    struct route *route = weft__alloc(sizeof *route);
    if (!route) {
        return -ENOMEM;
    }
    route->node = node;
    route->receiver = receiver;
    weft__lock(&lock);
    struct route **at = find_slot(node);
    int err = *at ? -EEXIST : 0;
    if (!err) {
        *at = route;
        route = NULL;
    }
    weft__unlock(&lock);
    weft__free(route);
    return err;
}

int weft_route_remove(uint32_t node)
{
    weft__lock(&lock);
    struct route **at = find_slot(node), *route = *at;
    if (route) {
        *at = route->next;
    }
    weft__unlock(&lock);
    if (!route) {
        return -ENOENT;
    }
    while (atomic_load_explicit(&route->calls, memory_order_acquire) > 0) { /* pairs: forward */
        weft_yield();
    }
    weft__free(route);
    return 0;
}

/* The call is counted before the lock is released: from then on the route is not freed. */
static struct route *take_route(uint32_t node)
{
    weft__lock(&lock);
    struct route *route = *find_slot(node);
    if (route) {
        atomic_fetch_add_explicit(&route->calls, 1, memory_order_relaxed);
    }
    weft__unlock(&lock);
    return route;
}

static int forward(const struct weft_remote_message *message)
{
    struct route *route = take_route(message->to.node);
    if (!route) {
        count(&counts.unreachable);
        weft_buf_free(message->buf);
        return -EHOSTUNREACH;
    }
    int err = route->receiver->deliver(route->receiver, message);
    count(err ? &counts.refused : &counts.sent);
    atomic_fetch_sub_explicit(&route->calls, 1,
                              memory_order_release); /* pairs: weft_route_remove */
    return err;
}

static bool is_routable(unsigned kind)
{
    return kind == WEFT_EVENT_MESSAGE || kind == WEFT_EVENT_COMPLETE || kind == WEFT_EVENT_CANCEL;
}

int weft__route_envelope(weft_pid to, struct weft__envelope *envelope)
{
    int err = -EREMOTE;
    if (is_routable(envelope->kind)) {
        weft__actor_trace_sent(to, envelope);
        struct weft_remote_message message = {
            .kind = (enum weft_actor_event_kind)envelope->kind,
            .error = envelope->error,
            .trace = envelope->trace,
            .from = {.node = envelope->from_node,
                     .host = envelope->from_host,
                     .id = envelope->from_id},
            .to = to,
            .tag = envelope->tag,
            .topic = envelope->topic,
            .buf = envelope->buf,
        };
        envelope->buf = NULL;
        err = forward(&message);
    }
    weft__envelope_free(envelope);
    return err;
}

/* --- messages from other nodes ---------------------------------------------------------------- */

static int deliver_here(const struct weft_remote_message *message)
{
    const char *topic = message->topic ? weft_topic_intern(message->topic) : NULL;
    struct weft__envelope *envelope = NULL;
    if (topic || !message->topic) {
        envelope = weft__envelope_new(message->kind, message->tag, message->buf);
    }
    if (!envelope) {
        weft_buf_free(message->buf);
        return -ENOMEM;
    }
    envelope->error = message->error;
    envelope->trace = message->trace;
    envelope->topic = topic;
    envelope->from_id = message->from.id;
    envelope->from_host = message->from.host;
    envelope->from_node = message->from.node;
    return message->kind == WEFT_EVENT_MESSAGE
               ? weft__envelope_post(message->to, envelope, WEFT_BY_POLICY)
               : weft__envelope_post_system(message->to, envelope);
}

int weft_remote_message_deliver(const struct weft_remote_message *message)
{
    if (!is_routable(message->kind)) {
        weft_buf_free(message->buf);
        return -EINVAL;
    }
    if (message->to.node != weft__node()) {
        return forward(message);
    }
    int err = deliver_here(message);
    count(err ? &counts.dead : &counts.received);
    return err;
}

void weft_node_stats(struct weft_node_stats *out)
{
    *out = (struct weft_node_stats){
        .sent = atomic_load_explicit(&counts.sent, memory_order_relaxed),
        .refused = atomic_load_explicit(&counts.refused, memory_order_relaxed),
        .unreachable = atomic_load_explicit(&counts.unreachable, memory_order_relaxed),
        .received = atomic_load_explicit(&counts.received, memory_order_relaxed),
        .dead = atomic_load_explicit(&counts.dead, memory_order_relaxed),
    };
}

/* --- proxies ---------------------------------------------------------------------------------- */

static int init_proxy(weft_actor *self, const char *method, const weft_buf *input)
{
    struct weft_receiver **receiver = weft_actor_state(self);
    (void)method;
    *receiver = *(struct weft_receiver **)(void *)input->data;
    return 0;
}

/* The buffer of a message that the receiver refuses is freed by the receiver. */
static void forward_to_receiver(weft_actor *self, const struct weft_actor_event *event)
{
    struct weft_receiver *receiver = *(struct weft_receiver **)weft_actor_state(self);
    struct weft_remote_message message = {
        .kind = event->kind,
        .error = event->error,
        .trace = event->trace,
        .from = event->from,
        .to = weft_actor_pid(self),
        .tag = event->tag,
        .topic = event->topic,
        .buf = weft_actor_take_buf(event),
    };
    int err = receiver->deliver(receiver, &message);
    if (err) {
        weft__dead_letter_report(self->host, &(struct weft_dead_letter){.to = message.to,
                                                                        .from = event->from,
                                                                        .topic = event->topic,
                                                                        .tag = event->tag});
    }
    if (err && event->kind == WEFT_EVENT_CALL) { /* nothing else answers the call */
        weft_actor_reply(event->tag, err, NULL);
    }
}

static int step_proxy(weft_actor *self, const struct weft_actor_event *events, size_t n,
                      weft_out *out)
{
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) { /* events that arrived together with a cancel go to the
                                        receiver, too */
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        } else if (is_routable(events[i].kind) || events[i].kind == WEFT_EVENT_CALL) {
            forward_to_receiver(self, &events[i]);
        }
    }
    return 0;
}

int weft_receiver_spawn(weft_host *host, weft_pid *out, struct weft_receiver *receiver)
{
    WEFT__NONNULL(host);
    static const struct weft_actor_kind kind = {.name = "receiver",
                                                .state_bytes = sizeof(struct weft_receiver *),
                                                .init = init_proxy,
                                                .step = step_proxy};
    weft_buf *input = weft_buf_copy(&receiver, sizeof(struct weft_receiver *));
    int err = input ? weft_actor_spawn(host, out, &kind, NULL, input) : -ENOMEM;
    weft_buf_free(input);
    return err;
}
