#include "queue/global.h"

#include <errno.h>

#include "base/alloc.h"

#define MAX_SLOTS ((uint64_t)1 << 20)

void weft__global_init(struct weft__global *global)
{
    atomic_init(&global->lock.word, 0);
    global->slots = NULL;
    global->mask = global->head = global->tail = 0;
    weft__chain_init(&global->chain);
    atomic_init(&global->length, 0);
}

int weft__global_reserve(struct weft__global *global, uint64_t slots)
{
    global->slots = weft__alloc(slots * sizeof(struct weft__link *));
    global->mask = slots - 1;
    return global->slots ? 0 : -ENOMEM;
}

void weft__global_deinit(struct weft__global *global)
{
    weft__free(global->slots);
    global->slots = NULL;
}

static uint64_t count_locked(const struct weft__global *global)
{
    return global->tail - global->head + global->chain.count;
}

static bool grow_locked(struct weft__global *global)
{
    uint64_t before = global->mask + 1;
    if (before >= MAX_SLOTS) {
        return false;
    }
    struct weft__link **slots = weft__alloc(2 * before * sizeof(struct weft__link *));
    if (!slots) {
        return false;
    }
    uint64_t n = global->tail - global->head;
    for (uint64_t i = 0; i < n; i++) {
        slots[i] = global->slots[(global->head + i) & global->mask];
    }
    weft__free(global->slots);
    global->slots = slots;
    global->mask = 2 * before - 1;
    global->head = 0;
    global->tail = n;
    return true;
}

static void append_locked(struct weft__global *global, struct weft__link *item)
{
    if (global->slots && !global->chain.head &&
        (global->tail - global->head <= global->mask || grow_locked(global))) {
        global->slots[global->tail & global->mask] = item;
        global->tail++;
    } else {
        weft__chain_push(&global->chain, item);
    }
}

static void length_grew(struct weft__global *global, uint64_t before)
{
    atomic_store_explicit(&global->length, count_locked(global),
                          before ? memory_order_relaxed : memory_order_seq_cst);
}

void weft__global_push(struct weft__global *global, struct weft__link *item)
{
    weft__lock(&global->lock);
    uint64_t before = count_locked(global);
    append_locked(global, item);
    length_grew(global, before);
    weft__unlock(&global->lock);
}

void weft__global_push_chain(struct weft__global *global, struct weft__chain *chain)
{
    if (!chain->head) {
        return;
    }
    weft__lock(&global->lock);
    uint64_t before = count_locked(global);
    if (global->slots) {
        struct weft__link *item;
        while ((item = weft__chain_pop(chain))) {
            append_locked(global, item);
        }
    } else {
        *global->chain.tail = chain->head;
        global->chain.tail = chain->tail;
        global->chain.count += chain->count;
    }
    length_grew(global, before);
    weft__unlock(&global->lock);
    weft__chain_init(chain);
}

uint64_t weft__global_take(struct weft__global *global, uint64_t max, struct weft__link **out)
{
    uint64_t n = 0;
    if (max == 0 || weft__global_length(global) == 0) {
        return 0;
    }
    weft__lock(&global->lock);
    for (; n < max && global->head != global->tail; n++) {
        out[n] = global->slots[global->head & global->mask];
        global->head++;
    }
    for (; n < max && global->chain.head; n++) {
        out[n] = weft__chain_pop(&global->chain);
    }
    atomic_store_explicit(&global->length, count_locked(global), memory_order_relaxed);
    weft__unlock(&global->lock);
    return n;
}
