/* Which workers search and which sleep: the idle protocol of a pool.
 *
 * Word: number of searching workers (one, for a moment two) in the high half, number of sleeping
 * ones in the low half. The sleepers are a stack under a lock, so that the worker that slept last,
 * whose cache is warmest, is woken first.
 *
 * Submit and sleep are each three steps:
 *
 *   submit                                        sleep
 *   1. publish the task (seq_cst store)           1. enter the word as sleeping (seq_cst RMW)
 *   2. read the word (seq_cst)                    2. check every queue once more (seq_cst loads)
 *   3. no worker searches, one sleeps:            3. found something: leave the word, search again;
 *      wake one, counted as searching                else park
 *
 * Both sides write before they read, all seq_cst: in their one total order either submit's store
 * comes before the sleeper's check, which finds the task, or the sleeper's RMW comes before
 * submit's read, which sees it. A submit that saw a searcher relies on this: a searcher gives up by
 * entering the word as sleeping, so its check (2) follows.
 *
 * A searcher that finds work ends its search and, as the last searcher, wakes the next: so one
 * wake-up fans out as long as there is work, and stops by itself.
 *
 * Rejected: waking a worker for every submit (a wake-up costs 4 to 24 us, and most find nothing);
 * handing the task to the sleeper (it may wake up late, and the task waits although other workers
 * are free); a periodic check (hides lost wake-ups and burns power).
 */
#ifndef WEFT_IDLE_IDLE_H
#define WEFT_IDLE_IDLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"
#include "idle/parker.h"
#include "lock/lock.h"

struct weft__sleeper {
    struct weft__parker parker;
    bool host; /* written by the owner while not listed: it waits in a host's loop */
    /* under the idle lock */
    struct weft__sleeper *below;
    bool listed;
    bool searching; /* taken off the list by notify, as the searcher */
};

struct weft__idle {
    _Atomic(uint32_t) word;
    struct weft__lock lock;
    struct weft__sleeper *top;
};

void weft__idle_init(struct weft__idle *idle);

/* Tries to become the pool's searcher. False: another worker searches. */
bool weft__idle_try_search(struct weft__idle *idle);
/* The search found work: ends it, and wakes the next searcher for further work. */
void weft__idle_end_search(struct weft__idle *idle);

/* Step 1 of sleep; gives up the search if `searching`. The caller checks once more, then parks in
 * the sleeper's parker, then calls leave. */
void weft__idle_enter(struct weft__idle *idle, struct weft__sleeper *sleeper, bool searching);
/* Ends the sleep for whatever reason. True: notify has picked this worker, which now counts as
 * searching. */
bool weft__idle_leave(struct weft__idle *idle, struct weft__sleeper *sleeper);

/* Step 3 of submit, if step 2 requires it. */
void weft__idle_wake_one(struct weft__idle *idle);

/* A worker sleeps and none searches. */
static inline bool weft__idle_wants_work(uint32_t word)
{
    return word != 0 && word < 0x10000;
}

/* Steps 2 and 3 of submit. Any thread. */
static inline void weft__idle_notify(struct weft__idle *idle)
{
    WEFT__STEP();
    uint32_t word = atomic_load_explicit(&idle->word, memory_order_seq_cst); /* pairs: enter */
    if (weft__idle_wants_work(word)) {
        weft__idle_wake_one(idle);
    }
}

#endif
