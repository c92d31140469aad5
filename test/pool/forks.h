/* For programs whose forked children use the runtime: by default ThreadSanitizer aborts a child
 * that creates threads. */
#ifndef WEFT_TEST_POOL_FORKS_H
#define WEFT_TEST_POOL_FORKS_H

#include "context/sanitizer.h"

#if WEFT__TSAN
const char *__tsan_default_options(void);
const char *__tsan_default_options(void)
{
    return "die_after_fork=0";
}
#endif

#endif
