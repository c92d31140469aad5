#include "time/wheel.h"

#include <string.h>

#include "base/assert.h"

#define LOW WEFT__WHEEL_LOW
#define LOW_BITS WEFT__WHEEL_LOW_BITS
#define DIGIT 6 /* bits of a tick per level above level 0 */

_Static_assert(1 << DIGIT == WEFT__WHEEL_SLOTS, "a level is one digit");
_Static_assert(64 <= LOW_BITS + (WEFT__WHEEL_LEVELS - 1) * DIGIT, "the levels cover every tick");

void weft__wheel_init(struct weft__wheel *wheel, int64_t now, unsigned tick_shift)
{
    WEFT__REQUIRE(now >= 0, "timer wheel: negative time");
    WEFT__REQUIRE(tick_shift <= 62, "timer wheel: tick of 2^%u ns", tick_shift);
    memset(wheel, 0, offsetof(struct weft__wheel, slots)); /* a slot's content is valid only if its
                                                              bit is set */
    wheel->tick_shift = tick_shift;
    wheel->moves = WEFT__WHEEL_MOVES;
    wheel->cascade = WEFT__TIMER_IDLE;
    wheel->current = (uint64_t)now >> tick_shift;
    atomic_init(&wheel->next, INT64_MAX);
}

/* --- occupied slots --------------------------------------------------------------------------- */

/* For a slot above level 0. */
static unsigned level_of(uint32_t slot)
{
    return 1 + (slot - LOW) / WEFT__WHEEL_SLOTS;
}

static bool is_occupied(const struct weft__wheel *wheel, uint32_t slot)
{
    return slot < LOW ? wheel->low[slot / 64] >> slot % 64 & 1
                      : wheel->occupied[level_of(slot)] >> slot % 64 & 1;
}

static void set_occupied(struct weft__wheel *wheel, uint32_t slot)
{
    uint64_t bit = (uint64_t)1 << slot % 64;
    unsigned level = 0;
    if (slot < LOW) {
        wheel->low[slot / 64] |= bit;
        wheel->low_words[slot / 4096] |= (uint64_t)1 << slot / 64 % 64;
    } else {
        level = level_of(slot);
        wheel->occupied[level] |= bit;
    }
    wheel->levels |= 1U << level;
}

static bool low_is_empty(const struct weft__wheel *wheel)
{
    uint64_t any = 0;
    for (unsigned i = 0; i < WEFT__WHEEL_LOW_WORDS / 64; i++) {
        any |= wheel->low_words[i];
    }
    return !any;
}

static void clear_occupied(struct weft__wheel *wheel, uint32_t slot)
{
    uint64_t bit = (uint64_t)1 << slot % 64;
    if (slot >= LOW) {
        unsigned level = level_of(slot);
        if (!(wheel->occupied[level] &= ~bit)) {
            wheel->levels &= ~(1U << level);
        }
    } else if (!(wheel->low[slot / 64] &= ~bit)) {
        wheel->low_words[slot / 4096] &= ~((uint64_t)1 << slot / 64 % 64);
        if (low_is_empty(wheel)) {
            wheel->levels &= ~1U;
        }
    }
}

/* The first occupied slot of level 0, which has one. */
static uint32_t first_low(const struct weft__wheel *wheel)
{
    unsigned i = 0;
    while (!wheel->low_words[i]) {
        i++;
    }
    unsigned word = i * 64 + (unsigned)__builtin_ctzll(wheel->low_words[i]);
    return word * 64 + (unsigned)__builtin_ctzll(wheel->low[word]);
}

/* --- ticks ------------------------------------------------------------------------------------ */

/* The first tick that begins at or after the deadline. */
static uint64_t tick_of(const struct weft__wheel *wheel, int64_t deadline)
{
    uint64_t last = ((uint64_t)1 << wheel->tick_shift) - 1;
    return deadline > 0 ? ((uint64_t)deadline + last) >> wheel->tick_shift : 0;
}

/* When a tick begins. The tick after the last whole one begins at INT64_MAX. */
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
        slot = lowest == 0 ? first_low(wheel)
                           : LOW + (lowest - 1) * WEFT__WHEEL_SLOTS +
                                 (unsigned)__builtin_ctzll(wheel->occupied[lowest]);
    }
    if (slot < LOW) {
        *first = (wheel->current & ~(uint64_t)(LOW - 1)) | slot;
        return slot;
    }
    unsigned bits = LOW_BITS + (level_of(slot) - 1) * DIGIT;
    uint64_t above = wheel->current >> bits & ~(uint64_t)(WEFT__WHEEL_SLOTS - 1);
    *first = (above | slot % WEFT__WHEEL_SLOTS) << bits;
    return slot;
}

/* After timers were removed: raises next() as far as is known without searching. The old value is
 * still a lower bound, perhaps a better one. */
static void next_raise(struct weft__wheel *wheel)
{
    uint64_t tick;
    int64_t bound = INT64_MAX;
    uint32_t slot = earliest(wheel, &tick);
    if (slot != WEFT__TIMER_IDLE) {
        const struct weft__timer *timer = wheel->slots[slot].first;
        /* Alone in the earliest slot it is the earliest timer, unless others moved down from
         * there. */
        if (slot >= LOW && timer == wheel->slots[slot].last && slot != wheel->cascade) {
            tick = tick_of(wheel, timer->deadline);
        }
        bound = tick_start(wheel, tick);
    }
    if (bound > weft__wheel_next(wheel)) {
        weft__wheel_next_set(wheel, bound);
    }
}

static uint32_t slot_of(const struct weft__wheel *wheel, uint64_t tick)
{
    uint64_t differs = tick ^ wheel->current;
    if (differs < LOW) {
        return tick & (LOW - 1);
    }
    unsigned above = (63 - (unsigned)__builtin_clzll(differs) - LOW_BITS) / DIGIT;
    unsigned digit = tick >> (LOW_BITS + above * DIGIT) & (WEFT__WHEEL_SLOTS - 1);
    return LOW + above * WEFT__WHEEL_SLOTS + digit;
}

/* Appends a timer that is in no slot to the slot where it belongs now. The last timer there is
 * written and not read, so no thread waits for its cache line. */
static void place(struct weft__wheel *wheel, struct weft__timer *timer)
{
    uint64_t tick = tick_of(wheel, timer->deadline);
    if (tick < wheel->current) {
        tick = wheel->current; /* overdue */
    }
    uint32_t slot = slot_of(wheel, tick);
    struct weft__wheel_slot *list = &wheel->slots[slot];
    timer->next = NULL;
    if (is_occupied(wheel, slot)) {
        timer->prev = list->last;
        list->last->next = timer;
    } else {
        timer->prev = NULL;
        list->first = timer;
        set_occupied(wheel, slot);
    }
    list->last = timer;
    atomic_store_explicit(&timer->slot, slot, memory_order_relaxed);
}

/* Clears a slot that has become empty. */
static void empty_slot(struct weft__wheel *wheel, uint32_t slot)
{
    clear_occupied(wheel, slot);
    if (wheel->cascade == slot) {
        wheel->cascade = WEFT__TIMER_IDLE;
    }
}

/* Unlinks a pending timer; true if its slot is empty now. */
static bool take_out(struct weft__wheel *wheel, struct weft__timer *timer)
{
    uint32_t slot = atomic_load_explicit(&timer->slot, memory_order_relaxed);
    struct weft__wheel_slot *list = &wheel->slots[slot];
    atomic_store_explicit(&timer->slot, WEFT__TIMER_IDLE, memory_order_relaxed);
    *(timer->next ? &timer->next->prev : &list->last) = timer->prev;
    *(timer->prev ? &timer->prev->next : &list->first) = timer->next;
    if (timer->next || timer->prev) {
        return false;
    }
    empty_slot(wheel, slot);
    return true;
}

/* Puts the front into its slot; next() has counted it already. */
void weft__wheel_flush_front(struct weft__wheel *wheel)
{
    if (wheel->front) {
        place(wheel, wheel->front);
        wheel->front = NULL;
    }
}

/* next() can only have depended on a timer whose slot is empty without it. */
void weft__wheel_remove(struct weft__wheel *wheel, struct weft__timer *timer)
{
    weft__wheel_flush_front(wheel);
    if (take_out(wheel, timer)) {
        next_raise(wheel);
    }
}

bool weft__wheel_add(struct weft__wheel *wheel, struct weft__timer *timer, int64_t deadline)
{
    weft__latch_lock(&wheel->lock);
    bool earlier = weft__wheel_add_locked(wheel, timer, deadline);
    weft__latch_unlock(&wheel->lock);
    return earlier;
}

bool weft__wheel_cancel(struct weft__wheel *wheel, struct weft__timer *timer)
{
    /* Always take the lock, pending or not: this waits for a callback that is running. */
    weft__latch_lock(&wheel->lock);
    bool pending = weft__timer_is_pending(timer);
    if (pending) {
        weft__wheel_cancel_locked(wheel, timer);
    }
    weft__latch_unlock(&wheel->lock);
    return pending;
}

bool weft__wheel_rearm(struct weft__wheel *wheel, struct weft__timer *timer, int64_t deadline)
{
    weft__latch_lock(&wheel->lock);
    int64_t before = weft__wheel_next(wheel);
    if (weft__timer_is_pending(timer)) {
        weft__wheel_cancel_locked(wheel, timer);
    }
    weft__wheel_add_locked(wheel, timer, deadline);
    bool earlier = weft__wheel_next(wheel) < before;
    weft__latch_unlock(&wheel->lock);
    return earlier;
}

bool weft__wheel_is_empty(struct weft__wheel *wheel)
{
    weft__latch_lock(&wheel->lock);
    bool empty = wheel->levels == 0 && !wheel->front;
    weft__latch_unlock(&wheel->lock);
    return empty;
}

/* Moves up to max timers of the slot `cascade` to where they belong now; returns how many. */
static size_t move_down(struct weft__wheel *wheel, size_t max)
{
    size_t moved = 0;
    for (bool empty = false; !empty && moved < max; moved++) {
        struct weft__timer *timer = wheel->slots[wheel->cascade].first;
        empty = take_out(wheel, timer);
        place(wheel, timer);
    }
    return moved;
}

/* Expires up to max timers of a level-0 slot that is due; returns how many. The list is repaired at
 * the end. */
static size_t expire_slot(struct weft__wheel *wheel, uint32_t slot, size_t max, void *arg)
{
    size_t expired = 0;
    struct weft__timer *timer = wheel->slots[slot].first;
    for (; timer && expired < max && !wheel->halt; expired++) {
        struct weft__timer *next = timer->next;
        atomic_store_explicit(&timer->slot, WEFT__TIMER_IDLE, memory_order_relaxed);
        timer->expire(timer, arg);
        timer = next;
    }
    if (timer) {
        timer->prev = NULL;
        wheel->slots[slot].first = timer;
    } else {
        clear_occupied(wheel, slot);
    }
    return expired;
}

#define CHAINS 16u
#define DEPTH 16u

/* With very many timers, those that are due are in no cache, and walking a list takes one cache
 * miss after another. So the lists of the due slots are first walked side by side: their misses
 * overlap. */
static void warm(const struct weft__wheel *wheel, uint64_t until)
{
    const struct weft__timer *at[CHAINS];
    unsigned n = 0;
    uint64_t base = wheel->current & ~(uint64_t)(LOW - 1);
    uint32_t last = until - base < LOW ? (uint32_t)(until - base) : LOW - 1;
    for (uint32_t word = (uint32_t)(wheel->current - base) / 64; word <= last / 64 && n < CHAINS;
         word++) {
        for (uint64_t bits = wheel->low[word]; bits && n < CHAINS; bits &= bits - 1) {
            uint32_t slot = word * 64 + (unsigned)__builtin_ctzll(bits);
            if (slot <= last) {
                at[n++] = wheel->slots[slot].first;
            }
        }
    }
    for (unsigned depth = 0; n > 1 && depth < DEPTH; depth++) {
        unsigned left = 0;
        for (unsigned i = 0; i < n; i++) {
            const struct weft__timer *next = at[i]->next;
            if (next) {
                __builtin_prefetch(next, 1);
                at[left++] = next;
            }
        }
        n = left;
    }
}

size_t weft__wheel_advance(struct weft__wheel *wheel, int64_t now, size_t max, void *arg)
{
    if (now < weft__wheel_next(wheel)) {
        return 0;
    }
    WEFT__STEP();
    weft__latch_lock(&wheel->lock);
    uint64_t until = now == INT64_MAX ? tick_of(wheel, now) : (uint64_t)now >> wheel->tick_shift;
    weft__wheel_flush_front(wheel);
    wheel->halt = false;
    if (wheel->levels & 1 && until > wheel->current) {
        warm(wheel, until);
    }
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
        if (slot < LOW) {
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
    weft__latch_unlock(&wheel->lock);
    return expired;
}
