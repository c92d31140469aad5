#include "sched/run_order.h"

#include <string.h>

#include "base/alloc.h"
#include "base/assert.h"

#define BASIS 14695981039346656037u /* FNV-1a over 32-bit words */
#define PRIME 1099511628211u
#define INITIAL_CAPACITY 1024u

struct weft__run_order *weft__run_order_create(void)
{
    struct weft__run_order *order = weft__alloc(sizeof *order);
    if (order) {
        atomic_init(&order->hash, BASIS);
    }
    return order;
}

void weft__run_order_destroy(struct weft__run_order *order)
{
    if (order) {
        weft__free(order->numbers);
        weft__free(order);
    }
}

static void grow(struct weft__run_order *order, uint32_t slot)
{
    uint32_t capacity = order->capacity ? order->capacity : INITIAL_CAPACITY;
    while (capacity <= slot) {
        capacity *= 2;
    }
    uint32_t *numbers = weft__alloc(capacity * sizeof *numbers);
    WEFT__REQUIRE(numbers, "no memory to record the run order of a dispatcher's fibers");
    if (order->capacity) {
        memcpy(numbers, order->numbers, order->capacity * sizeof *numbers);
    }
    weft__free(order->numbers);
    order->numbers = numbers;
    order->capacity = capacity;
}

void weft__run_order_add_start(struct weft__run_order *order, const struct weft__task *task)
{
    if (task->slot >= order->capacity) {
        grow(order, task->slot);
    }
    order->numbers[task->slot] = ++order->last;
}

void weft__run_order_add_run(struct weft__run_order *order, const struct weft__task *task)
{
    uint64_t hash = atomic_load_explicit(&order->hash, memory_order_relaxed);
    hash = (hash ^ task->group) * PRIME;
    hash = (hash ^ order->numbers[task->slot]) * PRIME;
    atomic_store_explicit(&order->hash, hash, memory_order_relaxed);
}
