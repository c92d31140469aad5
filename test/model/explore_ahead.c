/* Reading ahead: a relaxed load that takes effect late, after operations that follow it in the
 * program.
 *
 * The model runs each thread in program order, so a load cannot wait for a later store; but it can
 * guess the value. Where a client asks for it (`.ahead`), a first exploration collects which values
 * each thread stores where. In a second exploration, once per execution, a relaxed load may return
 * such a value of another thread before it is stored. The guess comes true when that thread stores
 * the value, unless the load happens before that store: then an acquire and a release would have
 * ordered the two, and this execution would be impossible. An execution whose guess never comes
 * true is impossible too, and is dropped. A failure before that moment is held back until it is
 * known whether the execution is possible.
 *
 * So the explorer detects a missing release that keeps "I have read the slot" before "you may
 * overwrite it". The guess ignores dependencies, as C11 does: what follows may depend on it, up to
 * values out of thin air. */
#include <string.h>

#include "model/explore_internal.h"

#define PLACES 64
#define VALUES 12

static struct {
    uintptr_t at;
    int count;
    struct {
        uint64_t value;
        int thread;
    } stored[VALUES];
} places[PLACES];
static int place_count;
static bool guessing; /* second exploration */
static struct {
    uintptr_t at;
    size_t bytes;
} ranges[8];
static int range_count;

static struct {
    bool made, true_now;
    int thread, event;
    const struct location *location;
    uint64_t value;
} guess;
static char kept_back[sizeof failure];

void ahead_start(void)
{
    place_count = 0;
    guessing = false;
}

void ahead_guess(void)
{
    guessing = true;
}

void ahead_reset(void)
{
    guess.made = false;
    range_count = 0;
    kept_back[0] = '\0';
}

void x_ahead(const void *memory, size_t bytes)
{
    X_ASSERT(range_count < 8);
    ranges[range_count].at = (uintptr_t)memory;
    ranges[range_count++].bytes = bytes;
}

static bool in_range(uintptr_t at)
{
    for (int i = 0; i < range_count; i++) {
        if (at - ranges[i].at < ranges[i].bytes) {
            return true;
        }
    }
    return range_count == 0;
}

static bool pending(void)
{
    return guess.made && !guess.true_now;
}

static void collect(uintptr_t at, uint64_t value)
{
    if (!in_range(at)) {
        return;
    }
    int i = 0;
    while (i < place_count && places[i].at != at) {
        i++;
    }
    if (i == PLACES) {
        x_fail("explorer: reading ahead of more than %d locations", PLACES);
    }
    if (i == place_count) {
        place_count++;
        places[i].at = at;
        places[i].count = 0;
    }
    for (int k = 0; k < places[i].count; k++) {
        if (places[i].stored[k].value == value && places[i].stored[k].thread == self->index) {
            return;
        }
    }
    if (places[i].count < VALUES) {
        places[i].stored[places[i].count].value = value;
        places[i].stored[places[i].count++].thread = self->index;
    }
}

/* The k-th value that another thread may still store here; false: there are no more. */
static bool candidate(uintptr_t at, int k, uint64_t *value)
{
    for (int i = 0; i < place_count; i++) {
        for (int n = 0; places[i].at == at && n < places[i].count; n++) {
            if (places[i].stored[n].thread != self->index && k-- == 0) {
                *value = places[i].stored[n].value;
                return true;
            }
        }
    }
    return false;
}

int ahead_candidates(uintptr_t at)
{
    uint64_t value;
    int n = 0;
    while (guessing && !guess.made && self->index != MAIN && candidate(at, n, &value)) {
        n++;
    }
    return n;
}

uint64_t ahead_read(const struct location *location, int k)
{
    guess.made = true;
    guess.true_now = false;
    guess.thread = self->index;
    guess.event = self->events;
    guess.location = location;
    candidate(location->at, k, &guess.value);
    return guess.value;
}

/* Has this thread's operation seen the load that guessed? */
static bool ordered_after_guess(void)
{
    return self->index == guess.thread || self->view.clock[guess.thread] >= guess.event;
}

void ahead_access(const struct location *location)
{
    if (pending() && location == guess.location && ordered_after_guess()) {
        end_execution(PRUNED); /* it would have to read a value that is not stored yet */
    }
}

void ahead_stored(struct location *location, uint64_t value)
{
    if (!guessing) {
        collect(location->at, value);
        return;
    }
    if (!pending() || location != guess.location || value != guess.value) {
        return;
    }
    guess.true_now = true;
    struct thread *reader = &threads[guess.thread];
    reader->view.seen[location->index] = (int16_t)(location->count - 1);
    trace(NULL, (const void *)location->at, "guessed", "by T%d: so it could be", guess.thread);
    if (kept_back[0]) {
        x_fail("%s", kept_back);
    }
}

bool ahead_keep_back(const char *message)
{
    if (!pending()) {
        return false;
    }
    if (!kept_back[0]) {
        memcpy(kept_back, message, sizeof kept_back);
    }
    trace(NULL, NULL, "kept back", "%s", message);
    return true;
}

void ahead_end(void)
{
    if (pending()) {
        end_execution(PRUNED);
    }
}
