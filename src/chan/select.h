/* The operations of each kind of case, one entry of the table in select.c per kind; and the select
 * split in two steps (arm, finish) for stackless tasks.
 *
 * A select repeats these steps until a case is performed or its own wait has ended:
 *   1. try each case, from a random start, in a random direction; the first that succeeds is the
 *      result;
 *   2. arm the wait, and each case with a node of its own; stop at the first case that need not
 *      wait;
 *   3. unlock the mutexes of conditions, and park; or, if a case need not wait, disarm, which fails
 *      if another case has fired meanwhile;
 *   4. finish all armed cases, and lock again what was unlocked;
 *   5. if a node has fired, its source has performed the case. If a case need not wait, try it; if
 *      another thread was faster, start again.
 * All nodes belong to one wait, so exactly one wins; a source that fires second skips the node.
 */
#ifndef WEFT_CHAN_SELECT_H
#define WEFT_CHAN_SELECT_H

#include <weft/chan.h>

#include "wait/waiter.h"

struct weft__case_ops {
    /* Performs the case if that needs no waiting, and sets its status. */
    bool (*take)(struct weft_case *one);
    /* Links the node into its source. False: the case need not wait, and nothing was linked. */
    bool (*arm)(struct weft_case *one, struct weft__node *node);
    /* Unlinks the node. `won`: this node ended the wait, and its source has unlinked it. */
    void (*finish)(struct weft_case *one, struct weft__node *node, bool won);
};

const struct weft__case_ops *weft__case_ops_of(const struct weft_case *one);
/* The first object of the cases, 0 if there is none, and the number of others that can be waited
 * for; for dumps. */
uint64_t weft__select_first(const struct weft_case *cases, size_t n, unsigned *others);
/* Step 1: the index of the case that was performed, or -1. */
int weft__select_take(struct weft_case *cases, size_t n);
/* The earliest time case, if it comes before the deadline; otherwise -1. */
int weft__select_timer(const struct weft_case *cases, size_t n, int64_t deadline);

/* The select of a stackless task. A case may fire while others are still being linked, and the task
 * must not continue before linking is complete: both the linking thread and the firing thread set
 * their bit in `arrivals`, and the second to arrive resumes the task. */
struct weft__select {
    struct weft__waiter waiter; /* first: the waiter is the select */
    struct weft_case *cases;
    struct weft__node *nodes; /* one for each case */
    size_t n, armed;          /* number of cases; number of linked nodes */
    int timer;                /* the earliest time case; -1: none comes before the deadline */
    int64_t until; /* when the task's runner has to fire the waiter with REASON_TIMEOUT */
    void (*on_done)(struct weft__select *select);
    _Atomic(uint32_t) arrivals;
};

/* Performs one of the cases and returns its index; or links them all and returns -EINPROGRESS: then
 * `on_done` is called once when the wait has ended, as a waiter's notify is. Borrows the cases and
 * the nodes until then. A condition is passed without its mutex, which the task itself unlocks and
 * locks. */
int weft__select_arm(struct weft__select *select, struct weft_case *cases, struct weft__node *nodes,
                     size_t n, int64_t deadline, void (*on_done)(struct weft__select *select));
/* After `on_done` was called: the index, or the reason why the wait ended. */
int weft__select_finish(struct weft__select *select);

#endif
