/* For clients of locks that record their holders: replaces sync/holder.c, whose threads have a
 * tid. */
#ifndef WEFT_TEST_MODEL_HOLDERS_H
#define WEFT_TEST_MODEL_HOLDERS_H

#include "model/fibers.h"
#include "sync/holder.h"

uint64_t weft__holder_thread(void)
{
    return (uint64_t)(x_thread() + 2) << 3 | WEFT__HOLDER_THREAD;
}

/* Every fiber has a stack here. */
struct weft__task *weft__holder_stackless(const struct weft__worker *w)
{
    (void)w;
    return NULL;
}

struct weft__holder_text weft__holder_text(uint64_t holder)
{
    (void)holder;
    return (struct weft__holder_text){"somebody"};
}

void weft__idle_wake_one(struct weft__idle *idle)
{
    (void)idle;
    x_fail("nobody is idle");
}

void weft_yield(void)
{
    x_spin();
}

/* The holder value of fiber i, as in a lock's word. */
#define HOLDER(i) ((uint64_t)(uintptr_t)&tasks[i])

#endif
