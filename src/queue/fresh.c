#include "queue/fresh.h"

#include <errno.h>

#include "base/alloc.h"

static struct weft__fresh_buffer *buffer_create(uint64_t slots)
{
    struct weft__fresh_buffer *buffer =
        weft__alloc(sizeof *buffer + slots * sizeof buffer->slots[0]);
    if (buffer) {
        buffer->mask = slots - 1;
        buffer->older = NULL;
    }
    return buffer;
}

int weft__fresh_init(struct weft__fresh *fresh, uint64_t slots, uint64_t first)
{
    struct weft__fresh_buffer *buffer = buffer_create(slots);
    if (!buffer) {
        return -ENOMEM;
    }
    atomic_init(&fresh->buffer, buffer);
    atomic_init(&fresh->top, first);
    atomic_init(&fresh->bottom, first);
    fresh->top_seen = first;
    fresh->no_thieves = false;
    return 0;
}

void weft__fresh_deinit(struct weft__fresh *fresh)
{
    struct weft__fresh_buffer *buffer = atomic_load_explicit(&fresh->buffer, memory_order_relaxed);
    while (buffer) {
        struct weft__fresh_buffer *older = buffer->older;
        weft__free(buffer);
        buffer = older;
    }
}

int weft__fresh_make_room_local(struct weft__fresh *fresh)
{
    uint64_t bottom = atomic_load_explicit(&fresh->bottom, memory_order_relaxed);
    /* Acquire: the thieves' reads of the slots they freed come before our reuse of these slots. */
    uint64_t top = atomic_load_explicit(&fresh->top, memory_order_acquire);
    struct weft__fresh_buffer *old = atomic_load_explicit(&fresh->buffer, memory_order_relaxed);
    fresh->top_seen = top;
    if (bottom - top <= old->mask) {
        return 0; /* thieves made room meanwhile */
    }
    struct weft__fresh_buffer *buffer = buffer_create((old->mask + 1) * 2);
    if (!buffer) {
        return -ENOMEM;
    }
    for (uint64_t i = top; i != bottom; i++) {
        atomic_init(&buffer->slots[i & buffer->mask],
                    atomic_load_explicit(&old->slots[i & old->mask], memory_order_relaxed));
    }
    buffer->older = old;
    WEFT__STEP();
    atomic_store_explicit(&fresh->buffer, buffer, memory_order_release); /* pairs: take_oldest */
    return 0;
}

struct weft__link *weft__fresh_take_oldest(struct weft__fresh *fresh, bool *lost)
{
    *lost = false;
    uint64_t top = atomic_load_explicit(&fresh->top, memory_order_seq_cst);
    WEFT__STEP();
    uint64_t bottom =
        atomic_load_explicit(&fresh->bottom, memory_order_seq_cst); /* pairs: push_local */
    if ((int64_t)(bottom - top) <= 0) {
        return NULL;
    }
    /* After bottom: a bottom that counts items of a grown buffer makes that buffer visible. */
    struct weft__fresh_buffer *buffer = atomic_load_explicit(&fresh->buffer, memory_order_acquire);
    struct weft__link *item =
        atomic_load_explicit(&buffer->slots[top & buffer->mask], memory_order_relaxed);
    WEFT__STEP();
    if (!atomic_compare_exchange_strong_explicit(&fresh->top, &top, top + 1, memory_order_seq_cst,
                                                 memory_order_relaxed)) {
        *lost = true;
        return NULL;
    }
    return item;
}
