#include "hook/wait_queue.h"

#include <stddef.h>

#include "base/atomic.h"
#include "lock/lock.h"

#define BUCKETS 256u
#define OWNERS 4096u

struct owner {
    const void *mutex;
    weft_fiber fiber;
    unsigned depth;
    struct owner *next;
};

struct bucket {
    struct weft__lock lock;
    _Atomic(uint32_t) count; /* waiters here; written under the lock */
    struct weft__hook_waiter *first, *last;
    struct owner *owners;
};

static struct bucket buckets[BUCKETS];

/* Owners are few, and an allocator may be the caller that locks, so their records come from this
 * array. */
static struct owner owners[OWNERS];
static struct owner *free_owners;
static unsigned used_owners;
static struct weft__lock free_lock;

static struct bucket *bucket_of(const void *object)
{
    uint64_t hash = (uint64_t)(uintptr_t)object * 0x9e3779b97f4a7c15u;
    return &buckets[hash >> 56];
}

static void push_locked(struct bucket *bucket, struct weft__hook_waiter *entry)
{
    entry->next = NULL;
    entry->prev = bucket->last;
    *(bucket->last ? &bucket->last->next : &bucket->first) = entry;
    bucket->last = entry;
    entry->queued = true;
    atomic_fetch_add_explicit(&bucket->count, 1, memory_order_seq_cst);
}

static void remove_locked(struct bucket *bucket, struct weft__hook_waiter *entry)
{
    *(entry->prev ? &entry->prev->next : &bucket->first) = entry->next;
    *(entry->next ? &entry->next->prev : &bucket->last) = entry->prev;
    entry->queued = false;
    atomic_fetch_sub_explicit(&bucket->count, 1, memory_order_relaxed);
}

void weft__hook_queue_enter(struct weft__hook_waiter *entry, const void *object)
{
    struct bucket *bucket = bucket_of(object);
    entry->object = object;
    weft_event_init(&entry->woken, NULL);
    weft__lock(&bucket->lock);
    push_locked(bucket, entry);
    weft__unlock(&bucket->lock);
}

void weft__hook_queue_again(struct weft__hook_waiter *entry)
{
    struct bucket *bucket = bucket_of(entry->object);
    weft__lock(&bucket->lock);
    if (!entry->queued) {
        weft_event_reset(&entry->woken);
        push_locked(bucket, entry);
    }
    weft__unlock(&bucket->lock);
}

/* Wakers hold the lock: after this call no thread touches the waiter. */
bool weft__hook_queue_leave(struct weft__hook_waiter *entry)
{
    struct bucket *bucket = bucket_of(entry->object);
    weft__lock(&bucket->lock);
    bool woken = !entry->queued;
    if (!woken) {
        remove_locked(bucket, entry);
    }
    weft__unlock(&bucket->lock);
    weft_event_deinit(&entry->woken);
    return woken;
}

void weft__hook_queue_wake(const void *object, unsigned most)
{
    struct bucket *bucket = bucket_of(object);
    if (atomic_load_explicit(&bucket->count, memory_order_seq_cst) == 0) {
        return;
    }
    weft__lock(&bucket->lock);
    struct weft__hook_waiter *entry = bucket->first, *next;
    for (; entry && most > 0; entry = next) {
        next = entry->next;
        if (entry->object == object) {
            remove_locked(bucket, entry);
            weft_event_set(&entry->woken);
            most--;
        }
    }
    weft__unlock(&bucket->lock);
}

void weft__hook_queue_fork_child(void)
{
    for (unsigned i = 0; i < BUCKETS; i++) {
        atomic_store_explicit(&buckets[i].lock.word, 0, memory_order_relaxed);
        atomic_store_explicit(&buckets[i].count, 0, memory_order_relaxed);
        buckets[i].first = buckets[i].last = NULL;
        buckets[i].owners = NULL;
    }
    atomic_store_explicit(&free_lock.word, 0, memory_order_relaxed);
    free_owners = NULL;
    used_owners = 0;
}

/* --- owners ----------------------------------------------------------------------------------- */

static struct owner *alloc_owner(void)
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

static void free_owner(struct owner *owner)
{
    weft__lock(&free_lock);
    owner->next = free_owners;
    free_owners = owner;
    weft__unlock(&free_lock);
}

static struct owner **find_locked(struct bucket *bucket, const void *mutex)
{
    struct owner **at = &bucket->owners;
    while (*at && (*at)->mutex != mutex) {
        at = &(*at)->next;
    }
    return at;
}

bool weft__hook_owner_is_other(const void *mutex, weft_fiber self)
{
    struct bucket *bucket = bucket_of(mutex);
    weft__lock(&bucket->lock);
    const struct owner *owner = *find_locked(bucket, mutex);
    bool other = owner && owner->fiber != self;
    weft__unlock(&bucket->lock);
    return other;
}

bool weft__hook_owner_add(const void *mutex, weft_fiber self)
{
    struct bucket *bucket = bucket_of(mutex);
    weft__lock(&bucket->lock);
    struct owner *owner = *find_locked(bucket, mutex);
    if (!owner && (owner = alloc_owner())) {
        *owner = (struct owner){.mutex = mutex, .next = bucket->owners};
        bucket->owners = owner;
    }
    if (owner) {
        /* A record of another fiber is left over from an earlier mutex at this address. */
        owner->depth = owner->fiber == self ? owner->depth + 1 : 1;
        owner->fiber = self;
    }
    weft__unlock(&bucket->lock);
    return owner != NULL;
}

void weft__hook_owner_remove(const void *mutex, weft_fiber self)
{
    struct bucket *bucket = bucket_of(mutex);
    weft__lock(&bucket->lock);
    struct owner **at = find_locked(bucket, mutex), *owner = *at;
    if (owner && owner->fiber == self && --owner->depth == 0) {
        *at = owner->next;
        free_owner(owner);
    }
    weft__unlock(&bucket->lock);
}
