/* How many workers bring something: a walk uphill. More of them by a quarter while that raises what
 * gets done by a twentieth, then fewer, one by one, until it falls by as much. */
#ifndef WEFT_ACTOR_PROBE_H
#define WEFT_ACTOR_PROBE_H

#include <stdbool.h>
#include <stdint.h>

struct weft__probe {
    uint64_t done; /* at the last look */
    uint64_t rate; /* between two looks: the last one on the way up, and then what the way down must
                      keep */
    bool down;
};

/* A look. `done`: what got done so far; `waiting`: there was more to do; `now`: the workers of the
 * time since the last look. How many there shall be, 1 .. most. */
static inline unsigned weft__probe_look(struct weft__probe *probe, uint64_t done, bool waiting,
                                        unsigned now, unsigned most)
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
    return now < most ? now : most;
}

#endif
