/* What a kind of case is made of: one entry of the table in select.c for each.
 *
 * A select goes round until a case is done or its own wait has ended:
 *   1. take each case, from anywhere on, in either direction; the first that can be done is it;
 *   2. arm the wait, and each case with a node of its own; the first that says it need not wait ends that;
 *   3. unlock the mutexes of conditions, and park; or, if one need not wait, disarm, which fails if another case
 *      has fired meanwhile;
 *   4. finish all that were armed, and lock what was unlocked;
 *   5. a node has fired: its source has done the case. Or one need not wait: take it, and if somebody was
 *      faster, from the beginning.
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

#endif
