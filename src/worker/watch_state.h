/* What the watchdog remembers of a worker. Used by the watchdog only, except for the counter. */
#ifndef WEFT_WORKER_WATCH_STATE_H
#define WEFT_WORKER_WATCH_STATE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/atomic.h"

struct weft__task;

struct weft__watch_state {
    const struct weft__task *task; /* its state when the worker last made progress, seen at
                                      `since` */
    uint64_t executed;
    int turns;
    int64_t since;
    int64_t offered; /* the timer that sleeping workers were last notified of */
    bool reported;
    _Atomic(uint64_t) hogs;
};

#endif
