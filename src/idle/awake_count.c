#include "idle/awake_count.h"

#include "lock/futex.h"

struct weft__awake_count weft__awake_count;

void weft__awake_count_ring(struct weft__awake_count *awake)
{
    /* Release: publishes what the call reports. pairs: weft__awake_count_doorbell */
    atomic_fetch_add_explicit(&awake->doorbell, 1, memory_order_release);
    weft__futex_wake(&awake->doorbell, 1);
}

void weft__awake_count_wake_watcher(struct weft__awake_count *awake)
{
    uint64_t before =
        atomic_fetch_and_explicit(&awake->word, ~WEFT__AWAKE_COUNT_WAITING, memory_order_relaxed);
    if (before & WEFT__AWAKE_COUNT_WAITING) { /* the first of several */
        weft__awake_count_ring(awake);
    }
}

void weft__awake_count_invalidate(struct weft__awake_count *awake)
{
    /* A watcher that read the state before the change has an outdated word. Release: a watcher that
     * reads this word sees the change. pairs: weft__awake_count_read */
    uint64_t before =
        atomic_fetch_add_explicit(&awake->word, WEFT__AWAKE_COUNT_WAKEUP, memory_order_release);
    if (before & WEFT__AWAKE_COUNT_WAITING) {
        weft__awake_count_wake_watcher(awake);
    }
}

void weft__awake_count_wait(struct weft__awake_count *awake, uint64_t word, uint32_t doorbell,
                            int64_t until)
{
    if (!atomic_compare_exchange_strong_explicit(&awake->word, &word,
                                                 word | WEFT__AWAKE_COUNT_WAITING,
                                                 memory_order_relaxed, memory_order_relaxed)) {
        return; /* another thread was faster */
    }
    int rc = 0;
    while (rc == 0 && atomic_load_explicit(&awake->doorbell, memory_order_relaxed) == doorbell) {
        rc = weft__futex_wait(&awake->doorbell, doorbell, until);
    }
    atomic_fetch_and_explicit(&awake->word, ~WEFT__AWAKE_COUNT_WAITING, memory_order_relaxed);
}
