/* Buffers: allocated and freed on one worker; shared and freed; freed on a thread other than the
 * allocating one; and malloc for comparison. */
#include "program.h"

#include <pthread.h>

enum { ROUNDS = 5000000, BATCH = 64 };

static void *measure(void *arg)
{
    uint64_t start = now_ns();
    for (int i = 0; i < ROUNDS; i++)
        weft_buf_free(weft_buf_alloc(1024, 0));
    report("weft", "buf_local", "", ns_since(start) / ROUNDS, "ns/buffer");

    weft_buf *frame = weft_buf_alloc(1024, 0);
    start = now_ns();
    for (int i = 0; i < ROUNDS; i++)
        weft_buf_free(weft_buf_share(frame));
    report("weft", "buf_share", "", ns_since(start) / ROUNDS, "ns/view");
    weft_buf_free(frame);

    start = now_ns();
    for (int i = 0; i < ROUNDS; i++) {
        void *memory = malloc(1024);
        __asm__ volatile("" ::"r"(memory) : "memory");
        free(memory);
    }
    report("malloc", "buf_local", "", ns_since(start) / ROUNDS, "ns/buffer");
    return arg;
}

/* Batches go to a plain thread, which frees them: the buffers return by the remote-free list or,
 * with malloc, to the arena. */
static _Atomic(void **) handed;
static bool by_malloc;

static void *free_batches(void *arg)
{
    for (;;) {
        void **batch = atomic_exchange_explicit(&handed, NULL, memory_order_acq_rel);
        if (!batch) {
            sched_yield();
            continue;
        }
        if (!batch[0])
            return arg;
        for (int i = 0; i < BATCH; i++) {
            if (by_malloc)
                free(batch[i]);
            else
                weft_buf_free(batch[i]);
        }
    }
}

static void hand(void **batch)
{
    while (atomic_load_explicit(&handed, memory_order_acquire))
        sched_yield();
    atomic_store_explicit(&handed, batch, memory_order_release);
}

static void foreign(const char *peer)
{
    static void *batches[3][BATCH];
    static void *end[1];
    pthread_t thread;
    uint64_t start = now_ns();
    pthread_create(&thread, NULL, free_batches, NULL);
    for (int i = 0; i < ROUNDS / 5 / BATCH; i++) {
        void **batch = batches[i % 3];
        for (int k = 0; k < BATCH; k++)
            batch[k] = by_malloc ? malloc(1024) : (void *)weft_buf_alloc(1024, 0);
        hand(batch);
    }
    hand(end);
    pthread_join(thread, NULL);
    report(peer, "buf_foreign", "", ns_since(start) / (ROUNDS / 5), "ns/buffer");
}

static void *measure_foreign(void *arg)
{
    foreign("weft");
    by_malloc = true;
    foreign("malloc");
    return arg;
}

int main(void)
{
    run_main_fiber("1", measure);
    run_main_fiber("1", measure_foreign);
}
