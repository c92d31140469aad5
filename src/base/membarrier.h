/* A barrier in every thread of the process at once, for a pair of sides of which one is hot and the
 * other rare.
 *
 *   hot                                        rare
 *   1. store x                                 1. store y
 *   2. WEFT__COMPILER_BARRIER                  2. weft__membarrier
 *   3. load y                                  3. load x
 *
 * One of them sees the other's store, and the hot side pays nothing for it. The rare side pays an
 * interrupt of every CPU that runs this process: 1 to 10 us.
 */
#ifndef WEFT_BASE_MEMBARRIER_H
#define WEFT_BASE_MEMBARRIER_H

#include <stdbool.h>

#ifdef WEFT_EXPLORE
#define WEFT__COMPILER_BARRIER() ((void)0)
#else
#define WEFT__COMPILER_BARRIER() __asm__ volatile("" ::: "memory")
#endif

/* Does the kernel have it? Whoever relies on the barrier asks once before. */
bool weft__membarrier_usable(void);
/* Keeps errno. */
void weft__membarrier(void);

#endif
