#include "mailbox/mailbox.h"

#include <errno.h>

#include "actor/fiber_actor.h"

/* Split off the envelopes for this actor. The caller discards the stale ones without the lock. */
static struct weft__link *split_stale(const weft_actor *actor, struct weft__link *items,
                                      struct weft__link **stale)
{
    struct weft__link *mine = NULL;
    struct weft__link **last_mine = &mine, **last_stale = stale;
    while (items) {
        struct weft__link *next = items->next;
        bool is_stale = weft__envelope_is_stale(actor, (struct weft__envelope *)(void *)items);
        struct weft__link ***last = is_stale ? &last_stale : &last_mine;
        items->next = NULL;
        **last = items;
        *last = &items->next;
        items = next;
    }
    return mine;
}

/* Drain the inbox of messages. */
static struct weft__link *drain(weft_actor *actor, struct weft__link **stale)
{
    return split_stale(actor, weft__inbox_drain_local(&actor->user), stale);
}

static void discard(const weft_actor *actor, struct weft__link *envelopes)
{
    if (envelopes) {
        weft__envelopes_discard(envelopes, (uint32_t)actor->self);
    }
}

static struct weft__envelope *pop(weft_actor *actor)
{
    struct weft__envelope *envelope = (struct weft__envelope *)(void *)actor->kept;
    actor->kept = actor->kept->next;
    return envelope;
}

/* --- sharing with senders ------------------------------------------------------------------ */

static void lock_kept(weft_actor *actor)
{
    if (weft__mailbox_is_shared(actor)) {
        weft__lock(&actor->lock);
    }
}

static void unlock_kept(weft_actor *actor)
{
    if (weft__mailbox_is_shared(actor)) {
        weft__unlock(&actor->lock);
    }
}

/* With this policy no sender waits: a place is always available. */
static void release_shared(weft_actor *actor, size_t n)
{
    if (n) {
        atomic_fetch_sub_explicit(&actor->admission, n, memory_order_relaxed);
    }
}

/* Pop the oldest message if there are more than the limit; under the lock. */
static struct weft__envelope *pop_excess_locked(weft_actor *actor)
{
    uint64_t admission = atomic_load_explicit(&actor->admission, memory_order_relaxed);
    uint32_t limit = atomic_load_explicit(&actor->limit, memory_order_relaxed) & WEFT__LIMIT_MAX;
    if (weft__admission_count(admission) <= limit || !actor->kept) {
        return NULL;
    }
    struct weft__envelope *oldest = pop(actor);
    oldest->error = -ENOBUFS;
    release_shared(actor, 1);
    return oldest;
}

static void drop_excess_locked(weft_actor *actor, struct weft__link **stale,
                               struct weft__envelope **oldest)
{
    struct weft__mail *mail = actor->kind->run ? weft__mail_of(actor) : NULL;
    if (mail && mail->search_active) {
        return;
    }
    if (!actor->kept) {
        actor->kept = drain(actor, stale);
        if (mail) {
            mail->has_unsearched = true;
        }
    }
    /* Nothing kept: earlier messages are counted but not pushed yet, and their senders drop the
     * excess. */
    *oldest = pop_excess_locked(actor);
}

void weft__mailbox_drop_excess(weft_actor *actor, weft_pid self)
{
    struct weft__envelope *oldest = NULL;
    struct weft__link *stale = NULL;
    weft__lock(&actor->lock);
    uint64_t admission = atomic_load_explicit(&actor->admission, memory_order_relaxed);
    /* The actor has not ended, nor changed to a policy under which its messages are its own. */
    if (weft__admission_generation(admission) == weft__pid_generation(self) &&
        weft__mailbox_is_shared(actor)) {
        drop_excess_locked(actor, &stale, &oldest);
    }
    weft__unlock(&actor->lock);
    if (stale) {
        weft__envelopes_discard(stale, (uint32_t)self.id);
    }
    if (oldest) {
        weft__envelope_discard(oldest, (uint32_t)self.id);
    }
}

void weft__mailbox_discard_stale(weft_actor *actor)
{
    struct weft__link *stale = NULL;
    actor->kept = split_stale(actor, actor->kept, &stale);
    discard(actor, stale);
}

/* --- checks ----------------------------------------------------------------------------------- */

static bool is_trapping(const weft_actor *actor)
{
    return atomic_load_explicit(&actor->trap, memory_order_relaxed);
}

bool weft__envelope_is_fatal(const weft_actor *actor, const struct weft__envelope *envelope)
{
    return envelope->kind == WEFT__ENVELOPE_KILL ||
           (envelope->kind == WEFT_EVENT_EXIT && envelope->error && !is_trapping(actor));
}

/* A normal exit signal that the actor does not trap. */
static bool is_ignored(const weft_actor *actor, const struct weft__envelope *envelope)
{
    return envelope->kind == WEFT_EVENT_EXIT && !envelope->error && !is_trapping(actor);
}

bool weft__mailbox_has_kept(weft_actor *actor)
{
    weft__lock(&actor->lock);
    bool any = actor->kept != NULL;
    weft__unlock(&actor->lock);
    return any;
}

bool weft__mailbox_has_new(weft_actor *actor)
{
    if (!weft__inbox_is_empty(&actor->system)) {
        return true;
    }
    lock_kept(actor);
    bool any = !weft__inbox_is_empty(&actor->user) || weft__mail_of(actor)->has_unsearched;
    unlock_kept(actor);
    return any;
}

/* --- taking envelopes out --------------------------------------------------------------------- */

struct weft__envelope *weft__mailbox_next(weft_actor *actor)
{
    while (actor->urgent || (actor->urgent = weft__inbox_drain_local(&actor->system))) {
        struct weft__envelope *envelope = (struct weft__envelope *)(void *)actor->urgent;
        actor->urgent = actor->urgent->next;
        if (weft__envelope_is_stale(actor, envelope)) {
            weft__envelope_discard(envelope, (uint32_t)actor->self);
        } else if (is_ignored(actor, envelope)) {
            weft__envelope_free(envelope);
        } else if (envelope->kind == WEFT__ENVELOPE_STATS) {
            weft__actor_reply_stats(actor, envelope);
        } else {
            return envelope;
        }
    }
    return NULL;
}

/* With WEFT_MAILBOX_DROP_OLDEST, when senders remove kept messages: under the lock. */
static __attribute__((noinline)) size_t take_shared(weft_actor *actor, struct weft__envelope **out,
                                                    size_t max)
{
    struct weft__link *stale = NULL;
    size_t n = 0;
    weft__lock(&actor->lock);
    if (!actor->kept) {
        actor->kept = drain(actor, &stale);
    }
    while (actor->kept && n < max) {
        out[n++] = pop(actor);
    }
    release_shared(actor, n);
    weft__unlock(&actor->lock);
    discard(actor, stale);
    return n;
}

/* One traversal, over the kept messages or over the drained inbox. So stale envelopes may be among
 * the kept ones until their turn comes. */
size_t weft__mailbox_take(weft_actor *actor, struct weft__envelope **out, size_t max)
{
    if (__builtin_expect(weft__mailbox_is_shared(actor), 0)) {
        return take_shared(actor, out, max);
    }
    struct weft__link *link = actor->kept ? actor->kept : weft__inbox_drain_local(&actor->user);
    struct weft__link *stale = NULL;
    size_t n = 0;
    while (link && n < max) {
        struct weft__envelope *envelope = (struct weft__envelope *)(void *)link;
        link = link->next;
        if (__builtin_expect(weft__envelope_is_stale(actor, envelope), 0)) {
            envelope->link.next = stale;
            stale = &envelope->link;
        } else {
            out[n++] = envelope;
        }
    }
    actor->kept = link;
    if (n) {
        weft__admission_release_batch(actor, n);
    }
    discard(actor, stale);
    return n;
}

static struct weft__link **search(struct weft__link **at, weft__envelope_fn wanted, const void *arg)
{
    while (*at && !wanted((struct weft__envelope *)(void *)*at, arg)) {
        at = &(*at)->next;
    }
    return at;
}

/* Remove a match from the list, or from the newly arrived envelopes, which are appended to the
 * list. */
static struct weft__link *search_and_remove(struct weft__link **at, struct weft__link *more,
                                            weft__envelope_fn wanted, const void *arg,
                                            struct weft__link ***from)
{
    struct weft__link **end = at = search(at, wanted, arg);
    while (*end) {
        end = &(*end)->next;
    }
    *end = more;
    at = *at == more ? search(at, wanted, arg) : at;
    struct weft__link *found = *at;
    if (found) {
        *at = found->next;
    }
    *from = at;
    return found;
}

/* Detaches the kept messages while it searches. */
static struct weft__link *find_shared(weft_actor *actor, weft__envelope_fn wanted, const void *arg)
{
    struct weft__mail *mail = weft__mail_of(actor);
    struct weft__link *all, *more, *found, **from;
    struct weft__link *stale = NULL, *excess = NULL, **excess_last = &excess;
    struct weft__envelope *oldest;
    weft__lock(&actor->lock);
    all = actor->kept;
    more = drain(actor, &stale);
    actor->kept = NULL;
    mail->search_active = true;
    mail->has_unsearched = false;
    weft__unlock(&actor->lock);
    discard(actor, stale);

    found = search_and_remove(&all, more, wanted, arg, &from);

    weft__lock(&actor->lock);
    actor->kept = all;
    mail->search_active = false;
    release_shared(actor, found != NULL);
    while ((oldest = pop_excess_locked(actor))) {
        oldest->link.next = NULL;
        *excess_last = &oldest->link;
        excess_last = &oldest->link.next;
    }
    weft__unlock(&actor->lock);
    discard(actor, excess);
    return found;
}

static struct weft__link *find_own(weft_actor *actor, weft__envelope_fn wanted, const void *arg,
                                   struct weft__link ***from)
{
    struct weft__link *stale = NULL, *more = drain(actor, &stale);
    discard(actor, stale);
    struct weft__link *found =
        search_and_remove(*from ? *from : &actor->kept, more, wanted, arg, from);
    if (found) {
        weft__admission_release(actor, 1);
    }
    return found;
}

struct weft__envelope *weft__mailbox_find(weft_actor *actor, weft__envelope_fn wanted,
                                          const void *arg, struct weft__link ***from)
{
    struct weft__link *found = weft__mailbox_is_shared(actor) ? find_shared(actor, wanted, arg)
                                                              : find_own(actor, wanted, arg, from);
    return (struct weft__envelope *)(void *)found;
}
