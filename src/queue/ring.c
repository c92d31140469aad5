#include "queue/ring.h"

#include <errno.h>

#include "base/alloc.h"

#define STEAL_TRIES 3

int weft__ring_init(struct weft__ring *ring, uint64_t slots, uint64_t first)
{
    ring->slots = weft__alloc(slots * sizeof *ring->slots);
    if (!ring->slots) {
        return -ENOMEM;
    }
    for (uint64_t i = 0; i < slots; i++) {
        atomic_init(&ring->slots[i], NULL);
    }
    ring->mask = slots - 1;
    ring->no_thieves = false;
    atomic_init(&ring->head, first);
    atomic_init(&ring->tail, first);
    return 0;
}

void weft__ring_deinit(struct weft__ring *ring)
{
    weft__free(ring->slots);
    ring->slots = NULL;
}

static struct weft__link *slot_read(const struct weft__ring *ring, uint64_t index)
{
    return atomic_load_explicit(&ring->slots[index & ring->mask], memory_order_relaxed);
}

struct weft__link *weft__ring_steal(struct weft__ring *from, struct weft__ring *to, uint64_t *taken)
{
    uint64_t to_tail = atomic_load_explicit(&to->tail, memory_order_relaxed);
    uint64_t to_head =
        atomic_load_explicit(&to->head, memory_order_acquire); /* pairs: claims of head */
    uint64_t room = to->mask + 1 - (to_tail - to_head);

    for (int tries = 0; tries < STEAL_TRIES; tries++) {
        uint64_t head = atomic_load_explicit(&from->head, memory_order_acquire);
        WEFT__STEP();
        uint64_t tail =
            atomic_load_explicit(&from->tail, memory_order_acquire); /* pairs: push_local */
        uint64_t n = tail - head;
        if (n == 0) {
            return NULL;
        }
        if (n > from->mask + 1) {
            continue; /* head advanced before tail was read: the two are from different moments */
        }
        n -= n / 2;
        if (n > room + 1) {
            n = room + 1; /* one of them is run and needs no room */
        }
        /* The copies lie above to_tail, which no thread reads before tail is advanced. */
        struct weft__link *first = slot_read(from, head);
        for (uint64_t i = 1; i < n; i++) {
            atomic_store_explicit(&to->slots[(to_tail + i - 1) & to->mask],
                                  slot_read(from, head + i), memory_order_relaxed);
        }
        WEFT__STEP();
        /* Release: our reads of the slots come before the owner may reuse them. */
        if (atomic_compare_exchange_strong_explicit(&from->head, &head, head + n,
                                                    memory_order_release, memory_order_relaxed)) {
            atomic_store_explicit(&to->tail, to_tail + n - 1,
                                  memory_order_release); /* pairs: steal */
            *taken = n;
            return first;
        }
    }
    return NULL;
}

void weft__ring_spill_local(struct weft__ring *ring, struct weft__chain *chain)
{
    uint64_t head = atomic_load_explicit(&ring->head, memory_order_relaxed);
    uint64_t tail = atomic_load_explicit(&ring->tail, memory_order_relaxed);
    uint64_t n = (tail - head) / 2;
    /* Claim first, then read: only the owner writes slots, so the claimed ones do not change. */
    WEFT__STEP();
    if (n == 0 || !atomic_compare_exchange_strong_explicit(
                      &ring->head, &head, head + n, memory_order_relaxed, memory_order_relaxed)) {
        return;
    }
    for (uint64_t i = 0; i < n; i++) {
        weft__chain_push(chain, slot_read(ring, head + i));
    }
}
