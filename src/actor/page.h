/* What there is on a page of a host's actors, before it is written: actors, who has spawned whom,
 * supervisors and their children. */
#ifndef WEFT_ACTOR_PAGE_H
#define WEFT_ACTOR_PAGE_H

#include <weft/actor_look.h>

#include "sched/face.h"

#define WEFT__NOBODY SIZE_MAX

struct weft__leaf {
    struct weft_actor_info info;
    size_t parent, child, next; /* places in `leaves`; child: the first, next: of the same parent */
    size_t branch;              /* of a supervisor, its place in `branches` */
    struct weft__seat seat;     /* of a supervisor's child */
    unsigned depth;
};

/* A supervisor. */
struct weft__branch {
    struct weft__team is;
    size_t absent, absents; /* those of its own, in `absents`: where they begin, how many */
};
/* A child that is not there. */
struct weft__absent {
    uint64_t number;
    struct weft__seat seat;
    int error;
};

/* Something that grows. */
struct weft__heap {
    void *items;
    size_t count, room;
};

struct weft__page {
    /* of who writes it */
    FILE *out;
    bool json;
    bool any;   /* a host was written */
    size_t max; /* actors of one host; 0: all */
    /* what is on it */
    struct weft__heap leaves; /* struct weft__leaf, by PID */
    struct weft__heap branches, absents;
    size_t branch; /* that is being filled */
    size_t cut;
    int err; /* of memory */
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

/* What is to be seen of this host now, instead of what was there. */
void weft__page_fill(struct weft__page *page, weft_host *host);
void weft__page_free(struct weft__page *page);

#endif
