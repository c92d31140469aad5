#include "base/alloc.h"

#include <malloc.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "base/atomic.h"

static _Atomic(long) requests;
static _Atomic(long) fail_at;
static _Atomic(bool) fail_sticky;

static bool must_fail(void)
{
    long n = atomic_fetch_add_explicit(&requests, 1, memory_order_relaxed) + 1;
    long at = atomic_load_explicit(&fail_at, memory_order_relaxed);
    return at && (n == at || (n > at && atomic_load_explicit(&fail_sticky, memory_order_relaxed)));
}

void weft__alloc_fail_after(long countdown, bool sticky)
{
    atomic_store_explicit(&requests, 0, memory_order_relaxed);
    atomic_store_explicit(&fail_sticky, sticky, memory_order_relaxed);
    atomic_store_explicit(&fail_at, countdown, memory_order_relaxed);
}

long weft__alloc_requests(void)
{
    return atomic_load_explicit(&requests, memory_order_relaxed);
}

void *weft__alloc_dirty(size_t bytes)
{
    if (must_fail()) {
        return NULL;
    }
    size_t rounded = (bytes + WEFT__CACHE_LINE - 1) & ~(size_t)(WEFT__CACHE_LINE - 1);
    return rounded >= bytes ? aligned_alloc(WEFT__CACHE_LINE, rounded) : NULL;
}

void *weft__alloc_packed(size_t bytes)
{
    return must_fail() ? NULL : malloc(bytes);
}

void *weft__alloc(size_t bytes)
{
    void *memory = weft__alloc_dirty(bytes);
    if (memory) {
        memset(memory, 0, bytes);
    }
    return memory;
}

void weft__free(void *memory)
{
    free(memory);
}

void weft__alloc_release(void)
{
#ifdef __GLIBC__
    malloc_trim(0);
#endif
}

void *weft__map(size_t bytes)
{
    if (must_fail()) {
        return NULL;
    }
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_STACK, -1, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void weft__unmap(void *memory, size_t bytes)
{
    if (memory) {
        munmap(memory, bytes);
    }
}
