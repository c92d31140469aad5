/* Rounds: how a dispatcher's only worker chooses what runs next, in the place of the order of
 * sched/worker.h.
 *
 * Its fibers belong to groups. A round:
 *   1. what came from other threads is taken in;
 *   2. timers that are due fire, and the driver is looked at if it is due;
 *   3. functions that were posted are called;
 *   4. each group that is ready now has its turn, in the order in which they became ready; one that
 *      is still ready after it waits for the next round.
 *
 * A group has three queues. A wake puts a fiber at the front or the back of `ready`, and costs one
 * of its budget for this round. With the budget used up it waits for the group's next turn: in
 * `next1` if it was to go to the front, in `next2` if to the back. A yield always goes to `next2`.
 * A turn begins by promoting both: `next1` to the front, one after another, as the wakes would have
 * put them there, and `next2` to the back. It ends when `ready` is empty, or after `slice` fibers
 * have run. So what runs, in this order: next1, last first; what was woken since; next2, first
 * first.
 *
 *   signals = 1:  wake-front A, wake-front B      runs B, A
 *                 signal-all with waiters A, B, C runs A, B, C: the chain goes to the front as a
 *                 whole
 *
 * The budget is what bounds a turn: two fibers that wake one another go on in the next round, after
 * all others. The round is counted in 48 bits of a task's `turn`, the rest of the budget in 16.
 * Slices are counted in fibers, not in time: the same inputs give the same order.
 *
 * What I/O, timers, other threads and ending fibers wake goes to the back, as does what is woken by
 * its name (unpark, interrupt, cancel); what an object wakes goes to the front, by whomever it was
 * signalled. A fiber that starts goes to the back, or to the front if its maker says so.
 *
 * The clock, and with it what timers and I/O have, is looked at in every round in which nothing
 * else is to do, and else in every sixteenth, or as many of them as took no longer than 20 us the
 * last time: a look costs more than a short round. Of rounds in which one group ran one or two
 * fibers and nothing else was to do, four count as one.
 *
 * Before it sleeps, a dispatcher that others have been sending something within moments spins for
 * the next (sched/spin.h). Timers and I/O are no reason to spin, and end it.
 *
 * Everything here is the worker's own thread's, but for the two inboxes and the gates
 * (sched/gate.h).
 */
#ifndef WEFT_SCHED_ROUNDS_H
#define WEFT_SCHED_ROUNDS_H

#include "base/link.h"
#include "queue/inbox.h"
#include "sched/gate.h"
#include "sched/order.h"
#include "sched/row.h"
#include "sched/spin.h"
#include "sched/task.h"

struct weft__rounds;

/* The queues of one group. */
struct weft__ranks {
    const char *name; /* first: what a foreign use of an object is told. Immutable */
    struct weft__rounds *rounds;
    struct weft__ranks *next; /* among those that are ready */
    bool listed;              /* is it? Written by weft__ranks_set_listed, as others look */
    uint16_t index;
    uint32_t slice; /* fibers that may run in a turn */
    struct weft__row ready, next1, next2;
    uint64_t queued; /* fibers in these */
    uint64_t turns, executed;
    uint64_t live, daemons; /* fibers that have been started and have not ended */
    uint64_t daemons_ever;  /* have been started */
    struct weft__gate gate; /* what others send */
};

/* What the objects of a group have as their owner: see weft__worker.owner. Pools are even. */
static inline const void *weft__ranks_owner(const struct weft__ranks *ranks)
{
    return (const char *)ranks + 1;
}

/* The other way round. NULL: a pool, or nobody. */
static inline const struct weft__ranks *weft__owner_ranks(const void *owner)
{
    const char *odd = owner;
    return (uintptr_t)owner & 1 ? (const struct weft__ranks *)(const void *)(odd - 1) : NULL;
}

/* A function to be called in a group. */
struct weft__command {
    struct weft__link link; /* first */
    void (*run)(struct weft__command *command);
    struct weft__ranks *ranks;
};

struct weft__rounds {
    struct weft__worker *worker;
    uint64_t round;                    /* its number, as a task's `turn` has it */
    struct weft__ranks *first, **last; /* groups that are ready */
    struct weft__ranks *running;       /* whose turn it is; written by weft__rounds_set_running */
    struct weft__ranks **ranks;        /* by index; one that is here has fibers, or may have */
    unsigned spins;                    /* rounds without waiting before it sleeps */
    int64_t spin_ns;                   /* after them, for what others send; 0: not at all */
    struct weft__spin spin;            /* whether it pays */
    unsigned most;                     /* rounds that may still go before somebody else is asked */
    unsigned pace;                     /* rounds between two looks at the clock, */
    unsigned unlooked;                 /* and how many are left of them */
    int64_t max_poll_ns;               /* 0: no limit */
    struct weft__inbox commands;       /* any thread */
    struct weft__order *order;         /* NULL: nobody asks */
    _Atomic(uint64_t) gone;            /* rounds; for any thread */
    /* After every turn of a group that could finish by it or has nothing ready, and from time to
     * time. */
    void (*settle)(struct weft__ranks *ranks);
};

/* Under the ident lock, of a fiber that has not ended, so that its group cannot be gone: which it
 * is in, or NULL. From any thread. */
const struct weft__ranks *weft__ranks_of_locked(const struct weft__task *task);
const char *weft__ranks_name_locked(const struct weft__task *task);

void weft__rounds_init(struct weft__rounds *rounds, struct weft__worker *w);
void weft__ranks_init(struct weft__ranks *ranks, struct weft__rounds *rounds);

/* Before it runs: the order is to be known. */
void weft__rounds_record(struct weft__rounds *rounds, struct weft__order *order);

/* The group of a fiber. */
static inline struct weft__ranks *weft__rounds_ranks(const struct weft__rounds *r,
                                                     const struct weft__task *task)
{
    return r->ranks[task->group];
}

/* --- queues -------------------------------------------------------------------------- */

/* The worker's thread alone writes and reads these plainly; other threads look at them
 * (weft__ranks_look), so the stores are atomic. */
static inline void weft__ranks_set_listed(struct weft__ranks *ranks, bool listed)
{
#ifdef WEFT_EXPLORE /* where nobody looks */
    ranks->listed = listed;
#else
    __atomic_store_n(&ranks->listed, listed, __ATOMIC_RELAXED);
#endif
}

static inline void weft__rounds_set_running(struct weft__rounds *r, struct weft__ranks *ranks)
{
#ifdef WEFT_EXPLORE
    r->running = ranks;
#else
    __atomic_store_n(&r->running, ranks, __ATOMIC_RELAXED);
#endif
}

/* What a group does at this moment. */
enum weft__ranks_activity {
    WEFT__RANKS_RESTS,
    WEFT__RANKS_READY,     /* it has its turn in this round or the next */
    WEFT__RANKS_EXECUTING, /* it has its turn, or runs what was posted */
};

/* Any thread; true of its own moment. */
static inline enum weft__ranks_activity weft__ranks_look(const struct weft__ranks *ranks)
{
    if (__atomic_load_n(&ranks->rounds->running, __ATOMIC_RELAXED) == ranks) {
        return WEFT__RANKS_EXECUTING;
    }
    return __atomic_load_n(&ranks->listed, __ATOMIC_RELAXED) ? WEFT__RANKS_READY
                                                             : WEFT__RANKS_RESTS;
}

/* For the next round. Whose turn it is is asked at its end. */
static inline void weft__rounds_list(struct weft__rounds *r, struct weft__ranks *ranks)
{
    if (ranks != r->running && !ranks->listed) {
        weft__ranks_set_listed(ranks, true);
        ranks->next = NULL;
        *r->last = ranks;
        r->last = &ranks->next;
    }
}

#define WEFT__TURN_ONE_ROUND ((uint64_t)1 << 16)

/* May it be woken once more in this round? Between the words of two rounds lies more than any
 * budget. */
static inline bool weft__rounds_charge(const struct weft__rounds *r, struct weft__task *task)
{
    uint64_t left = task->turn - r->round;
    if (left >= WEFT__TURN_ONE_ROUND) {
        task->turn = r->round + task->signals - 1; /* which is not 0 */
        return true;
    }
    if (__builtin_expect(left == 0, 0)) {
        return false;
    }
    task->turn--;
    return true;
}

/* The fiber of this group has become ready, on the worker's thread. */
static inline void weft__rounds_wake_in(struct weft__rounds *r, struct weft__ranks *ranks,
                                        struct weft__task *task, bool front)
{
    bool now = __builtin_expect(weft__rounds_charge(r, task), 1);
    ranks->queued++;
    if (front) {
        weft__row_push_front(now ? &ranks->ready : &ranks->next1, &task->link);
    } else {
        weft__row_push(now ? &ranks->ready : &ranks->next2, &task->link);
    }
    weft__rounds_list(r, ranks);
}

/* The same in whichever group it is. */
void weft__rounds_wake(struct weft__rounds *rounds, struct weft__task *task, bool front);
/* The same for all of a chain, to the front in their order. */
void weft__rounds_wake_all(struct weft__rounds *rounds, struct weft__chain *tasks);
/* The running fiber goes behind all others. */
void weft__rounds_yield(struct weft__rounds *rounds, struct weft__task *task);
/* A fiber that never ran, made on the worker's thread or taken in from outside. */
void weft__rounds_start(struct weft__rounds *rounds, struct weft__task *task);
/* It has ended. */
static inline void weft__rounds_end(const struct weft__rounds *r, const struct weft__task *task)
{
    struct weft__ranks *ranks = weft__rounds_ranks(r, task);
    *(__builtin_expect(task->flags & WEFT__TASK_DAEMON, 0) ? &ranks->daemons : &ranks->live) -= 1;
}
/* On a fiber's stack: the next of the group whose turn it is, if it has a stack. NULL: to the base
 * context. */
struct weft__task *weft__rounds_pick(struct weft__rounds *rounds);

/* Any thread: calls the function in a coming round. The command is the worker's until then. */
void weft__rounds_post(struct weft__rounds *rounds, struct weft__command *command);

/* Rounds until nothing is ready, or the worker is told to leave, or so many have gone; on the base
 * context. Never waits. */
void weft__rounds_work(struct weft__rounds *rounds, unsigned most);
/* Is there anything to do without waiting? */
bool weft__rounds_busy(const struct weft__rounds *rounds);
/* Has another thread sent something? */
bool weft__rounds_handed(const struct weft__rounds *rounds);
/* With nothing to do: spins for a hand-off. True: there is something, or the worker is told to
 * leave. */
bool weft__rounds_spin(struct weft__rounds *rounds);

#endif
