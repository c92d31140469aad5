/* What a kind of case is made of, one entry of the table in select.c for each; and the select in
 * two steps, for bodies without a stack.
 *
 * A select goes round until a case is done or its own wait has ended:
 *   1. take each case, from anywhere on, in either direction; the first that can be done is it;
 *   2. arm the wait, and each case with a node of its own; the first that says it need not wait
 *      ends that;
 *   3. unlock the mutexes of conditions, and park; or, if one need not wait, disarm, which fails if
 *      another case has fired meanwhile;
 *   4. finish all that were armed, and lock what was unlocked;
 *   5. a node has fired: its source has done the case. Or one need not wait: take it, and if
 *      somebody was faster, from the beginning.
 * All that fires is of one wait, so one wins; a source that comes second passes the node over.
 */
#ifndef WEFT_SYNC_SELECT_H
#define WEFT_SYNC_SELECT_H

#include <weft/select.h>

#include "sched/waiter.h"

struct weft__case_ops {
    /* Does the case if that needs no waiting, and sets its status. */
    bool (*take)(struct weft_case *one);
    /* Links the node into its source. False: it need not wait, and nothing was linked. */
    bool (*arm)(struct weft_case *one, struct weft__node *node);
    /* Unlinks it. `won`: this is the node that ended the wait, and its source has unlinked it. */
    void (*finish)(struct weft_case *one, struct weft__node *node, bool won);
};

const struct weft__case_ops *weft__case_ops_of(const struct weft_case *one);
/* The first object of the cases, 0 if there is none, and how many others can be waited for: for
 * those who look from outside. */
uint64_t weft__select_first(const struct weft_case *cases, size_t n, unsigned *others);
/* Step 1: the index of the case that was done, or -1. */
int weft__select_take(struct weft_case *cases, size_t n);
/* The earliest of the cases that are points in time, if it comes before the deadline; -1: it does
 * not. */
int weft__select_timer(const struct weft_case *cases, size_t n, int64_t deadline);

/* The select of a body without a stack. A case may fire while others are still being linked, and
 * then the body must not go on yet: of the two who come to the gate, the one that has linked all
 * and the one that has fired, the second lets the body on. */
struct weft__select {
    struct weft__waiter waiter; /* first: the waiter is the select */
    struct weft_case *cases;
    struct weft__node *nodes; /* as many */
    size_t n, armed;          /* how many there are, how many were linked */
    int timer;     /* the earliest of the cases that are points in time; -1: none comes before the
                      deadline */
    int64_t until; /* when the body's keeper is to fire the waiter with REASON_TIMEOUT */
    void (*told)(struct weft__select *select);
    _Atomic(uint32_t) gate;
};

/* Does one of the cases and returns its index; or links them all: -EINPROGRESS, and `told` is
 * called once when the wait has ended, as a waiter's notify is. The cases and the nodes are
 * borrowed until then; a condition is given without its mutex, which is the body's to let go and to
 * take. */
int weft__select_arm(struct weft__select *select, struct weft_case *cases, struct weft__node *nodes,
                     size_t n, int64_t deadline, void (*told)(struct weft__select *select));
/* After it was told: the index, or what else has ended the wait. */
int weft__select_finish(struct weft__select *select);

#endif
