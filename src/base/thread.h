/* The runtime's own threads. They block all signals except those that they cause themselves, a
 * profiler's, and the one by which a dump samples running code (SIGURG, which is ignored by
 * default): the program's threads handle the rest. */
#ifndef WEFT_BASE_THREAD_H
#define WEFT_BASE_THREAD_H

#include <pthread.h>
#include <stdint.h>

#ifdef WEFT_EXPLORE
uint64_t weft__thread_id(void);
#else
/* The calling thread's id, never 0: the address of its thread control block, in one instruction.
 * The id may be reused once the thread has ended. */
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
 * does nothing. `attr` may be NULL. Returns 0, or -EAGAIN if no thread can be created. */
int weft__thread_create(pthread_t *out, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);

/* Sets the kernel's name for a thread of a pool: "<pool>_<index>", limited to 15 bytes. The pool's
 * name is shortened to fit, but keeps a number at its end: isolated pools are numbered.
 */
void weft__thread_set_name(pthread_t thread, const char *pool, unsigned index);

/* Calls fn(arg), which may run the program's code. If the thread ends inside fn, by pthread_exit or
 * a cancel that the code has enabled, lost(arg) is called on the thread's own stack, whichever
 * stack was in use; it does not return. Cancellation is disabled meanwhile. */
void weft__thread_guard(void (*fn)(void *arg), void *arg, void (*lost)(void *arg));

/* For tests: the next `count` calls return -EAGAIN, or those after `skip` further ones. */
void weft__thread_fail_next(int count);
void weft__thread_fail_after(int skip, int count);

#endif
