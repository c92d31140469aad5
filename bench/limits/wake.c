/* The cost of waking a thread without a scheduler, unpinned: a thread parked in epoll_wait on an
 * eventfd, parked in a futex, or spinning. The eventfd is the target of `wake`, the spinning thread
 * that of `wake_spin`. */
#include "../measure.h"

#include <linux/futex.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/syscall.h>

enum { WAKES = 2000 };

static int event, poller;
static atomic_int rung;
static _Atomic uint64_t rung_at;
static atomic_int answered;
static uint64_t latency[WAKES];

static void wait_eventfd(int i)
{
    struct epoll_event ready;
    (void)i;
    if (epoll_wait(poller, &ready, 1, -1) != 1)
        abort();
}

static void ring_eventfd(void)
{
    uint64_t one = 1;
    if (write(event, &one, sizeof one) < 0)
        abort();
}

static void wait_futex(int i)
{
    while (atomic_load(&rung) == i)
        syscall(SYS_futex, &rung, FUTEX_WAIT_PRIVATE, i, NULL, NULL, 0);
}

static void ring_futex(void)
{
    atomic_fetch_add(&rung, 1);
    syscall(SYS_futex, &rung, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

static void wait_spinning(int i)
{
    while (atomic_load(&rung) == i)
        ;
}

static void ring_spinning(void)
{
    atomic_fetch_add(&rung, 1);
}

static void *answer(void *wait)
{
    for (int i = 0; i < WAKES; i++) {
        ((void (*)(int))wait)(i);
        latency[i] = now_ns() - atomic_load(&rung_at);
        atomic_store(&answered, i + 1);
    }
    return NULL;
}

static void measure(const char *peer, const char *workload, void (*wait)(int), void (*ring)(void),
                    useconds_t pause_us)
{
    pthread_t thread;
    atomic_store(&rung, 0);
    atomic_store(&answered, 0);
    pthread_create(&thread, NULL, answer, (void *)wait);
    usleep(10000);
    for (int i = 0; i < WAKES; i++) {
        if (pause_us)
            usleep(pause_us);
        atomic_store(&rung_at, now_ns());
        ring();
        while (atomic_load(&answered) != i + 1)
            sched_yield();
    }
    pthread_join(thread, NULL);
    report_latency(peer, workload, latency, WAKES);
}

int main(void)
{
    struct epoll_event interest = {.events = EPOLLIN | EPOLLET}; /* so no read is needed */
    event = eventfd(0, EFD_NONBLOCK);
    poller = epoll_create1(0);
    epoll_ctl(poller, EPOLL_CTL_ADD, event, &interest);
    measure("limit-eventfd", "wake", wait_eventfd, ring_eventfd, 500);
    measure("limit-futex", "wake", wait_futex, ring_futex, 500);
    measure("limit-spin", "wake_spin", wait_spinning, ring_spinning, 0);
}
