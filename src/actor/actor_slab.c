/* Storage of actor records: one slab of records for each slab of task control blocks, slot by
 * slot. */
#include "actor/actor.h"
#include "base/alloc.h"
#include "task/slab.h"

static struct weft__lock lock;
_Atomic(weft_actor *) weft__records[WEFT__RECORD_SLABS]; /* written under the lock */

weft_actor *weft__actor_at(uint32_t slot)
{
    weft_actor *actor = weft__actor_find(slot);
    if (actor) {
        return actor;
    }
    uint32_t slab = (slot - 1) / WEFT__SLAB_RECORDS;
    weft__lock(&lock);
    if (!atomic_load_explicit(&weft__records[slab], memory_order_relaxed)) {
        weft_actor *first = weft__map(WEFT__SLAB_RECORDS * sizeof *first);
        atomic_store_explicit(&weft__records[slab], first,
                              memory_order_release); /* pairs: weft__actor_find */
    }
    weft__unlock(&lock);
    return weft__actor_find(slot);
}

weft_actor *weft__actor_of(weft_pid pid)
{
    weft_actor *actor = weft__actor_find((uint32_t)pid.id);
    uint64_t admission = actor ? atomic_load_explicit(&actor->admission, memory_order_acquire) : 0;
    return weft__admission_generation(admission) == weft__pid_generation(pid) ? actor : NULL;
}
