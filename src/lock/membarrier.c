#include "lock/membarrier.h"

#include <errno.h>
#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/assert.h"

static bool usable;

/* errno: never inlined into a caller that also switches fibers. */
static __attribute__((noinline)) bool call(int command)
{
    int before = errno;
    bool done = syscall(SYS_membarrier, command, 0, 0) == 0;
    errno = before;
    return done;
}

/* Before threads exist: with several threads, the kernel takes 10 ms or more for this. */
static __attribute__((constructor)) void register_process(void)
{
    usable = call(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED);
}

bool weft__membarrier_is_usable(void)
{
    return usable;
}

void weft__membarrier(void)
{
    if (call(MEMBARRIER_CMD_PRIVATE_EXPEDITED)) {
        return;
    }
    /* A forked child may have to register itself. */
    bool done =
        call(MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED) && call(MEMBARRIER_CMD_PRIVATE_EXPEDITED);
    WEFT__REQUIRE(done, "membarrier failed: the kernel no longer supports it");
}
