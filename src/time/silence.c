#include "time/silence.h"

#include <errno.h>

#include "base/alloc.h"

int weft__silence_init(struct weft__silence *s, int64_t period_ns, int64_t precision_ns,
                       int64_t now)
{
    if (precision_ns <= 0 || period_ns < precision_ns ||
        period_ns / precision_ns > WEFT__SILENCE_PRECISIONS) {
        return -EINVAL;
    }
    int64_t step_ns = precision_ns / WEFT__SILENCE_STEPS;
    step_ns = step_ns > 0 ? step_ns : 1;
    /* The steps that end within a period, the current one, the one that is being closed, and one
     * that began before. */
    uint32_t slots = (uint32_t)(period_ns / step_ns) + 4;
    *s = (struct weft__silence){.period_ns = period_ns, .step_ns = step_ns, .slots = slots};
    s->closed = now;
    s->lists = weft__alloc((slots + 1) * sizeof s->lists[0]);
    s->ends = weft__alloc(slots * sizeof s->ends[0]);
    if (!s->lists || !s->ends) {
        weft__silence_deinit(s);
        return -ENOMEM;
    }
    return 0;
}

void weft__silence_deinit(struct weft__silence *s)
{
    weft__free(s->lists);
    weft__free(s->ends);
}

static uint64_t present(const struct weft__silence *s)
{
    return atomic_load_explicit(&s->step, memory_order_relaxed);
}

static void link_to(struct weft__silence *s, struct weft__quiet *quiet, uint32_t list)
{
    struct weft__quiet_list *to = &s->lists[list];
    quiet->next = NULL;
    quiet->prev = to->last;
    *(to->last ? &to->last->next : &to->first) = quiet;
    to->last = quiet;
    quiet->place = list + 1;
}

static void unlink_from(struct weft__silence *s, struct weft__quiet *quiet)
{
    struct weft__quiet_list *from = &s->lists[quiet->place - 1];
    *(quiet->prev ? &quiet->prev->next : &from->first) = quiet->next;
    *(quiet->next ? &quiet->next->prev : &from->last) = quiet->prev;
    quiet->place = 0;
}

static uint32_t list_of(const struct weft__silence *s, uint64_t step)
{
    return (uint32_t)(step % s->slots);
}

void weft__silence_add(struct weft__silence *s, struct weft__quiet *quiet, int64_t now)
{
    if (s->members == 0) {
        s->oldest = present(s);
        s->closed = now;
    }
    atomic_store_explicit(&quiet->seen, present(s), memory_order_relaxed);
    link_to(s, quiet, list_of(s, present(s)));
    s->members++;
}

bool weft__silence_remove(struct weft__silence *s, struct weft__quiet *quiet)
{
    if (quiet->place == 0) {
        return false;
    }
    *(quiet->place - 1 == s->slots ? &s->silent : &s->members) -= 1;
    unlink_from(s, quiet);
    return true;
}

/* Checks members of the oldest list; returns how many. */
static size_t look_at_oldest(struct weft__silence *s, size_t max)
{
    struct weft__quiet_list *list = &s->lists[list_of(s, s->oldest)];
    size_t looked = 0;
    for (struct weft__quiet *quiet; looked < max && (quiet = list->first); looked++) {
        uint64_t seen = atomic_load_explicit(&quiet->seen, memory_order_relaxed);
        unlink_from(s, quiet);
        if (seen > s->oldest) {
            link_to(s, quiet, list_of(s, seen));
        } else {
            link_to(s, quiet, s->slots);
            s->members--;
            s->silent++;
        }
    }
    return looked;
}

static void close_step(struct weft__silence *s, int64_t (*clock)(void))
{
    uint64_t step = present(s);
    /* seq_cst, an exchange: the new number is visible to all threads before the clock is read. A
     * thread that still reads the old number has read it before that time, which is all that is
     * claimed. */
    atomic_exchange_explicit(&s->step, step + 1, memory_order_seq_cst);
    s->closed = s->ends[list_of(s, step)] = clock();
}

bool weft__silence_tick(struct weft__silence *s, int64_t (*clock)(void), size_t max)
{
    int64_t now = clock();
    if (s->members == 0) {
        return false;
    }
    /* Not if the checks are so far behind that the ring would overrun itself: late, but correct. */
    if (now >= weft__silence_next(s) && present(s) - s->oldest < s->slots - 2) {
        close_step(s, clock);
    }
    while (s->oldest < present(s) && now - s->period_ns >= s->ends[list_of(s, s->oldest)]) {
        if (max == 0) {
            return true;
        }
        max -= look_at_oldest(s, max);
        s->oldest += s->lists[list_of(s, s->oldest)].first == NULL;
    }
    return false;
}

struct weft__quiet *weft__silence_take(struct weft__silence *s, size_t *n)
{
    struct weft__quiet_list *list = &s->lists[s->slots];
    struct weft__quiet *first = list->first;
    *n = s->silent;
    for (struct weft__quiet *quiet = first; quiet; quiet = quiet->next) {
        quiet->place = 0;
    }
    *list = (struct weft__quiet_list){0};
    s->silent = 0;
    return first;
}
