/* A small fast pseudo-random generator (xorshift64*), one per worker. Not for secrets. */
#ifndef WEFT_BASE_RAND_H
#define WEFT_BASE_RAND_H

#include <stdint.h>

struct weft__rand {
    uint64_t state; /* never 0 */
};

static inline void weft__rand_seed(struct weft__rand *rand, uint64_t seed)
{
    rand->state = seed * 0x9e3779b97f4a7c15u | 1;
}

static inline uint32_t weft__rand_next(struct weft__rand *rand)
{
    uint64_t x = rand->state;
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    rand->state = x;
    return (uint32_t)((x * 0x2545f4914f6cdd1du) >> 32);
}

#endif
