/* Relations between actors (links, monitors, exit reasons) and supervisors. */
#ifndef WEFT_SUPERVISOR_H
#define WEFT_SUPERVISOR_H

#include <weft/actor.h>

WEFT_BEGIN_DECLS

/* --- relations ------------------------------------------------------------------------------ */

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

/* --- exit ------------------------------------------------------------------------------------- */

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
WEFT_API int weft_actor_monitor(weft_actor *self, uint64_t *ref, weft_pid other);
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
    /* A name to register in the host (<weft/actor.h>). If a running actor has the name, no actor is
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
WEFT_API int weft_actor_exec(weft_host *host, weft_buf **result, const struct weft_actor_kind *kind,
                             const char *method, const weft_buf *input, int64_t deadline);

/* --- supervisors ---------------------------------------------------------------------------- */

/* Supervisors: actors that start other actors, their children, and restart them when they fail
 * (OTP's supervisors).
 *
 *     static const struct weft_child_spec children[] = {
 *         {.name = "store", .kind = &store},
 *         {.name = "front", .kind = &front, .requires = (const char *const[]){"store", NULL}},
 *     };
 *     static const struct weft_supervisor_opts opts = {
 *         .name = "shop", .strategy = WEFT_REST_FOR_ONE, .children = children, .count = 2};
 *     err = weft_supervisor_start(host, &pid, &opts);
 *
 * Children are started in order and stopped in reverse order, each after the one before it has
 * ended; dynamic children are stopped all at once. A child may itself be a supervisor. A supervisor
 * that restarts its children too often gives up: it stops all of them and exits with an error,
 * which its own supervisor handles. weft_actor_cancel stops a supervisor; it then exits normally.
 *
 *   strategy             when a child that is to be restarted has ended
 *   WEFT_ONE_FOR_ONE     restart only the child that failed
 *   WEFT_ONE_FOR_ALL     stop the other children, then restart all of them
 *   WEFT_REST_FOR_ONE    stop the children after it, then restart it and them
 *   WEFT_DYNAMIC         restart only the child that failed; all children are of one kind and are
 *                        added by weft_supervisor_add
 *
 * Children that are stopped for such a restart are restarted unless they are temporary; a child
 * that had ended for good before stays ended.
 */

enum weft_supervisor_strategy {
    WEFT_ONE_FOR_ONE,
    WEFT_ONE_FOR_ALL,
    WEFT_REST_FOR_ONE,
    WEFT_DYNAMIC,
};

/* Which exits are followed by a restart. An init that fails counts as an exit with its error. */
enum weft_child_restart {
    WEFT_CHILD_PERMANENT, /* every exit */
    WEFT_CHILD_TRANSIENT, /* exits with an error */
    WEFT_CHILD_TEMPORARY, /* no exit */
};

struct weft_supervisor_opts;

struct weft_child_spec {
    const char *name; /* unique in its supervisor; may be NULL for a dynamic one */
    const struct weft_actor_kind *kind;
    const struct weft_supervisor_opts *supervisor; /* instead of a kind: the child is a
                                                      supervisor */
    const char *method;
    const weft_buf *input;
    bool named; /* register its name in the host, too (<weft/actor.h>) */
    enum weft_child_restart restart;
    /* How long the child has to end after the cancel event that asks it to; then it is killed.
     * Default: 5 s, for a supervisor WEFT_FOREVER; negative: kill it immediately. */
    int64_t stop_ns;
    /* Names of the children that are started before this one and stopped after it, terminated by
     * NULL. The child is not started while one of them is not running. NULL: none. */
    const char *const *requires;
};

#define WEFT_RESTARTS_UNLIMITED (~0u)

/* Borrowed, with everything it points to, until the supervisor has ended. */
struct weft_supervisor_opts {
    const char *name; /* for dumps; default "supervisor" */
    enum weft_supervisor_strategy strategy;
    const struct weft_child_spec *children; /* for WEFT_DYNAMIC one: the template of all children */
    size_t count;
    /* The supervisor gives up at more than this many restarts within the window. Defaults: 3 in 5
     * s; at most 100,000, or WEFT_RESTARTS_UNLIMITED. */
    unsigned restarts;
    int64_t window_ns;
    /* Restart delay: the first restart in a row comes after `backoff_ns`, each further one after
     * twice the previous delay, up to `backoff_max_ns`, less a random part of up to `jitter`
     * percent (1 .. 50). A child that has run for `stable_ns` starts over at `backoff_ns`.
     * Defaults: no delay, 30 s, the window, 20. */
    int64_t backoff_ns, backoff_max_ns, stable_ns;
    unsigned jitter;
};

/* Start a supervisor and its children; all of them run when it returns 0. opts: borrowed until the
 * supervisor has ended.
 *
 * Returns 0 and the PID in *out; -EINVAL for bad options (weft_last_error may name the field);
 * -EEXIST if two children have the same name; -ENOENT if a required child does not exist; -ELOOP if
 * children require each other in a cycle; the error of a child's start, after the children that
 * were started before it have been killed; the errors of weft_actor_spawn.
 * Context: any thread, also a step; runs the init of each child here; does not wait. */
WEFT_API int weft_supervisor_start(weft_host *host, weft_pid *out,
                                   const struct weft_supervisor_opts *opts);

/* Add a child to a dynamic supervisor and start it with `input` (taken, also on an error).
 *
 * Returns 0 and the PID in *child (unless NULL); the error of the child's start: then it is not
 * added; -ENOTSUP if the supervisor is not dynamic, or the actor is no supervisor; -ESRCH if the
 * supervisor has ended or is stopping; -ETIMEDOUT, -ECANCELED, -EINTR: the child may be added all
 * the same; the errors of weft_actor_call.
 * Context: a fiber or a plain thread, not a step; waits; a cancellation point. */
WEFT_API int weft_supervisor_add(weft_pid supervisor, weft_pid *child, weft_buf *input,
                                 int64_t deadline);
/* Stop a child, which is not restarted, and wait until it has ended.
 *
 * Returns 0; -ENOENT if the supervisor has no such child; the other errors of weft_supervisor_add.
 * Context: a fiber or a plain thread, not a step; waits; a cancellation point. */
WEFT_API int weft_supervisor_remove(weft_pid supervisor, weft_pid child, int64_t deadline);

/* --- inspection ------------------------------------------------------------------------------- */

enum weft_child_state {
    WEFT_CHILD_WAITING, /* to be started, when its delay is over and the children it requires run */
    WEFT_CHILD_RUNNING,
    WEFT_CHILD_STOPPING,
    WEFT_CHILD_STOPPED, /* ended for good */
    WEFT_CHILD_FAILED,  /* ended for good, with an error */
};
/* Get the name of a child's state.
 *
 * Returns "waiting", "running", ..., a static string; "unknown" for any other value.
 * Context: any thread; does not wait. */
WEFT_API const char *weft_child_state_name(enum weft_child_state state);

struct weft_child_info {
    const char *name; /* or NULL; borrowed from the child spec */
    weft_pid pid;     /* none if the child does not run */
    enum weft_child_state state;
    uint64_t restarts;
    int error; /* of its last exit */
};
/* List the children of a supervisor in start order; once a dynamic child was removed, dynamic
 * children are in no particular order.
 *
 * Returns the number of children; the first `capacity` of them are written to `out`; -ESRCH if the
 * PID is not a running supervisor. Context: any thread; does not wait. */
WEFT_API int64_t weft_supervisor_children(weft_pid supervisor, struct weft_child_info *out,
                                          size_t capacity);

/* Write the supervision tree below a supervisor into `buf`, one line per actor:
 *
 *     shop <0.1.7.0> rest-for-one, 2 children
 *       store <0.1.8.0> running, 3 restarts
 *
 * Children that are added or end meanwhile may be missing.
 * Returns the length of the text, as snprintf does; -ESRCH if the PID is not a running supervisor.
 * Context: any thread; does not wait. */
WEFT_API int weft_supervisor_format(weft_pid supervisor, char *buf, size_t size);

WEFT_END_DECLS
#endif
