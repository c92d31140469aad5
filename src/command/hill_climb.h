/* Hill climbing for the number of workers: add a quarter while that raises the throughput by a
 * twentieth, then remove workers one by one until the throughput falls by as much. */
#ifndef WEFT_COMMAND_HILL_CLIMB_H
#define WEFT_COMMAND_HILL_CLIMB_H

#include <stdbool.h>
#include <stdint.h>

struct weft__hill_climb {
    uint64_t done; /* total at the last probe */
    /* Work done between two probes: while climbing, the last value; while descending, the value to
     * keep. */
    uint64_t rate;
    bool down;
};

/* Probe once. done: total work done so far; waiting: more work was queued; now: the number of
 * workers since the last probe. Returns the number of workers to have, 1 .. most. */
static inline unsigned weft__hill_climb_next(struct weft__hill_climb *probe, uint64_t done,
                                             bool waiting, unsigned now, unsigned max)
{
    uint64_t rate = done - probe->done, margin = probe->rate / 20;
    probe->done = done;
    if (!waiting) {
        probe->down = false;
        probe->rate = rate;
        return now > 1 ? now - 1 : 1;
    }
    bool keeps = rate + margin >= probe->rate;
    bool was_down = probe->down;
    probe->down = now > 1 && (was_down ? keeps : rate <= probe->rate + margin);
    if (!(was_down && probe->down)) {
        probe->rate = rate;
    }
    now = probe->down ? now - 1 : now + (now >= 4 ? now / 4 : 1);
    return now < max ? now : max;
}

#endif
