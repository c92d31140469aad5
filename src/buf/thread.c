/* The calling thread as a worker: its cache of small blocks. The scheduler tells when a thread
 * becomes a worker and when it ceases to be one, so that this folder need not ask. */
#include "buf/worker_cache.h"

static _Thread_local struct weft__buf_cache *here __attribute__((tls_model("initial-exec")));
static _Thread_local uint64_t (*running)(void) __attribute__((tls_model("initial-exec")));

void weft__buf_set_thread(struct weft__buf_cache *cache, uint64_t (*fiber)(void))
{
    here = cache;
    running = fiber;
}

/* As weft__worker_self: a compiler must not keep the result across a switch. */
__attribute__((noinline)) struct weft__buf_cache *weft__buf_cache_self(void)
{
    struct weft__buf_cache *cache = here;
    __asm__ volatile("" : "+r"(cache)::"memory");
    return cache;
}

__attribute__((noinline)) uint64_t weft__buf_fiber(void)
{
    uint64_t (*fiber)(void) = running;
    __asm__ volatile("" : "+r"(fiber)::"memory");
    return fiber ? fiber() : 0;
}
