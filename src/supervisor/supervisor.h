/* Internals of a supervisor: an actor that traps exits and follows a restart policy
 * (supervisor/policy.h).
 *
 * The supervisor is linked to its children, so that they exit with it, however it exits; and it
 * learns of a child's exit by the link's event. An exit signal that a child sends to its supervisor
 * is a different event, even if the child has exited before the signal is read.
 *
 * The children are in a table of the supervisor, changed only by its own steps under its lock;
 * other threads read the table under that lock. Every supervisor is in one global list, under a
 * lock of its own; a supervisor is removed from the list before it is freed, so the holder of the
 * list's lock may read any supervisor in it. The removal also holds the supervisor's own lock, so a
 * thread that holds that lock and finds `listed` set may read it, too.
 */
#ifndef WEFT_SUPERVISOR_SUPERVISOR_H
#define WEFT_SUPERVISOR_SUPERVISOR_H

#include <weft/supervisor.h>
#include <weft/timer.h>

#include "actor/actor.h"
#include "obs/task_info.h"
#include "supervisor/policy.h"

struct weft__removal_waiter;

struct weft__child {
    const struct weft_child_spec *spec;
    uint64_t number; /* unique among all children, past and future */
    weft_pid pid;    /* none: the child does not run */
    weft_buf *input; /* its own, or NULL: the input of its spec */
    uint64_t starts;
    int error;     /* error of its last exit */
    uint32_t next; /* next child in the same bucket of the index; UINT32_MAX:
                                       none */
    struct weft__removal_waiter *removal_waiters; /* callers that wait for its exit */
};

struct weft__supervisor {
    const struct weft_supervisor_opts *opts;
    weft_host *host;
    weft_actor *self;
    weft_pid pid;
    struct weft__lock lock;
    struct weft__policy policy;
    struct weft__child *children; /* as many as the policy has, in the same order */
    uint32_t capacity;
    uint64_t numbered;  /* children numbered so far */
    uint32_t *index;    /* hash index by PID: first child of each bucket; `capacity` buckets */
    uint32_t *required; /* storage for the `requires` lists of the policy's children */
    weft_timer timer;
    struct weft__supervisor *next, **back; /* in the global list, under the list's lock */
    bool listed;                           /* in the global list; changed under both locks */
};

/* --- children (supervisor/child.c) ----------------------------------------------------- */

/* Fill the table with the children of the options, in start order; with none for a dynamic
 * supervisor. */
int weft__children_init(struct weft__supervisor *s);
void weft__children_free(struct weft__supervisor *s);
/* Add a child, which takes `input`, also on an error. Returns its index, or -ENOMEM. Under the
 * lock, as every function below that changes the table. */
int64_t weft__child_add(struct weft__supervisor *s, const struct weft_child_spec *spec,
                        weft_buf *input, const uint32_t *required);
/* Dynamic supervisors only: remove a child that does not run; the last child moves to its index. */
void weft__child_drop(struct weft__supervisor *s, uint32_t child);
/* Returns the index of the child with this PID; UINT32_MAX: none. */
uint32_t weft__child_find(const struct weft__supervisor *s, weft_pid pid);
/* Record that the child runs with this PID, or that it does not run any more. */
void weft__child_set_pid(struct weft__supervisor *s, uint32_t child, weft_pid pid);
void weft__child_clear_pid(struct weft__supervisor *s, uint32_t child);
/* Start the child. Returns 0 or an error. Takes the lock. */
int weft__child_start(struct weft__supervisor *s, uint32_t child);

/* --- requests from outside (supervisor/dynamic_children.c) ------------------------------------ */

/* Handle a WEFT_EVENT_CALL: add or remove a child. */
void weft__supervisor_handle_call(struct weft__supervisor *s, const struct weft_actor_event *event);
/* Reply to every caller that waits for the exit of this child. Takes the list. */
void weft__removal_waiters_notify(struct weft__removal_waiter *removal_waiters, int error);

/* --- the global list (actorinfo/supervisor_info.c) -------------------------------------------- */

void weft__supervisors_add(struct weft__supervisor *s);
void weft__supervisors_remove(struct weft__supervisor *s);

/* A child as passed to a visitor. */
struct weft__visited_child {
    weft_pid pid; /* none: the child does not run, and last exited with `error` */
    uint64_t number;
    struct weft__child_info child_info;
    int error;
};

/* Visit a host's supervisors: each supervisor, and then its children from the last to the first. No
 * lock is held during the callbacks: the children of a supervisor are read in batches, and the
 * supervisor keeps running in between. Every child that exists from the beginning to the end of the
 * visit is reported; a child that moves to another index may be reported twice. */
struct weft__supervisor_visitor {
    void (*supervisor_info)(weft_pid supervisor,
                            const struct weft__supervisor_info *supervisor_info, void *arg);
    void (*child_info)(const struct weft__visited_child *visited, void *arg);
    void *arg;
};
void weft__supervisors_visit(const weft_host *host, const struct weft__supervisor_visitor *visitor);
/* Fill in what this actor is as a supervisor and as a supervised child, as far as the locks are
 * obtained immediately. Under the actor's lock; async-signal-safe. */
void weft__supervisor_info_try(const weft_actor *actor,
                               struct weft__supervisor_info *supervisor_info,
                               struct weft__child_info *child_info);

extern const struct weft_actor_kind weft__supervisor_kind;

/* The input of a supervisor's init. NULL: no memory. */
static inline weft_buf *weft__supervisor_input(const struct weft_supervisor_opts *opts)
{
    return weft_buf_copy(&opts, sizeof(const struct weft_supervisor_opts *));
}

#endif
