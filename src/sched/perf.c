#include "sched/perf.h"

#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "sched/worker.h"

#define NAME_BYTES 24

struct weft__perf weft__perf;

/* Written under the lock, before the count; never changed. */
static char names[WEFT_PERF_TYPES][NAME_BYTES] = {"poll", "work", "queue", "acquire"};
static _Atomic(unsigned) types = WEFT_PERF_USER; /* registered */

/* --- types ------------------------------------------------------------------- */

static bool valid(const char *name)
{
    if (!name || !*name || strlen(name) >= NAME_BYTES) {
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

/* The lock keeps the callback where it is, also while it is asked. */
static int register_locked(const char *name)
{
    unsigned n = atomic_load_explicit(&types, memory_order_relaxed);
    for (unsigned type = 0; type < n; type++) {
        if (strcmp(names[type], name) == 0) {
            return (int)type;
        }
    }
    if (n == WEFT_PERF_TYPES) {
        return -ENOSPC;
    }
    memcpy(names[n], name, strlen(name) + 1);
    atomic_store_explicit(&types, n + 1, memory_order_release); /* pairs: weft_perf_name */
    if (accepts(atomic_load_explicit(&weft__perf.installed, memory_order_relaxed), n)) {
        atomic_fetch_or_explicit(&weft__perf.mask, UINT64_C(1) << n, memory_order_relaxed);
    }
    return (int)n;
}

int weft_perf_register(const char *name)
{
    if (!valid(name)) {
        return -EINVAL;
    }
    weft__lock(&weft__perf.lock);
    int type = register_locked(name);
    weft__unlock(&weft__perf.lock);
    return type;
}

const char *weft_perf_name(unsigned type)
{
    unsigned n = atomic_load_explicit(&types, memory_order_acquire); /* pairs: register_locked */
    return type < n && names[type][0] ? names[type] : NULL;
}

/* --- install and remove ---------------------------------------------------------- */

static uint64_t ask(const struct weft_perf *perf)
{
    uint64_t mask = 0;
    unsigned n = atomic_load_explicit(&types, memory_order_relaxed);
    for (unsigned type = 0; type < n; type++) {
        if (names[type][0] && accepts(perf, type)) {
            mask |= UINT64_C(1) << type;
        }
    }
    return mask;
}

int weft_perf_install(const struct weft_perf *perf)
{
    if (!perf->on_event) {
        return -EINVAL;
    }
    weft__lock(&weft__perf.lock);
    int err = -EBUSY;
    if (!atomic_load_explicit(&weft__perf.installed, memory_order_relaxed)) {
        atomic_store_explicit(&weft__perf.mask, ask(perf), memory_order_relaxed);
        atomic_store_explicit(&weft__perf.installed, perf,
                              memory_order_release); /* pairs: weft__perf_tell */
        err = 0;
    }
    weft__unlock(&weft__perf.lock);
    return err;
}

/* seq_cst: see the banner of sched/perf.h. The load that reads zero also acquires what was done in
 * the callback. pairs: weft__perf_tell */
static void await_users(void)
{
    for (unsigned i = 0; i < WEFT__PERF_SHARDS; i++) {
        while (atomic_load_explicit(&weft__perf.shards[i].users, memory_order_seq_cst)) {
            sched_yield();
        }
    }
}

int weft_perf_remove(const struct weft_perf *perf)
{
    weft__lock(&weft__perf.lock);
    int err = -ENOENT;
    if (atomic_load_explicit(&weft__perf.installed, memory_order_relaxed) == perf) {
        atomic_store_explicit(&weft__perf.mask, 0, memory_order_relaxed);
        atomic_store_explicit(&weft__perf.installed, NULL,
                              memory_order_seq_cst); /* pairs: weft__perf_tell */
        await_users();
        err = 0;
    }
    weft__unlock(&weft__perf.lock);
    return err;
}

/* --- events ------------------------------------------------------------------------ */

unsigned weft__perf_shard(void)
{
    const struct weft__worker *w = weft__worker_self();
    return w ? 1 + (unsigned)w->index % (WEFT__PERF_SHARDS - 1) : 0;
}

void weft__perf_tell(unsigned type, int64_t cost_ns, uint64_t count, uint64_t sum)
{
    _Atomic(uint32_t) *users = &weft__perf.shards[weft__perf_shard()].users;
    atomic_fetch_add_explicit(users, 1, memory_order_seq_cst); /* pairs: await_users */
    const struct weft_perf *perf = atomic_load_explicit(
        &weft__perf.installed, memory_order_seq_cst); /* pairs: weft_perf_install, _remove */
    uint64_t mask = atomic_load_explicit(&weft__perf.mask, memory_order_relaxed);
    if (perf && (mask >> type & 1)) {
        perf->on_event(type, cost_ns, count, sum, perf->arg);
    }
    WEFT__STEP();
    atomic_fetch_sub_explicit(users, 1, memory_order_release); /* pairs: await_users */
}

void weft_perf_event(unsigned type, int64_t cost_ns, uint64_t count, uint64_t sum)
{
    if (type < WEFT_PERF_TYPES && weft__perf_on(type)) {
        weft__perf_tell(type, cost_ns, count, sum);
    }
}

int64_t weft_perf_begin(unsigned type)
{
    return type < WEFT_PERF_TYPES && weft__perf_on(type) ? weft__clock_ns() : 0;
}

void weft_perf_end(unsigned type, int64_t began, uint64_t count, uint64_t sum)
{
    if (__builtin_expect(began > 0, 0)) {
        weft_perf_event(type, weft__clock_ns() - began, count, sum);
    }
}
