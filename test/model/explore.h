/* The explorer: runs the real sources of a lock-free structure through the interleavings of a few
 * small threads, and through the values that a weak memory may return. This is the interface for
 * client programs.
 *
 * A client is a few callbacks. The explorer runs them repeatedly on one OS thread: setup, then the
 * threads as coroutines, then check. At every atomic operation another thread may continue, and
 * every load may read an older value; the explorer tries the choices one after another until none
 * is left (or samples them by a seed), and fails at the first
 *   assertion (X_ASSERT, or the product's own), deadlock (all threads sleep: so a lost wake-up
 *   shows), livelock (all threads spin), data race on plain memory, use after free, leak, crash.
 * A failure prints the trace and a string that replays it: `PROGRAM -c CLIENT -r STRING`.
 *
 * The memory model is C11 (as repaired by C++20), stated operationally: each location has its
 * stores in modification order, each thread has a view of how far it has seen each location.
 *  - A load reads any store that is not older than the view. An acquire load takes over the view
 *    that the store carries; a release store carries its thread's view.
 *  - A read-modify-write reads the newest store and passes on the view of the store that it read
 *    (release sequence; later plain stores of the same thread do not, as in C++20).
 *  - A compare-exchange that fails is a load: it may read an old value. A strong one never fails
 *    with the value that it expected; a weak one may, within the client's budget.
 *  - seq_cst stores have one total order. A seq_cst load reads nothing older than the last seq_cst
 *    store to its location among those, in that order, up to the last that happens before the load.
 *    seq_cst gives nothing else: a seq_cst store followed by an acquire load of another location
 *    may be reordered.
 *  - membarrier brings every thread's view of the stores up to now. It orders no plain accesses.
 *  - futex_wait compares with the newest store, without synchronising, as the kernel does.
 * The product and the clients are compiled with the compiler's thread instrumentation, whose calls
 * go to the explorer, so that the explorer sees plain accesses: any two conflicting accesses not
 * ordered by happens-before are a race, in whatever order they ran.
 *
 * What the explorer cannot show, so that a pass says nothing about it:
 *  - load buffering: a load never reads a store that comes later, except where a client asks for it
 *    (explore_ahead.c), and then one relaxed load per execution;
 *  - stores that enter the modification order before a store that exists already (the weak outcome
 *    of 2+2W): a store is always the newest;
 *  - starvation, timing, and ABA through the allocator (freed memory is never reused);
 *  - fences: atomic_thread_fence does not exist here, nor in the product;
 *  - more threads or longer runs than the client has; hash collisions of visited states (64 bits).
 *
 * Same state, same future: what a thread does next depends only on what it read, so two prefixes
 * with the same reads-from and modification orders are one state, explored once. Clients must
 * respect this: no clock, no decision that depends on an address, no memory shared without the
 * explorer's knowledge. */
#ifndef WEFT_TEST_MODEL_EXPLORE_H
#define WEFT_TEST_MODEL_EXPLORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "model/explore_atomic.h"

#define X_THREADS 6 /* most threads of a client */

/* The meaning of x_outcome(true) for a client. */
enum x_expect {
    X_NO_OUTCOME, /* the client does not call it */
    X_REACHABLE,  /* some execution must reach it */
    X_FORBIDDEN,  /* no execution may reach it */
};

struct x_client {
    const char *name;
    int threads;
    void (*setup)(void);       /* alone, before the threads */
    void (*thread)(int index); /* one coroutine for each index */
    void (*check)(void);       /* alone, after all threads ended; may be NULL */

    /* Bounds for clients that are too large to explore completely; 0: none. */
    int preemptions; /* at most this many switches away from a thread that could continue */
    int stale;       /* at most this many reads of a store that is not the newest */
    long samples;    /* this many executions instead of all, alternately random and PCT */

    bool ahead;   /* explores again, with relaxed loads that take effect late: explore_ahead.c */
    int spurious; /* this many futex waits and weak compare-exchanges may fail spuriously */
    enum x_expect outcome;
    const char *failure; /* not NULL: must fail with a message that contains this */
};

#define X_CLIENT(label, count, before, body, after, ...)                                           \
    {                                                                                              \
        .name = label, .threads = count, .setup = before, .thread = body, .check = after,          \
        __VA_ARGS__                                                                                \
    }

/* Runs the clients, or what the command line selects (-h). Returns main's exit code: 0 all passed,
 * 1 a failure, 2 bad usage, 3 a client took too long to explore. */
int x_main(int argc, char **argv, const struct x_client *clients, size_t count);

#define X_MAIN(clients)                                                                            \
    int main(int argc, char **argv)                                                                \
    {                                                                                              \
        return x_main(argc, argv, clients, sizeof(clients) / sizeof(clients)[0]);                  \
    }

/* Fails this execution. */
void x_fail(const char *format, ...) __attribute__((format(printf, 1, 2), noreturn));
#define X_ASSERT(condition)                                                                        \
    ((condition) ? (void)0 : x_fail("assertion: %s (%s:%d)", #condition, __FILE__, __LINE__))

/* check only: has this execution reached the client's `outcome`? */
void x_outcome(bool seen);

/* The index of the calling thread; -1 in setup and check. */
int x_thread(void);

/* 0 .. n-1, each of them in some execution. */
int x_choose(int n);

/* One turn of a busy loop: returns only after a location that this thread has read since its last
 * turn has changed; or the loop is run to its end on the values that it has read, if it ends by
 * itself. */
void x_spin(void);

/* For the setup of a client with `.ahead`: only loads of this memory take effect late. */
void x_ahead(const void *memory, size_t bytes);

/* Counters of a client that the threads of one execution share, exempt from the race check. The
 * counts must not depend on the order of the calls. */
void x_count(int counter);
int x_counted(int counter);

/* Memory of one execution, zeroed, or poisoned if `poison`: all of it must be freed before the
 * execution ends. */
void *x_alloc(size_t bytes, bool poison);
void x_free(void *memory);

/* For traces. */
void x_name(const void *memory, size_t bytes, const char *name);

/* Race checks for code that was compiled without instrumentation. */
#define x_plain_read(p) x_plain((p), sizeof *(p), false)
#define x_plain_write(p) x_plain((p), sizeof *(p), true)
void x_plain(const volatile void *memory, size_t bytes, bool write);

/* A barrier in every thread, as the kernel's membarrier. */
void x_membarrier(void);

/* A futex, as in the kernel; deadline INT64_MAX: none, otherwise it may pass at any moment. */
int x_futex_wait(uint32_t *word, uint32_t expected, int64_t deadline);
void x_futex_wake(uint32_t *word, int n);

#endif
