/* Relations of actors: how an end is told to others.
 *
 * An actor ends with a reason: 0, which is a normal end, or a negative errno, and maybe a buffer
 * that says more. Who has a relation to it is told, exactly once, whatever the end was and however
 * short memory is: a relation has the letter that will tell of it from the beginning.
 *
 *   relation   made by           when the other ends
 *   link       both, for both    normally: nothing, or an event for one that traps
 *                                else: this one ends by the same reason, or has an event if it
 * traps monitor    one, for itself   an event, WEFT_EVENT_DOWN, with the monitor's reference
 *
 * Then the relation is gone.
 *
 * Such events come before messages that wait, also before those that the other sent while it lived.
 * The calls that take `self` are made by that actor: in its init, its step or its run, or its
 * close.
 */
#ifndef WEFT_RELATION_H
#define WEFT_RELATION_H

#include <weft/actor.h>

WEFT_BEGIN_DECLS

/* --- ending ------------------------------------------------------------------------------- */

/* From a step: it ends by this reason, with `text` or NULL, which is taken. -ENOMEM: it ends by it,
 * without the text. */
WEFT_API int weft_out_exit(weft_out *out, int reason, weft_buf *text);

/* Tells an actor to end by this reason, as if it were linked to one that did: with 0, nothing
 * happens unless it traps; with an errno it ends, or has an event WEFT_EVENT_EXIT if it traps.
 * `text` is taken, also on an error. Any thread. -EINVAL: the reason is positive. -ESRCH, -ENOMEM.
 * -EREMOTE: it is of another node. (What cannot be trapped is weft_actor_kill.) */
WEFT_API int weft_actor_exit(weft_pid pid, int reason, weft_buf *text);

/* Whether ends of those it is linked to are events; also `trap` of the kind. Holds for what is not
 * yet in a step; for a fiber actor, which is cancelled at once by what it does not trap, for what
 * comes from now on. */
WEFT_API void weft_actor_trap(weft_actor *self, bool trap);

/* --- links ---------------------------------------------------------------------------------- */

/* There is at most one between two actors: linking twice is linking once. -ESRCH: the other has
 * ended, and nothing happens. -EINVAL: itself. -EREMOTE: it is of another node. -ENOMEM. */
WEFT_API int weft_actor_link(weft_actor *self, weft_pid other);
/* From now on the link has no effect on the caller, unless this very step was given its event, or
 * the caller is a fiber actor that does not trap, and the other's end came first. 0 if there was
 * none, too. */
WEFT_API int weft_actor_unlink(weft_actor *self, weft_pid other);

/* --- monitors --------------------------------------------------------------------------------- */

/* *ref, which is never 0, is the tag of the event that will come: its `from` has ended by `error`
 * (0: normally), `reason` says more or is NULL. There may be many for one pair, each with its own.
 * If the other has ended before, the event comes at once, with -ESRCH. -EINVAL: itself. -EREMOTE:
 * it is of another node. -ENOMEM. */
WEFT_API int weft_actor_monitor(weft_actor *self, weft_pid other, uint64_t *ref);
/* Its event does not come any more, also if it was on its way. -ENOENT: a step was given it, or
 * there is no such monitor. */
WEFT_API int weft_actor_demonitor(weft_actor *self, uint64_t ref);

/* --- starting in a relation ------------------------------------------------------------------- */

struct weft_actor_spawn_opts {
    const char *method;
    const weft_buf *input; /* borrowed */
    /* Who spawns, its parent; NULL: the actor that runs here. These two need one; the relation is
     * there before the new actor's first step. */
    weft_actor *self;
    bool link;
    uint64_t *monitor; /* where its reference goes */
    /* A name in the host (<weft/names.h>). If another has it already, there is no new actor and no
     * relation: the message is for that one. */
    const char *name;
    /* The first message, if there is a topic. */
    const char *topic;
    uint64_t tag;
    weft_buf *message; /* taken, also on an error */
};
/* 0, or 1: there was one with the name, *out. What weft_actor_spawn answers. -EINVAL: a relation
 * without `self`, or a bad name. What weft_actor_send answers, of the message to one that was
 * there. */
WEFT_API int weft_actor_spawn_with(weft_host *host, weft_pid *out,
                                   const struct weft_actor_kind *kind,
                                   const struct weft_actor_spawn_opts *opts);

/* Starts an actor and waits for its end, in a fiber or a plain thread: what weft_actor_spawn and
 * then weft_actor_join answer, except that the end cannot be missed. An actor whose caller stops
 * waiting (-ETIMEDOUT, -ECANCELED, -EINTR) is killed. */
WEFT_API int weft_actor_exec(weft_host *host, const struct weft_actor_kind *kind,
                             const char *method, const weft_buf *input, weft_buf **result,
                             int64_t deadline);

/* --- new code --------------------------------------------------------------------------------- */

/* Makes the state of the new kind, which is zeroed, out of the old one. What it moves it takes out
 * of the old: that is closed afterwards. An error: it has undone what it did, and the old one is as
 * it was. */
typedef int (*weft_upgrade_fn)(weft_actor *self, void *old_state, void *new_state);

/* From a step: after it (and its commands) the actor goes on as this kind. PID, mailbox, relations,
 * names and commands under way stay. Its next step has an event WEFT_EVENT_UPGRADE with `error` 0,
 * and is the new kind's; or with an error, and is the old kind's, with the old state. Each state is
 * closed exactly once, by its own kind: the old one after `convert`, on a success. `convert` NULL:
 * the state is kept as it is, which needs the same state_bytes (-EINVAL in the event). -ENOMEM:
 * nothing was asked for.
 *
 * Calls that are in the mailbox are the new kind's. Those that the old kind has seen and not yet
 * answered belong to the state. If it is kept as it is, they are, too. The new state of a `convert`
 * takes over those for which `convert` calls weft_actor_call_transfer(call, weft_actor_pid(self));
 * the callers of the others have -EOWNERDEAD, unless the old state's close answers them. */
WEFT_API int weft_out_upgrade(weft_out *out, const struct weft_actor_kind *kind,
                              weft_upgrade_fn convert);

WEFT_END_DECLS
#endif
