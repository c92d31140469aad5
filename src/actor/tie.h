/* Ties: what an actor is bound to, and must be unbound from when it ends. They are in one list of
 * the actor, under its lock:
 *
 *   JOIN             somebody waits for its end; the tie is on the waiter's stack
 *   LINK             one end of a bond, the other is in the other's list
 *   WATCHES/WATCHED  the two ends of a bond that is a monitor
 *   NAME, GROUP      what a table of the host has about it
 *
 * A bond is in both lists or in none: it is put in and taken out under both locks. Of two actors
 * the one with the lower slot is locked first, and a table's lock after an actor's; so there is no
 * circle to wait in.
 *
 * Exactly once. A bond is made with the letters that will tell of an end, in both lists and only
 * while both actors are there: an actor shuts its gate under its lock, and who binds looks at the
 * gate under that lock. So an actor that has shut its gate gets no more ties, and takes out one
 * after another until there is none. Who takes a bond out, under both locks, is the only one who
 * has it: an end that pushes its letter, the other's end, or an unlink that frees it. The letter is
 * pushed before the other's lock is let go. So either an unlink finds the bond, and no letter was
 * or will be pushed; or the letter is in its inbox, and it takes it out of there. And an actor that
 * ends has its inboxes emptied after its ties are gone, so a letter for it is not left behind. No
 * end needs memory.
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
    struct weft__tie *next, **back; /* back NULL: in no list */
    uint8_t kind;
    uint8_t side; /* of a bond: which end */
};

struct weft__join {
    struct weft__tie tie; /* first */
    struct weft__node node;
};

struct weft__bond {
    struct weft__tie ends[2]; /* first; end i is in the list of pids[i] */
    weft_pid pids[2];
    uint64_t ref;                    /* of a monitor; 0: a link */
    struct weft__letter *letters[2]; /* for pids[i], when the other ends; NULL: it is not told */
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

/* Both actors, the lower slot first. They are not the same. */
void weft__pair_lock(weft_pid a, weft_pid b);
void weft__pair_unlock(weft_pid a, weft_pid b);

/* A bond in no list, with its letters. `ref` 0: a link; else b watches a. NULL: no memory. */
struct weft__bond *weft__bond_new(weft_pid a, weft_pid b, uint64_t ref);
/* In no list. NULL is fine. */
void weft__bond_free(struct weft__bond *bond);
/* Under both locks. */
void weft__bond_tie(struct weft__bond *bond);
void weft__bond_untie(struct weft__bond *bond);
/* A new one, and whose it is. */
uint64_t weft__monitor_ref(weft_pid watched);
uint32_t weft__monitor_slot(uint64_t ref);

/* As weft_actor_monitor, but what tells of the end is the completion of a command. */
int weft__monitor_command(weft_actor *self, weft_pid other, uint64_t tag);

/* The end of an actor whose gate is shut: all ties go, who is to hear of it hears. Takes the
 * result; NULL: nobody hears. */
void weft__ties_cut(weft_actor *actor, struct weft__end *end);

/* Kills one that the actor is linked to, as weft_actor_kill does, with the link's letter: it needs
 * no memory. The link is gone then. */
void weft__link_kill(weft_actor *actor, weft_pid other);

struct weft__name;
/* NULL: *err, -EINVAL or -ENOMEM. */
struct weft__name *weft__name_new(weft_host *host, const char *text, weft_pid pid, int *err);
/* That is in no table. NULL is fine. */
void weft__name_free(struct weft__name *name);
/* Opens the actor's gate, and gives it the name at the same moment, or NULL: none. -EEXIST:
 * neither. Under the actor's lock. */
int weft__name_show_locked(weft_actor *actor, struct weft__name *name, uint64_t gate);
/* The name it had first of those it has, cut if need be; "" if none. */
void weft__name_first_locked(const weft_actor *actor, char *text, size_t size);
/* Out of the tables; the tie is in no list any more. */
void weft__name_cut(struct weft__tie *tie);
void weft__group_cut(struct weft__tie *tie);

/* Adds a place for one who waits. Under the actor's lock. */
static inline void weft__join_add(weft_actor *actor, struct weft__join *join)
{
    join->tie.kind = WEFT__TIE_JOIN;
    weft__tie_add(&actor->ties, &join->tie);
}
/* Waits, as weft_actor_join. */
int weft__join_wait(weft_actor *actor, struct weft__join *join, struct weft__waiter *waiter,
                    weft_buf **result, int64_t deadline);

#endif
