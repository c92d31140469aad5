/* Snapshot of one host's actors for a dump: the actors, the tree of parents and children,
 * supervisors and their children. */
#ifndef WEFT_ACTORINFO_SNAPSHOT_H
#define WEFT_ACTORINFO_SNAPSHOT_H

#include <weft/actor.h>

#include "obs/task_info.h"

#define WEFT__SNAPSHOT_NONE SIZE_MAX

struct weft__snapshot_actor {
    struct weft_actor_info info;
    size_t parent, child, next; /* indexes into `actors`; child: the first child, next: the next one
                                   with the same parent */
    size_t sup;                 /* for a supervisor, its index in `sups` */
    struct weft__child_info child_info; /* for a child of a supervisor */
    unsigned depth;
};

/* A supervisor. */
struct weft__snapshot_supervisor {
    struct weft__supervisor_info info;
    size_t absent, absents; /* its absent children in `absents`: index of the first, count */
};
/* A child of a supervisor that does not run. */
struct weft__snapshot_absent {
    uint64_t number;
    struct weft__child_info child_info;
    int error;
};

/* A growable array. */
struct weft__snapshot_array {
    void *items;
    size_t count, capacity;
};

struct weft__snapshot {
    /* the writer's */
    FILE *out;
    bool json;
    bool any;   /* a host has been written */
    size_t max; /* limit of actors per host; 0: none */
    /* the snapshot */
    struct weft__snapshot_array actors; /* struct weft__snapshot_actor, sorted by PID */
    struct weft__snapshot_array sups, absents;
    size_t sup; /* the supervisor whose children are being visited */
    size_t cut;
    int err; /* 0 or -ENOMEM */
};

static inline struct weft__snapshot_actor *
weft__snapshot_actor_at(const struct weft__snapshot *snapshot, size_t i)
{
    return (struct weft__snapshot_actor *)snapshot->actors.items + i;
}

static inline struct weft__snapshot_supervisor *
weft__snapshot_supervisor_at(const struct weft__snapshot *snapshot, size_t i)
{
    return (struct weft__snapshot_supervisor *)snapshot->sups.items + i;
}

static inline struct weft__snapshot_absent *
weft__snapshot_absent_at(const struct weft__snapshot *snapshot, size_t i)
{
    return (struct weft__snapshot_absent *)snapshot->absents.items + i;
}

/* Fill the snapshot with the current actors of this host; replaces the previous contents. */
void weft__snapshot_fill(struct weft__snapshot *snapshot, weft_host *host);
void weft__snapshot_free(struct weft__snapshot *snapshot);

#endif
