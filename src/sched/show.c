#include "sched/show.h"

struct weft__show weft__shows[WEFT__SHOW_SLOTS];

#ifndef WEFT_EXPLORE
static struct weft__show none = {.tag = UINT64_MAX};
_Thread_local struct weft__show *weft__show_own = &none;

static __attribute__((noinline)) void weft__show_set_self(struct weft__show *show)
{
    weft__show_own = show ? show : &none;
}
#endif

struct weft__show *weft__show_open(struct weft__worker *worker)
{
    for (unsigned i = 1; i < WEFT__SHOW_SLOTS; i++) {
        struct weft__show *show = &weft__shows[i];
        /* pairs: weft__show_close */
        if (atomic_exchange_explicit(&show->taken, 1, memory_order_acquire) == 0) {
            show->tag = (uint64_t)i * WEFT__SHOW_TAG;
            show->worker = worker;
            weft__show_set_self(show);
            return show;
        }
    }
    return NULL;
}

void weft__show_close(struct weft__show *show)
{
    if (show) {
        weft__show_settle(show);
        weft__show_set_self(NULL);
        atomic_store_explicit(&show->taken, 0, memory_order_release); /* pairs: weft__show_open */
    }
}
