/* What a supervisor decides: who is to be started, stopped or killed, and when. No actors in here,
 * and no clock: it is told what has happened and what time it is, and asked what to do next, until
 * it has nothing.
 *
 *   state     on                           becomes
 *   WAITING   started                      RUNNING
 *   WAITING   ended (the start failed)     as RUNNING
 *   RUNNING   ended                        WAITING, STOPPED or FAILED, by its kind of restart
 *   RUNNING   next says STOP or KILL       STOPPING: its group is restarted, it is removed, or all
 *                                          ends
 *   STOPPING  ended                        WAITING if its group is restarted, else STOPPED
 *
 * A child that is up and must not be has `halt`. These are asked to end from the last to the first,
 * each when the one after it is down; of a dynamic supervisor all at once. Who waits is started
 * from the first to the last, in a group only when nobody has `halt` any more.
 */
#ifndef WEFT_ACTOR_POLICY_H
#define WEFT_ACTOR_POLICY_H

#include <weft/supervisor.h>

#include "base/rand.h"

struct weft__policy_child {
    uint8_t restart; /* enum weft_child_restart */
    uint8_t state;   /* enum weft_child_state */
    bool halt, again, killed;
    uint32_t failures; /* in a row */
    int64_t since;     /* it runs */
    int64_t start_at;  /* not before */
    int64_t push_at;   /* of one with `halt`: it is asked to end, and then killed, not before */
    int64_t stop_ns;
    const uint32_t *requires; /* others, ended by UINT32_MAX; NULL: none */
};

struct weft__policy {
    enum weft_supervisor_strategy strategy;
    unsigned limit; /* restarts in the window */
    int64_t window_ns, backoff_ns, backoff_max_ns, stable_ns;
    unsigned jitter;
    struct weft__rand rand;
    struct weft__policy_child *children;
    uint32_t count, room;
    uint32_t up, halting, waiting; /* how many are RUNNING or STOPPING; have `halt`; are WAITING */
    uint32_t hint;                 /* who waits, maybe */
    /* Of a dynamic one: those from here on were asked to stop; nothing is to be done. */
    uint32_t cursor;
    int64_t quiet_until; /* for the others before this */
    int64_t *times;      /* of the last restarts, a ring of `limit` */
    uint64_t restarted;
    bool ending;
    int error; /* it ends by */
};

enum weft__policy_what {
    WEFT__POLICY_SLEEP, /* nothing, until `at` (INT64_MAX: for ever) or until something happens */
    WEFT__POLICY_START,
    WEFT__POLICY_STOP,
    WEFT__POLICY_KILL,
    WEFT__POLICY_OVER, /* it ends, by `error`; nobody is up */
};

struct weft__policy_action {
    enum weft__policy_what what;
    uint32_t child;
    int64_t at;
};

/* Defaults where the options have 0. -EINVAL, -ENOMEM. */
int weft__policy_init(struct weft__policy *policy, const struct weft_supervisor_opts *opts,
                      uint64_t seed);
void weft__policy_deinit(struct weft__policy *policy);

/* A child that is to be started at once; its index. -ENOMEM. */
int64_t weft__policy_add(struct weft__policy *policy, enum weft_child_restart restart,
                         int64_t stop_ns, const uint32_t *requires);
/* The last one takes the place of one that is down. */
void weft__policy_drop(struct weft__policy *policy, uint32_t child);

void weft__policy_started(struct weft__policy *policy, uint32_t child, int64_t now);
/* Also of a start that failed. */
void weft__policy_ended(struct weft__policy *policy, uint32_t child, int error, int64_t now);
/* It is to end, for good. */
void weft__policy_remove(struct weft__policy *policy, uint32_t child);
/* All are to end; the first error counts. */
void weft__policy_end(struct weft__policy *policy, int error);

/* It was not possible to stop or kill it, as was said last: that is said again when `at` has
 * come. */
void weft__policy_put_off(struct weft__policy *policy, struct weft__policy_action action,
                          int64_t at);

/* What is to be done. What it says of START is told by started or ended before it is asked
 * again. */
struct weft__policy_action weft__policy_next(struct weft__policy *policy, int64_t now);

#endif
