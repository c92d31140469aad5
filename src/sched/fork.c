#include "sched/fork.h"

#include <pthread.h>

_Atomic(uint32_t) weft__fork_count;

void weft__fork_watch(void)
{
}

void weft__fork_hook(void (*prepare)(void), void (*parent)(void), void (*child)(void))
{
    weft__fork_watch();
    int err = pthread_atfork(prepare, parent, child);
    WEFT__REQUIRE(!err, "no memory to watch for forks");
}
