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
#ifndef WEFT_RELATION_RELATION_H
#define WEFT_RELATION_RELATION_H

#include "actor/actor.h"

enum weft__relation_kind {
    WEFT__RELATION_JOIN,
    WEFT__RELATION_LINK,
    WEFT__RELATION_MONITORING,
    WEFT__RELATION_MONITORED,
    WEFT__RELATION_NAME,
    WEFT__RELATION_GROUP,
};

struct weft__relation {
    struct weft__relation *next, **back; /* back NULL: not in a list */
    uint8_t kind;
    uint8_t side; /* in a pair relation: 0 or 1 */
};

struct weft__join {
    struct weft__relation relation; /* first: cast from it */
    struct weft__node node;
};

struct weft__pair_relation {
    struct weft__relation ends[2]; /* first; ends[i] is in the list of pids[i] */
    weft_pid pids[2];
    uint64_t ref; /* of a monitor; 0: a link */
    struct weft__envelope
        *envelopes[2]; /* sent to pids[i] when the other exits; NULL: not notified */
};

static inline void weft__relation_add(struct weft__relation **list, struct weft__relation *relation)
{
    relation->next = *list;
    relation->back = list;
    if (relation->next) {
        relation->next->back = &relation->next;
    }
    *list = relation;
}

static inline void weft__relation_remove(struct weft__relation *relation)
{
    *relation->back = relation->next;
    if (relation->next) {
        relation->next->back = relation->back;
    }
    relation->back = NULL;
}

static inline struct weft__pair_relation *weft__relation_pair(struct weft__relation *relation)
{
    return (struct weft__pair_relation *)(void *)(relation - relation->side);
}

static inline bool weft__relation_is_pair(const struct weft__relation *relation)
{
    return relation->kind >= WEFT__RELATION_LINK && relation->kind <= WEFT__RELATION_MONITORED;
}

static inline weft_pid weft__relation_other_pid(struct weft__relation *relation)
{
    return weft__relation_pair(relation)->pids[1 - relation->side];
}

/* Lock both actors, the lower slot first. They are not the same. */
void weft__actor_pair_lock(weft_pid a, weft_pid b);
void weft__actor_pair_unlock(weft_pid a, weft_pid b);

/* Create a pair relation that is in no list, with its envelopes. `ref` 0: a link; else b monitors
 * a. NULL: no memory. */
struct weft__pair_relation *weft__pair_relation_new(weft_pid a, weft_pid b, uint64_t ref);
/* Free a pair relation that is in no list. NULL is fine. */
void weft__pair_relation_free(struct weft__pair_relation *pair);
/* Insert into both lists, remove from both lists. Under both locks. */
void weft__pair_relation_add(struct weft__pair_relation *pair);
void weft__pair_relation_remove(struct weft__pair_relation *pair);
/* A new monitor reference; the slot of the monitored actor that it contains. */
uint64_t weft__monitor_ref(weft_pid monitored);
uint32_t weft__monitor_slot(uint64_t ref);

/* Like weft_actor_monitor, but the notification is the completion of a command. */
int weft__monitor_command(weft_actor *self, weft_pid other, uint64_t tag);

/* Remove every relation of an exiting actor whose admission is closed, and notify the other sides.
 * Takes the result of `end`; end NULL: nothing is notified. */
void weft__relations_remove_all(weft_actor *actor, struct weft__end *end);

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
int weft__name_publish_locked(weft_actor *actor, struct weft__name *name, uint64_t admission);
/* The oldest of the actor's names, truncated if necessary; "" if it has none. */
void weft__name_first_locked(const weft_actor *actor, char *text, size_t size);
/* Remove a name or a membership from its table and free it; the relation is in no list any more. */
void weft__name_release(struct weft__relation *relation);
void weft__group_release(struct weft__relation *relation);

/* Add a waiter. Under the actor's lock. */
static inline void weft__join_add(weft_actor *actor, struct weft__join *join)
{
    join->relation.kind = WEFT__RELATION_JOIN;
    weft__relation_add(&actor->relations, &join->relation);
}
/* Wait as weft_actor_join does. */
int weft__join_wait(weft_actor *actor, struct weft__join *join, struct weft__waiter *waiter,
                    weft_buf **result, int64_t deadline);

#endif
