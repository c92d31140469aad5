#include "time/idle_list.h"

#include <errno.h>

#include "base/alloc.h"

int weft__idle_list_init(struct weft__idle_list *s, int64_t period_ns, int64_t precision_ns,
                         int64_t now)
{
    if (precision_ns <= 0 || period_ns < precision_ns ||
        period_ns / precision_ns > WEFT__IDLE_LIST_PRECISIONS) {
        return -EINVAL;
    }
    int64_t step_ns = precision_ns / WEFT__IDLE_LIST_STEPS;
    step_ns = step_ns > 0 ? step_ns : 1;
    /* The steps that end within a period, the current one, the one that is being closed, and one
     * that began before. */
    uint32_t slots = (uint32_t)(period_ns / step_ns) + 4;
    *s = (struct weft__idle_list){.period_ns = period_ns, .step_ns = step_ns, .slots = slots};
    s->closed = now;
    s->lists = weft__alloc((slots + 1) * sizeof s->lists[0]);
    s->ends = weft__alloc(slots * sizeof s->ends[0]);
    if (!s->lists || !s->ends) {
        weft__idle_list_deinit(s);
        return -ENOMEM;
    }
    return 0;
}

void weft__idle_list_deinit(struct weft__idle_list *s)
{
    weft__free(s->lists);
    weft__free(s->ends);
}

static uint64_t present(const struct weft__idle_list *s)
{
    return atomic_load_explicit(&s->step, memory_order_relaxed);
}

static void link_to(struct weft__idle_list *s, struct weft__idle_list_node *entry, uint32_t list)
{
    struct weft__idle_list_bucket *to = &s->lists[list];
    entry->next = NULL;
    entry->prev = to->last;
    *(to->last ? &to->last->next : &to->first) = entry;
    to->last = entry;
    entry->place = list + 1;
}

static void unlink_from(struct weft__idle_list *s, struct weft__idle_list_node *entry)
{
    struct weft__idle_list_bucket *from = &s->lists[entry->place - 1];
    *(entry->prev ? &entry->prev->next : &from->first) = entry->next;
    *(entry->next ? &entry->next->prev : &from->last) = entry->prev;
    entry->place = 0;
}

static uint32_t list_of(const struct weft__idle_list *s, uint64_t step)
{
    return (uint32_t)(step % s->slots);
}

void weft__idle_list_add(struct weft__idle_list *s, struct weft__idle_list_node *entry, int64_t now)
{
    if (s->members == 0) {
        s->oldest = present(s);
        s->closed = now;
    }
    atomic_store_explicit(&entry->seen, present(s), memory_order_relaxed);
    link_to(s, entry, list_of(s, present(s)));
    s->members++;
}

bool weft__idle_list_remove(struct weft__idle_list *s, struct weft__idle_list_node *entry)
{
    if (entry->place == 0) {
        return false;
    }
    *(entry->place - 1 == s->slots ? &s->expired : &s->members) -= 1;
    unlink_from(s, entry);
    return true;
}

/* Checks members of the oldest list; returns how many. */
static size_t check_oldest(struct weft__idle_list *s, size_t max)
{
    struct weft__idle_list_bucket *list = &s->lists[list_of(s, s->oldest)];
    size_t checked = 0;
    for (struct weft__idle_list_node *entry; checked < max && (entry = list->first); checked++) {
        uint64_t seen = atomic_load_explicit(&entry->seen, memory_order_relaxed);
        unlink_from(s, entry);
        if (seen > s->oldest) {
            link_to(s, entry, list_of(s, seen));
        } else {
            link_to(s, entry, s->slots);
            s->members--;
            s->expired++;
        }
    }
    return checked;
}

static void close_step(struct weft__idle_list *s, int64_t (*clock)(void))
{
    uint64_t step = present(s);
    /* seq_cst, an exchange: the new number is visible to all threads before the clock is read. A
     * thread that still reads the old number has read it before that time, which is all that is
     * claimed. */
    atomic_exchange_explicit(&s->step, step + 1, memory_order_seq_cst);
    s->closed = s->ends[list_of(s, step)] = clock();
}

bool weft__idle_list_tick(struct weft__idle_list *s, int64_t (*clock)(void), size_t max)
{
    int64_t now = clock();
    if (s->members == 0) {
        return false;
    }
    /* Not if the checks are so far behind that the ring would overrun itself: late, but correct. */
    if (now >= weft__idle_list_next(s) && present(s) - s->oldest < s->slots - 2) {
        close_step(s, clock);
    }
    while (s->oldest < present(s) && now - s->period_ns >= s->ends[list_of(s, s->oldest)]) {
        if (max == 0) {
            return true;
        }
        max -= check_oldest(s, max);
        s->oldest += s->lists[list_of(s, s->oldest)].first == NULL;
    }
    return false;
}

struct weft__idle_list_node *weft__idle_list_take_expired(struct weft__idle_list *s, size_t *n)
{
    struct weft__idle_list_bucket *list = &s->lists[s->slots];
    struct weft__idle_list_node *first = list->first;
    *n = s->expired;
    for (struct weft__idle_list_node *entry = first; entry; entry = entry->next) {
        entry->place = 0;
    }
    *list = (struct weft__idle_list_bucket){0};
    s->expired = 0;
    return first;
}
