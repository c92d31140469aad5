/* The futex calls used by the parker and the small lock. The model explorer replaces them. */
#ifndef WEFT_LOCK_FUTEX_H
#define WEFT_LOCK_FUTEX_H

#include <stdint.h>

#include "base/atomic.h"

/* Sleeps while *word == expected, until a wake or the absolute CLOCK_MONOTONIC deadline in ns
 * (INT64_MAX: none). May return spuriously. Returns 0, or -ETIMEDOUT. */
int weft__futex_wait(_Atomic(uint32_t) *word, uint32_t expected, int64_t deadline);

/* Wakes up to n sleeping threads. */
void weft__futex_wake(_Atomic(uint32_t) *word, int n);

#endif
