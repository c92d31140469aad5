/* The cost of handing work to another thread without a scheduler: a bounded ring of
 * sequence-numbered cells (Vyukov), one producer on CPU 1, one consumer on CPU 0. The limit of
 * `crosspost1`. */
#include "../measure.h"

#include <pthread.h>
#include <stdatomic.h>

enum { CELLS = 1024, MESSAGES = 4000000 };

static struct cell {
    atomic_ulong turn;
    long value;
} cells[CELLS] __attribute__((aligned(64)));
static atomic_ulong tail __attribute__((aligned(64)));
static unsigned long head __attribute__((aligned(64)));

static void put(long value)
{
    unsigned long at = atomic_load_explicit(&tail, memory_order_relaxed);
    for (;;) {
        struct cell *cell = &cells[at % CELLS];
        long ahead = (long)(atomic_load_explicit(&cell->turn, memory_order_acquire) - at);
        if (ahead == 0 && atomic_compare_exchange_weak_explicit(
                              &tail, &at, at + 1, memory_order_relaxed, memory_order_relaxed)) {
            cell->value = value;
            atomic_store_explicit(&cell->turn, at + 1, memory_order_release); /* pairs: take */
            return;
        }
        if (ahead < 0)
            sched_yield();
        at = atomic_load_explicit(&tail, memory_order_relaxed);
    }
}

static int take(long *value)
{
    struct cell *cell = &cells[head % CELLS];
    if (atomic_load_explicit(&cell->turn, memory_order_acquire) != head + 1) /* pairs: put */
        return 0;
    *value = cell->value;
    atomic_store_explicit(&cell->turn, head + CELLS, memory_order_release); /* pairs: put */
    head++;
    return 1;
}

static void *produce(void *arg)
{
    pin_to(1);
    for (long i = 0; i < MESSAGES; i++)
        put(i);
    return arg;
}

int main(void)
{
    pthread_t producer;
    long value;
    for (unsigned i = 0; i < CELLS; i++)
        atomic_store(&cells[i].turn, i);
    pin_to(0);
    uint64_t start = now_ns();
    pthread_create(&producer, NULL, produce, NULL);
    for (long i = 0; i < MESSAGES; i++)
        while (!take(&value))
            sched_yield();
    report("limit", "crosspost1", "", MESSAGES * 1e3 / ns_since(start), "Mtask/s");
}
