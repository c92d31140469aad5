#include "sched/pulse.h"

#include "base/futex.h"

void weft__pulse_call(struct weft__pulse *pulse)
{
    /* Release: publishes what the call reports. pairs: weft__pulse_bell */
    atomic_fetch_add_explicit(&pulse->bell, 1, memory_order_release);
    weft__futex_wake(&pulse->bell, 1);
}

void weft__pulse_rouse(struct weft__pulse *pulse)
{
    uint64_t before =
        atomic_fetch_and_explicit(&pulse->word, ~WEFT__PULSE_RESTING, memory_order_relaxed);
    if (before & WEFT__PULSE_RESTING) { /* the first of several */
        weft__pulse_call(pulse);
    }
}

void weft__pulse_changed(struct weft__pulse *pulse)
{
    /* A watcher that read the state before the change has an outdated word. Release: a watcher that
     * reads this word sees the change. pairs: weft__pulse_read */
    uint64_t before =
        atomic_fetch_add_explicit(&pulse->word, WEFT__PULSE_AWOKEN, memory_order_release);
    if (before & WEFT__PULSE_RESTING) {
        weft__pulse_rouse(pulse);
    }
}

void weft__pulse_rest(struct weft__pulse *pulse, uint64_t word, uint32_t bell, int64_t until)
{
    if (!atomic_compare_exchange_strong_explicit(&pulse->word, &word, word | WEFT__PULSE_RESTING,
                                                 memory_order_relaxed, memory_order_relaxed)) {
        return; /* somebody was faster */
    }
    int rc = 0;
    while (rc == 0 && atomic_load_explicit(&pulse->bell, memory_order_relaxed) == bell) {
        rc = weft__futex_wait(&pulse->bell, bell, until);
    }
    atomic_fetch_and_explicit(&pulse->word, ~WEFT__PULSE_RESTING, memory_order_relaxed);
}
