/* A fuzz target is one file with LLVMFuzzerTestOneInput, which must return for any input, and which
 * calls fuzz_require for each invariant. tools/fuzz links it with libFuzzer, CMake with
 * replay.c. */
#ifndef WEFT_FUZZ_TARGET_H
#define WEFT_FUZZ_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t len);

#define fuzz_require(cond)                                                                         \
    do {                                                                                           \
        if (!(cond)) {                                                                             \
            fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #cond);                             \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

/* A copy that ends with its last byte, so that an overread is detected. */
static inline void *fuzz_copy(const void *data, size_t len)
{
    void *copy = malloc(len ? len : 1);
    fuzz_require(copy);
    if (len) {
        memcpy(copy, data, len);
    }
    return copy;
}

#endif
