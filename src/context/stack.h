/* Stacks: reserved in chunks, guarded one by one, never unmapped but recycled.
 *
 *   chunk   | guard | stack 0        | guard | stack 1        | guard | ...
 *                   ^ bottom     top ^
 *
 * A stack has a size class (16 KiB << class); the 68 KiB below it fault. Guards are markers in the
 * page table where the kernel supports them (MADV_GUARD_INSTALL, Linux 6.13): no mapping is split,
 * so a million guarded stacks need only a handful of mappings. A system call that must fail on a
 * guarded page proves once that the kernel really implements them. Otherwise mprotect is used;
 * where the kernel refuses that too (its limit of mappings), a canary that is checked when the
 * stack is given back. Each fallback applies only to the one stack that needs it.
 *
 * Credits: a spawn takes a credit, attaching takes a stack. Credits are issued only up to the
 * number of reserved stacks, less those that caches may keep, so a holder of a credit always finds
 * a stack: lack of memory is an error of spawn, never of a running program. Reserving takes only
 * address space; guards are installed and pages touched when a stack is first used.
 *
 * Lists: warm (pages present, last used first), cold (pages given back). Nothing is ever unmapped.
 */
#ifndef WEFT_CONTEXT_STACK_H
#define WEFT_CONTEXT_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "context/sanitizer.h"

#define WEFT__STACK_CLASSES 13u
#define WEFT__STACK_MIN ((size_t)16 * 1024)
#define WEFT__STACK_DEFAULT ((size_t)64 * 1024)
#define WEFT__STACK_GUARD ((size_t)68 * 1024)
#define WEFT__STACK_CACHE 32u /* stacks of one class that one cache may keep, at most */

/* 16 bytes in a plain build: they count in the memory of every parked fiber. */
struct weft__stack {
    _Atomic(void *) user; /* in use: its task (for the fault report); free: the next free stack */
    char *top;
#if WEFT__TSAN
    struct weft__san san;
#endif
};

enum weft__guard {
    WEFT__GUARD_INSTALL,
    WEFT__GUARD_MPROTECT,
    WEFT__GUARD_CANARY,
};

/* A worker's own free stacks. Zeroed = empty. */
struct weft__stack_cache {
    struct weft__stack *free[WEFT__STACK_CLASSES];
    uint8_t count[WEFT__STACK_CLASSES];
    bool may_cache[WEFT__STACK_CLASSES]; /* its capacity has been added to the reservation */
};

static inline size_t weft__stack_bytes(unsigned class)
{
    return WEFT__STACK_MIN << class;
}

/* The class for at least this many bytes; -EINVAL: too large. */
int weft__stack_class(size_t bytes);

/* How many credits of a class to keep in reserve: 64 of the small ones, fewer of the large ones,
 * whose address space other threads would miss. */
static inline unsigned weft__stack_batch(unsigned class)
{
    unsigned batch = 2 * WEFT__STACK_CACHE >> (class > 2 ? class - 2 : 0);
    return batch ? batch : 1;
}

/* Takes the right to n stacks, or gives it back. -ENOMEM. */
int weft__stack_credit_take(unsigned class, size_t n);
void weft__stack_credit_give(unsigned class, size_t n);

/* Gets a free stack for the holder of a credit, which never fails, or gives it back. `slow`: may
 * make system calls. */
struct weft__stack *weft__stack_get_slow(unsigned class);
void weft__stack_put_slow(struct weft__stack *stack, unsigned class);

/* From the cache only: NULL if it has none. */
static inline struct weft__stack *weft__stack_cache_get(struct weft__stack_cache *cache,
                                                        unsigned class)
{
    struct weft__stack *stack = cache->free[class];
    if (stack) {
        cache->free[class] = atomic_load_explicit(&stack->user, memory_order_relaxed);
        cache->count[class]--;
    }
    return stack;
}

/* Moves some warm stacks of the common list into an empty cache, if there are any and the cache may
 * keep them: when many fibers start one after the other this takes one lock for all, and their
 * first pages are prefetched. */
void weft__stack_cache_fill(struct weft__stack_cache *cache, unsigned class);

/* Gives a stack back, to the cache if it has room. */
void weft__stack_cache_put(struct weft__stack_cache *cache, struct weft__stack *stack,
                           unsigned class);
/* Moves all stacks back to the common lists. */
void weft__stack_cache_flush(struct weft__stack_cache *cache);
/* Before the owner is freed: flushes, and removes the cache's capacity from the reservation. */
void weft__stack_cache_deinit(struct weft__stack_cache *cache);

/* Approximate number of warm free stacks in the common lists. */
size_t weft__stack_warm(void);
/* Gives the pages of warm free stacks beyond `keep` per class back, for at most `most` stacks.
 * Returns how many. */
size_t weft__stack_trim(size_t keep, size_t most);
/* Starts measuring the low-water mark of warm stacks per class: so many were not used since. */
void weft__stack_low_water_begin(void);
/* Like weft__stack_trim, but only stacks below the low-water mark. */
size_t weft__stack_trim_unused(size_t keep, size_t most);
/* Does any class now have more warm stacks than its low-water mark, that is, was a stack used and
 * given back since? */
bool weft__stack_low_water_passed(void);

static inline char *weft__stack_bottom(const struct weft__stack *stack, unsigned class)
{
    return stack->top - weft__stack_bytes(class);
}

/* Bytes from the top to the lowest page that is present. */
size_t weft__stack_high_water(const struct weft__stack *stack, unsigned class);

/* For the fault handler: the stack in whose guard the address lies, and its class; else NULL.
 * Async-signal-safe. */
const struct weft__stack *weft__stack_of_guard(const void *address, unsigned *class);

struct weft__stack_totals {
    size_t carved, reserved_bytes, chunks;
    enum weft__guard guard; /* the weakest kind in use */
};
void weft__stack_totals(struct weft__stack_totals *out);

/* For tests: stacks carved from now on get no better guard than this. */
void weft__stack_limit_guard(enum weft__guard best);

/* Around a fork, in the parent and in the child. For pool/fork.c. */
void weft__stack_fork_prepare(void);
void weft__stack_fork_done(void);

#endif
