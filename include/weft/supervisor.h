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
 * ended. A child may itself be a supervisor. A supervisor that restarts its children too often
 * gives up: it stops all of them and exits with an error, which its own supervisor handles.
 * weft_actor_cancel stops a supervisor; it then exits normally.
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
#ifndef WEFT_SUPERVISOR_H
#define WEFT_SUPERVISOR_H

#include <weft/relation.h>

WEFT_BEGIN_DECLS

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
    bool named; /* register its name in the host, too (<weft/names.h>) */
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
WEFT_API int weft_supervisor_add(weft_pid supervisor, weft_buf *input, weft_pid *child,
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
/* List the children of a supervisor in start order.
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
