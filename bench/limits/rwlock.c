/* The lock operations of `rwlock8` without a scheduler and without a queue: a thread that cannot
 * take the lock spins. Measured: two threads that share one word; two threads with one word each,
 * which the writer checks; and one thread alone, with one word and with plain stores. This is the
 * limit for two CPUs that write to one lock every 20th time. */
#include "../measure.h"

#include <pthread.h>
#include <stdatomic.h>

enum { TOTAL = 4000000 };

struct line {
    _Alignas(64) atomic_long word;
};

struct lock {
    void (*read)(long thread);
    void (*read_unlock)(long thread);
    void (*write)(long thread);
    void (*write_unlock)(void);
};

static struct line word, slots[2];
static struct {
    _Alignas(64) volatile long values[4];
} shared;
static const struct lock *lock;
static int threads;

static void relax(void)
{
#if defined(__x86_64__)
    __builtin_ia32_pause();
#endif
}

/* --- one word: 1 is a writer, 2 is a reader --- */

static void word_read(long thread)
{
    (void)thread;
    while (atomic_fetch_add_explicit(&word.word, 2, memory_order_acquire) & 1) {
        atomic_fetch_sub_explicit(&word.word, 2, memory_order_relaxed);
        while (atomic_load_explicit(&word.word, memory_order_relaxed) & 1)
            relax();
    }
}

static void word_read_unlock(long thread)
{
    (void)thread;
    atomic_fetch_sub_explicit(&word.word, 2, memory_order_release);
}

static void word_write(long thread)
{
    long none = 0;
    (void)thread;
    while (!atomic_compare_exchange_weak_explicit(&word.word, &none, 1, memory_order_acquire,
                                                  memory_order_relaxed)) {
        none = 0;
        relax();
    }
}

static void word_write_unlock(void)
{
    atomic_fetch_sub_explicit(&word.word, 1, memory_order_release);
}

/* --- one slot per thread, and a word for the writer --- */

static void slot_read(long thread)
{
    for (;;) {
        atomic_exchange_explicit(&slots[thread].word, 1, memory_order_seq_cst);
        if (!atomic_load_explicit(&word.word, memory_order_seq_cst))
            return;
        atomic_store_explicit(&slots[thread].word, 0, memory_order_release);
        while (atomic_load_explicit(&word.word, memory_order_relaxed))
            relax();
    }
}

static void slot_read_unlock(long thread)
{
    atomic_store_explicit(&slots[thread].word, 0, memory_order_release);
}

static void slot_write(long thread)
{
    long none = 0;
    while (!atomic_compare_exchange_weak_explicit(&word.word, &none, 1, memory_order_seq_cst,
                                                  memory_order_relaxed)) {
        none = 0;
        relax();
    }
    while (atomic_load_explicit(&slots[!thread].word, memory_order_seq_cst))
        relax();
}

static void slot_write_unlock(void)
{
    atomic_store_explicit(&word.word, 0, memory_order_release);
}

/* --- one thread, no atomic operations --- */

static void bump(struct line *line, long n)
{
    long now = atomic_load_explicit(&line->word, memory_order_relaxed);
    atomic_store_explicit(&line->word, now + n, memory_order_relaxed);
}

static void plain_read(long thread)
{
    bump(&slots[thread], 1);
}

static void plain_read_unlock(long thread)
{
    bump(&slots[thread], -1);
}

static void plain_write(long thread)
{
    (void)thread;
    bump(&word, 1);
}

static void plain_write_unlock(void)
{
    bump(&word, -1);
}

static const struct lock by_word = {word_read, word_read_unlock, word_write, word_write_unlock};
static const struct lock by_slot = {slot_read, slot_read_unlock, slot_write, slot_write_unlock};
static const struct lock plain = {plain_read, plain_read_unlock, plain_write, plain_write_unlock};

static void *contend(void *arg)
{
    long thread = (long)arg;
    if (threads > 1)
        pin_to((int)thread);
    for (long i = 0; i < TOTAL / threads; i++) {
        if (i % 20 == 0) {
            lock->write(thread);
            for (int k = 0; k < 4; k++)
                shared.values[k]++;
            lock->write_unlock();
        } else {
            lock->read(thread);
            if (shared.values[0] != shared.values[3])
                abort();
            lock->read_unlock(thread);
        }
    }
    return NULL;
}

static void measure(const struct lock *which, int n, const char *name)
{
    pthread_t all[2];
    lock = which;
    threads = n;
    uint64_t start = now_ns();
    for (long i = 0; i < n; i++)
        pthread_create(&all[i], NULL, contend, (void *)i);
    for (int i = 0; i < n; i++)
        pthread_join(all[i], NULL);
    report(name, "rwlock", "8", ns_since(start) / TOTAL, "ns/lock");
}

int main(void)
{
    measure(&by_word, 2, "limit-two-word");
    measure(&by_slot, 2, "limit-two-slots");
    measure(&by_word, 1, "limit-one-word");
    measure(&plain, 1, "limit-one-plain");
    return 0;
}
