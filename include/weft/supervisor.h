/* Supervisors: actors that start others, see how they end, and start them again.
 *
 *     static const struct weft_child_spec children[] = {
 *         {.name = "store", .kind = &store},
 *         {.name = "front", .kind = &front, .requires = (const char *const[]){"store", NULL}},
 *     };
 *     static const struct weft_supervisor_opts opts = {
 *         .name = "shop", .strategy = WEFT_REST_FOR_ONE, .children = children, .count = 2};
 *     err = weft_supervisor_start(host, &pid, &opts);
 *
 * Children are started in their order and stopped in the reverse one, each when the one before it
 * is down. A child may be a supervisor itself. One that has to start its children again too often
 * gives up: it stops all of them and ends by an error, which is then its own supervisor's affair.
 * It is stopped by weft_actor_cancel, and ends normally then.
 *
 *   strategy             when a child has ended that is to be started again
 *   WEFT_ONE_FOR_ONE     it is
 *   WEFT_ONE_FOR_ALL     the others are stopped, then all are started
 *   WEFT_REST_FOR_ONE    those after it are stopped, then it and they are started
 *   WEFT_DYNAMIC         it is; its children are all of one kind, and come by weft_supervisor_add
 *
 * Children that are stopped on the way are started again unless they are temporary; who ended for
 * good before stays so.
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

/* Which ends are followed by a start. An init that fails is an end by its error. */
enum weft_child_restart {
    WEFT_CHILD_PERMANENT, /* all */
    WEFT_CHILD_TRANSIENT, /* those by an error */
    WEFT_CHILD_TEMPORARY, /* none */
};

struct weft_supervisor_opts;

struct weft_child_spec {
    const char *name; /* once in its supervisor; of a dynamic one's it may be NULL */
    const struct weft_actor_kind *kind;
    const struct weft_supervisor_opts *supervisor; /* instead of a kind: it is a supervisor */
    const char *method;
    const weft_buf *input;
    bool named; /* it has its name in the host, too (<weft/names.h>) */
    enum weft_child_restart restart;
    /* How long it has to end after it was asked to by a cancel event; then it is killed. Default 5
     * s, of a supervisor WEFT_FOREVER; negative: it is killed at once. */
    int64_t stop_ns;
    /* Names of those that are started before it and stopped after it, ended by NULL. It is not
     * started while one of them is not running. NULL: none. */
    const char *const *requires;
};

#define WEFT_RESTARTS_UNLIMITED (~0u)

/* Borrowed, with all it points to, until the supervisor has ended. */
struct weft_supervisor_opts {
    const char *name; /* for people; default "supervisor" */
    enum weft_supervisor_strategy strategy;
    const struct weft_child_spec *children; /* of WEFT_DYNAMIC one, the pattern */
    size_t count;
    /* More than this many restarts in the window and it gives up. Defaults 3 in 5 s; at most
     * 100,000, or unlimited. */
    unsigned restarts;
    int64_t window_ns;
    /* A child that has ended is started again after a while: the first time in a row after
     * `backoff_ns`, then after twice as much as the time before, up to `backoff_max_ns`, less a
     * random part of up to `jitter` percent (1 .. 50). One that has run for `stable_ns` begins
     * anew. Defaults: at once, 30 s, 20, the window. */
    int64_t backoff_ns, backoff_max_ns, stable_ns;
    unsigned jitter;
};

/* Starts it and its children; all of them run when it returns 0. What the start of a child
 * answered: then those that were started before it are killed. -EINVAL; -EEXIST: two children of
 * one name; -ENOENT: one requires what is not there; -ELOOP: itself, in the end. What
 * weft_actor_spawn answers. From any thread, fiber or step. */
WEFT_API int weft_supervisor_start(weft_host *host, weft_pid *out,
                                   const struct weft_supervisor_opts *opts);

/* One more child of a dynamic supervisor, started with `input` (taken, also on an error), in a
 * fiber or a plain thread. What its start answered; one whose first start fails is no child.
 * -ENOTSUP: it is not a dynamic one, or no supervisor. -ESRCH: it has ended. -ETIMEDOUT,
 * -ECANCELED, -EINTR: there will be one all the same, if it can be. What weft_actor_call
 * answers. */
WEFT_API int weft_supervisor_add(weft_pid supervisor, weft_buf *input, weft_pid *child,
                                 int64_t deadline);
/* Stops a child, which is not started again, and waits until it has ended. -ENOENT: it has no such
 * child. The rest as add. */
WEFT_API int weft_supervisor_remove(weft_pid supervisor, weft_pid child, int64_t deadline);

/* --- looking ---------------------------------------------------------------------------- */

enum weft_child_state {
    WEFT_CHILD_WAITING, /* to be started, when it is time and what it requires is there */
    WEFT_CHILD_RUNNING,
    WEFT_CHILD_STOPPING,
    WEFT_CHILD_STOPPED, /* for good */
    WEFT_CHILD_FAILED,  /* the same, after an error */
};
WEFT_API const char *weft_child_state_name(enum weft_child_state state);

struct weft_child_info {
    const char *name; /* or NULL */
    weft_pid pid;     /* of one that is not there, none */
    enum weft_child_state state;
    uint64_t restarts;
    int error; /* it last ended by this */
};
/* How many children it has, in the order of their starts; the first `room` of them go to `out`.
 * -ESRCH: it is no supervisor. */
WEFT_API int64_t weft_supervisor_children(weft_pid supervisor, struct weft_child_info *out,
                                          size_t room);

/* The tree below it, a line each:
 *
 *     shop <0.1.7.0> rest-for-one, 2 children
 *       store <0.1.8.0> running, 3 restarts
 *
 * As snprintf. What comes or goes meanwhile may be missing. -ESRCH. */
WEFT_API int weft_supervisor_print(weft_pid supervisor, char *buf, size_t size);

WEFT_END_DECLS
#endif
