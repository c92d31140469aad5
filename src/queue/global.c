#include "queue/global.h"

void weft__global_init(struct weft__global *global)
{
    atomic_init(&global->lock.word, 0);
    weft__chain_init(&global->chain);
    atomic_init(&global->length, 0);
}

static void length_grew(struct weft__global *global, uint64_t before)
{
    atomic_store_explicit(&global->length, global->chain.count,
                          before ? memory_order_relaxed : memory_order_seq_cst);
}

void weft__global_push(struct weft__global *global, struct weft__link *item)
{
    weft__lock(&global->lock);
    uint64_t before = global->chain.count;
    weft__chain_push(&global->chain, item);
    length_grew(global, before);
    weft__unlock(&global->lock);
}

void weft__global_push_chain(struct weft__global *global, struct weft__chain *chain)
{
    if (!chain->head) {
        return;
    }
    weft__lock(&global->lock);
    uint64_t before = global->chain.count;
    *global->chain.tail = chain->head;
    global->chain.tail = chain->tail;
    global->chain.count += chain->count;
    length_grew(global, before);
    weft__unlock(&global->lock);
    weft__chain_init(chain);
}

uint64_t weft__global_take(struct weft__global *global, uint64_t max, struct weft__chain *out)
{
    if (max == 0 || weft__global_length(global) == 0) {
        return 0;
    }
    weft__lock(&global->lock);
    struct weft__chain *chain = &global->chain;
    uint64_t n;
    if (chain->count <= max) { /* all of it: no walk under the lock */
        n = chain->count;
        if (n) {
            *out->tail = chain->head;
            out->tail = chain->tail;
            out->count += n;
            weft__chain_init(chain);
        }
    } else {
        for (n = 0; n < max; n++) {
            weft__chain_push(out, weft__chain_pop(chain));
        }
    }
    atomic_store_explicit(&global->length, chain->count, memory_order_relaxed);
    weft__unlock(&global->lock);
    return n;
}
