/* Snapshot of one host's actors for a dump: the actors, the tree of parents and children,
 * supervisors and their children. */
#ifndef WEFT_ACTOR_PAGE_H
#define WEFT_ACTOR_PAGE_H

#include <weft/actor_look.h>

#include "sched/face.h"

#define WEFT__NOBODY SIZE_MAX

struct weft__leaf {
    struct weft_actor_info info;
    size_t parent, child, next; /* indexes into `leaves`; child: the first child, next: the next one
                                   with the same parent */
    size_t branch;              /* for a supervisor, its index in `branches` */
    struct weft__seat seat;     /* for a child of a supervisor */
    unsigned depth;
};

/* A supervisor. */
struct weft__branch {
    struct weft__team is;
    size_t absent, absents; /* its absent children in `absents`: index of the first, count */
};
/* A child of a supervisor that does not run. */
struct weft__absent {
    uint64_t number;
    struct weft__seat seat;
    int error;
};

/* A growable array. */
struct weft__heap {
    void *items;
    size_t count, room;
};

struct weft__page {
    /* the writer's */
    FILE *out;
    bool json;
    bool any;   /* a host has been written */
    size_t max; /* limit of actors per host; 0: none */
    /* the snapshot */
    struct weft__heap leaves; /* struct weft__leaf, sorted by PID */
    struct weft__heap branches, absents;
    size_t branch; /* the supervisor whose children are being visited */
    size_t cut;
    int err; /* 0 or -ENOMEM */
};

static inline struct weft__leaf *weft__leaf_at(const struct weft__page *page, size_t i)
{
    return (struct weft__leaf *)page->leaves.items + i;
}

static inline struct weft__branch *weft__branch_at(const struct weft__page *page, size_t i)
{
    return (struct weft__branch *)page->branches.items + i;
}

static inline struct weft__absent *weft__absent_at(const struct weft__page *page, size_t i)
{
    return (struct weft__absent *)page->absents.items + i;
}

/* Fill the snapshot with the current actors of this host; replaces the previous contents. */
void weft__page_fill(struct weft__page *page, weft_host *host);
void weft__page_free(struct weft__page *page);

#endif
