#include "server/record_slab.h"

#include <stdint.h>
#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"
#include "context/sanitizer.h"

#define CHUNK_BYTES ((size_t)65536)

struct free_record {
    struct free_record *next;
};

struct weft__record_chunk {
    struct weft__record_chunk *next, *prev; /* among the open ones */
    struct free_record *free;
    char *bump; /* records from here on were never used */
    unsigned used;
};

void weft__record_slab_init(struct weft__record_slab *slab, size_t bytes)
{
    *slab = (struct weft__record_slab){.bytes = (bytes + 15) / 16 * 16};
}

static struct weft__record_chunk *chunk_of(void *record)
{
    return (struct weft__record_chunk *)(void *)((char *)record - (uintptr_t)record % CHUNK_BYTES);
}

/* Maps twice as much, and cuts off what is not aligned. */
static struct weft__record_chunk *make_chunk(void)
{
    char *from = weft__map(2 * CHUNK_BYTES);
    if (!from) {
        return NULL;
    }
    size_t ahead = (CHUNK_BYTES - (uintptr_t)from % CHUNK_BYTES) % CHUNK_BYTES;
    if (ahead) {
        weft__unmap(from, ahead);
    }
    weft__unmap(from + ahead + CHUNK_BYTES, CHUNK_BYTES - ahead);
    struct weft__record_chunk *chunk = (struct weft__record_chunk *)(void *)(from + ahead);
    chunk->bump = (char *)chunk + (sizeof *chunk + 15) / 16 * 16;
    return chunk;
}

static bool is_full(const struct weft__record_slab *slab, struct weft__record_chunk *chunk)
{
    return !chunk->free && chunk->bump + slab->bytes > (char *)chunk + CHUNK_BYTES;
}

static void link_locked(struct weft__record_slab *slab, struct weft__record_chunk *chunk)
{
    chunk->prev = NULL;
    chunk->next = slab->open;
    if (chunk->next) {
        chunk->next->prev = chunk;
    }
    slab->open = chunk;
}

static void unlink_locked(struct weft__record_slab *slab, struct weft__record_chunk *chunk)
{
    *(chunk->prev ? &chunk->prev->next : &slab->open) = chunk->next;
    if (chunk->next) {
        chunk->next->prev = chunk->prev;
    }
}

static void *take_locked(struct weft__record_slab *slab, struct weft__record_chunk *chunk)
{
    void *record = chunk->free;
    if (record) {
        chunk->free = chunk->free->next;
    } else {
        record = chunk->bump;
        chunk->bump += slab->bytes;
    }
    chunk->used++;
    if (is_full(slab, chunk)) {
        unlink_locked(slab, chunk);
    }
    return record;
}

/* A chunk with a free record, or NULL. */
static struct weft__record_chunk *open_chunk_locked(struct weft__record_slab *slab)
{
    if (slab->open) {
        return slab->open;
    }
    struct weft__record_chunk *chunk = slab->empty ? slab->empty : make_chunk();
    slab->empty = NULL;
    if (chunk) {
        link_locked(slab, chunk);
    }
    return chunk;
}

void *weft__record_alloc(struct weft__record_slab *slab)
{
    if (WEFT__ASAN) { /* which sees the use of a freed record only in the heap */
        return weft__alloc(slab->bytes);
    }
    void *record = NULL;
    weft__lock(&slab->lock);
    struct weft__record_chunk *chunk = open_chunk_locked(slab);
    if (chunk) {
        record = take_locked(slab, chunk);
    }
    weft__unlock(&slab->lock);
    return record ? memset(record, 0, slab->bytes) : NULL;
}

/* Returns a chunk to be unmapped, or NULL. */
static struct weft__record_chunk *give_locked(struct weft__record_slab *slab, void *memory)
{
    struct weft__record_chunk *chunk = chunk_of(memory);
    struct free_record *record = memory;
    bool was_full = is_full(slab, chunk);
    record->next = chunk->free;
    chunk->free = record;
    if (was_full) {
        link_locked(slab, chunk);
    }
    if (--chunk->used) {
        return NULL;
    }
    unlink_locked(slab, chunk);
    if (slab->empty) {
        return chunk;
    }
    slab->empty = chunk;
    return NULL;
}

void weft__record_free(struct weft__record_slab *slab, void *record)
{
    if (WEFT__ASAN) {
        weft__free(record);
        return;
    }
    weft__lock(&slab->lock);
    struct weft__record_chunk *gone = give_locked(slab, record);
    weft__unlock(&slab->lock);
    if (gone) {
        weft__unmap(gone, CHUNK_BYTES);
    }
}

void weft__record_slab_deinit(struct weft__record_slab *slab)
{
    WEFT__ASSERT(!slab->open);
    if (slab->empty) {
        weft__unmap(slab->empty, CHUNK_BYTES);
    }
}
