#include "hook/queue.h"

#include <stddef.h>

#include "base/atomic.h"
#include "base/lock.h"

#define PLACES 256u
#define OWNERS 4096u

struct owner {
    const void *mutex;
    weft_fiber fiber;
    unsigned depth;
    struct owner *next;
};

struct place {
    struct weft__lock lock;
    _Atomic(uint32_t) count; /* waiters here; written under the lock */
    struct weft__hook_sleeper *first, *last;
    struct owner *owners;
};

static struct place places[PLACES];

/* Owners are few, and an allocator may be the caller that locks, so their records come from this
 * array. */
static struct owner owners[OWNERS];
static struct owner *free_owners;
static unsigned used_owners;
static struct weft__lock free_lock;

static struct place *place_of(const void *object)
{
    uint64_t hash = (uint64_t)(uintptr_t)object * 0x9e3779b97f4a7c15u;
    return &places[hash >> 56];
}

static void push_locked(struct place *place, struct weft__hook_sleeper *sleeper)
{
    sleeper->next = NULL;
    sleeper->prev = place->last;
    *(place->last ? &place->last->next : &place->first) = sleeper;
    place->last = sleeper;
    sleeper->queued = true;
    atomic_fetch_add_explicit(&place->count, 1, memory_order_seq_cst);
}

static void remove_locked(struct place *place, struct weft__hook_sleeper *sleeper)
{
    *(sleeper->prev ? &sleeper->prev->next : &place->first) = sleeper->next;
    *(sleeper->next ? &sleeper->next->prev : &place->last) = sleeper->prev;
    sleeper->queued = false;
    atomic_fetch_sub_explicit(&place->count, 1, memory_order_relaxed);
}

void weft__hook_queue_enter(struct weft__hook_sleeper *sleeper, const void *object)
{
    struct place *place = place_of(object);
    sleeper->object = object;
    weft_event_init(&sleeper->woken, NULL);
    weft__lock(&place->lock);
    push_locked(place, sleeper);
    weft__unlock(&place->lock);
}

void weft__hook_queue_again(struct weft__hook_sleeper *sleeper)
{
    struct place *place = place_of(sleeper->object);
    weft__lock(&place->lock);
    if (!sleeper->queued) {
        weft_event_reset(&sleeper->woken);
        push_locked(place, sleeper);
    }
    weft__unlock(&place->lock);
}

/* Wakers hold the lock: after this call no thread touches the waiter. */
bool weft__hook_queue_leave(struct weft__hook_sleeper *sleeper)
{
    struct place *place = place_of(sleeper->object);
    weft__lock(&place->lock);
    bool woken = !sleeper->queued;
    if (!woken) {
        remove_locked(place, sleeper);
    }
    weft__unlock(&place->lock);
    weft_event_deinit(&sleeper->woken);
    return woken;
}

void weft__hook_queue_wake(const void *object, unsigned most)
{
    struct place *place = place_of(object);
    if (atomic_load_explicit(&place->count, memory_order_seq_cst) == 0) {
        return;
    }
    weft__lock(&place->lock);
    struct weft__hook_sleeper *sleeper = place->first, *next;
    for (; sleeper && most > 0; sleeper = next) {
        next = sleeper->next;
        if (sleeper->object == object) {
            remove_locked(place, sleeper);
            weft_event_set(&sleeper->woken);
            most--;
        }
    }
    weft__unlock(&place->lock);
}

void weft__hook_queue_fork_child(void)
{
    for (unsigned i = 0; i < PLACES; i++) {
        atomic_store_explicit(&places[i].lock.word, 0, memory_order_relaxed);
        atomic_store_explicit(&places[i].count, 0, memory_order_relaxed);
        places[i].first = places[i].last = NULL;
        places[i].owners = NULL;
    }
    atomic_store_explicit(&free_lock.word, 0, memory_order_relaxed);
    free_owners = NULL;
    used_owners = 0;
}

/* --- owners ----------------------------------------------------------------------------------- */

static struct owner *take(void)
{
    weft__lock(&free_lock);
    struct owner *owner = free_owners;
    if (owner) {
        free_owners = owner->next;
    } else if (used_owners < OWNERS) {
        owner = &owners[used_owners++];
    }
    weft__unlock(&free_lock);
    return owner;
}

static void give(struct owner *owner)
{
    weft__lock(&free_lock);
    owner->next = free_owners;
    free_owners = owner;
    weft__unlock(&free_lock);
}

static struct owner **find_locked(struct place *place, const void *mutex)
{
    struct owner **at = &place->owners;
    while (*at && (*at)->mutex != mutex) {
        at = &(*at)->next;
    }
    return at;
}

bool weft__hook_owner_other(const void *mutex, weft_fiber self)
{
    struct place *place = place_of(mutex);
    weft__lock(&place->lock);
    const struct owner *owner = *find_locked(place, mutex);
    bool other = owner && owner->fiber != self;
    weft__unlock(&place->lock);
    return other;
}

bool weft__hook_owner_add(const void *mutex, weft_fiber self)
{
    struct place *place = place_of(mutex);
    weft__lock(&place->lock);
    struct owner *owner = *find_locked(place, mutex);
    if (!owner && (owner = take())) {
        *owner = (struct owner){.mutex = mutex, .next = place->owners};
        place->owners = owner;
    }
    if (owner) {
        /* A record of another fiber is left over from an earlier mutex at this address. */
        owner->depth = owner->fiber == self ? owner->depth + 1 : 1;
        owner->fiber = self;
    }
    weft__unlock(&place->lock);
    return owner != NULL;
}

void weft__hook_owner_remove(const void *mutex, weft_fiber self)
{
    struct place *place = place_of(mutex);
    weft__lock(&place->lock);
    struct owner **at = find_locked(place, mutex), *owner = *at;
    if (owner && owner->fiber == self && --owner->depth == 0) {
        *at = owner->next;
        give(owner);
    }
    weft__unlock(&place->lock);
}
