/* The explorer's own test: litmus programs with the outcome that the memory model allows or
 * forbids, and small broken programs that must fail. */
#include <stdint.h>

#include "base/atomic.h"
#include "base/cpu.h"
#include "lock/futex.h"
#include "lock/lock.h"
#include "model/explore.h"

static _Atomic(uint32_t) x, y, z;
static int r[4], data;

static void clear(void)
{
    atomic_init(&x, 0);
    atomic_init(&y, 0);
    atomic_init(&z, 0);
    x_name(&x, sizeof x, "x");
    x_name(&y, sizeof y, "y");
    x_name(&z, sizeof z, "z");
    x_name(&data, sizeof data, "data");
    data = 0;
    for (int i = 0; i < 4; i++) {
        r[i] = -1;
    }
}

#define SET(at, value, order) atomic_store_explicit(&(at), value, memory_order_##order)
#define GET(at, order) (int)atomic_load_explicit(&(at), memory_order_##order)
#define ADD(at, order) (int)atomic_fetch_add_explicit(&(at), 1, memory_order_##order)

/* ---- store buffering ---- */

#define STORE_BUFFERING(name, store, load)                                                         \
    static void name(int i)                                                                        \
    {                                                                                              \
        if (i == 0) {                                                                              \
            SET(x, 1, store);                                                                      \
            r[0] = GET(y, load);                                                                   \
        } else {                                                                                   \
            SET(y, 1, store);                                                                      \
            r[1] = GET(x, load);                                                                   \
        }                                                                                          \
    }
STORE_BUFFERING(sb_relaxed, relaxed, relaxed)
STORE_BUFFERING(sb_acquire, release, acquire)
STORE_BUFFERING(sb_seq_cst, seq_cst, seq_cst)
STORE_BUFFERING(sb_seq_cst_store, seq_cst, acquire)

static void sb_membarrier(int i)
{
    if (i == 0) {
        SET(x, 1, relaxed);
        r[0] = GET(y, relaxed);
    } else {
        SET(y, 1, relaxed);
        x_membarrier();
        r[1] = GET(x, relaxed);
    }
}

/* It creates no happens-before. */
static void mp_membarrier(int i)
{
    if (i == 0) {
        data = 1;
        x_membarrier();
        SET(x, 1, relaxed);
    } else if (GET(x, relaxed)) {
        r[0] = data;
    }
}

static void sb_modify_seq_cst(int i)
{
    if (i == 0) {
        ADD(x, seq_cst);
        r[0] = GET(y, seq_cst);
    } else {
        SET(y, 1, seq_cst);
        r[1] = GET(x, seq_cst);
    }
}

static void sb_modify_acq_rel(int i)
{
    if (i == 0) {
        ADD(x, acq_rel);
        r[0] = GET(y, acquire);
    } else {
        ADD(y, acq_rel);
        r[1] = GET(x, acquire);
    }
}

/* A read-modify-write of one shared word between store and load orders the two sides. */
static void sb_shared_modify(int i)
{
    if (i == 0) {
        SET(x, 1, relaxed);
        ADD(z, acq_rel);
        r[0] = GET(y, relaxed);
    } else {
        SET(y, 1, relaxed);
        ADD(z, acq_rel);
        r[1] = GET(x, relaxed);
    }
}

/* T0's store comes before T1's in the seq_cst order; a thread that has seen T1's store by
 * happens-before sees T0's. */
#define SEEN_FIRST(name, load)                                                                     \
    static void name(int i)                                                                        \
    {                                                                                              \
        if (i == 0) {                                                                              \
            SET(x, 1, seq_cst);                                                                    \
            r[2] = GET(y, seq_cst);                                                                \
        } else if (i == 1) {                                                                       \
            ADD(y, seq_cst);                                                                       \
        } else {                                                                                   \
            r[0] = GET(y, load) - 1;                                                               \
            r[1] = GET(x, seq_cst);                                                                \
        }                                                                                          \
    }
SEEN_FIRST(seq_cst_load_after_relaxed, relaxed)
SEEN_FIRST(seq_cst_load_after_acquire, acquire)

static void y_after_x_but_not_x(void)
{
    x_outcome(r[2] == 0 && r[0] == 0 && r[1] == 0);
}

static void both_zero(void)
{
    x_outcome(r[0] == 0 && r[1] == 0);
}

/* ---- message passing ---- */

#define MESSAGE_PASSING(name, store, load)                                                         \
    static void name(int i)                                                                        \
    {                                                                                              \
        if (i == 0) {                                                                              \
            SET(x, 1, relaxed);                                                                    \
            SET(y, 1, store);                                                                      \
        } else {                                                                                   \
            r[0] = GET(y, load);                                                                   \
            r[1] = GET(x, relaxed);                                                                \
        }                                                                                          \
    }
MESSAGE_PASSING(mp_relaxed, relaxed, relaxed)
MESSAGE_PASSING(mp_release, release, relaxed)
MESSAGE_PASSING(mp_acquire, relaxed, acquire)
MESSAGE_PASSING(mp_both, release, acquire)

static void new_then_old(void)
{
    x_outcome(r[0] == 1 && r[1] == 0);
}

/* y = 1 is published by a release store; a relaxed fetch_add of another thread continues the
 * release sequence. */
static void release_sequence(int i)
{
    if (i == 0) {
        SET(x, 1, relaxed);
        SET(y, 1, release);
    } else if (i == 1) {
        ADD(y, relaxed);
    } else {
        r[0] = GET(y, acquire) == 2;
        r[1] = GET(x, relaxed);
    }
}

/* A plain store does not continue it, not even from the same thread. */
static void release_sequence_broken(int i)
{
    if (i == 0) {
        SET(x, 1, relaxed);
        SET(y, 1, release);
        SET(y, 2, relaxed);
    } else {
        r[0] = GET(y, acquire) == 2;
        r[1] = GET(x, relaxed);
    }
}

static void plain_data_release(int i)
{
    if (i == 0) {
        data = 1;
        SET(y, 1, release);
    } else if (GET(y, acquire)) {
        X_ASSERT(data == 1);
    }
}

static void plain_data_relaxed(int i)
{
    if (i == 0) {
        data = 1;
        SET(y, 1, relaxed);
    } else if (GET(y, acquire)) {
        r[0] = data;
    }
}

/* ---- one location ---- */

static void coherence(int i)
{
    if (i == 0) {
        SET(x, 1, relaxed);
        SET(x, 2, relaxed);
    } else {
        r[0] = GET(x, relaxed);
        r[1] = GET(x, relaxed);
    }
}

static void backwards(void)
{
    x_outcome(r[0] > r[1]);
}

static void stale_read(int i)
{
    if (i == 0) {
        SET(x, 1, relaxed);
        SET(x, 2, relaxed);
        ADD(z, acq_rel);
    } else if (ADD(z, relaxed) == 1) {
        r[0] = GET(x, relaxed);
    }
}

static void reads_one(void)
{
    x_outcome(r[0] == 1);
}

static void modify_twice(int i)
{
    r[i] = ADD(x, relaxed);
}

static void same_ticket(void)
{
    x_outcome(r[0] == r[1]);
}

/* A failing compare-exchange may read an old value, a strong one never the expected one. */
static void compare_stale(int i)
{
    uint32_t expected = 0;
    if (i == 0) {
        SET(x, 1, relaxed);
        SET(x, 2, relaxed);
        SET(y, 1, relaxed);
    } else if (GET(y, relaxed)) {
        X_ASSERT(!atomic_compare_exchange_strong_explicit(&x, &expected, 9, memory_order_relaxed,
                                                          memory_order_relaxed));
        X_ASSERT(expected != 0);
        r[0] = (int)expected;
    }
}

static void compare_weak(int i)
{
    uint32_t expected = 0;
    r[i] = atomic_compare_exchange_weak_explicit(&x, &expected, 1, memory_order_relaxed,
                                                 memory_order_relaxed);
}

static void weak_failed(void)
{
    x_outcome(r[0] == 0);
}

/* ---- several readers and writers ---- */

#define INDEPENDENT_READS(name, store, load)                                                       \
    static void name(int i)                                                                        \
    {                                                                                              \
        switch (i) {                                                                               \
        case 0:                                                                                    \
            SET(x, 1, store);                                                                      \
            break;                                                                                 \
        case 1:                                                                                    \
            SET(y, 1, store);                                                                      \
            break;                                                                                 \
        case 2:                                                                                    \
            r[0] = GET(x, load);                                                                   \
            r[1] = GET(y, load);                                                                   \
            break;                                                                                 \
        default:                                                                                   \
            r[2] = GET(y, load);                                                                   \
            r[3] = GET(x, load);                                                                   \
        }                                                                                          \
    }
INDEPENDENT_READS(iriw_acquire, release, acquire)
INDEPENDENT_READS(iriw_seq_cst, seq_cst, seq_cst)

static void different_orders(void)
{
    x_outcome(r[0] == 1 && r[1] == 0 && r[2] == 1 && r[3] == 0);
}

#define LOAD_BUFFERING(name, store, load)                                                          \
    static void name(int i)                                                                        \
    {                                                                                              \
        if (i == 0) {                                                                              \
            r[0] = GET(x, relaxed);                                                                \
            SET(y, 1, store);                                                                      \
        } else {                                                                                   \
            r[1] = GET(y, load);                                                                   \
            SET(x, 1, relaxed);                                                                    \
        }                                                                                          \
    }
LOAD_BUFFERING(load_buffering, relaxed, relaxed)
LOAD_BUFFERING(lb_release, release, relaxed)
LOAD_BUFFERING(lb_release_acquire, release, acquire)

/* x is a slot that holds 0. T0 reads it and says so in y, T1 waits for that and stores 1. */
#define REUSE(name, store)                                                                         \
    static void name(int i)                                                                        \
    {                                                                                              \
        if (i == 0) {                                                                              \
            int slot = GET(x, relaxed);                                                            \
            SET(y, 1, store);                                                                      \
            X_ASSERT(slot == 0);                                                                   \
        } else if (GET(y, acquire)) {                                                              \
            SET(x, 1, relaxed);                                                                    \
        }                                                                                          \
    }
REUSE(read_before_reuse, release)
REUSE(read_while_reuse, relaxed)

static void both_one(void)
{
    x_outcome(r[0] == 1 && r[1] == 1);
}

static void two_plus_two_writes(int i)
{
    if (i == 0) {
        SET(x, 1, relaxed);
        SET(y, 2, relaxed);
    } else {
        SET(y, 1, relaxed);
        SET(x, 2, relaxed);
    }
}

static void both_first(void)
{
    x_outcome(x == 1 && y == 1);
}

/* ---- sleeping and spinning ---- */

static void sleep_if(int checks_value)
{
    while (GET(x, acquire) == 0) {
        if (checks_value) {
            weft__futex_wait(&x, 0, INT64_MAX);
        } else if (GET(y, relaxed) == 0) { /* sleeps on a word that the waker does not change */
            weft__futex_wait(&y, 0, INT64_MAX);
        }
    }
}

static void futex_right(int i)
{
    if (i == 0) {
        sleep_if(1);
    } else {
        SET(x, 1, release);
        weft__futex_wake(&x, 1);
    }
}

static void futex_lost(int i)
{
    if (i == 0) {
        sleep_if(0);
    } else {
        SET(x, 1, release);
        weft__futex_wake(&y, 1);
    }
}

static void futex_timeout(int i)
{
    if (i == 0) {
        r[0] = weft__futex_wait(&x, 0, 1) != 0;
    } else {
        SET(x, 1, release);
        weft__futex_wake(&x, 1);
    }
}

static void timed_out(void)
{
    x_outcome(r[0] == 1);
}

static void spin_for_flag(int i)
{
    if (i == 0) {
        while (GET(x, acquire) == 0) {
            weft__cpu_pause();
        }
        X_ASSERT(data == 1);
    } else {
        data = 1;
        SET(x, 1, release);
    }
}

static void spin_for_nothing(int i)
{
    if (i == 0) {
        while (GET(x, acquire) == 0) {
            weft__cpu_pause();
        }
    } else {
        SET(y, 1, release);
    }
}

/* A loop that gives up can give up although the flag is about to be set. */
static void spin_gives_up(int i)
{
    if (i == 0) {
        r[0] = 1;
        for (int turn = 0; turn < 100; turn++) {
            if (GET(x, acquire)) {
                r[0] = 0;
                break;
            }
            weft__cpu_pause();
        }
    } else {
        SET(y, 1, relaxed);
        SET(x, 1, release);
    }
}

/* ---- memory ---- */

static _Atomic(int *) shared;

static void share(void)
{
    clear();
    int *cell = x_alloc(sizeof *cell, true);
    *cell = 1;
    atomic_init(&shared, cell);
}

static void free_while_read(int i)
{
    if (i == 0) {
        x_free(atomic_exchange_explicit(&shared, NULL, memory_order_acq_rel));
    } else {
        int *cell = atomic_load_explicit(&shared, memory_order_acquire);
        r[0] = cell ? *cell : 0;
    }
}

static void nothing(int i)
{
    (void)i;
}

/* A location that is initialised and published relaxed is not initialised for other threads. */
static void initialise_late(int i)
{
    if (i == 0) {
        atomic_init(&x, 5);
        SET(y, 1, relaxed);
    } else if (GET(y, acquire)) {
        r[0] = GET(x, relaxed);
    }
}

static void counts_both(int i)
{
    x_count(i);
    r[i] = x_choose(3);
}

static void chose_two_and_one(void)
{
    X_ASSERT(x_counted(0) == 1 && x_counted(1) == 1);
    x_outcome(r[0] == 2 && r[1] == 1);
}

#define LITMUS(body, n, checker, ...) X_CLIENT(#body, n, clear, body, checker, __VA_ARGS__)
#define CAN(body, n, checker) LITMUS(body, n, checker, .outcome = X_REACHABLE)
#define CANNOT(body, n, checker) LITMUS(body, n, checker, .outcome = X_FORBIDDEN)
#define FAILS(body, n, text) LITMUS(body, n, NULL, .failure = text)

static const struct x_client clients[] = {
    CAN(sb_relaxed, 2, both_zero),
    CAN(sb_acquire, 2, both_zero),
    CAN(sb_seq_cst_store, 2, both_zero),
    CAN(sb_modify_acq_rel, 2, both_zero),
    CANNOT(sb_seq_cst, 2, both_zero),
    CANNOT(sb_membarrier, 2, both_zero),
    FAILS(mp_membarrier, 2, "data race on data"),
    CANNOT(sb_modify_seq_cst, 2, both_zero),
    CANNOT(sb_shared_modify, 2, both_zero),
    CAN(seq_cst_load_after_relaxed, 3, y_after_x_but_not_x),
    CANNOT(seq_cst_load_after_acquire, 3, y_after_x_but_not_x),
    X_CLIENT("sb_relaxed_sampled", 2, clear, sb_relaxed, both_zero, .samples = 2000,
             .outcome = X_REACHABLE),
    CAN(mp_relaxed, 2, new_then_old),
    CAN(mp_release, 2, new_then_old),
    CAN(mp_acquire, 2, new_then_old),
    CANNOT(mp_both, 2, new_then_old),
    CANNOT(release_sequence, 3, new_then_old),
    CAN(release_sequence_broken, 2, new_then_old),
    LITMUS(plain_data_release, 2, NULL),
    FAILS(plain_data_relaxed, 2, "data race on data"),
    CANNOT(coherence, 2, backwards),
    CAN(stale_read, 2, reads_one),
    CANNOT(modify_twice, 2, same_ticket),
    CAN(compare_stale, 2, reads_one),
    LITMUS(compare_weak, 1, weak_failed, .outcome = X_REACHABLE, .spurious = 1),
    CAN(iriw_acquire, 4, different_orders),
    CANNOT(iriw_seq_cst, 4, different_orders),
    CANNOT(load_buffering, 2, both_one), /* allowed by C11: a limit of the model ... */
    X_CLIENT("load_buffering_ahead", 2, clear, load_buffering, both_one, .ahead = true,
             .outcome = X_REACHABLE), /* ... lifted on request */
    LITMUS(lb_release, 2, both_one, .ahead = true, .outcome = X_REACHABLE),
    LITMUS(lb_release_acquire, 2, both_one, .ahead = true, .outcome = X_FORBIDDEN),
    LITMUS(read_before_reuse, 2, NULL, .ahead = true),
    LITMUS(read_while_reuse, 2, NULL, .ahead = true, .failure = "slot"),
    CANNOT(two_plus_two_writes, 2, both_first), /* allowed by C11: a limit of the model */
    LITMUS(futex_right, 2, NULL, .spurious = 1),
    FAILS(futex_lost, 2, "deadlock"),
    CAN(futex_timeout, 2, timed_out),
    LITMUS(spin_for_flag, 2, NULL),
    FAILS(spin_for_nothing, 2, "livelock"),
    CAN(spin_gives_up, 2, timed_out),
    X_CLIENT("free_while_read", 2, share, free_while_read, NULL, .failure = "use after free"),
    X_CLIENT("leak", 1, share, nothing, NULL, .failure = "leak"),
    FAILS(initialise_late, 2, "data race on x"),
    CAN(counts_both, 2, chose_two_and_one),
};

X_MAIN(clients)
