/* What a fork() does to the runtime: docs/fork.md.
 *
 * The child has one thread and a copy of all memory. Before the fork, every lock is taken that
 * guards data the child may need, so that the copy is consistent. In the child the locks are
 * released, the objects of the threads that no longer exist are marked as lost, and the fork
 * generation is incremented. An object that needs such threads remembers the generation in which it
 * was created.
 */
#ifndef WEFT_TASK_FORK_H
#define WEFT_TASK_FORK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/atomic.h"

extern _Atomic(uint32_t) weft__fork_count; /* forks between the first process and this one */

/* Code that creates threads or shared state calls this first. Once per process is enough; repeated
 * calls do no harm. */
void weft__fork_install(void);

/* Between the two calls a fork waits. For short sections that take none of the locks that a fork
 * takes; nor may the caller hold one of these. */
void weft__fork_block(void);
void weft__fork_unblock(void);

/* One-time initialisation that a child sees either complete or not begun: a fork waits while the
 * function runs. (With pthread_once, the C library would call the function again in the child.) */
struct weft__fork_once {
    _Atomic(bool) done;
};

void weft__fork_once_slow(struct weft__fork_once *once, void (*fn)(void));

static inline void weft__fork_once(struct weft__fork_once *once, void (*fn)(void))
{
    if (!atomic_load_explicit(&once->done, memory_order_acquire)) { /* pairs: once_slow */
        weft__fork_once_slow(once, fn);
    }
}

/* Fork hooks of higher layers. Before a fork they run before those of the lower layers, so that
 * locks nest in the usual order; in the child and the parent they run after them. A hook is never
 * removed. To be added only from a function of weft__fork_once. */
struct weft__fork_hook {
    void (*before)(void), (*in_parent)(void), (*in_child)(void);
    struct weft__fork_hook *next;
};

void weft__fork_hook(struct weft__fork_hook *hook);

/* For a call that requires a fiber and found none: reports if the caller was a fiber before a
 * fork. */
void weft__fork_check_fiber(const char *call) __attribute__((cold));

static inline uint32_t weft__fork_generation(void)
{
    return atomic_load_explicit(&weft__fork_count, memory_order_relaxed);
}

/* Checks that an object created in generation `born` is not used after a fork. */
static inline void weft__fork_check(uint32_t born, const char *what, const char *name)
{
    WEFT__REQUIRE(born == weft__fork_generation(),
                  "%s %s was created before fork() and is used in the child: create a new one",
                  what, name);
}

#endif
