/* Stacks: reserved in chunks, guarded one by one, recycled for ever.
 *
 *   chunk   | guard | stack 0        | guard | stack 1        | guard | ...
 *                   ^ bottom     top ^
 *
 * A stack is a size class (16 KiB << class) below which lie 64 KiB that fault. Guards are markers
 * in the page table where the kernel has them (MADV_GUARD_INSTALL, Linux 6.13): no mapping is
 * split, so a million guarded stacks are a handful of mappings. Whether the kernel means it is
 * proved once by a system call that must fail on a guarded page. Else mprotect; where the kernel
 * refuses that too (its limit of mappings), a canary, checked when the stack is given back. Each
 * step down is for the one stack that needs it.
 *
 * Credits: a spawn takes a credit, attaching takes a stack. Credits are issued only up to the
 * number of stacks reserved, less what caches may hoard, so whoever holds a credit finds a stack:
 * no memory is an error of spawn, never of a running program. Reserving is only address space;
 * guards are installed and pages touched when a stack is first used.
 *
 * Lists: warm (pages present, last used first), cold (pages given back). Nothing is ever unmapped.
 */
#ifndef WEFT_FIBER_STACK_H
#define WEFT_FIBER_STACK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/atomic.h"
#include "fiber/sanitizer.h"

#define WEFT__STACK_CLASSES 13u
#define WEFT__STACK_MIN ((size_t)16 * 1024)
#define WEFT__STACK_DEFAULT ((size_t)64 * 1024)
#define WEFT__STACK_GUARD ((size_t)68 * 1024)
#define WEFT__STACK_CACHE 32u /* stacks of one class that one cache may hoard, at most */

/* 16 bytes in a plain build: they count in the memory of every parked fiber. */
struct weft__stack {
    _Atomic(void *) user; /* in use: whose it is (for the fault report); free: the next free one */
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
    bool may_hoard[WEFT__STACK_CLASSES]; /* its room was added to the reservation */
};

static inline size_t weft__stack_bytes(unsigned class)
{
    return WEFT__STACK_MIN << class;
}

/* The class for at least this many bytes; -EINVAL: too large. */
int weft__stack_class(size_t bytes);

/* How many credits of a class to keep at hand: 64 of the small ones, fewer of those whose address
 * space others would miss. */
static inline unsigned weft__stack_batch(unsigned class)
{
    unsigned batch = 2 * WEFT__STACK_CACHE >> (class > 2 ? class - 2 : 0);
    return batch ? batch : 1;
}

/* The right to n stacks. -ENOMEM. */
int weft__stack_credit_take(unsigned class, size_t n);
void weft__stack_credit_give(unsigned class, size_t n);

/* A free stack for the holder of a credit; never fails. `slow` may make system calls. */
struct weft__stack *weft__stack_get_slow(unsigned class);
void weft__stack_put_slow(struct weft__stack *stack, unsigned class);

/* From the cache alone: NULL if it has none. */
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

/* Takes some warm stacks of the common list into an empty cache, if there are any and it may keep
 * them: where many fibers begin one after the other that is one lock for all, and their first pages
 * are on their way. */
void weft__stack_cache_fill(struct weft__stack_cache *cache, unsigned class);

/* Gives a stack back, to the cache if it has room. */
void weft__stack_cache_put(struct weft__stack_cache *cache, struct weft__stack *stack,
                           unsigned class);
/* Everything back to the common lists. */
void weft__stack_cache_flush(struct weft__stack_cache *cache);
/* Before the owner ceases to exist: flush, and take its room off the reservation. */
void weft__stack_cache_deinit(struct weft__stack_cache *cache);

/* Warm free stacks in the common lists, about. */
size_t weft__stack_warm(void);
/* Warm free stacks beyond `keep` per class give their pages back, at most `most` of them. Returns
 * how many. */
size_t weft__stack_trim(size_t keep, size_t most);
/* From here on the fewest warm stacks of each class are noted: so many were not used since. */
void weft__stack_low_begin(void);
/* As weft__stack_trim, but only of those. */
size_t weft__stack_trim_unused(size_t keep, size_t most);
/* Has any come or gone since the lowest mark? */
bool weft__stack_low_passed(void);

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
    enum weft__guard guard; /* the weakest in use */
};
void weft__stack_totals(struct weft__stack_totals *out);

/* Tests: stacks carved from now on get no better guard than this. */
void weft__stack_limit_guard(enum weft__guard best);

/* Around a fork, in the parent and in the child. For sched/fork.c. */
void weft__stack_fork_prepare(void);
void weft__stack_fork_done(void);

#endif
