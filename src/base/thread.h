/* The runtime's own threads. They take no signals but those that they cause themselves, a
 * profiler's, and the one by which a dump samples what runs (SIGURG, which is ignored unless
 * somebody handles it): the program's threads handle the rest. */
#ifndef WEFT_BASE_THREAD_H
#define WEFT_BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

#ifdef WEFT_EXPLORE
uint64_t weft__thread_id(void);
#else
/* Of the calling thread, never 0: the address of what is its own, in one instruction. Another one's
 * once it has ended. */
static inline uint64_t weft__thread_id(void)
{
    uint64_t id;
#if defined(__x86_64__)
    __asm__ volatile("mov %%fs:0, %0" : "=r"(id));
#elif defined(__aarch64__)
    __asm__ volatile("mrs %0, tpidr_el0" : "=r"(id));
#endif
    return id;
}
#endif

/* Starts fn(arg) with signals blocked and cancellation disabled: pthread_cancel of such a thread
 * does nothing. `attr` may be NULL. 0, or -EAGAIN: no thread to be had. */
int weft__thread_create(pthread_t *out, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);

/* The kernel's name for a thread of a pool: "<pool>_<index>", of which it keeps 15 bytes. What does
 * not fit is left out of the pool's name, but not out of a number at its end: crews are numbered.
 */
void weft__thread_name(pthread_t thread, const char *pool, unsigned index);

/* Calls fn(arg), which may run the program's code. If the thread ends inside it, by pthread_exit or
 * a cancel that the code has allowed, lost(arg) is called on the thread's own stack, whichever
 * stack that happened on; it does not return. Cancellation is disabled meanwhile. */
void weft__thread_guard(void (*fn)(void *arg), void *arg, void (*lost)(void *arg));

/* Tests: the next `count` calls answer -EAGAIN. */
void weft__thread_fail(int count);

#endif
