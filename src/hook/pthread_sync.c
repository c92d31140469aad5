/* Mutexes and condition variables of the C library, used by fibers: try, then wait as a fiber until
 * the object is unlocked or signalled (hook/wait_queue.h). The mutex stays the C library's: plain
 * threads lock it as usual, and wait in the kernel if a fiber holds it.
 *
 * These waits cannot fail, so neither a cancel nor an interrupt ends them. A stop that aborts makes
 * the fiber try again and again, yielding in between.
 */
#include <errno.h>
#include <sys/syscall.h>

#include "base/cpu.h"
#include "hook/real_calls.h"
#include "hook/wait.h"
#include "hook/wait_queue.h"

#define SPINS 100                  /* for a holder on another thread that unlocks soon */
#define RETRY_NS INT64_C(10000000) /* for mutexes that are unlocked without the hooks */
#define KIND 3
#define RECURSIVE 1
#define CHECKED 2

/* --- mutex ------------------------------------------------------------------------------------ */

static bool has_owner_check(const pthread_mutex_t *mutex)
{
    int kind = __atomic_load_n(&mutex->__data.__kind, __ATOMIC_RELAXED) & KIND;
    return kind == RECURSIVE || kind == CHECKED;
}

static bool is_owned_by(const pthread_mutex_t *mutex, int thread)
{
    return __atomic_load_n(&mutex->__data.__owner, __ATOMIC_RELAXED) == thread;
}

static bool is_ours(const pthread_mutex_t *mutex)
{
    return is_owned_by(mutex, (int)syscall(SYS_gettid));
}

/* EBUSY: it is locked, possibly by another fiber of this thread. */
static int try_lock(pthread_mutex_t *mutex)
{
    if (!has_owner_check(mutex)) {
        return weft__real()->pthread_mutex_trylock(mutex);
    }
    weft_fiber self = weft_self();
    bool again = is_ours(mutex);
    if (again && weft__hook_owner_is_other(mutex, self)) {
        return EBUSY;
    }
    /* Locked by this fiber already: counted, or an error; neither waits. */
    int err = again ? weft__real()->pthread_mutex_lock(mutex)
                    : weft__real()->pthread_mutex_trylock(mutex);
    if (err == 0 || err == EOWNERDEAD) {
        weft__hook_owner_add(mutex, self);
    }
    return err;
}

/* Only a holder on another thread can unlock while this thread spins. */
static int spin(pthread_mutex_t *mutex)
{
    int err = try_lock(mutex);
    int self = err == EBUSY ? (int)syscall(SYS_gettid) : 0;
    for (int i = 0; err == EBUSY && i < SPINS && !is_owned_by(mutex, self); i++) {
        weft__cpu_pause();
        err = try_lock(mutex);
    }
    return err;
}

static int lock_until(pthread_mutex_t *mutex, int64_t deadline)
{
    int err = spin(mutex);
    if (err != EBUSY) {
        return err;
    }
    int before = errno;
    struct weft__hook_waiter entry;
    weft__hook_queue_enter(&entry, mutex);
    weft_fiber_shield_enter();
    while ((err = try_lock(mutex)) == EBUSY) {
        int64_t retry = weft_after(RETRY_NS);
        int why = weft_event_wait(&entry.woken, retry < deadline ? retry : deadline);
        if (why == -ECANCELED) {
            weft_yield();
        }
        if (weft_now() >= deadline) {
            err = try_lock(mutex);
            err = err == EBUSY ? ETIMEDOUT : err;
            break;
        }
        if (why == 0) {
            weft__hook_queue_again(&entry);
        }
    }
    weft_fiber_shield_leave();
    if (weft__hook_queue_leave(&entry) && err == ETIMEDOUT) {
        weft__hook_queue_wake(mutex, 1); /* the wake-up was meant for the next waiter */
    }
    errno = before;
    return err;
}

static bool is_time(const struct timespec *time)
{
    return time->tv_nsec >= 0 && time->tv_nsec < WEFT__NS_PER_S;
}

WEFT__HOOK int pthread_mutex_lock(pthread_mutex_t *mutex)
{
    return weft__hook_begin() ? lock_until(mutex, WEFT_FOREVER)
                              : weft__real()->pthread_mutex_lock(mutex);
}

WEFT__HOOK int pthread_mutex_trylock(pthread_mutex_t *mutex)
{
    if (!weft__hook_begin()) {
        return weft__real()->pthread_mutex_trylock(mutex);
    }
    int kind = __atomic_load_n(&mutex->__data.__kind, __ATOMIC_RELAXED) & KIND;
    int err = try_lock(mutex);
    return err == EDEADLK && kind == CHECKED ? EBUSY : err;
}

WEFT__HOOK int pthread_mutex_timedlock(pthread_mutex_t *mutex, const struct timespec *time)
{
    return weft__hook_begin() && is_time(time)
               ? lock_until(mutex, weft__hook_at(CLOCK_REALTIME, time))
               : weft__real()->pthread_mutex_timedlock(mutex, time);
}

WEFT__HOOK int pthread_mutex_clocklock(pthread_mutex_t *mutex, clockid_t clock,
                                       const struct timespec *time)
{
    bool known = clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
    return weft__hook_begin() && known && is_time(time)
               ? lock_until(mutex, weft__hook_at(clock, time))
               : weft__real()->pthread_mutex_clocklock(mutex, clock, time);
}

/* From the real unlock on, the mutex may be freed: only its address is used. */
static int unlock(pthread_mutex_t *mutex)
{
    bool noted = weft__hook_begin() && has_owner_check(mutex) && is_ours(mutex);
    if (noted) {
        weft_fiber self = weft_self();
        if (weft__hook_owner_is_other(mutex, self)) {
            return EPERM;
        }
        weft__hook_owner_remove(mutex, self);
    }
    int err = weft__real()->pthread_mutex_unlock(mutex);
    int before = errno;
    weft__hook_queue_wake(mutex, 1);
    errno = before;
    return err;
}

WEFT__HOOK int pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    return unlock(mutex);
}

/* --- condition variable ----------------------------------------------------------------------- */

/* Flags in __wrefs: the condition is shared with other processes, which would signal it without the
 * hooks; its times are on the monotonic clock. */
#define SHARED 1
#define ON_MONOTONIC 2

static bool has_flag(const pthread_cond_t *cond, unsigned flag)
{
    return (__atomic_load_n(&cond->__data.__wrefs, __ATOMIC_RELAXED) & flag) != 0;
}

static int wait_until(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t deadline)
{
    int before = errno;
    struct weft__hook_waiter entry;
    weft__hook_queue_enter(&entry, cond);
    int err = unlock(mutex);
    if (err) {
        weft__hook_queue_leave(&entry);
        return err;
    }
    weft_fiber_shield_enter();
    int why = weft_event_wait(&entry.woken, deadline);
    if (why == -ECANCELED) {
        weft_yield();
    }
    weft_fiber_shield_leave();
    bool woken = weft__hook_queue_leave(&entry);
    err = lock_until(mutex, WEFT_FOREVER);
    errno = before;
    return err ? err : !woken && why == -ETIMEDOUT ? ETIMEDOUT : 0;
}

WEFT__HOOK int pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    return weft__hook_begin() && !has_flag(cond, SHARED)
               ? wait_until(cond, mutex, WEFT_FOREVER)
               : weft__real()->pthread_cond_wait(cond, mutex);
}

WEFT__HOOK int pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex,
                                      const struct timespec *time)
{
    if (!weft__hook_begin() || !is_time(time) || has_flag(cond, SHARED)) {
        return weft__real()->pthread_cond_timedwait(cond, mutex, time);
    }
    clockid_t clock = has_flag(cond, ON_MONOTONIC) ? CLOCK_MONOTONIC : CLOCK_REALTIME;
    return wait_until(cond, mutex, weft__hook_at(clock, time));
}

WEFT__HOOK int pthread_cond_clockwait(pthread_cond_t *cond, pthread_mutex_t *mutex, clockid_t clock,
                                      const struct timespec *time)
{
    bool known = clock == CLOCK_REALTIME || clock == CLOCK_MONOTONIC;
    return weft__hook_begin() && known && is_time(time) && !has_flag(cond, SHARED)
               ? wait_until(cond, mutex, weft__hook_at(clock, time))
               : weft__real()->pthread_cond_clockwait(cond, mutex, clock, time);
}

/* Threads wait in the kernel and fibers here: a signal wakes one of each. A spurious wake-up is
 * allowed, and the woken thread checks its predicate again. */
WEFT__HOOK int pthread_cond_signal(pthread_cond_t *cond)
{
    int before = errno;
    weft__hook_queue_wake(cond, 1);
    errno = before;
    return weft__real()->pthread_cond_signal(cond);
}

WEFT__HOOK int pthread_cond_broadcast(pthread_cond_t *cond)
{
    int before = errno;
    weft__hook_queue_wake(cond, UINT32_MAX);
    errno = before;
    return weft__real()->pthread_cond_broadcast(cond);
}
