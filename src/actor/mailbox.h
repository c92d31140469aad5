/* The mailbox of an actor, as the actor sees it.
 *
 * Two inboxes that anybody fills; what was taken out of them and not yet seen is kept in their
 * order, messages apart from the rest. All of it is the actor's own, without a lock. But with
 * WEFT_MAILBOX_DROP senders take out the oldest message, so there the kept ones, and emptying the
 * inbox of messages, are under the actor's lock.
 *
 * A search asks the user's code about each message, which is not done under a lock. So if they are
 * shared they are taken in hand meanwhile (`in_hand`): a sender that should drop one leaves that to
 * the one who searches. And what a sender has moved to the kept ones the search has not seen: that
 * is told by `fresh`.
 */
#ifndef WEFT_ACTOR_MAILBOX_H
#define WEFT_ACTOR_MAILBOX_H

#include "actor/actor.h"

/* The next letter that is not a message; NULL: none. */
struct weft__letter *weft__mailbox_next(weft_actor *actor);
/* The next messages, up to `max`, which leave the gate; how many. */
size_t weft__mailbox_take(weft_actor *actor, struct weft__letter **out, size_t max);
/* The first message that is wanted, which leaves the gate; NULL: none, and *from, NULL at first,
 * says where the next search goes on if it is for the same. */
typedef bool (*weft__letter_fn)(const struct weft__letter *letter, const void *arg);
struct weft__letter *weft__mailbox_find(weft_actor *actor, weft__letter_fn wanted, const void *arg,
                                        struct weft__link ***from);
/* Of a fiber actor: is there anything that the last search has not seen? */
bool weft__mailbox_news(weft_actor *actor);
/* Before senders drop of what it has kept: there is nothing among that which is not counted at the
 * gate. */
void weft__mailbox_sift(weft_actor *actor);
/* There are more messages than there may be: the oldest is dropped. Any thread. */
void weft__mailbox_shed(weft_actor *actor, weft_pid self);
/* Of an end that it does not trap: it ends, too. */
bool weft__letter_is_fatal(const weft_actor *actor, const struct weft__letter *letter);
/* Answers the letter, which is taken (actor/stats.c). */
void weft__actor_tell_stats(weft_actor *actor, struct weft__letter *letter);

/* Do senders drop messages of it? */
static inline bool weft__mailbox_is_shared(const weft_actor *actor)
{
    return atomic_load_explicit(&actor->limit, memory_order_relaxed) >> WEFT__LIMIT_SHIFT ==
           WEFT_MAILBOX_DROP;
}

bool weft__mailbox_any_kept(weft_actor *actor);

/* Is there anything; `blocked`: of what is not a message? Of messages the inbox is looked at first:
 * what leaves it meanwhile is among the kept ones then. */
static inline bool weft__mailbox_any(weft_actor *actor, bool blocked)
{
    if (actor->urgent || !weft__inbox_empty(&actor->system)) {
        return true;
    }
    if (blocked || !weft__inbox_empty(&actor->user)) {
        return !blocked;
    }
    return __builtin_expect(weft__mailbox_is_shared(actor), 0) ? weft__mailbox_any_kept(actor)
                                                               : actor->kept != NULL;
}

/* Has anything come since? After it has settled: of the actor's own nothing may be looked at. */
static inline bool weft__mailbox_came(const weft_actor *actor, bool blocked)
{
    return !weft__inbox_empty(&actor->system) || (!blocked && !weft__inbox_empty(&actor->user));
}

/* A letter for another incarnation of the slot: nobody will read it. */
static inline bool weft__letter_is_stray(const weft_actor *actor, const struct weft__letter *letter)
{
    return letter->generation != (uint32_t)(actor->self >> 32) + 1;
}

static inline struct weft_actor_event weft__letter_event(const struct weft__letter *letter)
{
    bool ends = letter->kind == WEFT_EVENT_EXIT || letter->kind == WEFT_EVENT_DOWN;
    return (struct weft_actor_event){
        .kind = (enum weft_actor_event_kind)letter->kind,
        .error = letter->error,
        .tag = letter->tag,
        .from = weft__letter_from(letter),
        .topic = ends ? NULL : letter->topic,
        .buf = letter->buf,
        .reason = ends && letter->will ? letter->will->text : NULL,
        .trace = letter->trace,
    };
}

#endif
