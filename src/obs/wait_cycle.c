/* Cycles of waits: fiber a waits for an object that b holds, b for an object that c holds, ... and
 * the last for an object that a holds.
 *
 * A fiber waits for one object at a time, and an object has at most one holder: each fiber has at
 * most one outgoing edge. A walk follows the edges from every fiber until they end or reach a
 * visited fiber; if that fiber was visited in this very round, the path has returned to it, and
 * that is a cycle. A walk visits each fiber once.
 *
 * The edges are read at different times, and fibers run meanwhile. A cycle counts if three passes
 * around it read the same waits (tickets and holders). Then every fiber of the cycle was in this
 * wait from the first pass to the third, so during the whole of the second; in the second pass each
 * fiber was seen to wait for an object that the next one held, and a waiting fiber releases
 * nothing. So at the end of the second pass all of it was true at the same time; it stays true
 * until one of the waits is ended by a deadline, a cancel or an interrupt.
 *
 * A reported cycle is remembered as long as walks find it, by the wait of its fiber with the lowest
 * number.
 */
#include <stdlib.h>

#include "base/atomic.h"
#include "obs/fiber_wait.h"
#include "obs/report.h"
#include "task/ident.h"
#include "task/slab.h"
#include "watchdog/watchdog.h"

struct cycle {
    struct weft__fiber_wait
        *waits; /* in order: each fiber waits for the next, the last for the first */
    size_t count, capacity;
};

static bool read_held_wait(weft_fiber fiber, struct weft__fiber_wait *out)
{
    return weft__fiber_wait_read(fiber, out) && out->holder != WEFT_NO_FIBER;
}

static bool add(struct cycle *cycle, const struct weft__fiber_wait *waits)
{
    if (cycle->count == cycle->capacity) {
        size_t capacity = cycle->capacity ? cycle->capacity * 2 : 8;
        struct weft__fiber_wait *more = realloc(cycle->waits, capacity * sizeof *more);
        if (!more) {
            return false;
        }
        cycle->waits = more;
        cycle->capacity = capacity;
    }
    cycle->waits[cycle->count++] = *waits;
    return true;
}

/* One pass from this fiber, which waits; false: the path does not return to it. */
static bool follow_cycle(weft_fiber first, size_t most, struct cycle *cycle)
{
    struct weft__fiber_wait waits;
    weft_fiber at = first;
    cycle->count = 0;
    do {
        if (cycle->count == most || !read_held_wait(at, &waits) || !add(cycle, &waits)) {
            return false;
        }
        at = waits.holder;
    } while (at != first);
    return true;
}

/* Another pass; false: a wait has changed. */
static bool is_same(const struct cycle *cycle)
{
    for (size_t i = 0; i < cycle->count; i++) {
        struct weft__fiber_wait now;
        const struct weft__fiber_wait *then = &cycle->waits[i];
        if (!read_held_wait(then->fiber, &now) || now.ticket != then->ticket ||
            now.holder != then->holder || now.on != then->on) {
            return false;
        }
    }
    return true;
}

/* Follow the edges from this fiber. True: they lead into a cycle that no earlier walk has found. */
static bool follow(weft_fiber start, uint32_t *visited_by, uint32_t slots, struct cycle *cycle)
{
    uint32_t round = (uint32_t)start; /* its slot: different for each start, and never 0 */
    struct weft__fiber_wait waits;
    weft_fiber at = start;
    for (;;) {
        uint32_t slot = (uint32_t)at;
        if (slot == 0 || slot > slots || (visited_by[slot] && visited_by[slot] != round)) {
            return false;
        }
        if (visited_by[slot] == round) {
            return follow_cycle(at, slots, cycle) && is_same(cycle) && is_same(cycle);
        }
        visited_by[slot] = round;
        if (!read_held_wait(at, &waits)) {
            return false;
        }
        at = waits.holder;
    }
}

/* Decided by the state word: a fiber that waits for a descriptor is not held, and its stack is not
 * pulled into the caches. */
static bool may_have_holder(const struct weft__task *task)
{
    uint64_t ticket;
    unsigned how;
    return weft__task_state(task) == WEFT__TASK_WAITING && weft__task_ticket(task, &ticket, &how) &&
           !(how & WEFT__WAIT_EXTERNAL);
}

static size_t walk(void (*found)(const struct cycle *, void *), void *arg)
{
    uint32_t slots = weft__slab_slots();
    uint32_t *visited_by = NULL; /* allocated on demand: usually not needed */
    struct cycle cycle = {0};
    size_t n = 0;
    for (uint32_t slot = 1; slot <= slots; slot++) {
        const struct weft__task *task = weft__slab_find(slot);
        uint64_t ident = atomic_load_explicit(&task->ident, memory_order_acquire);
        if ((visited_by && visited_by[slot]) || !(ident & WEFT__IDENT_LIVE) ||
            (ident & WEFT__IDENT_DONE) || !may_have_holder(task)) {
            continue;
        }
        if (!visited_by && !(visited_by = calloc((size_t)slots + 1, sizeof *visited_by))) {
            break;
        }
        if (follow(weft__ident_generation(ident) << 32 | slot, visited_by, slots, &cycle)) {
            n++;
            found(&cycle, arg);
        }
    }
    free(cycle.waits);
    free(visited_by);
    return n;
}

static void print(const struct cycle *cycle, FILE *out)
{
    if (cycle->count == 1) {
        fputs("weft: cycle: a fiber waits for itself\n", out);
    } else {
        fprintf(out, "weft: cycle: %zu fibers wait for one another\n", cycle->count);
    }
    for (size_t i = 0; i < cycle->count; i++) {
        fputs("  ", out);
        weft__fiber_wait_print(&cycle->waits[i], out);
        fputc('\n', out);
    }
}

/* --- on demand ---------------------------------------------------------------------------- */

static void print_found(const struct cycle *cycle, void *arg)
{
    if (arg) {
        print(cycle, arg);
    }
}

size_t weft_wait_cycles_dump(FILE *out)
{
    return walk(print_found, out);
}

/* --- by the watchdog ---------------------------------------------------------------------- */

struct reported {
    weft_fiber fiber;
    uint64_t ticket;
    uint64_t walk; /* the last walk that found it */
};

/* Used by the watchdog only. */
static struct {
    struct reported *cycles;
    size_t count, capacity;
    uint64_t walks;
} known;

static _Atomic(uint64_t) reports;

uint64_t weft__cycles_reported(void)
{
    return atomic_load_explicit(&reports, memory_order_relaxed);
}

static const struct weft__fiber_wait *lowest(const struct cycle *cycle)
{
    const struct weft__fiber_wait *least = &cycle->waits[0];
    for (size_t i = 1; i < cycle->count; i++) {
        if (cycle->waits[i].fiber < least->fiber) {
            least = &cycle->waits[i];
        }
    }
    return least;
}

/* True: the cycle is new. */
static bool remember(const struct weft__fiber_wait *waits)
{
    for (size_t i = 0; i < known.count; i++) {
        if (known.cycles[i].fiber == waits->fiber && known.cycles[i].ticket == waits->ticket) {
            known.cycles[i].walk = known.walks;
            return false;
        }
    }
    if (known.count == known.capacity) {
        size_t capacity = known.capacity ? known.capacity * 2 : 8;
        struct reported *more = realloc(known.cycles, capacity * sizeof *more);
        if (!more) {
            return true; /* and is new again next time: better reported twice than never */
        }
        known.cycles = more;
        known.capacity = capacity;
    }
    known.cycles[known.count++] =
        (struct reported){.fiber = waits->fiber, .ticket = waits->ticket, .walk = known.walks};
    return true;
}

static void forget_resolved(void)
{
    size_t kept = 0;
    for (size_t i = 0; i < known.count; i++) {
        if (known.cycles[i].walk == known.walks) {
            known.cycles[kept++] = known.cycles[i];
        }
    }
    known.count = kept;
}

static void report_found(const struct cycle *cycle, void *arg)
{
    struct weft__report report;
    (void)arg;
    if (remember(lowest(cycle)) && weft__report_open(&report)) {
        atomic_store_explicit(&reports, weft__cycles_reported() + 1, memory_order_relaxed);
        print(cycle, report.out);
        weft__report_send(&report, WEFT_REPORT_CYCLE);
    }
}

void weft__report_cycles(void)
{
    known.walks++;
    walk(report_found, NULL);
    forget_resolved();
}
