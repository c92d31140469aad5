#include "lock/futex.h"

#include <errno.h>
#include <linux/futex.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Both functions may run on a fiber's stack, inside a call that does not document a change of
 * errno; so they preserve it. Never inlined: in a caller that also switches fibers, the compiler
 * would compute errno's address only once. */

__attribute__((noinline)) int weft__futex_wait(_Atomic(uint32_t) *word, uint32_t expected,
                                               int64_t deadline)
{
    if (deadline < 0) {
        deadline = 0; /* the kernel rejects a negative time; both mean expired */
    }
    int before = errno;
    struct timespec at = {.tv_sec = deadline / 1000000000, .tv_nsec = deadline % 1000000000};
    /* FUTEX_WAIT_BITSET takes an absolute time, FUTEX_WAIT a relative one. */
    long rc = syscall(SYS_futex, word, FUTEX_WAIT_BITSET | FUTEX_PRIVATE_FLAG, expected,
                      deadline == INT64_MAX ? NULL : &at, NULL, FUTEX_BITSET_MATCH_ANY);
    int err = rc < 0 && errno == ETIMEDOUT ? -ETIMEDOUT : 0;
    errno = before;
    return err;
}

__attribute__((noinline)) void weft__futex_wake(_Atomic(uint32_t) *word, int n)
{
    int before = errno;
    syscall(SYS_futex, word, FUTEX_WAKE | FUTEX_PRIVATE_FLAG, n, NULL, NULL, 0);
    errno = before; /* the word may be freed by now: -EFAULT */
}
