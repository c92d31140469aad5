/* The cost of `d_submit` without a dispatcher: one thread writes a word, another writes one back,
 * 100,000 times, unpinned. Each thread sleeps in a futex until its turn (limit-futex), or reads the
 * clock between two reads of the word, as a thread does that spins for a limited time
 * (limit-spin). */
#include "../measure.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>

enum { TRIPS = 100000 };

/* Each on its own cache line. */
static struct {
    _Alignas(128) atomic_int word;
} asked, answered;

static void wait_futex(atomic_int *word, int value)
{
    int seen;
    while ((seen = atomic_load(word)) != value)
        syscall(SYS_futex, word, FUTEX_WAIT_PRIVATE, seen, NULL, NULL, 0);
}

static void ring_futex(atomic_int *word, int value)
{
    atomic_store(word, value);
    syscall(SYS_futex, word, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void wait_spinning(atomic_int *word, int value)
{
    uint64_t end = now_ns() + 1000000000;
    while (atomic_load(word) != value)
        if (now_ns() > end)
            sched_yield();
}

static void ring_spinning(atomic_int *word, int value)
{
    atomic_store(word, value);
}

static void (*await)(atomic_int *word, int value);
static void (*ring)(atomic_int *word, int value);

static void *answer(void *arg)
{
    for (int i = 1; i <= TRIPS; i++) {
        await(&asked.word, i);
        ring(&answered.word, i);
    }
    return arg;
}

static void measure(const char *peer)
{
    pthread_t thread;
    uint64_t start = 0;
    atomic_store(&asked.word, 0);
    atomic_store(&answered.word, 0);
    pthread_create(&thread, NULL, answer, NULL);
    for (int i = 1; i <= TRIPS; i++) {
        if (i == TRIPS / 4)
            start = now_ns();
        ring(&asked.word, i);
        await(&answered.word, i);
    }
    report(peer, "d_submit", "", ns_since(start) / (TRIPS - TRIPS / 4) / 1e3, "us");
    pthread_join(thread, NULL);
}

int main(void)
{
    await = wait_futex;
    ring = ring_futex;
    measure("limit-futex");
    await = wait_spinning;
    ring = ring_spinning;
    measure("limit-spin");
}
