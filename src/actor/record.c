/* Where records live: beside the control blocks, slot by slot. */
#include "actor/actor.h"
#include "base/alloc.h"
#include "sched/slab.h"

#define SLAB_RECORDS 16384u
#define MAX_SLABS 16384u

static struct weft__lock lock;
static _Atomic(weft_actor *) slabs[MAX_SLABS]; /* written under the lock */

weft_actor *weft__actor_find(uint32_t slot)
{
    uint32_t slab = (slot - 1) / SLAB_RECORDS;
    weft_actor *first =
        slot && slab < MAX_SLABS ? atomic_load_explicit(&slabs[slab], memory_order_acquire) : NULL;
    return first ? first + (slot - 1) % SLAB_RECORDS : NULL;
}

weft_actor *weft__actor_at(uint32_t slot)
{
    weft_actor *actor = weft__actor_find(slot);
    if (actor) {
        return actor;
    }
    uint32_t slab = (slot - 1) / SLAB_RECORDS;
    weft__lock(&lock);
    if (!atomic_load_explicit(&slabs[slab], memory_order_relaxed)) {
        weft_actor *first = weft__map(SLAB_RECORDS * sizeof *first);
        atomic_store_explicit(&slabs[slab], first, memory_order_release); /* pairs: find */
    }
    weft__unlock(&lock);
    return weft__actor_find(slot);
}

weft_actor *weft__actor_of(weft_pid pid)
{
    weft_actor *actor = weft__actor_find((uint32_t)pid.id);
    uint64_t gate = actor ? atomic_load_explicit(&actor->gate, memory_order_acquire) : 0;
    return weft__gate_generation(gate) == weft__pid_generation(pid) ? actor : NULL;
}
