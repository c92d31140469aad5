/* A memory barrier in every thread of the process at once (asymmetric fence), for a pair of code
 * paths of which one is hot and the other rare.
 *
 *   hot                                        rare
 *   1. store x                                 1. store y
 *   2. WEFT__COMPILER_BARRIER                  2. weft__membarrier
 *   3. load y                                  3. load x
 *
 * At least one of them sees the other's store, and the hot path pays nothing for it. The rare path
 * pays an interrupt of every CPU that runs this process: 1 to 10 us.
 */
#ifndef WEFT_LOCK_MEMBARRIER_H
#define WEFT_LOCK_MEMBARRIER_H

#include <stdbool.h>

#ifdef WEFT_EXPLORE
#define WEFT__COMPILER_BARRIER() ((void)0)
#else
#define WEFT__COMPILER_BARRIER() __asm__ volatile("" ::: "memory")
#endif

/* Whether the kernel supports it. Code that relies on the barrier checks this once before. */
bool weft__membarrier_is_usable(void);
/* Preserves errno. */
void weft__membarrier(void);

#endif
