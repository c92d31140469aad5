/* Identity: maps a handle to its task, and holds the state of exactly one fiber in the slot.
 *
 * The ident word is {generation:32, flags}. A handle is {generation, slot}. Control blocks are
 * never unmapped, so a stale handle can be followed safely; the generation shows that it is stale.
 * One bit of the word is a lock that can only be taken for the right generation: while the lock is
 * held the fiber cannot end, so every action under the lock applies to the intended fiber.
 * Critical sections are a few stores and at most one CAS. */
#ifndef WEFT_TASK_IDENT_H
#define WEFT_TASK_IDENT_H

#include <errno.h>
#include <sched.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/cpu.h"
#include "task/task.h"

enum {
    WEFT__IDENT_LOCK = 1 << 0,
    WEFT__IDENT_LIVE = 1 << 1,      /* the slot holds a fiber */
    WEFT__IDENT_PERMIT = 1 << 2,    /* an unpark that was not used yet */
    WEFT__IDENT_CANCEL = 1 << 3,    /* cancelled, until the fiber ends */
    WEFT__IDENT_DONE = 1 << 4,      /* ended, result not taken yet */
    WEFT__IDENT_DETACHED = 1 << 5,  /* not joinable */
    WEFT__IDENT_INTERRUPT = 1 << 6, /* an interrupt that no wait has delivered yet */
    WEFT__IDENT_ABORT = 1 << 7,     /* cancelled, overriding shields */
    WEFT__IDENT_ENDS_WAITS = WEFT__IDENT_CANCEL | WEFT__IDENT_INTERRUPT | WEFT__IDENT_ABORT,
    WEFT__IDENT_RIGHT = 1 << 8, /* one join right; 8 bits hold their number */
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

/* Slots start at 1, so that no handle is 0. */
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

/* Locks the word for this generation and sets `flags` in the same step. Returns false if the fiber
 * is gone. *ident is the word with the flags, without the lock bit.
 *
 * seq_cst: a task that has just armed a wait reads the flag set here (a permit, a cancel), and the
 * caller reads the task's state word next; at least one of the two sees the other. pairs:
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

/* Same without flags, for a caller that must not wait indefinitely. Returns 1 if locked, 0 if the
 * fiber is gone, -EBUSY. */
static inline int weft__ident_lock_bounded(struct weft__task *task, uint64_t generation,
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

/* For the task itself, after arming: reads its flags. */
static inline uint64_t weft__ident_flags(const struct weft__task *task)
{
    return atomic_load_explicit(&task->ident, memory_order_seq_cst); /* pairs: weft__ident_lock */
}

/* The task consumes a flag of its own. Returns false if the flag is not set. Only while the lock
 * is free: an unpark sets the permit and takes it back if its wake-up used it, so the flag means
 * nothing until the unpark unlocks; and its unlock would restore a flag that was cleared here. */
WEFT__MUST_USE static inline bool weft__ident_consume(struct weft__task *task, uint64_t flag)
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
                       memory_order_acquire, /* what was written before the flag. pairs:
                                              * weft__ident_unlock */
                       memory_order_relaxed)) {
            return true;
        }
    }
}

/* Releases the slot: the next generation begins and no handle of this generation works. The caller
 * holds the lock, or is the creator of a task that no other thread has seen. */
static inline void weft__ident_retire(struct weft__task *task)
{
    uint64_t ident = atomic_load_explicit(&task->ident, memory_order_relaxed);
    uint64_t generation = weft__ident_generation(ident) + 1;
    atomic_store_explicit(&task->ident, generation << 32, memory_order_release);
}

/* Returns true when the slot has used all its generations. */
static inline bool weft__ident_is_exhausted(const struct weft__task *task)
{
    return weft__ident_generation(atomic_load_explicit(&task->ident, memory_order_relaxed)) ==
           UINT32_MAX;
}

#endif
