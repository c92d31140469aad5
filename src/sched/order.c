#include "sched/order.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

#define BASIS 14695981039346656037u /* FNV-1a over 32-bit words */
#define PRIME 1099511628211u
#define FIRST_ROOM 1024u

struct weft__order *weft__order_create(void)
{
    struct weft__order *order = weft__alloc(sizeof *order);
    if (order) {
        atomic_init(&order->hash, BASIS);
    }
    return order;
}

void weft__order_destroy(struct weft__order *order)
{
    if (order) {
        weft__free(order->numbers);
        weft__free(order);
    }
}

static void grow(struct weft__order *order, uint32_t slot)
{
    uint32_t room = order->room ? order->room : FIRST_ROOM;
    while (room <= slot) {
        room *= 2;
    }
    uint32_t *numbers = weft__alloc(room * sizeof *numbers);
    WEFT__REQUIRE(numbers, "no memory for the order of a dispatcher's fibers");
    if (order->room) {
        memcpy(numbers, order->numbers, order->room * sizeof *numbers);
    }
    weft__free(order->numbers);
    order->numbers = numbers;
    order->room = room;
}

void weft__order_started(struct weft__order *order, const struct weft__task *task)
{
    if (task->slot >= order->room) {
        grow(order, task->slot);
    }
    order->numbers[task->slot] = ++order->last;
}

void weft__order_runs(struct weft__order *order, const struct weft__task *task)
{
    uint64_t hash = atomic_load_explicit(&order->hash, memory_order_relaxed);
    hash = (hash ^ task->group) * PRIME;
    hash = (hash ^ order->numbers[task->slot]) * PRIME;
    atomic_store_explicit(&order->hash, hash, memory_order_relaxed);
}
