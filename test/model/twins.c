/* The explorer's replacements for the product's access to the system: futex, pause, memory,
 * descriptors. Compiled without instrumentation. */
#include <stdarg.h>
#include <stdio.h>
#include <sys/types.h>
#include <time.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "base/cpu.h"
#include "base/thread.h"
#include "idle/spin.h"
#include "lock/futex.h"
#include "lock/membarrier.h"
#include "model/explore.h"
#include "model/twins.h"
#include "sched/group_deadline.h"
#include "task/fork.h"
#include "wait/wake_source.h"
#include "worker/reader_slot.h"

static uint32_t event; /* atomic */
static int alloc_fails;
static int64_t clock_now = TWIN_NOW;

int weft__futex_wait(_Atomic(uint32_t) *word, uint32_t expected, int64_t deadline)
{
    return x_futex_wait(word, expected, deadline);
}

void weft__futex_wake(_Atomic(uint32_t) *word, int n)
{
    x_futex_wake(word, n);
}

void weft__cpu_pause(void)
{
    x_spin();
}

bool weft__membarrier_is_usable(void)
{
    return true;
}

void weft__membarrier(void)
{
    x_membarrier();
}

uint64_t weft__thread_id(void)
{
    return (uint64_t)x_thread() + 1;
}

/* Of each thread; NULL: none. */
static struct weft__reader_slot *reader_slots[X_THREADS];

struct weft__reader_slot *weft__reader_slot_self(void)
{
    static struct weft__reader_slot none = {.tag = UINT64_MAX};
    int i = x_thread();
    return i >= 0 && reader_slots[i] ? reader_slots[i] : &none;
}

void weft__reader_slot_set_self(struct weft__reader_slot *reader_slot)
{
    reader_slots[x_thread()] = reader_slot;
}

void twin_reader_slot(int thread, struct weft__reader_slot *reader_slot)
{
    reader_slots[thread] = reader_slot;
}

/* The deadlines of a dispatcher's fibers belong to its own thread: there is nothing to explore, and
 * no client has any. */
void weft__group_deadline_expire(struct weft__timer *timer, void *arg)
{
    (void)timer, (void)arg;
    x_fail("a dispatcher's deadline");
}

/* How long a thread spins before it sleeps does not change what it sees. */
bool weft__spin_thread(const _Atomic(uint32_t) *word, int64_t now, int64_t deadline)
{
    (void)word, (void)now, (void)deadline;
    return false;
}

void weft__spin_thread_slept(int64_t ns)
{
    (void)ns;
}

void weft__fork_check_fiber(const char *call)
{
    (void)call;
}

int weft_fiber_name(weft_fiber fiber, char *buf, size_t size)
{
    (void)fiber;
    buf[0] = 0;
    return size ? 0 : -1;
}

/* There is no deadlock detector here. */
void weft__thread_wait_begin(struct weft__thread_wait *wait)
{
    (void)wait;
}

void weft__thread_wait_end(struct weft__thread_wait *wait)
{
    (void)wait;
}

void *weft__alloc(size_t bytes)
{
    return alloc_fails ? NULL : x_alloc(bytes, false);
}

void *weft__alloc_dirty(size_t bytes)
{
    return alloc_fails ? NULL : x_alloc(bytes, true);
}

void *weft__alloc_packed(size_t bytes)
{
    return weft__alloc_dirty(bytes);
}

void weft__free(void *memory)
{
    x_free(memory);
}

void twin_alloc_fails(int fails)
{
    alloc_fails = fails;
}

void weft__panic(const char *file, int line, const char *format, ...)
{
    char text[256];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    x_fail("panic: %s (%s:%d)", text, file, line);
}

void twin_clock_set(int64_t now)
{
    clock_now = now;
}

void twin_event_reset(void)
{
    atomic_init(&event, 0);
    x_name(&event, sizeof event, "eventfd");
}

uint64_t twin_event_read(void)
{
    while (atomic_load_explicit(&event, memory_order_relaxed) == 0) {
        x_futex_wait(&event, 0, INT64_MAX);
    }
    return atomic_exchange_explicit(&event, 0, memory_order_relaxed);
}

/* By the linker's --wrap, from here on. */

int __wrap_sched_yield(void);
int __wrap_sched_yield(void)
{
    x_spin();
    return 0;
}

int __wrap_clock_gettime(clockid_t clock, struct timespec *time);
int __wrap_clock_gettime(clockid_t clock, struct timespec *time)
{
    (void)clock;
    *time = (struct timespec){.tv_nsec = clock_now};
    return 0;
}

/* Relaxed: nothing may rely on the kernel's locks. */
ssize_t __wrap_write(int fd, const void *buffer, size_t bytes);
ssize_t __wrap_write(int fd, const void *buffer, size_t bytes)
{
    (void)buffer;
    X_ASSERT(fd == TWIN_EVENT_FD && bytes == sizeof(uint64_t));
    atomic_fetch_add_explicit(&event, 1, memory_order_relaxed);
    x_futex_wake(&event, 1);
    return (ssize_t)bytes;
}
