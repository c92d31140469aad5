#include "worker/perf.h"

#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "base/objname.h"
#include "worker/worker.h"

struct weft__perf weft__perf;

/* Written under the lock, before the count; never changed. */
static const char *names[WEFT_PERF_TYPES] = {"poll", "work", "queue", "acquire"};
static _Atomic(unsigned) types = WEFT_PERF_USER; /* number registered */

/* --- types ------------------------------------------------------------------- */

static bool is_valid_name(const char *name)
{
    if (!name || !*name) {
        return false;
    }
    while (*name && isgraph((unsigned char)*name)) {
        name++;
    }
    return !*name;
}

static bool accepts(const struct weft_perf *perf, unsigned type)
{
    return perf && (!perf->accept || perf->accept(type, perf->arg));
}

static const struct weft_perf *callback_in(unsigned slot)
{
    return atomic_load_explicit(&weft__perf.slots[slot].callback, memory_order_relaxed);
}

static void accept_locked(unsigned slot, uint64_t mask)
{
    atomic_fetch_or_explicit(&weft__perf.slots[slot].mask, mask, memory_order_relaxed);
    atomic_fetch_or_explicit(&weft__perf.mask, mask, memory_order_relaxed);
}

/* The lock keeps the callbacks installed, also while their accept functions run. */
static int register_locked(const char *name)
{
    unsigned n = atomic_load_explicit(&types, memory_order_relaxed);
    for (unsigned type = 0; type < n; type++) {
        if (names[type] && strcmp(names[type], name) == 0) {
            return (int)type;
        }
    }
    if (n == WEFT_PERF_TYPES) {
        return -ENOSPC;
    }
    names[n] = weft__objname_copy(name); /* never freed */
    if (!names[n]) {
        return -ENOMEM;
    }
    atomic_store_explicit(&types, n + 1, memory_order_release); /* pairs: weft__perf_name */
    for (unsigned slot = 0; slot < WEFT__PERF_SLOTS; slot++) {
        if (accepts(callback_in(slot), n)) {
            accept_locked(slot, UINT64_C(1) << n);
        }
    }
    return (int)n;
}

int weft_perf_register(const char *name)
{
    if (!is_valid_name(name)) {
        return -EINVAL;
    }
    weft__lock(&weft__perf.lock);
    int type = register_locked(name);
    weft__unlock(&weft__perf.lock);
    return type;
}

const char *weft__perf_name(unsigned type)
{
    unsigned n = atomic_load_explicit(&types, memory_order_acquire); /* pairs: register_locked */
    return type < n ? names[type] : NULL;
}

/* --- install and remove ---------------------------------------------------------- */

static uint64_t accepted_types(const struct weft_perf *perf)
{
    uint64_t mask = 0;
    unsigned n = atomic_load_explicit(&types, memory_order_relaxed);
    for (unsigned type = 0; type < n; type++) {
        if (names[type] && accepts(perf, type)) {
            mask |= UINT64_C(1) << type;
        }
    }
    return mask;
}

static unsigned slot_of_locked(const struct weft_perf *perf)
{
    unsigned slot = 0;
    while (slot < WEFT__PERF_SLOTS && callback_in(slot) != perf) {
        slot++;
    }
    return slot;
}

static int install_locked(const struct weft_perf *perf)
{
    if (slot_of_locked(perf) < WEFT__PERF_SLOTS) {
        return -EBUSY;
    }
    unsigned slot = slot_of_locked(NULL);
    if (slot == WEFT__PERF_SLOTS) {
        return -ENOSPC;
    }
    accept_locked(slot, accepted_types(perf));
    atomic_store_explicit(&weft__perf.slots[slot].callback, perf,
                          memory_order_release); /* pairs: weft__perf_emit */
    return 0;
}

int weft_perf_install(const struct weft_perf *perf)
{
    if (!perf->on_event) {
        return -EINVAL;
    }
    weft__lock(&weft__perf.lock);
    int err = install_locked(perf);
    weft__unlock(&weft__perf.lock);
    return err;
}

/* seq_cst: see the banner of worker/perf.h. The load that reads zero also acquires what the
 * callback did. pairs: weft__perf_emit */
static void wait_for_users(void)
{
    for (unsigned i = 0; i < WEFT__PERF_SHARDS; i++) {
        while (atomic_load_explicit(&weft__perf.shards[i].users, memory_order_seq_cst)) {
            sched_yield();
        }
    }
}

/* Clears the slot's mask and recomputes the common mask from the others. */
static void clear_mask_locked(unsigned slot)
{
    uint64_t mask = 0;
    atomic_store_explicit(&weft__perf.slots[slot].mask, 0, memory_order_relaxed);
    for (unsigned i = 0; i < WEFT__PERF_SLOTS; i++) {
        mask |= atomic_load_explicit(&weft__perf.slots[i].mask, memory_order_relaxed);
    }
    atomic_store_explicit(&weft__perf.mask, mask, memory_order_relaxed);
}

int weft_perf_remove(const struct weft_perf *perf)
{
    weft__lock(&weft__perf.lock);
    unsigned slot = perf ? slot_of_locked(perf) : WEFT__PERF_SLOTS;
    int err = slot < WEFT__PERF_SLOTS ? 0 : -ENOENT;
    if (!err) {
        clear_mask_locked(slot);
        atomic_store_explicit(&weft__perf.slots[slot].callback, NULL,
                              memory_order_seq_cst); /* pairs: weft__perf_emit */
        wait_for_users();
    }
    weft__unlock(&weft__perf.lock);
    return err;
}

/* --- events ------------------------------------------------------------------------ */

static unsigned shard_of(const struct weft__worker *w)
{
    return w ? 1 + (unsigned)w->index % (WEFT__PERF_SHARDS - 1) : 0;
}

unsigned weft__perf_shard(void)
{
    return shard_of(weft__worker_self());
}

void weft__perf_emit(unsigned type, int64_t cost_ns, uint64_t count, uint64_t sum)
{
    const struct weft__worker *w = weft__worker_self();
    weft_pool *pool = w ? w->pool : NULL;
    _Atomic(uint32_t) *users = &weft__perf.shards[shard_of(w)].users;
    atomic_fetch_add_explicit(users, 1, memory_order_seq_cst); /* pairs: wait_for_users */
    for (unsigned i = 0; i < WEFT__PERF_SLOTS; i++) {
        const struct weft__perf_slot *slot = &weft__perf.slots[i];
        const struct weft_perf *perf = atomic_load_explicit(
            &slot->callback, memory_order_seq_cst); /* pairs: install_locked, weft_perf_remove */
        uint64_t mask = atomic_load_explicit(&slot->mask, memory_order_relaxed);
        if (perf && (mask >> type & 1) && (!perf->pool || perf->pool == pool)) {
            perf->on_event(type, cost_ns, count, sum, pool, perf->arg);
        }
    }
    WEFT__STEP();
    atomic_fetch_sub_explicit(users, 1, memory_order_release); /* pairs: wait_for_users */
}

void weft_perf_event(unsigned type, int64_t cost_ns, uint64_t count, uint64_t sum)
{
    if (type < WEFT_PERF_TYPES && weft__perf_is_on(type)) {
        weft__perf_emit(type, cost_ns, count, sum);
    }
}

int64_t weft_perf_begin(unsigned type)
{
    return type < WEFT_PERF_TYPES && weft__perf_is_on(type) ? weft__clock_ns() : 0;
}

void weft_perf_end(unsigned type, int64_t began, uint64_t count, uint64_t sum)
{
    if (__builtin_expect(began > 0, 0)) {
        weft_perf_event(type, weft__clock_ns() - began, count, sum);
    }
}
