/* Hash table with string keys: chained buckets, which double when the load factor reaches 1. */
#include <string.h>

#include "actor/actor.h"
#include "base/alloc.h"

#define LEAST_ROOM 16u

uint32_t weft__table_hash(const char *key)
{
    uint32_t hash = 2166136261u; /* FNV-1a */
    while (*key) {
        hash = (hash ^ (unsigned char)*key++) * 16777619u;
    }
    return hash;
}

static struct weft__entry **bucket(const struct weft__table *table, uint32_t hash)
{
    return &table->buckets[hash & (table->room - 1)];
}

struct weft__entry *weft__table_find(const struct weft__table *table, const char *key)
{
    uint32_t hash = weft__table_hash(key);
    struct weft__entry *entry = table->room ? *bucket(table, hash) : NULL;
    while (entry && (entry->hash != hash || strcmp(entry->key, key) != 0)) {
        entry = entry->next;
    }
    return entry;
}

void weft__table_add(struct weft__table *table, struct weft__entry *entry)
{
    entry->hash = weft__table_hash(entry->key);
    entry->next = *bucket(table, entry->hash);
    *bucket(table, entry->hash) = entry;
    table->count++;
}

void weft__table_remove(struct weft__table *table, struct weft__entry *entry)
{
    struct weft__entry **at = bucket(table, entry->hash);
    while (*at != entry) {
        at = &(*at)->next;
    }
    *at = entry->next;
    table->count--;
}

bool weft__table_grow(struct weft__table *table)
{
    struct weft__table more = {.room = table->room ? 2 * table->room : LEAST_ROOM};
    if (table->count < table->room) {
        return true;
    }
    more.buckets = weft__alloc(more.room * sizeof(struct weft__entry *));
    if (!more.buckets) {
        return table->room > 0; /* without memory the chains grow longer */
    }
    for (size_t i = 0; i < table->room; i++) {
        struct weft__entry *next;
        for (struct weft__entry *entry = table->buckets[i]; entry; entry = next) {
            next = entry->next;
            weft__table_add(&more, entry);
        }
    }
    weft__free(table->buckets);
    table->buckets = more.buckets;
    table->room = more.room;
    return true;
}

void weft__table_free(struct weft__table *table)
{
    weft__free(table->buckets);
    *table = (struct weft__table){.room = 0};
}
