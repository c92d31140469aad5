/* The runtime's own threads. They take no signals but those that they cause themselves, a profiler's, and the one by which
 * a dump samples what runs (SIGURG, which is ignored unless somebody handles it): the program's threads
 * handle the rest. */
#ifndef WEFT_BASE_THREAD_H
#define WEFT_BASE_THREAD_H

#include <pthread.h>

/* Starts fn(arg) with signals blocked. `attr` may be NULL. 0, or -EAGAIN: no thread to be had. */
int weft__thread_create(pthread_t *out, const pthread_attr_t *attr, void *(*fn)(void *), void *arg);

/* Tests: the next `count` calls answer -EAGAIN. */
void weft__thread_fail(int count);

#endif
