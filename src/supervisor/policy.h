/* Restart policy of a supervisor: which child to start, stop or kill, and when. The policy knows
 * neither actors nor a clock: the supervisor reports what has happened and what time it was, and
 * asks for the next action until there is none.
 *
 *   state     event                        new state
 *   WAITING   started                      RUNNING
 *   WAITING   ended (the start failed)     as for RUNNING
 *   RUNNING   ended                        WAITING, STOPPED or FAILED, by its `restart`
 *   RUNNING   next returns STOP or KILL    STOPPING: its group restarts, it is removed, or the
 *                                          supervisor shuts down
 *   STOPPING  ended                        WAITING if its group restarts, else STOPPED
 *
 * A child that runs and must be stopped has `halt`. Such children are asked to exit from the last
 * to the first, each after the next one has ended; a dynamic supervisor asks them concurrently.
 * Waiting children are started from the first to the last; with a group strategy only after no
 * child has `halt`.
 */
#ifndef WEFT_SUPERVISOR_POLICY_H
#define WEFT_SUPERVISOR_POLICY_H

#include <weft/supervisor.h>

#include "base/rand.h"

struct weft__policy_child {
    uint8_t restart; /* enum weft_child_restart */
    uint8_t state;   /* enum weft_child_state */
    bool halt, restart_after_halt, killed;
    uint32_t failures;     /* consecutive */
    int64_t running_since; /* the time of its start */
    int64_t start_at;      /* earliest time of the next start */
    int64_t escalate_at;   /* with `halt`: earliest time of the stop request, then of the kill */
    int64_t stop_ns;
    const uint32_t *requires; /* indexes of other children, terminated by UINT32_MAX; NULL: none */
};

struct weft__policy {
    enum weft_supervisor_strategy strategy;
    unsigned limit; /* most restarts in the window */
    int64_t window_ns, backoff_ns, backoff_max_ns, stable_ns;
    unsigned jitter;
    struct weft__rand rand;
    struct weft__policy_child *children;
    uint32_t count, capacity;
    uint32_t up, halting, waiting; /* number of children that are RUNNING or STOPPING; have `halt`;
                                      are WAITING */
    uint32_t hint;                 /* a child that may be WAITING */
    /* Of a dynamic supervisor: children from this index on have been asked to stop. */
    uint32_t cursor;
    int64_t next_check_at; /* before this time no other child needs a stop or a kill */
    int64_t *times;        /* times of the last restarts, a ring of `limit` */
    uint64_t restarted;
    bool ending;
    int error; /* exit reason of the supervisor */
};

enum weft__policy_action_kind {
    WEFT__POLICY_SLEEP, /* no action until `at` (INT64_MAX: none) or until the next report */
    WEFT__POLICY_START,
    WEFT__POLICY_STOP,
    WEFT__POLICY_KILL,
    WEFT__POLICY_EXIT, /* the supervisor exits with `error`; no child runs */
};

struct weft__policy_action {
    enum weft__policy_action_kind what;
    uint32_t child;
    int64_t at;
};

/* Options that are 0 get their defaults. Returns 0, -EINVAL or -ENOMEM. */
int weft__policy_init(struct weft__policy *policy, const struct weft_supervisor_opts *opts,
                      uint64_t seed);
void weft__policy_deinit(struct weft__policy *policy);

/* Add a child that is to be started immediately. Returns its index, or -ENOMEM. */
int64_t weft__policy_add(struct weft__policy *policy, enum weft_child_restart restart,
                         int64_t stop_ns, const uint32_t *requires);
/* Remove a child that does not run; the last child moves to its index. */
void weft__policy_drop(struct weft__policy *policy, uint32_t child);

void weft__policy_started(struct weft__policy *policy, uint32_t child, int64_t now);
/* Report the exit of a child, or a failed start. */
void weft__policy_ended(struct weft__policy *policy, uint32_t child, int error, int64_t now);
/* Stop this child for good. */
void weft__policy_remove(struct weft__policy *policy, uint32_t child);
/* Shut down: stop every child for good; the first error becomes the exit reason. */
void weft__policy_shut_down(struct weft__policy *policy, int error);

/* The last STOP or KILL action could not be carried out: return it once more at time `at`. */
void weft__policy_postpone(struct weft__policy *policy, struct weft__policy_action action,
                           int64_t at);

/* Return the next action. The outcome of a START must be reported, by started or ended, before the
 * next call. */
struct weft__policy_action weft__policy_next(struct weft__policy *policy, int64_t now);

#endif
