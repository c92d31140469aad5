/* The task: what schedulers run. One control block of 128 bytes, one atomic state word.
 *
 * The state word is {sequence:48, reason:12, state:4}. The sequence counts waits over the whole
 * life of the slot, through all its incarnations; a *ticket* is the sequence of one wait. Whoever
 * wants to end a wait must show its ticket, so a late timer, a cancel of an old wait or a wake
 * meant for an earlier fiber of this slot fails by itself. The first to fire a ticket wins; all
 * others do nothing.
 *
 * No other file touches the word. Transitions (P = the task itself on its worker, W = the worker
 * after it switched away from the task, A = any thread):
 *
 *   from      to        who  function  race it closes
 *   --------  --------  ---  --------  ------------------------------------------------------------
 *   FREE      CREATED   A    create    the slot is owned by its maker alone
 *   FREE      FRESH     A    create    " (a spawn: created and submitted in one step)
 *   CREATED   FRESH     A    submit    CAS: submitted once, whoever calls
 *   FRESH     CREATED   A    unsubmit  the pool refused it; under the ident lock, before it was
 *                                      queued
 *   FRESH     RUNNING   W    run       the dequeuer owns it: queues hand each task to one worker
 *   READY     RUNNING   W    run       "
 *   RUNNING   READY     W    requeue   after the switch, so nobody runs a stack that is still in
 *                                      use
 *   RUNNING   ARMED     P    arm       of a park seq_cst: then P looks for a permit; A sets that
 *                                      first and looks at the word second
 *   RUNNING   WAITING   P    rest      a body whose step only ends: arm and settle in one. It may
 *                                      be fired before the step has returned, but not run: a
 *                                      dispatcher's, and this is its thread. seq_cst as settle
 *   WAITING   ARMED     P    unrest    CAS: the step has not returned and takes it back, unless it
 *                                      was fired
 *   ARMED     RUNNING   P    disarm    CAS: P gives the wait up, unless it was fired
 *   ARMED     FIRED     A    fire      CAS: a wake between arming and the end of the switch; nobody
 *                                      queues the task, because its stack is still in use: W will
 *   FIRED     RUNNING   P    disarm    P finds out without having parked
 *   ARMED     WAITING   W    settle    CAS: the switch is complete. seq_cst: then W looks for a
 *                                      cancel or an interrupt, which A sets first, to look at the
 *                                      word second
 *   FIRED     READY     W    settle    ... and it was fired meanwhile: W queues it
 *   WAITING   READY     A    fire      CAS: the winner queues it (also fire_waiting)
 *   WAITING   HELD      A    hold      CAS: a viewer keeps it where it waits while it reads its
 *                                      stack
 *   HELD      WAITING   A    unhold    CAS: the viewer lets it go
 *   HELD      WOKEN     A    fire      CAS: fired while it was held; the viewer queues it, not the
 *                                      winner. Of a dispatcher's task the winner waits for the
 *                                      viewer instead: the order in which tasks are queued there
 *                                      does not depend on who looks
 *   WOKEN     READY     A    unhold    the viewer lets it go and queues it
 *   RUNNING   DONE      P    finish    the result waits for its joiners
 *   DONE      FREE      A    free      the last right was used (under the ident lock)
 *   CREATED   FREE      A    free      discarded (under the ident lock)
 *   FRESH     FREE      A    free      made for a batch that could not be completed; never queued
 */
#ifndef WEFT_SCHED_TASK_H
#define WEFT_SCHED_TASK_H

#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/atomic.h"
#include "base/cpu.h"
#include "base/link.h"
#include "fiber/context.h"

struct weft_pool;
struct weft__stack;
struct weft__node;
struct weft__held;
struct weft__body_kind;
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
    WEFT__REASON_DONE, /* what was waited for happened; of several things, DONE + which */
};

/* What a wait can be ended by, kept where the reason will be until it is. */
enum weft__wait {
    WEFT__WAIT_OBJECT,       /* by whoever was given the ticket */
    WEFT__WAIT_PARK,         /* also by name: weft_unpark */
    WEFT__WAIT_SHIELDED = 2, /* or-ed to it: not by a cancel or an interrupt */
    WEFT__WAIT_FIRM = 4,     /* or-ed to it, in a shield: nor by an abort */
    WEFT__WAIT_OUTSIDE = 8,  /* or-ed to it: no fiber holds what is waited for */
    WEFT__WAIT_PLAIN = WEFT__WAIT_OBJECT | WEFT__WAIT_OUTSIDE,
};

/* Flags; but for HOOKS_OFF they never change after creation. */
enum {
    WEFT__TASK_FP_ENV = 1,
    WEFT__TASK_CHILD = 2,     /* `joiners` is its struct weft__parent until it starts */
    WEFT__TASK_HOOKED = 4,    /* bound to a worker when it is submitted */
    WEFT__TASK_HOOKS_OFF = 8, /* the task's own */
    WEFT__TASK_BODY = 16,     /* it has no stack: sched/body.h */
    WEFT__TASK_GROUPED = 32,  /* a dispatcher's, bound to its only worker: sched/rounds.h */
    WEFT__TASK_DAEMON = 64,   /* does not keep its group from finishing */
    WEFT__TASK_WATCHED = 128, /* a sanitizer or a C++ runtime must be told of its switches */
    /* Any of these: it switches out of line, in sched/switch.c. */
    WEFT__TASK_OUT_OF_LINE = WEFT__TASK_FP_ENV | WEFT__TASK_WATCHED,
};

/* What the nodes of a body point to, for as long as it waits: the beginning of a struct
 * weft__waiter. */
struct __attribute__((may_alias)) weft__claim {
    struct weft__task *task;
    uint64_t ticket;
};

/* What a fiber waits for, for those who look from outside. On its own stack, in the frames that a
 * wait touches anyway. */
struct weft__note {
    const struct weft__wait_kind *kind;
    uint64_t on;
    int64_t since; /* by its worker's clock: the last tick */
};

struct weft__task {
    /* The queue that holds the task, then the worker that runs it: all that a wait and a wake
     * touch, but for the stack. */
    union {
        struct weft__link link;        /* first: a link is a task */
        const struct weft__note *note; /* of a fiber that waits; no queue holds it then */
    };
    _Atomic(uint64_t) state;
    union {
        struct weft__context ctx;
        struct { /* of a body */
            void *own;
            struct weft__claim claim;
        };
    };
    union {
        struct weft_pool *home; /* changed by the task itself, under its ident lock */
        uint64_t was_home;      /* of one that has ended: `serial` of the pool, which may be gone */
    };
    _Atomic(uint64_t) ident; /* sched/ident.h */
    int16_t pin;             /* bound to this worker, or -1; changed like home */
    uint8_t stack_class;
    uint8_t flags;
    _Atomic(int16_t) ran_on; /* for dumps: the last worker, -1 at first */
    uint16_t shields;        /* the task's own: how many it is in; cancel and interrupt wait */

    /* The beginning and the end, and names. */
    union {
        struct weft__stack *stack;       /* attached at the first run */
        struct weft__deadline *deadline; /* of a body that waits, or NULL */
    };
    union {
        void *(*fn)(void *);
        const struct weft__body_kind *body;
    };
    union {
        void *value;             /* the argument, and in the end the result */
        struct weft__held *held; /* its own, in between: locks it holds, innermost first */
    };
    struct weft__node *joiners; /* under the ident lock */
    int64_t born;
    union {
        char name[16];     /* under the ident lock once running */
        struct {           /* of a grouped one */
            uint64_t turn; /* sched/rounds.h */
            char *label;   /* its own copy of the name, or NULL; changed under the ident lock */
        };
    };
    uint32_t slot;
    uint16_t group;   /* of a grouped one: which of its dispatcher's, */
    uint16_t signals; /* and how often it may be woken in a round */
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

static inline bool weft__task_is_body(const struct weft__task *task)
{
    return (task->flags & WEFT__TASK_BODY) != 0;
}

/* Under the ident lock, or the task's own. Of a body without a name, nothing. */
static inline const char *weft__task_name(const struct weft__task *task)
{
    if (__builtin_expect(task->flags & WEFT__TASK_GROUPED, 0)) {
        return task->label ? task->label : "";
    }
    return task->name;
}

/* A look from outside; true of its own moment. */
static inline enum weft__task_state weft__task_state(const struct weft__task *task)
{
    return weft__word_state(
        atomic_load_explicit(&task->state, memory_order_acquire)); /* pairs: run */
}

/* The same for one that has published something for which the task looks when it has settled: if it
 * is not seen here that it waits, it sees that. seq_cst on both sides. pairs: settle */
static inline enum weft__task_state weft__task_state_after(const struct weft__task *task)
{
    return weft__word_state(atomic_load_explicit(&task->state, memory_order_seq_cst));
}

/* Steps of the one who owns the task at that moment: plain stores, because nobody else may
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

/* For a spawn: nobody else knows the task yet. */
static inline void weft__task_create_fresh(struct weft__task *task)
{
    weft__task_own_step(task, WEFT__TASK_FREE, WEFT__TASK_FRESH);
}

/* False: it was submitted before. */
static inline bool weft__task_submit(struct weft__task *task)
{
    uint64_t word = atomic_load_explicit(&task->state, memory_order_relaxed);
    return weft__word_state(word) == WEFT__TASK_CREATED &&
           atomic_compare_exchange_strong_explicit(&task->state, &word,
                                                   weft__word_with(word, WEFT__TASK_FRESH),
                                                   memory_order_acq_rel, memory_order_relaxed);
}

/* A submit that could not be completed takes its word back. */
static inline void weft__task_unsubmit(struct weft__task *task)
{
    weft__task_own_step(task, WEFT__TASK_FRESH, WEFT__TASK_CREATED);
}

/* True: it has never run and needs a stack. */
static inline bool weft__task_run(struct weft__task *task)
{
    uint64_t word = atomic_load_explicit(&task->state, memory_order_relaxed);
    enum weft__task_state state = weft__word_state(word);
    WEFT__DEBUG_ASSERT(state == WEFT__TASK_FRESH || state == WEFT__TASK_READY);
    /* Release: who sees it running sees the stack it was given. pairs: weft__task_state */
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

/* From DONE, from CREATED when a fiber is discarded, from FRESH when it was never queued. */
static inline void weft__task_free(struct weft__task *task)
{
    uint64_t word = atomic_load_explicit(&task->state, memory_order_relaxed);
    atomic_store_explicit(&task->state, weft__word_with(word, WEFT__TASK_FREE),
                          memory_order_relaxed);
}

/* Begins a wait and returns its ticket. After it the task looks once more at whatever can fire
 * without the ticket having been handed out. */
static inline uint64_t weft__task_arm(struct weft__task *task, unsigned kind)
{
    uint64_t word = atomic_load_explicit(&task->state, memory_order_relaxed);
    WEFT__DEBUG_ASSERT(weft__word_state(word) == WEFT__TASK_RUNNING);
    uint64_t ticket = (word >> WEFT__TICKET_SHIFT) + 1;
    uint64_t armed =
        ticket << WEFT__TICKET_SHIFT | (uint64_t)kind << WEFT__STATE_BITS | WEFT__TASK_ARMED;
    if (kind & WEFT__WAIT_PARK) {
        /* The task looks at its permit next. pairs: weft__task_ticket */
        atomic_store_explicit(&task->state, armed, memory_order_seq_cst);
    } else {
        atomic_store_explicit(&task->state, armed, memory_order_release); /* pairs: fire */
    }
    WEFT__STEP();
    return armed >> WEFT__TICKET_SHIFT;
}

/* The ticket of the wait the task is in, for one that fires by what it knows of the task (a permit,
 * a cancel) and not of the wait. False: it is in none. */
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
    WEFT__FIRE_LOST,   /* the wait is over, or another was first */
    WEFT__FIRE_WON,    /* the task goes on by itself */
    WEFT__FIRE_ENQUEUE /* the task is READY and the caller must queue it */
};

/* The word when no viewer holds the task any more: after microseconds, unless the viewer was
 * preempted. Viewers wait for nobody meanwhile. */
static __attribute__((noinline, cold, unused)) uint64_t
weft__task_unheld(const struct weft__task *task)
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
                word = weft__task_unheld(task);
                continue;
            }
            to = WEFT__TASK_WOKEN;
        } else {
            break;
        }
        WEFT__STEP();
        /* Release: what the waker wrote is for the task to read. Acquire: the frame that settle
         * released is for whoever runs the task next. pairs: settle, disarm */
        if (atomic_compare_exchange_weak_explicit(&task->state, &word,
                                                  weft__word_fired(word, to, reason),
                                                  memory_order_acq_rel, memory_order_relaxed)) {
            return to == WEFT__TASK_READY ? WEFT__FIRE_ENQUEUE : WEFT__FIRE_WON;
        }
    }
    return WEFT__FIRE_LOST;
}

/* The same, only if the task waits and nobody is in the way. True: it is READY, and the caller's
 * alone, with its frame, until the caller queues it: what it is to find may still be written.
 * False: nothing was done. */
WEFT__MUST_USE static inline bool weft__task_fire_waiting(struct weft__task *task, uint64_t ticket,
                                                          enum weft__reason reason)
{
    uint64_t word = atomic_load_explicit(&task->state, memory_order_relaxed);
    return word >> WEFT__TICKET_SHIFT == ticket && weft__word_state(word) == WEFT__TASK_WAITING &&
           atomic_compare_exchange_strong_explicit(
               &task->state, &word, weft__word_fired(word, WEFT__TASK_READY, reason),
               memory_order_acquire, memory_order_relaxed); /* the frame. pairs: settle */
}

/* The same, only if its wait is WEFT__WAIT_PLAIN: without a look before. */
WEFT__MUST_USE static inline bool weft__task_fire_plain(struct weft__task *task, uint64_t ticket,
                                                        enum weft__reason reason)
{
    uint64_t wait = ticket << WEFT__TICKET_SHIFT;
    uint64_t word = wait | (uint64_t)WEFT__WAIT_PLAIN << WEFT__STATE_BITS | WEFT__TASK_WAITING;
    return atomic_compare_exchange_strong_explicit(
        &task->state, &word, wait | (uint64_t)reason << WEFT__STATE_BITS | WEFT__TASK_READY,
        memory_order_acquire, memory_order_relaxed); /* pairs: rest, settle, unhold */
}

/* After the switch. It waits now: the word as it was armed. 0: it was fired meanwhile, and the
 * caller queues it. seq_cst: then the caller looks at the flags that whoever cancels sets before it
 * looks at this word. pairs: weft__task_ticket */
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

/* Arm and settle in one step, for a wait that has everything it needs: `resting` is the word, made
 * before. Then the caller looks at the flags, as after settle. */
static inline uint64_t weft__task_resting(const struct weft__task *task)
{
    uint64_t word = atomic_load_explicit(&task->state, memory_order_relaxed);
    WEFT__DEBUG_ASSERT(weft__word_state(word) == WEFT__TASK_RUNNING);
    return (word >> WEFT__TICKET_SHIFT << WEFT__TICKET_SHIFT) +
           ((uint64_t)1 << WEFT__TICKET_SHIFT | (uint64_t)WEFT__WAIT_PLAIN << WEFT__STATE_BITS |
            WEFT__TASK_WAITING);
}

static inline void weft__task_rest(struct weft__task *task, uint64_t resting)
{
    atomic_store_explicit(&task->state, resting, memory_order_seq_cst); /* pairs: hold, ticket */
}

/* Takes a rest back: it is armed, as if it were still to settle. False: it was fired, and whoever
 * did it queues the task. */
WEFT__MUST_USE static __attribute__((unused)) bool weft__task_unrest(struct weft__task *task)
{
    for (;;) {
        uint64_t word = weft__task_unheld(task);
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

/* Takes a waiting task out of circulation: its stack and all that it waits on hold still until
 * unhold. False: it does not wait, or another holds it. For a few microseconds at a time. */
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

/* True: it was fired meanwhile, is READY, and the caller must queue it. */
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

/* Ends a wait without parking. REASON_NONE: it had not been fired, and cannot be any more. Any
 * other reason was delivered to this wait, and nobody else knows of it: the call ends with it, or
 * hands it on (weft__waiter_hand_on). */
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

/* The task whose link it is, its first member; NULL of NULL. */
static inline struct weft__task *weft__task_of(struct weft__link *link)
{
    return (struct weft__task *)(void *)link;
}

/* Fired already? For the moment between arming and parking. */
static inline bool weft__task_fired(const struct weft__task *task)
{
    return weft__task_state(task) == WEFT__TASK_FIRED;
}

/* The ticket of the last wait, and why it ended; asked by the task itself after it was resumed. */
static inline uint64_t weft__task_last_ticket(const struct weft__task *task)
{
    return atomic_load_explicit(&task->state, memory_order_relaxed) >> WEFT__TICKET_SHIFT;
}

/* It runs, and its last wait was ended by what it was for, the first of several. */
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
