#include "actor/mailbox.h"

#include <errno.h>

#include "actor/fiber.h"

/* Split off the envelopes for this actor. The caller discards the stale ones without the lock. */
static struct weft__link *sift(const weft_actor *actor, struct weft__link *items,
                               struct weft__link **strays)
{
    struct weft__link *mine = NULL;
    struct weft__link **last_mine = &mine, **last_stray = strays;
    while (items) {
        struct weft__link *next = items->next;
        bool stray = weft__letter_is_stray(actor, (struct weft__letter *)(void *)items);
        struct weft__link ***last = stray ? &last_stray : &last_mine;
        items->next = NULL;
        **last = items;
        *last = &items->next;
        items = next;
    }
    return mine;
}

/* Drain the inbox of messages. */
static struct weft__link *drain(weft_actor *actor, struct weft__link **strays)
{
    return sift(actor, weft__inbox_drain_local(&actor->user), strays);
}

static void bury(const weft_actor *actor, struct weft__link *letters)
{
    if (letters) {
        weft__letters_bury(letters, (uint32_t)actor->self);
    }
}

static struct weft__letter *pop(weft_actor *actor)
{
    struct weft__letter *letter = (struct weft__letter *)(void *)actor->kept;
    actor->kept = actor->kept->next;
    return letter;
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
static void leave_shared(weft_actor *actor, size_t n)
{
    if (n) {
        atomic_fetch_sub_explicit(&actor->gate, n, memory_order_relaxed);
    }
}

/* Pop the oldest message if there are more than the limit; under the lock. */
static struct weft__letter *pop_excess_locked(weft_actor *actor)
{
    uint64_t gate = atomic_load_explicit(&actor->gate, memory_order_relaxed);
    uint32_t limit = atomic_load_explicit(&actor->limit, memory_order_relaxed) & WEFT__LIMIT_MOST;
    if (weft__gate_count(gate) <= limit || !actor->kept) {
        return NULL;
    }
    struct weft__letter *oldest = pop(actor);
    oldest->error = -ENOBUFS;
    leave_shared(actor, 1);
    return oldest;
}

static void shed_locked(weft_actor *actor, struct weft__link **strays, struct weft__letter **oldest)
{
    struct weft__mail *mail = actor->kind->run ? weft__mail_of(actor) : NULL;
    if (mail && mail->in_hand) {
        return;
    }
    if (!actor->kept) {
        actor->kept = drain(actor, strays);
        if (mail) {
            mail->fresh = true;
        }
    }
    /* Nothing kept: earlier messages are counted but not pushed yet, and their senders drop the
     * excess. */
    *oldest = pop_excess_locked(actor);
}

void weft__mailbox_shed(weft_actor *actor, weft_pid self)
{
    struct weft__letter *oldest = NULL;
    struct weft__link *strays = NULL;
    weft__lock(&actor->lock);
    uint64_t gate = atomic_load_explicit(&actor->gate, memory_order_relaxed);
    /* The actor has not ended, nor changed to a policy under which its messages are its own. */
    if (weft__gate_generation(gate) == weft__pid_generation(self) &&
        weft__mailbox_is_shared(actor)) {
        shed_locked(actor, &strays, &oldest);
    }
    weft__unlock(&actor->lock);
    if (strays) {
        weft__letters_bury(strays, (uint32_t)self.id);
    }
    if (oldest) {
        weft__letter_bury(oldest, (uint32_t)self.id);
    }
}

void weft__mailbox_sift(weft_actor *actor)
{
    struct weft__link *strays = NULL;
    actor->kept = sift(actor, actor->kept, &strays);
    bury(actor, strays);
}

/* --- checks ----------------------------------------------------------------------------------- */

static bool traps(const weft_actor *actor)
{
    return atomic_load_explicit(&actor->trap, memory_order_relaxed);
}

bool weft__letter_is_fatal(const weft_actor *actor, const struct weft__letter *letter)
{
    return letter->kind == WEFT__LETTER_KILL ||
           (letter->kind == WEFT_EVENT_EXIT && letter->error && !traps(actor));
}

/* A normal exit signal that the actor does not trap. */
static bool is_nothing(const weft_actor *actor, const struct weft__letter *letter)
{
    return letter->kind == WEFT_EVENT_EXIT && !letter->error && !traps(actor);
}

bool weft__mailbox_any_kept(weft_actor *actor)
{
    weft__lock(&actor->lock);
    bool any = actor->kept != NULL;
    weft__unlock(&actor->lock);
    return any;
}

bool weft__mailbox_news(weft_actor *actor)
{
    if (!weft__inbox_empty(&actor->system)) {
        return true;
    }
    lock_kept(actor);
    bool any = !weft__inbox_empty(&actor->user) || weft__mail_of(actor)->fresh;
    unlock_kept(actor);
    return any;
}

/* --- taking envelopes out --------------------------------------------------------------------- */

struct weft__letter *weft__mailbox_next(weft_actor *actor)
{
    while (actor->urgent || (actor->urgent = weft__inbox_drain_local(&actor->system))) {
        struct weft__letter *letter = (struct weft__letter *)(void *)actor->urgent;
        actor->urgent = actor->urgent->next;
        if (weft__letter_is_stray(actor, letter)) {
            weft__letter_bury(letter, (uint32_t)actor->self);
        } else if (is_nothing(actor, letter)) {
            weft__letter_free(letter);
        } else if (letter->kind == WEFT__LETTER_STATS) {
            weft__actor_tell_stats(actor, letter);
        } else {
            return letter;
        }
    }
    return NULL;
}

/* With WEFT_MAILBOX_DROP, when senders remove kept messages: under the lock. */
static __attribute__((noinline)) size_t take_shared(weft_actor *actor, struct weft__letter **out,
                                                    size_t max)
{
    struct weft__link *strays = NULL;
    size_t n = 0;
    weft__lock(&actor->lock);
    if (!actor->kept) {
        actor->kept = drain(actor, &strays);
    }
    while (actor->kept && n < max) {
        out[n++] = pop(actor);
    }
    leave_shared(actor, n);
    weft__unlock(&actor->lock);
    bury(actor, strays);
    return n;
}

/* One traversal, over the kept messages or over the drained inbox. So stale envelopes may be among
 * the kept ones until their turn comes. */
size_t weft__mailbox_take(weft_actor *actor, struct weft__letter **out, size_t max)
{
    if (__builtin_expect(weft__mailbox_is_shared(actor), 0)) {
        return take_shared(actor, out, max);
    }
    struct weft__link *link = actor->kept ? actor->kept : weft__inbox_drain_local(&actor->user);
    struct weft__link *strays = NULL;
    size_t n = 0;
    while (link && n < max) {
        struct weft__letter *letter = (struct weft__letter *)(void *)link;
        link = link->next;
        if (__builtin_expect(weft__letter_is_stray(actor, letter), 0)) {
            letter->link.next = strays;
            strays = &letter->link;
        } else {
            out[n++] = letter;
        }
    }
    actor->kept = link;
    if (n) {
        weft__gate_leave_some(actor, n);
    }
    bury(actor, strays);
    return n;
}

static struct weft__link **search(struct weft__link **at, weft__letter_fn wanted, const void *arg)
{
    while (*at && !wanted((struct weft__letter *)(void *)*at, arg)) {
        at = &(*at)->next;
    }
    return at;
}

/* Remove a match from the list, or from the newly arrived envelopes, which are appended to the
 * list. */
static struct weft__link *take_out(struct weft__link **at, struct weft__link *more,
                                   weft__letter_fn wanted, const void *arg,
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
static struct weft__link *find_shared(weft_actor *actor, weft__letter_fn wanted, const void *arg)
{
    struct weft__mail *mail = weft__mail_of(actor);
    struct weft__link *all, *more, *found, **from;
    struct weft__link *strays = NULL, *excess = NULL, **excess_last = &excess;
    struct weft__letter *oldest;
    weft__lock(&actor->lock);
    all = actor->kept;
    more = drain(actor, &strays);
    actor->kept = NULL;
    mail->in_hand = true;
    mail->fresh = false;
    weft__unlock(&actor->lock);
    bury(actor, strays);

    found = take_out(&all, more, wanted, arg, &from);

    weft__lock(&actor->lock);
    actor->kept = all;
    mail->in_hand = false;
    leave_shared(actor, found != NULL);
    while ((oldest = pop_excess_locked(actor))) {
        oldest->link.next = NULL;
        *excess_last = &oldest->link;
        excess_last = &oldest->link.next;
    }
    weft__unlock(&actor->lock);
    bury(actor, excess);
    return found;
}

static struct weft__link *find_own(weft_actor *actor, weft__letter_fn wanted, const void *arg,
                                   struct weft__link ***from)
{
    struct weft__link *strays = NULL, *more = drain(actor, &strays);
    bury(actor, strays);
    struct weft__link *found = take_out(*from ? *from : &actor->kept, more, wanted, arg, from);
    if (found) {
        weft__gate_leave(actor, 1);
    }
    return found;
}

struct weft__letter *weft__mailbox_find(weft_actor *actor, weft__letter_fn wanted, const void *arg,
                                        struct weft__link ***from)
{
    struct weft__link *found = weft__mailbox_is_shared(actor) ? find_shared(actor, wanted, arg)
                                                              : find_own(actor, wanted, arg, from);
    return (struct weft__letter *)(void *)found;
}
