#include "worker/reader_slot.h"

struct weft__reader_slot weft__reader_slots[WEFT__READER_SLOTS];

#ifndef WEFT_EXPLORE
static struct weft__reader_slot none = {.tag = UINT64_MAX};
_Thread_local struct weft__reader_slot *weft__reader_slot_own = &none;

static __attribute__((noinline)) void
weft__reader_slot_set_self(struct weft__reader_slot *reader_slot)
{
    weft__reader_slot_own = reader_slot ? reader_slot : &none;
}
#endif

struct weft__reader_slot *weft__reader_slot_open(struct weft__worker *worker)
{
    for (unsigned i = 1; i < WEFT__READER_SLOTS; i++) {
        struct weft__reader_slot *reader_slot = &weft__reader_slots[i];
        /* pairs: weft__reader_slot_close */
        if (atomic_exchange_explicit(&reader_slot->taken, 1, memory_order_acquire) == 0) {
            reader_slot->tag = (uint64_t)i * WEFT__READER_SLOT_TAG;
            reader_slot->worker = worker;
            weft__reader_slot_set_self(reader_slot);
            return reader_slot;
        }
    }
    return NULL;
}

void weft__reader_slot_close(struct weft__reader_slot *reader_slot)
{
    if (reader_slot) {
        weft__reader_slot_settle(reader_slot);
        weft__reader_slot_set_self(NULL);
        atomic_store_explicit(&reader_slot->taken, 0,
                              memory_order_release); /* pairs: weft__reader_slot_open */
    }
}
