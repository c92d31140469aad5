/* C11 atomics: every lock-free file includes this header and no other for atomics.
 *
 * The same source compiles in three ways:
 * - product: plain <stdatomic.h>;
 * - WEFT_CHAOS: the same, and WEFT__STEP() sleeps or yields pseudo-randomly, to widen races;
 * - WEFT_EXPLORE: the atomics of test/model, where an explorer picks every interleaving and every
 *   value that a weak memory model may return.
 *
 * Rules that make this possible: `_Atomic(T)` always with parentheses, only the `_explicit` calls,
 * and no atomic_thread_fence (ThreadSanitizer does not model it).
 */
#ifndef WEFT_BASE_ATOMIC_H
#define WEFT_BASE_ATOMIC_H

#ifdef WEFT_EXPLORE
#include "model/explore_atomic.h"
#define WEFT__STEP() ((void)0)
#else
#include <stdatomic.h>
#ifdef WEFT_CHAOS
void weft__chaos_step(void);
#define WEFT__STEP() weft__chaos_step()
#else
#define WEFT__STEP() ((void)0)
#endif
#endif

#define WEFT__CACHE_LINE 64

#endif
