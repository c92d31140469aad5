/* The group scheduler: decides, in rounds, what a dispatcher's only worker runs next. It replaces
 * the order described in worker/worker.h.
 *
 * A dispatcher's fibers belong to groups. A round:
 *   1. accept what other threads have sent;
 *   2. fire expired timers, and poll the driver if a poll is due;
 *   3. call the posted functions;
 *   4. give each group that is ready now its turn, in the order in which the groups became ready; a
 *      group that is still ready after its turn waits for the next round.
 *
 * A group has three queues. A wake-up puts a fiber at the front or the back of `ready`, and uses
 * one unit of the fiber's wake-up budget for this round. A fiber without budget waits for the
 * group's next turn: in `next_front` if it was to go to the front, in `next_back` if to the back. A
 * yield always goes to `next_back`. A turn begins by promoting both: `next_front` to the front, one
 * after another, as the wake-ups would have put them there, and `next_back` to the back. The turn
 * ends when `ready` is empty, or after `slice` fibers have run. So the order is: next_front, last
 * in first out; fibers woken since; next_back, first in first out.
 *
 *   signals = 1:  wake-front A, wake-front B       runs B, A
 *                 signal-all with waiters A, B, C  runs A, B, C: the chain goes to the front as a
 *                                                  whole
 *
 * The budget bounds a turn: two fibers that wake each other continue in the next round, after all
 * others. A task's `turn` holds the round number in 48 bits and the remaining budget in 16. Slices
 * are counted in fibers, not in time, so that the same inputs give the same order.
 *
 * Fibers woken by I/O, timers, other threads or ending fibers go to the back, as do fibers woken
 * by handle (unpark, interrupt, cancel). Fibers woken by an object go to the front, whichever
 * thread signalled it. A fiber that starts goes to the back, or to the front if its creator asks
 * for that.
 *
 * The clock, timers and I/O are polled in every round in which nothing else is ready; otherwise in
 * every sixteenth round, or in as many as took at most 20 us the last time, because a poll costs
 * more than a short round. Of rounds in which one group ran one or two fibers and nothing else was
 * to do, four count as one.
 *
 * Before it sleeps, a dispatcher that received hand-offs from other threads within moments spins
 * for the next one (idle/spin.h). Timers and I/O are no reason to spin, and end the spinning.
 *
 * Everything here belongs to the worker's own thread, except the two inboxes and the intakes
 * (queue/intake.h). */
#ifndef WEFT_SCHED_GROUP_SCHEDULER_H
#define WEFT_SCHED_GROUP_SCHEDULER_H

#include "base/link.h"
#include "idle/spin.h"
#include "queue/inbox.h"
#include "queue/intake.h"
#include "queue/task_list.h"
#include "sched/run_order.h"
#include "task/task.h"

struct weft__group_sched;

/* The queues of one group. */
struct weft__group_queues {
    const char *name; /* first: reported when an object is used from a foreign group. Immutable */
    struct weft__group_sched *rounds;
    struct weft__group_queues *next; /* in the list of ready groups */
    bool listed; /* in that list? Written by weft__group_queues_set_listed, because other
                               * threads read it */
    uint16_t index;
    uint32_t slice; /* fibers that may run in a turn */
    struct weft__task_list ready, next_front, next_back;
    uint64_t queued; /* fibers in these queues */
    uint64_t turns, executed;
    uint64_t live, daemons;     /* fibers that have started and have not ended */
    uint64_t daemons_ever;      /* daemons that have started */
    struct weft__intake intake; /* counts what other threads send */
};

/* The owner value of a group's objects: see weft__worker.owner. Odd, because pools are even. */
static inline const void *weft__group_queues_owner(const struct weft__group_queues *queues)
{
    return (const char *)queues + 1;
}

/* The inverse. NULL: a pool, or no owner. */
static inline const struct weft__group_queues *weft__owner_group_queues(const void *owner)
{
    const char *odd = owner;
    return (uintptr_t)owner & 1 ? (const struct weft__group_queues *)(const void *)(odd - 1) : NULL;
}

/* A function to be called in a group. */
struct weft__command {
    struct weft__link link; /* first */
    void (*run)(struct weft__command *command);
    struct weft__group_queues *queues;
};

struct weft__group_sched {
    struct weft__worker *worker;
    uint64_t round;                           /* its number, as in a task's `turn` */
    struct weft__group_queues *first, **last; /* ready groups */
    struct weft__group_queues *running;       /* the group whose turn it is; written by
                                        * weft__group_sched_set_running */
    struct weft__group_queues *
        *queues;                   /* by index; a group in this table has fibers, or may have */
    unsigned spins;                /* idle rounds before it sleeps */
    int64_t spin_ns;               /* how long it then spins for hand-offs; 0: not at all */
    struct weft__spin spin;        /* whether spinning pays off */
    unsigned most;                 /* rounds left before the worker loop regains control */
    unsigned poll_interval;        /* rounds between two polls of the clock, */
    unsigned rounds_to_poll;       /* and how many of them are left */
    int64_t max_poll_ns;           /* 0: no limit */
    struct weft__inbox commands;   /* any thread */
    struct weft__run_order *order; /* NULL: not recorded */
    _Atomic(uint64_t) gone;        /* completed rounds; read by any thread */
    /* Called after every turn of a group that may have finished by it or has nothing ready, and
     * from time to time. */
    void (*settle)(struct weft__group_queues *queues);
};

/* The group of a fiber that has not ended, so that the group cannot be freed; NULL: none. Under
 * the ident lock, from any thread. */
const struct weft__group_queues *weft__group_queues_of_locked(const struct weft__task *task);
const char *weft__group_name_locked(const struct weft__task *task);

void weft__group_sched_init(struct weft__group_sched *rounds, struct weft__worker *w);
void weft__group_queues_init(struct weft__group_queues *queues, struct weft__group_sched *rounds);

/* Before it runs: records the run order. */
void weft__group_sched_record_order(struct weft__group_sched *rounds,
                                    struct weft__run_order *order);

/* The group of a fiber. */
static inline struct weft__group_queues *weft__group_sched_queues(const struct weft__group_sched *r,
                                                                  const struct weft__task *task)
{
    return r->queues[task->group];
}

/* --- queues -------------------------------------------------------------------------- */

/* Only the worker's thread writes these, and reads them plainly; other threads read them
 * (weft__group_queues_activity), so the stores are atomic. */
static inline void weft__group_queues_set_listed(struct weft__group_queues *queues, bool listed)
{
#ifdef WEFT_EXPLORE /* where no other thread reads it */
    queues->listed = listed;
#else
    __atomic_store_n(&queues->listed, listed, __ATOMIC_RELAXED);
#endif
}

static inline void weft__group_sched_set_running(struct weft__group_sched *r,
                                                 struct weft__group_queues *queues)
{
#ifdef WEFT_EXPLORE
    r->running = queues;
#else
    __atomic_store_n(&r->running, queues, __ATOMIC_RELAXED);
#endif
}

/* What a group does at this moment. */
enum weft__group_activity {
    WEFT__GROUP_QUEUES_IDLE,
    WEFT__GROUP_QUEUES_READY,     /* it has its turn in this round or the next */
    WEFT__GROUP_QUEUES_EXECUTING, /* it has its turn, or runs a posted function */
};

/* Any thread; may be out of date on return. */
static inline enum weft__group_activity
weft__group_queues_activity(const struct weft__group_queues *queues)
{
    if (__atomic_load_n(&queues->rounds->running, __ATOMIC_RELAXED) == queues) {
        return WEFT__GROUP_QUEUES_EXECUTING;
    }
    return __atomic_load_n(&queues->listed, __ATOMIC_RELAXED) ? WEFT__GROUP_QUEUES_READY
                                                              : WEFT__GROUP_QUEUES_IDLE;
}

/* Adds the group to the ready list for the next round. The group whose turn it is is checked at
 * the end of its turn instead. */
static inline void weft__group_sched_add_ready(struct weft__group_sched *r,
                                               struct weft__group_queues *queues)
{
    if (queues != r->running && !queues->listed) {
        weft__group_queues_set_listed(queues, true);
        queues->next = NULL;
        *r->last = queues;
        r->last = &queues->next;
    }
}

#define WEFT__TURN_ONE_ROUND ((uint64_t)1 << 16)

/* Uses one unit of the task's wake-up budget in this round. Returns false if none is left. The
 * `turn` words of two rounds differ by more than any budget. */
static inline bool weft__group_sched_charge(const struct weft__group_sched *r,
                                            struct weft__task *task)
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

/* A fiber of this group has become ready, on the worker's thread. */
static inline void weft__group_sched_wake_in(struct weft__group_sched *r,
                                             struct weft__group_queues *queues,
                                             struct weft__task *task, enum weft__queue_end end)
{
    bool now = __builtin_expect(weft__group_sched_charge(r, task), 1);
    queues->queued++;
    if (end == WEFT__FRONT) {
        weft__task_list_push_front(now ? &queues->ready : &queues->next_front, &task->link);
    } else {
        weft__task_list_push(now ? &queues->ready : &queues->next_back, &task->link);
    }
    weft__group_sched_add_ready(r, queues);
}

/* Same, for the task's own group. */
void weft__group_sched_wake(struct weft__group_sched *rounds, struct weft__task *task,
                            enum weft__queue_end end);
/* Same for a chain of tasks, to the front in their order. */
void weft__group_sched_wake_all(struct weft__group_sched *rounds, struct weft__chain *tasks);
/* Moves the running fiber to the back of the queue. */
void weft__group_sched_yield(struct weft__group_sched *rounds, struct weft__task *task);
/* Starts a not-yet-started fiber, created on the worker's thread or accepted from outside. */
void weft__group_sched_start(struct weft__group_sched *rounds, struct weft__task *task);
/* Counts the end of a fiber. */
static inline void weft__group_sched_end(const struct weft__group_sched *r,
                                         const struct weft__task *task)
{
    struct weft__group_queues *queues = weft__group_sched_queues(r, task);
    *(__builtin_expect(task->flags & WEFT__TASK_DAEMON, 0) ? &queues->daemons : &queues->live) -= 1;
}
/* On a fiber's stack: the next task of the group whose turn it is, if that has a stack. NULL: go
 * to the base context. */
struct weft__task *weft__group_sched_pick(struct weft__group_sched *rounds);

/* Any thread: calls the function in a coming round. The worker owns the command until then. */
void weft__group_sched_post(struct weft__group_sched *rounds, struct weft__command *command);

/* Runs rounds until nothing is ready, the worker is asked to leave, or `most` rounds have run; on
 * the base context. Never waits. */
void weft__group_sched_run(struct weft__group_sched *rounds, unsigned most);
/* Is there anything to do without waiting? */
bool weft__group_sched_is_busy(const struct weft__group_sched *rounds);
/* Has another thread sent something? */
bool weft__group_sched_has_handoffs(const struct weft__group_sched *rounds);
/* With nothing to do: spins for a hand-off. True: there is something to do, or the worker is asked
 * to leave. */
bool weft__group_sched_spin(struct weft__group_sched *rounds);

#endif
