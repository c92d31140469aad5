#include "idle/spin.h"

/* Plain thread-local storage: a thread that is not a worker never switches, so it stays the
 * same. */
static _Thread_local struct weft__spin mine __attribute__((tls_model("initial-exec")));

/* On one CPU, spinning keeps the thread we wait for from running. */
static bool has_cpus(void)
{
    static _Atomic(unsigned) usable;
    unsigned cpus = atomic_load_explicit(&usable, memory_order_relaxed);
    if (!cpus) {
        cpus = weft__cpu_usable();
        atomic_store_explicit(&usable, cpus, memory_order_relaxed);
    }
    return cpus > 1;
}

__attribute__((noinline)) bool weft__spin_thread(const _Atomic(uint32_t) *word, int64_t now,
                                                 int64_t deadline)
{
    if (deadline <= now || !weft__spin_is_worthwhile(&mine) || !has_cpus()) {
        return false;
    }
    int64_t end = deadline - now < WEFT__SPIN_NS ? deadline : now + WEFT__SPIN_NS;
    do {
        /* Relaxed: the caller reads it again. */
        if (atomic_load_explicit(word, memory_order_relaxed)) {
            weft__spin_hit(&mine);
            return true;
        }
    } while (weft__spin_pause(&now, end));
    weft__spin_missed(&mine);
    return false;
}

__attribute__((noinline)) void weft__spin_thread_slept(int64_t ns)
{
    if (!weft__spin_is_worthwhile(&mine)) {
        weft__spin_slept(&mine, ns);
    }
}
