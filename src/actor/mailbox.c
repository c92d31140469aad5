/* The mailbox of an actor, as the actor sees it.
 *
 * Two inboxes that anybody fills; what was taken out of them and not yet seen is kept in their order, messages apart from
 * the rest. All of it is the actor's own, without a lock. But with WEFT_MAILBOX_DROP senders take out the oldest message, so there the
 * kept ones, and emptying the inbox of messages, are under the actor's lock.
 *
 * A search asks the user's code about each message, which is not done under a lock. So if they are shared they are taken in hand
 * meanwhile (`kept_last` NULL): a sender that should drop one leaves that to the one who searches. And what a sender has moved to
 * the kept ones the search has not seen: that is told by `fresh`.
 */
#include <errno.h>

#include "actor/fiber.h"

/* A letter for another incarnation of the slot: nobody will read it. */
static bool is_stray(const weft_actor *actor, const struct weft__letter *letter)
{
    return letter->generation != (uint32_t)(actor->self >> 32) + 1;
}

/* Takes messages out of the inbox. Answers those that are not for it, which are to be buried, without the lock. */
static struct weft__link *keep(weft_actor *actor)
{
    struct weft__link *items = weft__inbox_drain_local(&actor->user);
    struct weft__link *strays = NULL, **last_stray = &strays;
    while (items) {
        struct weft__link *next = items->next;
        bool stray = is_stray(actor, (struct weft__letter *)(void *)items);
        struct weft__link ***last = stray ? &last_stray : &actor->kept_last;
        items->next = NULL;
        **last = items;
        *last = &items->next;
        items = next;
    }
    return strays;
}

static void bury(const weft_actor *actor, struct weft__link *letters)
{
    if (letters) {
        weft__letters_bury(letters, (uint32_t)actor->self);
    }
}

static void unlink_at(weft_actor *actor, struct weft__link **at)
{
    *at = (*at)->next;
    if (!*at) {
        actor->kept_last = at;
    }
}

static struct weft__letter *pop(weft_actor *actor)
{
    struct weft__letter *letter = (struct weft__letter *)(void *)actor->kept;
    unlink_at(actor, &actor->kept);
    return letter;
}

/* --- sharing with senders ------------------------------------------------------------------ */

static bool is_shared(const weft_actor *actor)
{
    return atomic_load_explicit(&actor->limit, memory_order_relaxed) >> WEFT__LIMIT_SHIFT ==
           WEFT_MAILBOX_DROP;
}

static void lock_kept(weft_actor *actor)
{
    if (is_shared(actor)) {
        weft__lock(&actor->lock);
    }
}

static void unlock_kept(weft_actor *actor)
{
    if (is_shared(actor)) {
        weft__unlock(&actor->lock);
    }
}

/* The oldest, if there are too many; under the lock. */
static struct weft__letter *pop_excess_locked(weft_actor *actor)
{
    uint64_t gate = atomic_load_explicit(&actor->gate, memory_order_relaxed);
    uint32_t limit = atomic_load_explicit(&actor->limit, memory_order_relaxed) & WEFT__LIMIT_MOST;
    if (weft__gate_count(gate) <= limit || !actor->kept) {
        return NULL;
    }
    struct weft__letter *oldest = pop(actor);
    oldest->error = -ENOBUFS;
    atomic_fetch_sub_explicit(&actor->gate, 1, memory_order_relaxed);
    return oldest;
}

void weft__mailbox_shed(weft_actor *actor, weft_pid self)
{
    struct weft__letter *oldest = NULL;
    struct weft__link *strays = NULL;
    weft__lock(&actor->lock);
    uint64_t gate = atomic_load_explicit(&actor->gate, memory_order_relaxed);
    /* It may have ended, or have them in hand. */
    if (weft__gate_generation(gate) == weft__pid_generation(self) && actor->kept_last) {
        strays = keep(actor);
        /* None there: those in front of it are not pushed yet, and will shed themselves. */
        oldest = pop_excess_locked(actor);
        if (actor->kind->run) {
            weft__mail_of(actor)->fresh = true;
        }
    }
    weft__unlock(&actor->lock);
    if (strays) {
        weft__letters_bury(strays, (uint32_t)self.id);
    }
    if (oldest) {
        weft__letter_bury(oldest, (uint32_t)self.id);
    }
}

/* --- what there is ----------------------------------------------------------------------------- */

struct weft_actor_event weft__letter_event(const struct weft__letter *letter)
{
    bool ends = letter->kind == WEFT_EVENT_EXIT || letter->kind == WEFT_EVENT_DOWN;
    return (struct weft_actor_event){
        .kind = (enum weft_actor_event_kind)letter->kind,
        .error = letter->error,
        .tag = letter->tag,
        .from = {.node = letter->from_node, .host = letter->from_host, .id = letter->from_id},
        .topic = ends ? NULL : letter->topic,
        .buf = letter->buf,
        .reason = ends && letter->will ? letter->will->text : NULL,
        .trace = letter->trace,
    };
}

static bool traps(const weft_actor *actor)
{
    return atomic_load_explicit(&actor->trap, memory_order_relaxed);
}

bool weft__letter_is_fatal(const weft_actor *actor, const struct weft__letter *letter)
{
    return letter->kind == WEFT__LETTER_KILL ||
           (letter->kind == WEFT_EVENT_EXIT && letter->error && !traps(actor));
}

/* Of a normal end that it does not trap. */
static bool is_nothing(const weft_actor *actor, const struct weft__letter *letter)
{
    return letter->kind == WEFT_EVENT_EXIT && !letter->error && !traps(actor);
}

bool weft__mailbox_any(weft_actor *actor, bool blocked)
{
    if (actor->urgent || !weft__inbox_empty(&actor->system)) {
        return true;
    }
    if (blocked) {
        return false;
    }
    lock_kept(actor);
    bool any = actor->kept || !weft__inbox_empty(&actor->user);
    unlock_kept(actor);
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

/* --- taking it out ------------------------------------------------------------------------------ */

struct weft__letter *weft__mailbox_next(weft_actor *actor)
{
    while (actor->urgent || (actor->urgent = weft__inbox_drain_local(&actor->system))) {
        struct weft__letter *letter = (struct weft__letter *)(void *)actor->urgent;
        actor->urgent = actor->urgent->next;
        if (is_stray(actor, letter)) {
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

size_t weft__mailbox_take(weft_actor *actor, struct weft__letter **out, size_t max)
{
    struct weft__link *strays = NULL;
    size_t n = 0;
    lock_kept(actor);
    if (!actor->kept) {
        strays = keep(actor);
    }
    while (actor->kept && n < max) {
        out[n++] = pop(actor);
    }
    if (n) {
        weft__gate_leave(actor, n);
    }
    unlock_kept(actor);
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

/* Takes them in hand. */
static struct weft__link *find_shared(weft_actor *actor, weft__letter_fn wanted, const void *arg)
{
    struct weft__link *all, *strays, *found, *excess = NULL, **excess_last = &excess;
    struct weft__letter *oldest;
    weft__lock(&actor->lock);
    strays = keep(actor);
    struct weft__link **last = actor->kept ? actor->kept_last : &all;
    all = actor->kept;
    actor->kept = NULL;
    actor->kept_last = NULL;
    weft__mail_of(actor)->fresh = false;
    weft__unlock(&actor->lock);
    bury(actor, strays);

    struct weft__link **at = search(&all, wanted, arg);
    found = *at;
    if (found) {
        *at = found->next;
        last = *at ? last : at;
    }

    weft__lock(&actor->lock);
    actor->kept = all;
    actor->kept_last = all ? last : &actor->kept;
    if (found) {
        weft__gate_leave(actor, 1);
    }
    while ((oldest = pop_excess_locked(actor))) {
        oldest->link.next = NULL;
        *excess_last = &oldest->link;
        excess_last = &oldest->link.next;
    }
    weft__unlock(&actor->lock);
    bury(actor, excess);
    return found;
}

struct weft__letter *weft__mailbox_find(weft_actor *actor, weft__letter_fn wanted, const void *arg,
                                        struct weft__link ***from)
{
    if (is_shared(actor)) {
        return (struct weft__letter *)(void *)find_shared(actor, wanted, arg);
    }
    bury(actor, keep(actor));
    struct weft__link **at = search(*from ? *from : &actor->kept, wanted, arg), *found = *at;
    if (found) {
        unlink_at(actor, at);
        weft__gate_leave(actor, 1);
    } else {
        *from = at;
    }
    return (struct weft__letter *)(void *)found;
}
