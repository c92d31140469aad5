/* Relations: everything that must be undone or notified when an actor exits. Each actor has one
 * list of relations, under its lock:
 *
 *   JOIN                   a caller waits for the exit; the relation is on the waiter's stack
 *   LINK                   one side of a link; the other side is in the other actor's list
 *   MONITORING, MONITORED  the two sides of a monitor: the monitoring and the monitored actor
 *   NAME, GROUP            an entry in a table of the host that refers to the actor
 *
 * A link or monitor is a pair relation: it is in the lists of both actors or in neither, because it
 * is inserted and removed under both locks. Of two actors the one with the lower slot is locked
 * first, and the lock of a host's table after the lock of an actor, so that there is no lock cycle.
 *
 * Exactly once. A pair relation is created together with the envelopes that notify of an exit, and
 * is inserted only while both actors accept relations: an exiting actor closes its mailbox
 * admission under its lock, and an inserting thread checks the admission word under that lock. So
 * an actor that has closed its admission gets no more relations, and removes one after another
 * until the list is empty. The thread that removes a pair relation, under both locks, is the only
 * one that has it: the exit that pushes its envelope, the other actor's exit, or an unlink that
 * frees it. The envelope is pushed before the other actor's lock is released. So either an unlink
 * finds the pair relation, and no envelope was or is going to be pushed; or the envelope is in the
 * caller's inbox, and the unlink takes it out of there. And the inboxes of an exiting actor are
 * drained after its relations are gone, so no envelope for it is left behind. No exit needs memory.
 */
#ifndef WEFT_ACTOR_TIE_H
#define WEFT_ACTOR_TIE_H

#include "actor/actor.h"

enum weft__tie_kind {
    WEFT__TIE_JOIN,
    WEFT__TIE_LINK,
    WEFT__TIE_WATCHES,
    WEFT__TIE_WATCHED,
    WEFT__TIE_NAME,
    WEFT__TIE_GROUP,
};

struct weft__tie {
    struct weft__tie *next, **back; /* back NULL: not in a list */
    uint8_t kind;
    uint8_t side; /* in a pair relation: 0 or 1 */
};

struct weft__join {
    struct weft__tie tie; /* first: cast from it */
    struct weft__node node;
};

struct weft__bond {
    struct weft__tie ends[2]; /* first; ends[i] is in the list of pids[i] */
    weft_pid pids[2];
    uint64_t ref;                    /* of a monitor; 0: a link */
    struct weft__letter *letters[2]; /* sent to pids[i] when the other exits; NULL: not notified */
};

static inline void weft__tie_add(struct weft__tie **list, struct weft__tie *tie)
{
    tie->next = *list;
    tie->back = list;
    if (tie->next) {
        tie->next->back = &tie->next;
    }
    *list = tie;
}

static inline void weft__tie_remove(struct weft__tie *tie)
{
    *tie->back = tie->next;
    if (tie->next) {
        tie->next->back = tie->back;
    }
    tie->back = NULL;
}

static inline struct weft__bond *weft__tie_bond(struct weft__tie *tie)
{
    return (struct weft__bond *)(void *)(tie - tie->side);
}

static inline bool weft__tie_is_bond(const struct weft__tie *tie)
{
    return tie->kind >= WEFT__TIE_LINK && tie->kind <= WEFT__TIE_WATCHED;
}

static inline weft_pid weft__tie_other(struct weft__tie *tie)
{
    return weft__tie_bond(tie)->pids[1 - tie->side];
}

/* Lock both actors, the lower slot first. They are not the same. */
void weft__pair_lock(weft_pid a, weft_pid b);
void weft__pair_unlock(weft_pid a, weft_pid b);

/* Create a pair relation that is in no list, with its envelopes. `ref` 0: a link; else b monitors
 * a. NULL: no memory. */
struct weft__bond *weft__bond_new(weft_pid a, weft_pid b, uint64_t ref);
/* Free a pair relation that is in no list. NULL is fine. */
void weft__bond_free(struct weft__bond *bond);
/* Insert into both lists, remove from both lists. Under both locks. */
void weft__bond_tie(struct weft__bond *bond);
void weft__bond_untie(struct weft__bond *bond);
/* A new monitor reference; the slot of the monitored actor that it contains. */
uint64_t weft__monitor_ref(weft_pid watched);
uint32_t weft__monitor_slot(uint64_t ref);

/* Like weft_actor_monitor, but the notification is the completion of a command. */
int weft__monitor_command(weft_actor *self, weft_pid other, uint64_t tag);

/* Remove every relation of an exiting actor whose admission is closed, and notify the other sides.
 * Takes the result of `end`; end NULL: nothing is notified. */
void weft__ties_cut(weft_actor *actor, struct weft__end *end);

/* Kill a linked actor, as weft_actor_kill does, with the link's envelope: needs no memory. The link
 * is removed. */
void weft__link_kill(weft_actor *actor, weft_pid other);

struct weft__name;
/* NULL: *err is -EINVAL or -ENOMEM. */
struct weft__name *weft__name_new(weft_host *host, const char *text, weft_pid pid, int *err);
/* Free a name that is in no table. NULL is fine. */
void weft__name_free(struct weft__name *name);
/* Open the actor's mailbox admission and register its name (NULL: none) at the same moment.
 * -EEXIST: the name is taken, and neither was done. Under the actor's lock. */
int weft__name_show_locked(weft_actor *actor, struct weft__name *name, uint64_t gate);
/* The oldest of the actor's names, truncated if necessary; "" if it has none. */
void weft__name_first_locked(const weft_actor *actor, char *text, size_t size);
/* Remove a name or a membership from its table and free it; the relation is in no list any more. */
void weft__name_cut(struct weft__tie *tie);
void weft__group_cut(struct weft__tie *tie);

/* Add a waiter. Under the actor's lock. */
static inline void weft__join_add(weft_actor *actor, struct weft__join *join)
{
    join->tie.kind = WEFT__TIE_JOIN;
    weft__tie_add(&actor->ties, &join->tie);
}
/* Wait as weft_actor_join does. */
int weft__join_wait(weft_actor *actor, struct weft__join *join, struct weft__waiter *waiter,
                    weft_buf **result, int64_t deadline);

#endif
