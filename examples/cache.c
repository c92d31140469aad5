/* A cache in front of a slow source. Lookups share a readers-writer lock, so they run side by side;
 * only a new entry takes the lock exclusively, and briefly. The value is loaded by the entry's once
 * object, outside the lock: however many fibers ask for a new key at the same moment, the source is
 * asked once, and fibers that need other keys do not wait. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <weft/weft.h>

struct entry {
    struct entry *next;
    weft_once load; /* guards the fields below: written once, by the first fiber that asks */
    int key, err;
    long value;
};

struct cache {
    weft_rwlock lock; /* guards the list; entries stay in it until the cache ends */
    struct entry *entries;
};

static atomic_int loads;

/* The slow source. An error is cached as a value is. */
static void load(void *arg)
{
    struct entry *entry = arg;
    atomic_fetch_add(&loads, 1);
    entry->err = weft_sleep(weft_after(WEFT_US(200)));
    entry->value = (long)entry->key * entry->key;
}

static struct entry *find_locked(const struct cache *cache, int key)
{
    struct entry *entry = cache->entries;
    while (entry && entry->key != key) {
        entry = entry->next;
    }
    return entry;
}

static int find(struct cache *cache, struct entry **out, int key, int64_t deadline)
{
    int err = weft_rwlock_read(&cache->lock, deadline);
    if (!err) {
        *out = find_locked(cache, key);
        weft_rwlock_read_unlock(&cache->lock);
    }
    return err;
}

static int insert(struct cache *cache, struct entry **out, int key, int64_t deadline)
{
    int err = weft_rwlock_write(&cache->lock, deadline);
    if (err) {
        return err;
    }
    struct entry *entry = find_locked(cache, key); /* another fiber may have been faster */
    if (!entry && (entry = calloc(1, sizeof *entry))) {
        entry->key = key;
        weft_once_init(&entry->load, &(struct weft_sync_opts){.name = "cache entry"});
        entry->next = cache->entries;
        cache->entries = entry;
    }
    weft_rwlock_write_unlock(&cache->lock);
    *out = entry;
    return entry ? 0 : -ENOMEM;
}

static int cache_get(struct cache *cache, long *value, int key, int64_t deadline)
{
    struct entry *entry = NULL;
    int err = find(cache, &entry, key, deadline);
    if (!err && !entry) {
        err = insert(cache, &entry, key, deadline);
    }
    if (!err) {
        err = weft_once_call(&entry->load, load, entry, deadline);
    }
    if (err) {
        return err;
    }
    *value = entry->value;
    return entry->err;
}

/* Frees the cache when no fiber uses it any more. Returns the number of values it held. */
static int cache_deinit(struct cache *cache)
{
    int loaded = 0;
    while (cache->entries) {
        struct entry *entry = cache->entries;
        cache->entries = entry->next;
        loaded += weft_once_is_done(&entry->load);
        weft_once_deinit(&entry->load);
        free(entry);
    }
    weft_rwlock_deinit(&cache->lock);
    return loaded;
}

/* --- usage ------------------------------------------------------------------------------ */

enum { KEYS = 10, CLIENTS = 20, LOOKUPS = 50 };

static int look_up_often(void *arg)
{
    for (int i = 0; i < LOOKUPS; i++) {
        int key = i % KEYS;
        long value;
        int err = cache_get(arg, &value, key, WEFT_FOREVER);
        if (err) {
            return err;
        }
        if (value != (long)key * key) {
            return -EBADMSG;
        }
    }
    return 0;
}

static void *run(void *arg)
{
    struct cache *cache = arg;
    weft_scope clients;
    int err = weft_scope_open(&clients, &(struct weft_scope_opts){.fail_fast = true});
    for (int i = 0; i < CLIENTS && !err; i++) {
        err = weft_scope_spawn(&clients, NULL, look_up_often, cache, NULL);
    }
    int failure = weft_scope_close(&clients, WEFT_FOREVER);
    return (void *)(intptr_t)(err ? err : failure);
}

int main(void)
{
    struct cache cache = {.entries = NULL};
    void *failure = NULL;
    weft_rwlock_init(&cache.lock, &(struct weft_sync_opts){.name = "cache"});
    int err = weft_run(&failure, run, &cache, NULL, WEFT_FOREVER);
    int loaded = cache_deinit(&cache);
    printf("%d lookups, %d values, %d loads\n", CLIENTS * LOOKUPS, loaded, atomic_load(&loads));
    if (err || failure || loaded != KEYS || atomic_load(&loads) != KEYS) {
        fprintf(stderr, "cache: %s, expected %d loads\n",
                weft_strerror(err ? err : (int)(intptr_t)failure), KEYS);
        return 1;
    }
    return 0;
}
