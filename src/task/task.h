/* The task: the unit that schedulers run. One control block of 128 bytes, one atomic state word.
 *
 * The state word is {sequence:48, reason:12, state:4}. The sequence counts waits over the whole
 * life of the slot, through all fibers that use the slot. A *ticket* is the sequence number of one
 * wait. Only the holder of its ticket can end a wait, so a late timer, a cancel of an old wait, or
 * a wake-up meant for an earlier fiber of this slot fails by itself. The first to fire a ticket
 * wins; all others do nothing.
 *
 * No other file touches the word. Transitions (P = the task itself on its worker, W = the worker
 * after it has switched away from the task, A = any thread):
 *
 *   from      to        who  function     race that the transition closes
 *   --------  --------  ---  -----------  --------------------------------------------------------
 *   FREE      CREATED   A    create       only the creator owns the slot
 *   FREE      FRESH     A    create       " (a spawn: created and submitted in one step)
 *   CREATED   FRESH     A    submit       CAS: submitted once, whichever thread calls
 *   FRESH     CREATED   A    unsubmit     the pool refused the task; under the ident lock, before
 *                                         the task was queued
 *   FRESH     RUNNING   W    run          the dequeuer owns the task: a queue gives each task to
 *                                         one worker
 *   READY     RUNNING   W    run          "
 *   RUNNING   READY     W    requeue      after the switch, so that no worker runs a stack that is
 *                                         still in use
 *   RUNNING   ARMED     P    arm          seq_cst for a park: P then checks for a permit; A sets
 *                                         the permit first and reads the word second
 *   RUNNING   WAITING   P    arm_settled  a stackless task whose step does nothing more: arm and
 *                                         settle in one. The task may be fired before the step has
 *                                         returned, but cannot run yet: it is a dispatcher's task,
 *                                         and this is the dispatcher's thread. seq_cst as settle
 *   WAITING   ARMED     P    unsettle     CAS: the step has not returned and takes the wait back,
 *                                         unless it was fired
 *   ARMED     RUNNING   P    disarm       CAS: P gives the wait up, unless it was fired
 *   ARMED     FIRED     A    fire         CAS: a wake-up between arm and the end of the switch;
 *                                         the winner does not queue the task, because its stack is
 *                                         still in use: W will
 *   FIRED     RUNNING   P    disarm       P learns of the wake-up without having parked
 *   ARMED     WAITING   W    settle       CAS: the switch is complete. seq_cst: W then checks for
 *                                         a cancel or an interrupt; A sets that flag first and
 *                                         reads the word second
 *   FIRED     READY     W    settle       the task was fired during the switch: W queues it
 *   WAITING   READY     A    fire         CAS: the winner queues the task (also fire_waiting)
 *   WAITING   HELD      A    hold         CAS: an inspector keeps the task waiting while it reads
 *                                         the task's stack
 *   HELD      WAITING   A    unhold       CAS: the inspector releases the task
 *   HELD      WOKEN     A    fire         CAS: fired while held; the inspector queues the task,
 *                                         not the winner. For a dispatcher's task the winner waits
 *                                         for the inspector instead, so that the order in which
 *                                         tasks are queued does not depend on inspection
 *   WOKEN     READY     A    unhold       the inspector releases the task and queues it
 *   RUNNING   DONE      P    finish       the result waits for its joiners
 *   DONE      FREE      A    free         the last join right was used (under the ident lock)
 *   CREATED   FREE      A    free         discarded (under the ident lock)
 *   FRESH     FREE      A    free         made for a batch that could not be completed; never
 *                                         queued */
#ifndef WEFT_TASK_TASK_H
#define WEFT_TASK_TASK_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "base/cpu.h"
#include "base/link.h"
#include "context/context.h"

struct weft_pool;
struct weft__stack;
struct weft__node;
struct weft__held;
struct weft__stackless_kind;
struct weft__wait_kind;
struct weft__deadline;

enum weft__task_state {
    WEFT__TASK_FREE,
    WEFT__TASK_CREATED,
    WEFT__TASK_FRESH,
    WEFT__TASK_READY,
    WEFT__TASK_RUNNING,
    WEFT__TASK_ARMED,
    WEFT__TASK_FIRED,
    WEFT__TASK_WAITING,
    WEFT__TASK_DONE,
    WEFT__TASK_HELD,
    WEFT__TASK_WOKEN,
};

/* Why a wait ended. */
enum weft__reason {
    WEFT__REASON_NONE,
    WEFT__REASON_TIMEOUT,
    WEFT__REASON_CANCEL,
    WEFT__REASON_INTERRUPT,
    WEFT__REASON_DONE, /* the awaited event happened; of several events, DONE + index */
};

/* The end of its group's ready tasks at which a dispatcher queues a task. What an object wakes goes
 * to the front, all else to the back. A pool's order does not depend on it. */
enum weft__queue_end {
    WEFT__BACK,
    WEFT__FRONT,
};

/* What can end a wait. Stored in the reason bits until the wait ends. */
enum weft__wait {
    WEFT__WAIT_OBJECT,          /* the holder of the ticket */
    WEFT__WAIT_PARK,            /* also weft_fiber_unpark, by handle */
    WEFT__WAIT_SHIELDED = 2,    /* or-ed: not a cancel or an interrupt */
    WEFT__WAIT_UNABORTABLE = 4, /* or-ed, in a shield: not an abort either */
    WEFT__WAIT_EXTERNAL = 8,    /* or-ed: no fiber owns what is awaited */
    WEFT__WAIT_PLAIN = WEFT__WAIT_OBJECT | WEFT__WAIT_EXTERNAL,
};

/* Flags. All but HOOKS_OFF are constant after creation. */
enum {
    WEFT__TASK_FP_ENV = 1,
    WEFT__TASK_CHILD = 2,          /* until it starts, `joiners` is its struct weft__parent */
    WEFT__TASK_HOOKED = 4,         /* bound to a worker when submitted */
    WEFT__TASK_HOOKS_OFF = 8,      /* owned by the task */
    WEFT__TASK_STACKLESS = 16,     /* has no stack: sched/stackless.h */
    WEFT__TASK_GROUPED = 32,       /* in a dispatcher's group: sched/group_scheduler.h */
    WEFT__TASK_DAEMON = 64,        /* does not keep its group from finishing */
    WEFT__TASK_INSTRUMENTED = 128, /* a sanitizer or the C++ runtime must learn of its switches */
    /* With any of these flags the task switches out of line, in sched/switch.c. */
    WEFT__TASK_OUT_OF_LINE = WEFT__TASK_FP_ENV | WEFT__TASK_INSTRUMENTED,
};

/* What the nodes of a stackless task point to while it waits: the first members of a struct
 * weft__waiter. */
struct __attribute__((may_alias)) weft__claim {
    struct weft__task *task;
    uint64_t ticket;
};

/* What a fiber waits for, for inspection. On the fiber's stack, in frames that a wait touches
 * anyway. */
struct weft__wait_note {
    const struct weft__wait_kind *kind;
    uint64_t on;
    int64_t since; /* the worker's clock at its last tick */
};

struct weft__task {
    /* Owned by the queue that holds the task, then by the worker that runs it: all that a wait and
     * a wake-up touch, except the stack. */
    union {
        struct weft__link link;             /* first: a link is a task */
        const struct weft__wait_note *note; /* while a fiber waits; it is in no queue then */
    };
    _Atomic(uint64_t) state;
    union {
        struct weft__context ctx;
        struct { /* of a stackless task */
            void *own;
            struct weft__claim claim;
        };
    };
    union {
        struct weft_pool *home; /* its pool; changed by the task itself, under its ident lock */
        uint64_t was_home;      /* after the end: `serial` of the pool, which may be freed */
    };
    _Atomic(uint64_t) ident; /* task/ident.h */
    int16_t pin;             /* the worker it is bound to, or -1; changed like home */
    uint8_t stack_class;
    uint8_t flags;
    _Atomic(int16_t) ran_on; /* for dumps: the last worker, -1 at first */
    uint16_t shields;        /* open shields, which defer cancel and interrupt; owned by the task */

    /* Start, end and names. */
    union {
        struct weft__stack *stack;       /* attached at the first run */
        struct weft__deadline *deadline; /* of a stackless task that waits, or NULL */
    };
    union {
        void *(*fn)(void *);
        const struct weft__stackless_kind *stackless;
        struct weft__task *ahead; /* in a free block: prefetch hint, task/slab.h */
    };
    union {
        void *value;             /* the argument, and at the end the result */
        struct weft__held *held; /* in between: the locks it holds, innermost first; owned by it */
    };
    struct weft__node *joiners; /* under the ident lock */
    int64_t born;
    union {
        char name[16];     /* under the ident lock once running */
        struct {           /* of a grouped task */
            uint64_t turn; /* sched/group_scheduler.h */
            char *label;   /* its own copy of the name, or NULL; changed under the ident lock */
        };
    };
    uint32_t slot;
    uint16_t group;   /* of a grouped task: the index of its group, */
    uint16_t signals; /* and how often it may be woken in one round */
};

#ifndef WEFT_EXPLORE
_Static_assert(sizeof(struct weft__task) == 128, "two cache lines");
_Static_assert(offsetof(struct weft__task, stack) == 64, "the first is what a wait needs");
#endif

#define WEFT__STATE_BITS 4
#define WEFT__REASON_BITS 12
#define WEFT__TICKET_SHIFT (WEFT__STATE_BITS + WEFT__REASON_BITS)

static inline enum weft__task_state weft__word_state(uint64_t word)
{
    return (enum weft__task_state)(word & ((1u << WEFT__STATE_BITS) - 1));
}

static inline enum weft__reason weft__word_reason(uint64_t word)
{
    return (enum weft__reason)(word >> WEFT__STATE_BITS & ((1u << WEFT__REASON_BITS) - 1));
}

static inline uint64_t weft__word_with(uint64_t word, enum weft__task_state state)
{
    return (word & ~(uint64_t)((1u << WEFT__STATE_BITS) - 1)) | state;
}

static inline uint64_t weft__word_fired(uint64_t word, enum weft__task_state state,
                                        enum weft__reason reason)
{
    return word >> WEFT__TICKET_SHIFT << WEFT__TICKET_SHIFT | (uint64_t)reason << WEFT__STATE_BITS |
           state;
}

static inline bool weft__task_is_stackless(const struct weft__task *task)
{
    return (task->flags & WEFT__TASK_STACKLESS) != 0;
}

/* Under the ident lock, or by the task itself. "" for a stackless task without a name. */
static inline const char *weft__task_name(const struct weft__task *task)
{
    if (__builtin_expect(task->flags & WEFT__TASK_GROUPED, 0)) {
        return task->label ? task->label : "";
    }
    return task->name;
}

/* A snapshot for any thread; may be out of date on return. */
static inline enum weft__task_state weft__task_state(const struct weft__task *task)
{
    return weft__word_state(
        atomic_load_explicit(&task->state, memory_order_acquire)); /* pairs: run */
}

/* Same as weft__task_state, for a thread that has published something for which the task checks
 * after settle: if this load does not see the task waiting, the task sees the publication. seq_cst
 * on both sides. pairs: settle */
static inline enum weft__task_state weft__task_state_after(const struct weft__task *task)
{
    return weft__word_state(atomic_load_explicit(&task->state, memory_order_seq_cst));
}

/* Steps of the thread that owns the task at that moment. Plain stores, because no other thread may
 * write. */
static inline void weft__task_own_step(struct weft__task *task, enum weft__task_state from,
                                       enum weft__task_state to)
{
    uint64_t word = atomic_load_explicit(&task->state, memory_order_relaxed);
    WEFT__DEBUG_ASSERT(weft__word_state(word) == from);
    (void)from;
    atomic_store_explicit(&task->state, weft__word_with(word, to), memory_order_relaxed);
}

static inline void weft__task_create(struct weft__task *task)
{
    weft__task_own_step(task, WEFT__TASK_FREE, WEFT__TASK_CREATED);
}

/* For a spawn: no other thread knows the task yet. */
static inline void weft__task_create_fresh(struct weft__task *task)
{
    weft__task_own_step(task, WEFT__TASK_FREE, WEFT__TASK_FRESH);
}

/* Returns false if the task was submitted before. */
static inline bool weft__task_submit(struct weft__task *task)
{
    uint64_t word = atomic_load_explicit(&task->state, memory_order_relaxed);
    return weft__word_state(word) == WEFT__TASK_CREATED &&
           atomic_compare_exchange_strong_explicit(&task->state, &word,
                                                   weft__word_with(word, WEFT__TASK_FRESH),
                                                   memory_order_acq_rel, memory_order_relaxed);
}

/* Undoes a submit that could not be completed. */
static inline void weft__task_unsubmit(struct weft__task *task)
{
    weft__task_own_step(task, WEFT__TASK_FRESH, WEFT__TASK_CREATED);
}

/* Returns true if the task has never run and needs a stack. */
static inline bool weft__task_run(struct weft__task *task)
{
    uint64_t word = atomic_load_explicit(&task->state, memory_order_relaxed);
    enum weft__task_state state = weft__word_state(word);
    WEFT__DEBUG_ASSERT(state == WEFT__TASK_FRESH || state == WEFT__TASK_READY);
    /* Release: a thread that sees RUNNING sees the stack that was attached. pairs:
     * weft__task_state */
    atomic_store_explicit(&task->state, weft__word_with(word, WEFT__TASK_RUNNING),
                          memory_order_release);
    return state == WEFT__TASK_FRESH;
}

static inline bool weft__task_is_fresh(const struct weft__task *task)
{
    return weft__task_state(task) == WEFT__TASK_FRESH;
}

static inline void weft__task_requeue(struct weft__task *task)
{
    weft__task_own_step(task, WEFT__TASK_RUNNING, WEFT__TASK_READY);
}

static inline void weft__task_finish(struct weft__task *task)
{
    weft__task_own_step(task, WEFT__TASK_RUNNING, WEFT__TASK_DONE);
}

/* From DONE; from CREATED when a fiber is discarded; from FRESH when the task was never queued. */
static inline void weft__task_free(struct weft__task *task)
{
    uint64_t word = atomic_load_explicit(&task->state, memory_order_relaxed);
    atomic_store_explicit(&task->state, weft__word_with(word, WEFT__TASK_FREE),
                          memory_order_relaxed);
}

/* Begins a wait and returns its ticket. After it the task checks once more for every event source
 * that can fire without having been given the ticket. */
static inline uint64_t weft__task_arm(struct weft__task *task, unsigned kind)
{
    uint64_t word = atomic_load_explicit(&task->state, memory_order_relaxed);
    WEFT__DEBUG_ASSERT(weft__word_state(word) == WEFT__TASK_RUNNING);
    uint64_t ticket = (word >> WEFT__TICKET_SHIFT) + 1;
    uint64_t armed =
        ticket << WEFT__TICKET_SHIFT | (uint64_t)kind << WEFT__STATE_BITS | WEFT__TASK_ARMED;
    if (kind & WEFT__WAIT_PARK) {
        /* The task reads its permit next. pairs: weft__task_ticket */
        atomic_store_explicit(&task->state, armed, memory_order_seq_cst);
    } else {
        atomic_store_explicit(&task->state, armed, memory_order_release); /* pairs: fire */
    }
    WEFT__STEP();
    return armed >> WEFT__TICKET_SHIFT;
}

/* Gets the ticket of the task's current wait, for a caller that has the task (to give a permit, to
 * cancel) and not the wait. Returns false if the task is in no wait. */
static inline bool weft__task_ticket(const struct weft__task *task, uint64_t *ticket,
                                     unsigned *kind)
{
    uint64_t word = atomic_load_explicit(&task->state, memory_order_seq_cst); /* pairs: arm */
    enum weft__task_state state = weft__word_state(word);
    *ticket = word >> WEFT__TICKET_SHIFT;
    *kind = (unsigned)weft__word_reason(word);
    return state == WEFT__TASK_ARMED || state == WEFT__TASK_WAITING || state == WEFT__TASK_HELD;
}

enum weft__fire {
    WEFT__FIRE_LOST,   /* the wait is over, or another caller was first */
    WEFT__FIRE_WON,    /* the task resumes by itself */
    WEFT__FIRE_ENQUEUE /* the task is READY and the caller must queue it */
};

/* Waits until no inspector holds the task and returns the word. Takes microseconds unless the
 * inspector was preempted. An inspector waits for nothing while it holds a task. */
static __attribute__((noinline, cold, unused)) uint64_t
weft__task_wait_unheld(const struct weft__task *task)
{
    uint64_t word;
    for (unsigned spins = 0;; spins++) {
        word = atomic_load_explicit(&task->state, memory_order_relaxed);
        if (weft__word_state(word) != WEFT__TASK_HELD) {
            return word;
        }
        if (spins < 64) {
            weft__cpu_pause();
        } else {
            sched_yield();
        }
    }
}

/* Ends the wait with this ticket. */
WEFT__MUST_USE static inline enum weft__fire
weft__task_fire(struct weft__task *task, uint64_t ticket, enum weft__reason reason)
{
    uint64_t word = atomic_load_explicit(&task->state, memory_order_relaxed);
    while (word >> WEFT__TICKET_SHIFT == ticket) {
        enum weft__task_state state = weft__word_state(word), to;
        if (__builtin_expect(state == WEFT__TASK_WAITING, 1)) {
            to = WEFT__TASK_READY;
        } else if (state == WEFT__TASK_ARMED) {
            to = WEFT__TASK_FIRED;
        } else if (state == WEFT__TASK_HELD) {
            if (task->flags & WEFT__TASK_GROUPED) {
                word = weft__task_wait_unheld(task);
                continue;
            }
            to = WEFT__TASK_WOKEN;
        } else {
            break;
        }
        WEFT__STEP();
        /* Release: publishes what the waker wrote to the task. Acquire: takes over the frame that
         * settle released, for the next runner of the task. pairs: settle, disarm */
        if (atomic_compare_exchange_weak_explicit(&task->state, &word,
                                                  weft__word_fired(word, to, reason),
                                                  memory_order_acq_rel, memory_order_relaxed)) {
            return to == WEFT__TASK_READY ? WEFT__FIRE_ENQUEUE : WEFT__FIRE_WON;
        }
    }
    return WEFT__FIRE_LOST;
}

/* Same as weft__task_fire, but only if the task is WAITING and no inspector holds it. True: the
 * task is READY and belongs to the caller alone, with its frame, until the caller queues it, so
 * the caller may still write what the task will read. False: nothing was done. */
WEFT__MUST_USE static inline bool weft__task_fire_waiting(struct weft__task *task, uint64_t ticket,
                                                          enum weft__reason reason)
{
    uint64_t word = atomic_load_explicit(&task->state, memory_order_relaxed);
    return word >> WEFT__TICKET_SHIFT == ticket && weft__word_state(word) == WEFT__TASK_WAITING &&
           atomic_compare_exchange_strong_explicit(
               &task->state, &word, weft__word_fired(word, WEFT__TASK_READY, reason),
               memory_order_acquire, memory_order_relaxed); /* the frame. pairs: settle */
}

/* Same, but only if the wait is WEFT__WAIT_PLAIN; needs no load first. */
WEFT__MUST_USE static inline bool weft__task_fire_plain(struct weft__task *task, uint64_t ticket,
                                                        enum weft__reason reason)
{
    uint64_t wait = ticket << WEFT__TICKET_SHIFT;
    uint64_t word = wait | (uint64_t)WEFT__WAIT_PLAIN << WEFT__STATE_BITS | WEFT__TASK_WAITING;
    return atomic_compare_exchange_strong_explicit(
        &task->state, &word, wait | (uint64_t)reason << WEFT__STATE_BITS | WEFT__TASK_READY,
        memory_order_acquire, memory_order_relaxed); /* pairs: arm_settled, settle, unhold */
}

/* After the switch. Returns the armed word if the task waits now. Returns 0 if it was fired during
 * the switch; the caller queues it. seq_cst: the caller then reads the flags that a canceller sets
 * before it reads this word. pairs: weft__task_ticket */
WEFT__MUST_USE static inline uint64_t weft__task_settle(struct weft__task *task)
{
    uint64_t word = atomic_load_explicit(&task->state, memory_order_relaxed), armed = word;
    if (weft__word_state(armed) == WEFT__TASK_ARMED &&
        atomic_compare_exchange_strong_explicit(&task->state, &word,
                                                weft__word_with(armed, WEFT__TASK_WAITING),
                                                memory_order_seq_cst, /* pairs: fire, ticket */
                                                memory_order_relaxed)) {
        return armed;
    }
    word = atomic_load_explicit(&task->state, memory_order_acquire); /* pairs: fire */
    WEFT__DEBUG_ASSERT(weft__word_state(word) == WEFT__TASK_FIRED);
    atomic_store_explicit(&task->state, weft__word_with(word, WEFT__TASK_READY),
                          memory_order_relaxed);
    return 0;
}

/* Arm and settle in one step, for a wait that needs nothing more in between. `resting` is the
 * word, computed before. The caller then checks the flags, as after settle. */
static inline uint64_t weft__task_settled_word(const struct weft__task *task)
{
    uint64_t word = atomic_load_explicit(&task->state, memory_order_relaxed);
    WEFT__DEBUG_ASSERT(weft__word_state(word) == WEFT__TASK_RUNNING);
    return (word >> WEFT__TICKET_SHIFT << WEFT__TICKET_SHIFT) +
           ((uint64_t)1 << WEFT__TICKET_SHIFT | (uint64_t)WEFT__WAIT_PLAIN << WEFT__STATE_BITS |
            WEFT__TASK_WAITING);
}

static inline void weft__task_arm_settled(struct weft__task *task, uint64_t resting)
{
    atomic_store_explicit(&task->state, resting, memory_order_seq_cst); /* pairs: hold, ticket */
}

/* Undoes weft__task_arm_settled: the wait is armed, as if it had not settled. False: it was fired,
 * and the thread that fired it queues the task. */
WEFT__MUST_USE static __attribute__((unused)) bool weft__task_unsettle(struct weft__task *task)
{
    for (;;) {
        uint64_t word = weft__task_wait_unheld(task);
        if (weft__word_state(word) != WEFT__TASK_WAITING) {
            return false;
        }
        WEFT__STEP();
        if (atomic_compare_exchange_weak_explicit(&task->state, &word,
                                                  weft__word_with(word, WEFT__TASK_ARMED),
                                                  memory_order_acquire, /* pairs: unhold */
                                                  memory_order_relaxed)) {
            return true;
        }
    }
}

/* Freezes a waiting task: its stack and everything it waits on stay unchanged until unhold. False:
 * the task does not wait, or another inspector holds it. Hold for a few microseconds only. */
static inline bool weft__task_hold(struct weft__task *task)
{
    uint64_t word = atomic_load_explicit(&task->state, memory_order_relaxed);
    while (weft__word_state(word) == WEFT__TASK_WAITING) {
        /* Acquire: the frame that settle released. pairs: settle */
        if (atomic_compare_exchange_weak_explicit(&task->state, &word,
                                                  weft__word_with(word, WEFT__TASK_HELD),
                                                  memory_order_acquire, memory_order_relaxed)) {
            return true;
        }
    }
    return false;
}

/* Returns true if the task was fired while held: it is READY and the caller must queue it. */
WEFT__MUST_USE static inline bool weft__task_unhold(struct weft__task *task)
{
    uint64_t word = atomic_load_explicit(&task->state, memory_order_relaxed);
    WEFT__STEP();
    if (weft__word_state(word) == WEFT__TASK_HELD &&
        atomic_compare_exchange_strong_explicit(&task->state, &word,
                                                weft__word_with(word, WEFT__TASK_WAITING),
                                                memory_order_release, /* pairs: fire, hold */
                                                memory_order_relaxed)) {
        return false;
    }
    word = atomic_load_explicit(&task->state, memory_order_acquire); /* pairs: fire on HELD */
    WEFT__DEBUG_ASSERT(weft__word_state(word) == WEFT__TASK_WOKEN);
    atomic_store_explicit(&task->state, weft__word_with(word, WEFT__TASK_READY),
                          memory_order_relaxed);
    return true;
}

/* Ends a wait without parking. REASON_NONE: the wait had not been fired and cannot be fired now.
 * Any other reason was delivered to this wait only: the caller returns it, or defers it
 * (weft__waiter_defer). */
WEFT__MUST_USE static inline enum weft__reason weft__task_disarm(struct weft__task *task)
{
    uint64_t word = atomic_load_explicit(&task->state, memory_order_relaxed);
    if (weft__word_state(word) == WEFT__TASK_ARMED &&
        atomic_compare_exchange_strong_explicit(&task->state, &word,
                                                weft__word_with(word, WEFT__TASK_RUNNING),
                                                memory_order_relaxed, memory_order_relaxed)) {
        return WEFT__REASON_NONE;
    }
    word = atomic_load_explicit(&task->state, memory_order_acquire); /* pairs: fire */
    WEFT__DEBUG_ASSERT(weft__word_state(word) == WEFT__TASK_FIRED);
    atomic_store_explicit(&task->state, weft__word_with(word, WEFT__TASK_RUNNING),
                          memory_order_relaxed);
    return weft__word_reason(word);
}

/* The task of a link, its first member; NULL for NULL. */
static inline struct weft__task *weft__task_of(struct weft__link *link)
{
    return (struct weft__task *)(void *)link;
}

/* Already fired? For the time between arm and park. */
static inline bool weft__task_is_fired(const struct weft__task *task)
{
    return weft__task_state(task) == WEFT__TASK_FIRED;
}

/* The ticket of the last wait, and why it ended; for the task itself after it was resumed. */
static inline uint64_t weft__task_last_ticket(const struct weft__task *task)
{
    return atomic_load_explicit(&task->state, memory_order_relaxed) >> WEFT__TICKET_SHIFT;
}

/* The task runs, and its last wait ended by the first of its awaited events. */
static inline bool weft__task_is_done(const struct weft__task *task)
{
    uint64_t word = atomic_load_explicit(&task->state, memory_order_relaxed);
    return (word & (((uint64_t)1 << WEFT__TICKET_SHIFT) - 1)) ==
           ((uint64_t)WEFT__REASON_DONE << WEFT__STATE_BITS | WEFT__TASK_RUNNING);
}

static inline enum weft__reason weft__task_reason(const struct weft__task *task)
{
    return weft__word_reason(atomic_load_explicit(&task->state, memory_order_relaxed));
}

#endif
