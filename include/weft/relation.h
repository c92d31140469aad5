/* Links and monitors: how the exit of an actor reaches other actors. Exit, links, monitors,
 * spawning with a relation, and code upgrade.
 *
 * An actor exits with a reason: 0, which is a normal exit, or a negative errno, optionally with a
 * buffer that says more. Every actor that has a relation to it is notified exactly once, whatever
 * the cause of the exit was and however short memory is: the envelope of the notification is
 * allocated together with the relation.
 *
 *   relation   direction          when the other actor exits
 *   link       both ways          normally: nothing, or WEFT_EVENT_EXIT if this actor traps
 *                                 with an error: this actor exits with the same reason, or gets
 *                                 WEFT_EVENT_EXIT if it traps
 *   monitor    one way            an event WEFT_EVENT_DOWN with the monitor's reference
 *
 * After that the relation is gone.
 *
 * These events are delivered before waiting messages, also before messages that the other actor
 * sent while it lived. The calls that take `self` are made by that actor: in its init, its step or
 * its run, or its close.
 */
#ifndef WEFT_RELATION_H
#define WEFT_RELATION_H

#include <weft/actor.h>

WEFT_BEGIN_DECLS

/* --- exit ------------------------------------------------------------------------------------- */

/* Exit after this step with a reason: 0 or a negative errno (a positive reason stops the program).
 * `text` says more, or is NULL; it is taken, also on an error.
 *
 * Returns 0; -ENOMEM: the actor exits with the reason, but without the text.
 * Context: a step, with its own `out`; does not wait. */
WEFT_API int weft_out_exit(weft_out *out, int reason, weft_buf *text);

/* Send an actor an exit signal, as if it were linked to an actor that exits with this reason. With
 * 0 nothing happens unless the actor traps exits; with a negative errno the actor exits with that
 * reason, or gets an event WEFT_EVENT_EXIT if it traps. (The signal that cannot be trapped is
 * weft_actor_kill.) `text` says more, or is NULL; it is taken, also on an error.
 *
 * Returns 0; -EINVAL if the reason is positive; -ESRCH if the actor has ended; -EREMOTE if it is on
 * another node; -ENOMEM.
 * Context: any thread; does not wait. */
WEFT_API int weft_actor_exit(weft_pid pid, int reason, weft_buf *text);

/* Choose whether exits of linked actors, and exit signals, are events for this actor (trap) or end
 * it. The initial value is `trap` of the actor's kind.
 *
 * For a step actor the change applies to every signal that no step has been given yet. A fiber
 * actor is cancelled immediately by a signal that it does not trap, so for it the change applies to
 * signals that arrive from now on.
 * Context: the actor itself; does not wait. */
WEFT_API void weft_actor_trap(weft_actor *self, bool trap);

/* --- links ------------------------------------------------------------------------------------ */

/* Link this actor to another one. Two actors have at most one link: linking twice is the same as
 * linking once.
 *
 * Returns 0; -ESRCH if the other actor has ended, and then nothing happens; -EINVAL for the actor
 * itself; -EREMOTE if the other actor is on another node; -ENOMEM.
 * Context: the actor itself; does not wait. */
WEFT_API int weft_actor_link(weft_actor *self, weft_pid other);
/* Remove the link to another actor. From now on the link has no effect on the caller, with two
 * exceptions: the event of the other's exit was given to this very step; or the caller is a fiber
 * actor that does not trap, and the other actor exited first.
 *
 * Returns 0, also if there was no link.
 * Context: the actor itself; does not wait. */
WEFT_API int weft_actor_unlink(weft_actor *self, weft_pid other);

/* --- monitors --------------------------------------------------------------------------------- */

/* Monitor another actor. When it exits this actor gets an event WEFT_EVENT_DOWN whose tag is *ref,
 * which is never 0: its `from` has ended with `error` (0: normally), and `reason` says more or is
 * NULL. An actor may have many monitors on one other actor, each with its own reference. If the
 * other actor has ended already, the event is delivered immediately, with -ESRCH.
 *
 * Returns 0; -EINVAL for the actor itself; -EREMOTE if the other actor is on another node; -ENOMEM.
 * Context: the actor itself; does not wait. */
WEFT_API int weft_actor_monitor(weft_actor *self, weft_pid other, uint64_t *ref);
/* Remove a monitor. Its event is not delivered any more, even if it was already on its way.
 *
 * Returns 0; -ENOENT if a step was given the event already, or there is no such monitor.
 * Context: the actor itself; does not wait. */
WEFT_API int weft_actor_demonitor(weft_actor *self, uint64_t ref);

/* --- spawning with a relation ----------------------------------------------------------------- */

struct weft_actor_spawn_opts {
    const char *method;
    const weft_buf *input; /* borrowed */
    /* The spawning actor, which is the parent; NULL: the actor that runs here. `link` and `monitor`
     * need it; the relation exists before the first step of the new actor. */
    weft_actor *self;
    bool link;
    uint64_t *monitor; /* gets the reference of the monitor */
    /* A name to register in the host (<weft/names.h>). If a running actor has the name, no actor is
     * spawned and no relation is made: the message is sent to that actor. */
    const char *name;
    /* The first message; none if topic is NULL. */
    const char *topic;
    uint64_t tag;
    weft_buf *message; /* taken, also on an error */
};
/* Spawn an actor with options: a link, a monitor, a name, a first message. opts: NULL for defaults;
 * borrowed for the call.
 *
 * Returns 0 for a new actor, 1 if a running actor has the name; *out (unless NULL) is its PID.
 * -EINVAL for `link` or `monitor` without `self`, or an empty name; the errors of weft_actor_spawn;
 * the errors of weft_actor_send if the message could not be sent to the actor that has the name.
 * Context: any thread; does not wait, except that a fiber sends to the actor that has the name as
 * weft_actor_send does. */
WEFT_API int weft_actor_spawn_with(weft_host *host, weft_pid *out,
                                   const struct weft_actor_kind *kind,
                                   const struct weft_actor_spawn_opts *opts);

/* Spawn an actor and wait for its end: weft_actor_spawn followed by weft_actor_join, except that
 * the end cannot be missed. An actor whose caller stops waiting (-ETIMEDOUT, -ECANCELED, -EINTR) is
 * killed.
 *
 * Returns 0 and the actor's result in *result (unless NULL), owned; the errors of weft_actor_spawn
 * and weft_actor_join.
 * Context: a fiber or a plain thread, not a step; waits; a cancellation point. */
WEFT_API int weft_actor_exec(weft_host *host, const struct weft_actor_kind *kind,
                             const char *method, const weft_buf *input, weft_buf **result,
                             int64_t deadline);

/* --- code upgrade ----------------------------------------------------------------------------- */

/* Build the state of the new kind, which is zeroed, from the old state. What it moves it takes out
 * of the old state, which is closed afterwards. If it returns an error it has undone everything:
 * the old state is unchanged. */
typedef int (*weft_upgrade_fn)(weft_actor *self, void *old_state, void *new_state);

/* Upgrade the actor to another kind after this step and its commands. PID, mailbox, relations,
 * names and running commands stay.
 *
 * The next step gets an event WEFT_EVENT_UPGRADE: with `error` 0 it is a step of the new kind; with
 * an error it is a step of the old kind, with the old state. Each state is closed exactly once, by
 * its own kind: after a successful upgrade the old state is closed after `convert`. convert: NULL
 * keeps the state as it is, which needs the same state_bytes (otherwise -EINVAL in the event).
 *
 * Calls that are in the mailbox go to the new kind. Calls that the old kind has seen and not
 * answered belong to the state. If the state is kept, so are they. A new state made by `convert`
 * takes over the calls for which `convert` calls weft_actor_call_transfer(call,
 * weft_actor_pid(self)); the callers of the others get -EOWNERDEAD, unless the old state's close
 * answers them.
 *
 * Returns 0; -ENOMEM: no upgrade was requested.
 * Context: a step of a step actor, with its own `out`; does not wait. */
WEFT_API int weft_out_upgrade(weft_out *out, const struct weft_actor_kind *kind,
                              weft_upgrade_fn convert);

WEFT_END_DECLS
#endif
