#include "time/wheel.h"

#include "base/assert.h"

#define DIGIT 6 /* bits of a tick that one level holds */

_Static_assert(1 << DIGIT == WEFT__WHEEL_SLOTS, "a level is one digit");
_Static_assert(64 <= WEFT__WHEEL_LEVELS * DIGIT, "the levels cover every tick");

void weft__wheel_init(struct weft__wheel *wheel, int64_t now, unsigned tick_shift)
{
    WEFT__REQUIRE(now >= 0, "timer wheel: negative time");
    WEFT__REQUIRE(tick_shift <= 62, "timer wheel: tick of 2^%u ns", tick_shift);
    *wheel = (struct weft__wheel){
        .tick_shift = tick_shift,
        .moves = WEFT__WHEEL_MOVES,
        .cascade = WEFT__TIMER_IDLE,
        .current = (uint64_t)now >> tick_shift,
    };
    atomic_init(&wheel->next, INT64_MAX);
}

/* The first tick that begins at or after the deadline. */
static uint64_t tick_of(const struct weft__wheel *wheel, int64_t deadline)
{
    uint64_t last = ((uint64_t)1 << wheel->tick_shift) - 1;
    return deadline > 0 ? ((uint64_t)deadline + last) >> wheel->tick_shift : 0;
}

/* When a tick begins. The one after the last whole tick begins at the end of time. */
static int64_t tick_start(const struct weft__wheel *wheel, uint64_t tick)
{
    return tick > (uint64_t)INT64_MAX >> wheel->tick_shift ? INT64_MAX
                                                           : (int64_t)(tick << wheel->tick_shift);
}

/* The earliest slot and its first tick, or WEFT__TIMER_IDLE. */
static uint32_t earliest(const struct weft__wheel *wheel, uint64_t *first)
{
    uint32_t slot = wheel->cascade;
    if (slot == WEFT__TIMER_IDLE) {
        if (wheel->levels == 0) {
            return WEFT__TIMER_IDLE;
        }
        unsigned lowest = (unsigned)__builtin_ctz(wheel->levels);
        slot = lowest << DIGIT | (unsigned)__builtin_ctzll(wheel->occupied[lowest]);
    }
    unsigned bits = slot / WEFT__WHEEL_SLOTS * DIGIT;
    uint64_t above = wheel->current >> bits & ~(uint64_t)(WEFT__WHEEL_SLOTS - 1);
    *first = (above | slot % WEFT__WHEEL_SLOTS) << bits;
    return slot;
}

/* After timers went away: next() follows, as far as is known without searching. What it was before
 * is still a lower bound, perhaps a better one. */
static void next_raise(struct weft__wheel *wheel)
{
    uint64_t tick;
    int64_t bound = INT64_MAX;
    uint32_t slot = earliest(wheel, &tick);
    if (slot != WEFT__TIMER_IDLE) {
        struct weft__timer *timer = wheel->slots[slot];
        /* Alone in the earliest slot it is the earliest timer, unless others moved down from it. */
        if (timer->next == timer && slot >= WEFT__WHEEL_SLOTS && slot != wheel->cascade) {
            tick = tick_of(wheel, timer->deadline);
        }
        bound = tick_start(wheel, tick);
    }
    if (bound > weft__wheel_next(wheel)) {
        weft__wheel_next_set(wheel, bound);
    }
}

/* Puts a timer that is in no slot to the end of the one that is its place now. */
static void place(struct weft__wheel *wheel, struct weft__timer *timer)
{
    uint64_t tick = tick_of(wheel, timer->deadline);
    if (tick < wheel->current) {
        tick = wheel->current; /* overdue */
    }
    unsigned top = 63 - (unsigned)__builtin_clzll((tick ^ wheel->current) | 1);
    unsigned level = top / DIGIT;
    unsigned digit = tick >> level * DIGIT & (WEFT__WHEEL_SLOTS - 1);
    uint32_t slot = level * WEFT__WHEEL_SLOTS + digit;

    struct weft__timer *oldest = wheel->slots[slot];
    if (oldest) {
        timer->next = oldest;
        timer->prev = oldest->prev;
        oldest->prev->next = timer;
        oldest->prev = timer;
    } else {
        timer->next = timer->prev = timer;
        wheel->slots[slot] = timer;
        wheel->occupied[level] |= (uint64_t)1 << digit;
        wheel->levels |= 1U << level;
    }
    atomic_store_explicit(&timer->slot, slot, memory_order_relaxed);
}

/* Takes a pending timer out; true if its slot is empty now. */
static bool take_out(struct weft__wheel *wheel, struct weft__timer *timer)
{
    uint32_t slot = atomic_load_explicit(&timer->slot, memory_order_relaxed);
    atomic_store_explicit(&timer->slot, WEFT__TIMER_IDLE, memory_order_relaxed);
    if (timer->next != timer) {
        timer->next->prev = timer->prev;
        timer->prev->next = timer->next;
        if (wheel->slots[slot] == timer) {
            wheel->slots[slot] = timer->next;
        }
        return false;
    }
    unsigned level = slot / WEFT__WHEEL_SLOTS;
    wheel->slots[slot] = NULL;
    wheel->occupied[level] &= ~((uint64_t)1 << slot % WEFT__WHEEL_SLOTS);
    if (wheel->occupied[level] == 0) {
        wheel->levels &= ~(1U << level);
    }
    if (wheel->cascade == slot) {
        wheel->cascade = WEFT__TIMER_IDLE;
    }
    return true;
}

/* Puts the front where it belongs; next() has counted it already. */
void weft__wheel_settle(struct weft__wheel *wheel)
{
    if (wheel->front) {
        place(wheel, wheel->front);
        wheel->front = NULL;
    }
}

/* Next() can only have depended on a timer whose slot is empty without it. */
void weft__wheel_remove(struct weft__wheel *wheel, struct weft__timer *timer)
{
    weft__wheel_settle(wheel);
    if (take_out(wheel, timer)) {
        next_raise(wheel);
    }
}

bool weft__wheel_add(struct weft__wheel *wheel, struct weft__timer *timer, int64_t deadline)
{
    weft__latch_take(&wheel->lock);
    bool earlier = weft__wheel_add_locked(wheel, timer, deadline);
    weft__latch_drop(&wheel->lock);
    return earlier;
}

bool weft__wheel_cancel(struct weft__wheel *wheel, struct weft__timer *timer)
{
    /* Always by the lock, pending or not: that is what waits for a callback that is running. */
    weft__latch_take(&wheel->lock);
    bool pending = weft__timer_pending(timer);
    if (pending) {
        weft__wheel_cancel_locked(wheel, timer);
    }
    weft__latch_drop(&wheel->lock);
    return pending;
}

bool weft__wheel_rearm(struct weft__wheel *wheel, struct weft__timer *timer, int64_t deadline)
{
    weft__latch_take(&wheel->lock);
    int64_t before = weft__wheel_next(wheel);
    if (weft__timer_pending(timer)) {
        weft__wheel_cancel_locked(wheel, timer);
    }
    weft__wheel_add_locked(wheel, timer, deadline);
    bool earlier = weft__wheel_next(wheel) < before;
    weft__latch_drop(&wheel->lock);
    return earlier;
}

bool weft__wheel_empty(struct weft__wheel *wheel)
{
    weft__latch_take(&wheel->lock);
    bool empty = wheel->levels == 0 && !wheel->front;
    weft__latch_drop(&wheel->lock);
    return empty;
}

/* Moves up to max timers of the slot `cascade` to where they belong now; returns how many. */
static size_t move_down(struct weft__wheel *wheel, size_t max)
{
    size_t moved = 0;
    for (bool empty = false; !empty && moved < max; moved++) {
        struct weft__timer *timer = wheel->slots[wheel->cascade];
        empty = take_out(wheel, timer);
        place(wheel, timer);
    }
    return moved;
}

/* Expires up to max timers of a level-0 slot that is due; returns how many. */
static size_t expire_slot(struct weft__wheel *wheel, uint32_t slot, size_t max, void *arg)
{
    size_t expired = 0;
    for (bool empty = false; !empty && expired < max && !wheel->halt; expired++) {
        struct weft__timer *timer = wheel->slots[slot];
        empty = take_out(wheel, timer);
        timer->expire(timer, arg);
    }
    return expired;
}

size_t weft__wheel_advance(struct weft__wheel *wheel, int64_t now, size_t max, void *arg)
{
    if (now < weft__wheel_next(wheel)) {
        return 0;
    }
    WEFT__STEP();
    weft__latch_take(&wheel->lock);
    uint64_t until = now == INT64_MAX ? tick_of(wheel, now) : (uint64_t)now >> wheel->tick_shift;
    weft__wheel_settle(wheel);
    wheel->halt = false;
    size_t expired = 0, moves = max > wheel->moves ? max : wheel->moves;
    for (;;) {
        uint64_t first;
        uint32_t slot = earliest(wheel, &first);
        if (slot == WEFT__TIMER_IDLE || first > until) {
            if (wheel->current < until) {
                wheel->current = until;
            }
            break;
        }
        wheel->current = first; /* nothing is pending before it */
        if (slot < WEFT__WHEEL_SLOTS) {
            if (expired == max || wheel->halt) {
                break;
            }
            expired += expire_slot(wheel, slot, max - expired, arg);
        } else {
            wheel->cascade = slot; /* entered, even if nothing moves in this slice */
            if (moves == 0) {
                break;
            }
            moves -= move_down(wheel, moves);
        }
    }
    next_raise(wheel);
    weft__latch_drop(&wheel->lock);
    return expired;
}
