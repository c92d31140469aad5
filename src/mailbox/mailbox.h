/* An actor's mailbox, as seen by the actor.
 *
 * Any thread pushes into the two inboxes; envelopes that were taken out of them and not yet seen
 * are kept in order, messages apart from the rest. All of this belongs to the actor, without a
 * lock. But with WEFT_MAILBOX_DROP_OLDEST senders remove the oldest message, so then the kept
 * messages, and draining the inbox of messages, are under the actor's lock.
 *
 * A search calls user code for each message, which must not happen under a lock. So if the kept
 * messages are shared, the search detaches them first (search_active): a sender that has to drop a
 * message leaves that to the search. And messages that a sender has moved to the kept ones were not
 * searched yet: has_unsearched says so.
 */
#ifndef WEFT_MAILBOX_MAILBOX_H
#define WEFT_MAILBOX_MAILBOX_H

#include "actor/actor.h"

/* Take the next envelope that is not a message; NULL: none. */
struct weft__envelope *weft__mailbox_next(weft_actor *actor);
/* Take the next messages, up to `max`, and release their places. Returns how many. */
size_t weft__mailbox_take(weft_actor *actor, struct weft__envelope **out, size_t max);
/* Take the first message that `wanted` accepts, and release its place; NULL: none. *from, NULL at
 * first, then says where the next search for the same continues. */
typedef bool (*weft__envelope_fn)(const struct weft__envelope *envelope, const void *arg);
struct weft__envelope *weft__mailbox_find(weft_actor *actor, weft__envelope_fn wanted,
                                          const void *arg, struct weft__link ***from);
/* Fiber actor: is there anything that the last search has not seen? */
bool weft__mailbox_has_new(weft_actor *actor);
/* Discard stale envelopes among the kept ones, which the admission count does not include. Called
 * before senders may drop kept messages. */
void weft__mailbox_discard_stale(weft_actor *actor);
/* Drop the oldest message if there are more than the limit. Any thread. */
void weft__mailbox_drop_excess(weft_actor *actor, weft_pid self);
/* Does this envelope end the actor: a kill, or an exit signal that it does not trap? */
bool weft__envelope_is_fatal(const weft_actor *actor, const struct weft__envelope *envelope);
/* Answer the request for statistics. Takes the envelope (host/stats.c). */
void weft__actor_reply_stats(weft_actor *actor, struct weft__envelope *envelope);

/* May senders remove messages from it? */
static inline bool weft__mailbox_is_shared(const weft_actor *actor)
{
    return atomic_load_explicit(&actor->limit, memory_order_relaxed) >> WEFT__LIMIT_SHIFT ==
           WEFT_MAILBOX_DROP_OLDEST;
}

bool weft__mailbox_has_kept(weft_actor *actor);

/* Is anything queued? blocked: count only envelopes that are not messages. The inbox of messages is
 * checked before the kept messages: what leaves the inbox meanwhile is among the kept ones then. */
static inline bool weft__mailbox_has_any(weft_actor *actor, bool blocked)
{
    if (actor->urgent || !weft__inbox_is_empty(&actor->system)) {
        return true;
    }
    if (blocked || !weft__inbox_is_empty(&actor->user)) {
        return !blocked;
    }
    return __builtin_expect(weft__mailbox_is_shared(actor), 0) ? weft__mailbox_has_kept(actor)
                                                               : actor->kept != NULL;
}

/* Has anything arrived? Called after the actor has settled, when nothing that the actor owns may be
 * read. */
static inline bool weft__mailbox_has_arrivals(const weft_actor *actor, bool blocked)
{
    return !weft__inbox_is_empty(&actor->system) ||
           (!blocked && !weft__inbox_is_empty(&actor->user));
}

/* Is the envelope for another incarnation of the slot? Then it is never read. */
static inline bool weft__envelope_is_stale(const weft_actor *actor,
                                           const struct weft__envelope *envelope)
{
    return envelope->generation != (uint32_t)(actor->self >> 32) + 1;
}

static inline struct weft_actor_event weft__envelope_event(const struct weft__envelope *envelope)
{
    bool ends = envelope->kind == WEFT_EVENT_EXIT || envelope->kind == WEFT_EVENT_DOWN;
    return (struct weft_actor_event){
        .kind = (enum weft_actor_event_kind)envelope->kind,
        .error = envelope->error,
        .tag = envelope->tag,
        .from = weft__envelope_from(envelope),
        .topic = ends ? NULL : envelope->topic,
        .buf = envelope->buf,
        .reason = ends && envelope->exit_reason ? envelope->exit_reason->text : NULL,
        .trace = envelope->trace,
    };
}

#endif
