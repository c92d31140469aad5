/* Identity: how a handle finds its task, and what holds for exactly one incarnation of it.
 *
 * The ident word is {generation:32, flags}. A handle is {generation, slot}. Control blocks are
 * never unmapped, so following a stale handle is safe; the generation says that it is stale. One
 * bit of the word is a lock that only succeeds for the right generation: while it is held the fiber
 * cannot end, so what is done under it is done to the fiber that was meant. Critical sections are a
 * few stores and at most one CAS.
 */
#ifndef WEFT_SCHED_IDENT_H
#define WEFT_SCHED_IDENT_H

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cpu.h"
#include "sched/task.h"

enum {
    WEFT__IDENT_LOCK = 1 << 0,
    WEFT__IDENT_LIVE = 1 << 1,      /* the slot holds a fiber */
    WEFT__IDENT_PERMIT = 1 << 2,    /* an unpark that was not used yet */
    WEFT__IDENT_CANCEL = 1 << 3,    /* cancelled, until the fiber ends */
    WEFT__IDENT_DONE = 1 << 4,      /* ended, its result not yet taken */
    WEFT__IDENT_DETACHED = 1 << 5,  /* nobody may join */
    WEFT__IDENT_INTERRUPT = 1 << 6, /* an interrupt that no wait has delivered yet */
    WEFT__IDENT_ABORT = 1 << 7,     /* cancelled, and no shield helps */
    WEFT__IDENT_ENDS_WAITS = WEFT__IDENT_CANCEL | WEFT__IDENT_INTERRUPT | WEFT__IDENT_ABORT,
    WEFT__IDENT_RIGHT = 1 << 8, /* one join right; 8 bits of them */
    WEFT__IDENT_RIGHTS = 0xff << 8,
};

#define WEFT__MAX_RIGHTS 250u

static inline uint64_t weft__ident_generation(uint64_t ident)
{
    return ident >> 32;
}

static inline unsigned weft__ident_rights(uint64_t ident)
{
    return (unsigned)(ident & WEFT__IDENT_RIGHTS) >> 8;
}

/* Slots count from 1, so that no handle is 0. */
static inline uint64_t weft__task_handle(const struct weft__task *task)
{
    uint64_t ident = atomic_load_explicit(&task->ident, memory_order_relaxed);
    return weft__ident_generation(ident) << 32 | task->slot;
}

/* The lock is held for nanoseconds, unless its holder was preempted. */
static inline void weft__ident_spin(unsigned spins)
{
    if (spins < 64) {
        weft__cpu_pause();
    } else {
        sched_yield();
    }
}

/* Locks for this generation, setting `flags` in the same step. False: the fiber is gone. *ident is
 * the word with the flags, without the lock bit.
 *
 * seq_cst: a flag set here (a permit, a cancel) is looked at by a task that has just armed a wait,
 * and the caller looks at its state word next; one of the two sees the other. pairs:
 * weft__task_settle or arm, then weft__ident_flags */
static inline bool weft__ident_lock(struct weft__task *task, uint64_t generation, uint64_t flags,
                                    uint64_t *ident)
{
    uint64_t word = atomic_load_explicit(&task->ident, memory_order_relaxed);
    for (unsigned spins = 0;; spins++) {
        if (weft__ident_generation(word) != generation || !(word & WEFT__IDENT_LIVE)) {
            return false;
        }
        if (word & WEFT__IDENT_LOCK) {
            weft__ident_spin(spins);
            word = atomic_load_explicit(&task->ident, memory_order_relaxed);
        } else if (atomic_compare_exchange_weak_explicit(
                       &task->ident, &word, word | flags | WEFT__IDENT_LOCK,
                       memory_order_seq_cst, /* pairs: weft__ident_unlock */
                       memory_order_relaxed)) {
            *ident = word | flags;
            return true;
        }
    }
}

/* The same without flags for one who must not wait for ever: 1 locked, 0 the fiber is gone,
 * -EBUSY. */
static inline int weft__ident_lock_soon(struct weft__task *task, uint64_t generation,
                                        uint64_t *ident)
{
    uint64_t word = atomic_load_explicit(&task->ident, memory_order_relaxed);
    for (unsigned spins = 0; spins < 2000; spins++) {
        if (weft__ident_generation(word) != generation || !(word & WEFT__IDENT_LIVE)) {
            return 0;
        }
        if (word & WEFT__IDENT_LOCK) {
            weft__ident_spin(spins);
            word = atomic_load_explicit(&task->ident, memory_order_relaxed);
        } else if (atomic_compare_exchange_weak_explicit(
                       &task->ident, &word, word | WEFT__IDENT_LOCK,
                       memory_order_acquire, /* pairs: weft__ident_unlock */
                       memory_order_relaxed)) {
            *ident = word;
            return 1;
        }
    }
    return -EBUSY;
}

/* Stores the new word and unlocks. */
static inline void weft__ident_unlock(struct weft__task *task, uint64_t ident)
{
    WEFT__STEP();
    atomic_store_explicit(&task->ident, ident & ~(uint64_t)WEFT__IDENT_LOCK,
                          memory_order_release); /* pairs: weft__ident_lock */
}

/* The task's own look at its flags after arming. */
static inline uint64_t weft__ident_flags(const struct weft__task *task)
{
    return atomic_load_explicit(&task->ident, memory_order_seq_cst); /* pairs: weft__ident_lock */
}

/* The task uses up a flag of its own. False: it is not there. Only while nobody holds the lock: an
 * unpark sets the permit, then takes it back if its wake has used it, and until it unlocks the flag
 * says nothing; besides, its unlock would bring back what was cleared here. */
WEFT__MUST_USE static inline bool weft__ident_take(struct weft__task *task, uint64_t flag)
{
    uint64_t word = atomic_load_explicit(&task->ident, memory_order_relaxed);
    for (unsigned spins = 0;; spins++) {
        if (word & WEFT__IDENT_LOCK) {
            weft__ident_spin(spins);
            word = atomic_load_explicit(&task->ident, memory_order_relaxed);
        } else if (!(word & flag)) {
            return false;
        } else if (atomic_compare_exchange_weak_explicit(
                       &task->ident, &word, word & ~flag,
                       memory_order_acquire, /* what came before it. pairs: weft__ident_unlock */
                       memory_order_relaxed)) {
            return true;
        }
    }
}

/* Lets go of the slot: the next generation begins, no handle of this one works any more. The caller
 * holds the lock, or is the maker that has not shown the task to anybody. */
static inline void weft__ident_retire(struct weft__task *task)
{
    uint64_t ident = atomic_load_explicit(&task->ident, memory_order_relaxed);
    uint64_t generation = weft__ident_generation(ident) + 1;
    atomic_store_explicit(&task->ident, generation << 32, memory_order_release);
}

/* True when the generations of the slot are used up. */
static inline bool weft__ident_wrapped(const struct weft__task *task)
{
    return weft__ident_generation(atomic_load_explicit(&task->ident, memory_order_relaxed)) ==
           UINT32_MAX;
}

#endif
