#include "actor/route.h"

#include <errno.h>

#include <weft/actor_call.h>

#include "actor/trace.h"
#include "base/alloc.h"
#include "base/need.h"

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
static bool fixed;

static struct {
    _Atomic(uint64_t) sent, refused, unreachable, received, dead;
} counts;

static void count(_Atomic(uint64_t) *what)
{
    atomic_fetch_add_explicit(what, 1, memory_order_relaxed);
}

/* --- this node -------------------------------------------------------------------------------- */

int weft_node_set(uint32_t node)
{
    weft__lock(&lock);
    int err = fixed ? -EBUSY : 0;
    if (!err) {
        fixed = true;
        atomic_store_explicit(&weft__this_node, node, memory_order_relaxed);
    }
    weft__unlock(&lock);
    return err;
}

uint32_t weft_node(void)
{
    return weft__node();
}

void weft__node_fix(void)
{
    weft__lock(&lock);
    fixed = true;
    weft__unlock(&lock);
}

/* --- routes to other nodes -------------------------------------------------------------------- */

static struct route **place_of(uint32_t node)
{
    struct route **at = &routes;
    while (*at && (*at)->node != node) {
        at = &(*at)->next;
    }
    return at;
}

int weft_route(uint32_t node, struct weft_receiver *receiver)
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
    struct route **at = place_of(node);
    int err = *at ? -EEXIST : 0;
    if (!err) {
        *at = route;
        route = NULL;
    }
    weft__unlock(&lock);
    weft__free(route);
    return err;
}

int weft_unroute(uint32_t node)
{
    weft__lock(&lock);
    struct route **at = place_of(node), *route = *at;
    if (route) {
        *at = route->next;
    }
    weft__unlock(&lock);
    if (!route) {
        return -ENOENT;
    }
    while (atomic_load_explicit(&route->calls, memory_order_acquire) > 0) { /* pairs: hand_over */
        weft_yield();
    }
    weft__free(route);
    return 0;
}

/* The call is counted before the lock is released: from then on the route is not freed. */
static struct route *take_route(uint32_t node)
{
    weft__lock(&lock);
    struct route *route = *place_of(node);
    if (route) {
        atomic_fetch_add_explicit(&route->calls, 1, memory_order_relaxed);
    }
    weft__unlock(&lock);
    return route;
}

static int hand_over(const struct weft_parcel *parcel)
{
    struct route *route = take_route(parcel->to.node);
    if (!route) {
        count(&counts.unreachable);
        weft_buf_free(parcel->buf);
        return -EHOSTUNREACH;
    }
    int err = route->receiver->deliver(route->receiver, parcel);
    count(err ? &counts.refused : &counts.sent);
    atomic_fetch_sub_explicit(&route->calls, 1, memory_order_release); /* pairs: weft_unroute */
    return err;
}

static bool travels(unsigned kind)
{
    return kind == WEFT_EVENT_MESSAGE || kind == WEFT_EVENT_COMPLETE || kind == WEFT_EVENT_CANCEL;
}

int weft__route_letter(weft_pid to, struct weft__letter *letter)
{
    int err = -EREMOTE;
    if (travels(letter->kind)) {
        weft__trace_sent(to, letter);
        struct weft_parcel parcel = {
            .kind = (enum weft_actor_event_kind)letter->kind,
            .error = letter->error,
            .trace = letter->trace,
            .from = {.node = letter->from_node, .host = letter->from_host, .id = letter->from_id},
            .to = to,
            .tag = letter->tag,
            .topic = letter->topic,
            .buf = letter->buf,
        };
        letter->buf = NULL;
        err = hand_over(&parcel);
    }
    weft__letter_free(letter);
    return err;
}

/* --- messages from other nodes ---------------------------------------------------------------- */

static int deliver_here(const struct weft_parcel *parcel)
{
    const char *topic = parcel->topic ? weft_topic(parcel->topic) : NULL;
    struct weft__letter *letter = NULL;
    if (topic || !parcel->topic) {
        letter = weft__letter_new(parcel->kind, parcel->tag, parcel->buf);
    }
    if (!letter) {
        weft_buf_free(parcel->buf);
        return -ENOMEM;
    }
    letter->error = parcel->error;
    letter->trace = parcel->trace;
    letter->topic = topic;
    letter->from_id = parcel->from.id;
    letter->from_host = parcel->from.host;
    letter->from_node = parcel->from.node;
    return parcel->kind == WEFT_EVENT_MESSAGE ? weft__letter_post(parcel->to, letter, WEFT__AT_ONCE)
                                              : weft__letter_post_system(parcel->to, letter);
}

int weft_parcel_deliver(const struct weft_parcel *parcel)
{
    if (!travels(parcel->kind)) {
        weft_buf_free(parcel->buf);
        return -EINVAL;
    }
    if (parcel->to.node != weft__node()) {
        return hand_over(parcel);
    }
    int err = deliver_here(parcel);
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

static int init_stand_in(weft_actor *self, const char *method, const weft_buf *input)
{
    struct weft_receiver **receiver = weft_actor_state(self);
    (void)method;
    *receiver = *(struct weft_receiver **)(void *)input->data;
    return 0;
}

/* The buffer of a message that the receiver refuses is freed by the receiver. */
static void pass_on(weft_actor *self, const struct weft_actor_event *event)
{
    struct weft_receiver *receiver = *(struct weft_receiver **)weft_actor_state(self);
    struct weft_parcel parcel = {
        .kind = event->kind,
        .error = event->error,
        .trace = event->trace,
        .from = event->from,
        .to = weft_actor_pid(self),
        .tag = event->tag,
        .topic = event->topic,
        .buf = weft_actor_take(event),
    };
    int err = receiver->deliver(receiver, &parcel);
    if (err) {
        weft__dead_letter_tell(self->host, &(struct weft_dead_letter){.to = parcel.to,
                                                                      .from = event->from,
                                                                      .topic = event->topic,
                                                                      .tag = event->tag});
    }
    if (err && event->kind == WEFT_EVENT_CALL) { /* nothing else answers the call */
        weft_actor_reply(event->tag, err, NULL);
    }
}

static int step_stand_in(weft_actor *self, const struct weft_actor_event *events, size_t n,
                         weft_out *out)
{
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) { /* events that arrived together with a cancel go to the
                                        receiver, too */
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        } else if (travels(events[i].kind) || events[i].kind == WEFT_EVENT_CALL) {
            pass_on(self, &events[i]);
        }
    }
    return 0;
}

int weft_receiver_spawn(weft_host *host, weft_pid *out, struct weft_receiver *receiver)
{
    WEFT__NEED(host);
    static const struct weft_actor_kind kind = {.name = "receiver",
                                                .state_bytes = sizeof(struct weft_receiver *),
                                                .init = init_stand_in,
                                                .step = step_stand_in};
    weft_buf *input = weft_buf_copy(&receiver, sizeof(struct weft_receiver *));
    int err = input ? weft_actor_spawn(host, out, &kind, NULL, input) : -ENOMEM;
    weft_buf_free(input);
    return err;
}
