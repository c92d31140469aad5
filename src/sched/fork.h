/* What a fork() does to the runtime: docs/fork.md.
 *
 * The child has one thread and a copy of all memory. Before the fork every lock is taken that
 * guards something the child may need, so that the copy is whole; in the child they are given back,
 * what belonged to the threads that are not there any more is marked as lost, and the generation
 * goes up. An object that needs such threads remembers the generation it was made in.
 */
#ifndef WEFT_SCHED_FORK_H
#define WEFT_SCHED_FORK_H

#include <stdbool.h>
#include <stdint.h>

#include "base/assert.h"
#include "base/atomic.h"

extern _Atomic(uint32_t) weft__fork_count; /* forks between the first process and this one */

/* Whatever makes threads or shared state calls this first; once per process is enough, more does no
 * harm. */
void weft__fork_watch(void);

/* Between the two a fork waits. For what is short and takes no lock that the fork takes as well;
 * nor does the caller hold one. */
void weft__fork_hold(void);
void weft__fork_let_go(void);

/* What is done once per process, and is done wholly or not at all in a child: a fork is held while
 * the function runs. (After pthread_once the C library of the child would call it again.) */
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

/* For layers above: what they do before a fork comes before what the layers below do, so that locks
 * nest as they do elsewhere; afterwards theirs comes first. The hook stays for ever. Only from a
 * function of weft__fork_once. */
struct weft__fork_hook {
    void (*before)(void), (*in_parent)(void), (*in_child)(void);
    struct weft__fork_hook *next;
};

void weft__fork_hook(struct weft__fork_hook *hook);

/* `call` is for fibers and found that its caller is none: maybe because it was, before a fork. */
void weft__fork_check_fiber(const char *call) __attribute__((cold));

static inline uint32_t weft__fork_generation(void)
{
    return atomic_load_explicit(&weft__fork_count, memory_order_relaxed);
}

/* An object that was made in generation `born` is used. */
static inline void weft__fork_check(uint32_t born, const char *what, const char *name)
{
    WEFT__REQUIRE(born == weft__fork_generation(),
                  "%s %s was made before fork() and is used in the child: make a new one", what,
                  name);
}

#endif
