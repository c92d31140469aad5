/* Hash table with string keys: chained buckets, which double when the load factor reaches 1. */
#include <string.h>

#include "actor/actor.h"
#include "base/alloc.h"

#define MIN_CAPACITY 16u

uint32_t weft__string_table_hash(const char *key)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    while (*key) {
        hash = (hash ^ (unsigned char)*key++) * 16777619u;
    }
    return hash;
}

static struct weft__string_table_entry **bucket(const struct weft__string_table *table,
                                                uint32_t hash)
{
    return &table->buckets[hash & (table->capacity - 1)];
}

struct weft__string_table_entry *weft__string_table_find(const struct weft__string_table *table,
                                                         const char *key)
{
    uint32_t hash = weft__string_table_hash(key);
    struct weft__string_table_entry *entry = table->capacity ? *bucket(table, hash) : NULL;
    while (entry && (entry->hash != hash || strcmp(entry->key, key) != 0)) {
        entry = entry->next;
    }
    return entry;
}

void weft__string_table_add(struct weft__string_table *table,
                            struct weft__string_table_entry *entry)
{
    entry->hash = weft__string_table_hash(entry->key);
    entry->next = *bucket(table, entry->hash);
    *bucket(table, entry->hash) = entry;
    table->count++;
}

void weft__string_table_remove(struct weft__string_table *table,
                               struct weft__string_table_entry *entry)
{
    struct weft__string_table_entry **at = bucket(table, entry->hash);
    while (*at != entry) {
        at = &(*at)->next;
    }
    *at = entry->next;
    table->count--;
}

bool weft__string_table_grow(struct weft__string_table *table)
{
    struct weft__string_table more = {.capacity =
                                          table->capacity ? 2 * table->capacity : MIN_CAPACITY};
    if (table->count < table->capacity) {
        return true;
    }
    more.buckets = weft__alloc(more.capacity * sizeof(struct weft__string_table_entry *));
    if (!more.buckets) {
        return table->capacity > 0; /* without memory the chains grow longer */
    }
    for (size_t i = 0; i < table->capacity; i++) {
        struct weft__string_table_entry *next;
        for (struct weft__string_table_entry *entry = table->buckets[i]; entry; entry = next) {
            next = entry->next;
            weft__string_table_add(&more, entry);
        }
    }
    weft__free(table->buckets);
    table->buckets = more.buckets;
    table->capacity = more.capacity;
    return true;
}

void weft__string_table_free(struct weft__string_table *table)
{
    weft__free(table->buckets);
    *table = (struct weft__string_table){.capacity = 0};
}
