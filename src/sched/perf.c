#include "sched/perf.h"

#include <ctype.h>
#include <errno.h>
#include <sched.h>
#include <string.h>

#include "base/clock.h"
#include "base/text.h"
#include "sched/worker.h"

struct weft__perf weft__perf;

/* Written under the lock, before the count; never changed. */
static const char *names[WEFT_PERF_TYPES] = {"poll", "work", "queue", "acquire"};
static _Atomic(unsigned) types = WEFT_PERF_USER; /* number registered */

/* --- types ------------------------------------------------------------------- */

static bool valid(const char *name)
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

static const struct weft_perf *callback_in(unsigned place)
{
    return atomic_load_explicit(&weft__perf.places[place].callback, memory_order_relaxed);
}

static void accept_locked(unsigned place, uint64_t mask)
{
    atomic_fetch_or_explicit(&weft__perf.places[place].mask, mask, memory_order_relaxed);
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
    names[n] = weft__text_copy(name); /* never freed */
    if (!names[n]) {
        return -ENOMEM;
    }
    atomic_store_explicit(&types, n + 1, memory_order_release); /* pairs: weft_perf_name */
    for (unsigned place = 0; place < WEFT__PERF_PLACES; place++) {
        if (accepts(callback_in(place), n)) {
            accept_locked(place, UINT64_C(1) << n);
        }
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
    return type < n ? names[type] : NULL;
}

/* --- install and remove ---------------------------------------------------------- */

static uint64_t ask(const struct weft_perf *perf)
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

static unsigned place_of_locked(const struct weft_perf *perf)
{
    unsigned place = 0;
    while (place < WEFT__PERF_PLACES && callback_in(place) != perf) {
        place++;
    }
    return place;
}

static int install_locked(const struct weft_perf *perf)
{
    if (place_of_locked(perf) < WEFT__PERF_PLACES) {
        return -EBUSY;
    }
    unsigned place = place_of_locked(NULL);
    if (place == WEFT__PERF_PLACES) {
        return -ENOSPC;
    }
    accept_locked(place, ask(perf));
    atomic_store_explicit(&weft__perf.places[place].callback, perf,
                          memory_order_release); /* pairs: weft__perf_tell */
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

/* seq_cst: see the banner of sched/perf.h. The load that reads zero also acquires what the
 * callback did. pairs: weft__perf_tell */
static void await_users(void)
{
    for (unsigned i = 0; i < WEFT__PERF_SHARDS; i++) {
        while (atomic_load_explicit(&weft__perf.shards[i].users, memory_order_seq_cst)) {
            sched_yield();
        }
    }
}

/* Clears the slot's mask and recomputes the common mask from the others. */
static void leave_mask_locked(unsigned place)
{
    uint64_t mask = 0;
    atomic_store_explicit(&weft__perf.places[place].mask, 0, memory_order_relaxed);
    for (unsigned i = 0; i < WEFT__PERF_PLACES; i++) {
        mask |= atomic_load_explicit(&weft__perf.places[i].mask, memory_order_relaxed);
    }
    atomic_store_explicit(&weft__perf.mask, mask, memory_order_relaxed);
}

int weft_perf_remove(const struct weft_perf *perf)
{
    weft__lock(&weft__perf.lock);
    unsigned place = perf ? place_of_locked(perf) : WEFT__PERF_PLACES;
    int err = place < WEFT__PERF_PLACES ? 0 : -ENOENT;
    if (!err) {
        leave_mask_locked(place);
        atomic_store_explicit(&weft__perf.places[place].callback, NULL,
                              memory_order_seq_cst); /* pairs: weft__perf_tell */
        await_users();
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

void weft__perf_tell(unsigned type, int64_t cost_ns, uint64_t count, uint64_t sum)
{
    const struct weft__worker *w = weft__worker_self();
    weft_pool *pool = w ? w->pool : NULL;
    _Atomic(uint32_t) *users = &weft__perf.shards[shard_of(w)].users;
    atomic_fetch_add_explicit(users, 1, memory_order_seq_cst); /* pairs: await_users */
    for (unsigned i = 0; i < WEFT__PERF_PLACES; i++) {
        const struct weft__perf_place *place = &weft__perf.places[i];
        const struct weft_perf *perf = atomic_load_explicit(
            &place->callback, memory_order_seq_cst); /* pairs: install_locked, weft_perf_remove */
        uint64_t mask = atomic_load_explicit(&place->mask, memory_order_relaxed);
        if (perf && (mask >> type & 1) && (!perf->pool || perf->pool == pool)) {
            perf->on_event(type, cost_ns, count, sum, pool, perf->arg);
        }
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
