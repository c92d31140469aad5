/* Start values for the indices of a queue: every lap position, and values that wrap soon. */
#ifndef WEFT_TEST_QUEUE_START_INDEX_H
#define WEFT_TEST_QUEUE_START_INDEX_H

#include <stdint.h>

static const uint64_t firsts[] = {
    0, 1, 2, 3, UINT64_MAX, UINT64_MAX - 1, UINT64_MAX - 2, UINT64_MAX - 3, UINT64_MAX / 2};
#define FIRSTS (sizeof firsts / sizeof *firsts)

#endif
