/* The assumption behind every proof in this tree: when two threads each store to one word and then
 * load the other's, all sequentially consistent, at least one of them sees the other's store.
 * Compilers, processors and emulators have to preserve that. */
#include <pthread.h>

#include "base/atomic.h"
#include "base/cpu.h"
#include "check.h"

static _Atomic(long) stored[2]; /* the last round of each thread */
static _Atomic(long) done[2];
static long seen[2], rounds;

/* Both threads begin a round when both have finished the previous one: the two stores are then as
 * close together as possible. */
static void await(int whom, long round)
{
    for (unsigned i = 1; atomic_load_explicit(&done[whom], memory_order_acquire) < round; i++) {
        if (i % 100 == 0) {
            sched_yield(); /* the other thread may need this CPU */
        }
        weft__cpu_pause();
    }
}

static void *play(void *arg)
{
    int me = *(int *)arg, other = !me;
    for (long round = 1; round <= rounds; round++) {
        await(other, 2 * round - 2);
        atomic_store_explicit(&stored[me], round, memory_order_seq_cst);
        seen[me] = atomic_load_explicit(&stored[other], memory_order_seq_cst);
        atomic_store_explicit(&done[me], 2 * round - 1, memory_order_release);
        await(other, 2 * round - 1);
        CHECK(seen[me] == round || seen[other] == round);
        atomic_store_explicit(&done[me], 2 * round, memory_order_release);
    }
    return NULL;
}

TEST(seq_cst_store_load_is_never_reordered_on_both_sides)
{
    int first = 0, second = 1;
    pthread_t thread;
    rounds = check_scale(100000);
    CHECK_EQ(pthread_create(&thread, NULL, play, &second), 0);
    play(&first);
    CHECK_EQ(pthread_join(thread, NULL), 0);
}
