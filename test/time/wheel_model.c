/* The timer wheel under a virtual clock, compared with a sorted array of the pending timers. */
#include "time/wheel.h"

#include "base/rand.h"
#include "check.h"

#define LIVE 2000 /* timers at most */

struct item {
    struct weft__timer timer;
    uint64_t tick;  /* when it is due: its deadline's tick, or the wheel's if it was overdue */
    uint64_t added; /* counts adds: the order within a tick */
};

/* The argument of expire. */
struct firing {
    int64_t now;
    struct item *fired[LIVE];
    size_t count;
};

static struct weft__rand rng;

static uint64_t random64(void)
{
    uint64_t high = weft__rand_next(&rng);
    return high << 32 | weft__rand_next(&rng);
}

static uint64_t below(uint64_t limit)
{
    return random64() % limit;
}

/* Every magnitude up to 2^bits is equally likely. */
static int64_t magnitude(unsigned bits)
{
    return (int64_t)(random64() >> 1 >> (63 - below(bits + 1)));
}

static int64_t later(int64_t time, int64_t by)
{
    return time > INT64_MAX - by ? INT64_MAX : time + by;
}

static uint64_t tick_up(int64_t deadline, unsigned shift)
{
    uint64_t ticks = (uint64_t)deadline >> shift;
    return deadline <= 0 ? 0 : ticks + (ticks << shift != (uint64_t)deadline);
}

static int64_t tick_ns(uint64_t tick, unsigned shift)
{
    int64_t ns;
    return __builtin_mul_overflow(tick, (uint64_t)1 << shift, &ns) ? INT64_MAX : ns;
}

static void note(struct weft__timer *timer, void *arg)
{
    struct firing *firing = arg;
    CHECK(!weft__timer_is_pending(timer));
    CHECK(timer->deadline <= firing->now);
    CHECK(firing->count < LIVE);
    firing->fired[firing->count++] = (struct item *)timer;
    memset(&timer->next, 0xa5, sizeof timer->next); /* the wheel no longer uses it */
}

/* The model: all pending timers, ordered by (tick, added). */
static struct weft__wheel wheel;
static unsigned shift;
static int64_t now;
static bool strict; /* sliced cascades are finished at once, so the order within a tick is exact */
static struct item items[LIVE], *order[LIVE], *spare[LIVE];
static size_t live, spares;
static uint64_t adds;
static int64_t cluster;    /* many deadlines are near this one */
static unsigned add_share; /* of a hundred operations */

static size_t position(uint64_t tick, uint64_t added)
{
    size_t low = 0, high = live;
    while (low < high) {
        size_t middle = (low + high) / 2;
        struct item *item = order[middle];
        bool before = item->tick < tick || (item->tick == tick && item->added < added);
        low = before ? middle + 1 : low;
        high = before ? high : middle;
    }
    return low;
}

static void model_insert(struct item *item, int64_t deadline)
{
    uint64_t tick = tick_up(deadline, shift);
    item->tick = tick < wheel.current ? wheel.current : tick;
    item->added = ++adds;
    size_t at = position(item->tick, item->added);
    memmove(&order[at + 1], &order[at], (live++ - at) * sizeof order[0]);
    order[at] = item;
}

static void model_remove(struct item *item)
{
    size_t at = position(item->tick, item->added);
    CHECK(at < live && order[at] == item);
    memmove(&order[at], &order[at + 1], (--live - at) * sizeof order[0]);
}

/* The rule of next(): S <= next <= E. */
static void check_next(void)
{
    int64_t next = weft__wheel_next(&wheel);
    if (live == 0) {
        CHECK_EQ(next, INT64_MAX);
        CHECK_EQ(wheel.levels, 0);
        return;
    }
    uint64_t first = wheel.current, tick = order[0]->tick;
    if (wheel.cascade == WEFT__TIMER_IDLE) {
        unsigned bits = 0, digit = WEFT__WHEEL_LOW_BITS;
        while (bits + digit < 64 && tick >> (bits + digit) != first >> (bits + digit)) {
            bits += digit;
            digit = 6;
        }
        first = tick >> bits << bits;
    }
    CHECK(tick_ns(first, shift) <= next);
    CHECK(next <= tick_ns(tick, shift));
}

static int64_t random_deadline(void)
{
    unsigned level =
        below(4) ? WEFT__WHEEL_LOW_BITS + 6 * (unsigned)below(8) : 6 * (unsigned)below(2);
    uint64_t edge = ((wheel.current >> level) + 1) << level;
    int64_t off = (int64_t)below(3);
    switch (below(16)) {
    case 0: /* a level's boundary, more or less */
        return later(tick_ns(edge + below(3) - 1, shift), off) - 1;
    case 1:
        return now - magnitude(62);
    case 2:
        return live ? order[below(live)]->timer.deadline : now;
    case 3:
        return INT64_MAX - magnitude(62);
    case 4:
        return later(now, magnitude(62));
    case 5:
    case 6:
    case 7:
        return later(now, magnitude(shift + 20 < 62 ? shift + 20 : 62));
    default:
        return later(cluster, magnitude(shift + 2 < 62 ? shift + 2 : 62));
    }
}

static void add_one(void)
{
    struct item *item = spare[--spares];
    int64_t before = weft__wheel_next(&wheel), deadline = random_deadline();
    weft__timer_init(&item->timer, note);
    CHECK(!weft__timer_is_pending(&item->timer));
    bool earlier = weft__wheel_add(&wheel, &item->timer, deadline);
    CHECK(weft__timer_is_pending(&item->timer));
    CHECK_EQ(earlier, weft__wheel_next(&wheel) < before);
    model_insert(item, deadline);
}

static void cancel_one(void)
{
    struct item *item = below(4) ? order[below(live)] : order[0];
    int64_t before = weft__wheel_next(&wheel);
    model_remove(item);
    CHECK(weft__wheel_cancel(&wheel, &item->timer));
    CHECK(!weft__wheel_cancel(&wheel, &item->timer));
    CHECK(weft__wheel_next(&wheel) >= before);
    spare[spares++] = item;
}

static void rearm_one(void)
{
    struct item *item = below(4) ? order[below(live)] : order[0];
    int64_t before = weft__wheel_next(&wheel), deadline = random_deadline();
    model_remove(item);
    bool earlier = weft__wheel_rearm(&wheel, &item->timer, deadline);
    CHECK_EQ(earlier, weft__wheel_next(&wheel) < before);
    model_insert(item, deadline);
}

/* A cascade was cut short, or used up the slice before all due timers came down. */
static bool sliced(bool may_expire)
{
    return wheel.cascade != WEFT__TIMER_IDLE ||
           (may_expire && now < INT64_MAX && weft__wheel_next(&wheel) <= now);
}

/* Advances both to `now`: the same timers in the same order, all that are due up to max. */
static size_t advance(size_t max)
{
    static struct firing firing;
    firing.now = now;
    firing.count = 0;
    size_t expired = weft__wheel_advance(&wheel, now, max, &firing);
    while (strict && sliced(expired < max)) {
        expired += weft__wheel_advance(&wheel, now, max - expired, &firing);
    }
    CHECK_EQ(expired, firing.count);
    CHECK(expired <= max);
    for (size_t i = 0; i < expired; i++) {
        struct item *item = firing.fired[i];
        CHECK_EQ(item->tick, order[0]->tick);
        CHECK(!strict || item == order[0]);
        model_remove(item);
        spare[spares++] = item;
    }
    uint64_t until = now == INT64_MAX ? tick_up(now, shift) : (uint64_t)now >> shift;
    bool more = live > 0 && order[0]->tick <= until;
    CHECK(!more || expired == max || (!strict && weft__wheel_next(&wheel) <= now));
    CHECK(now == INT64_MAX || more || weft__wheel_next(&wheel) > now ||
          wheel.cascade != WEFT__TIMER_IDLE);
    return expired;
}

static void advance_by_random(void)
{
    int64_t to = later(now, magnitude(below(500) ? shift % 32 + 12 : 62));
    int64_t next = weft__wheel_next(&wheel);
    if (live && below(3) == 0) {
        to = below(2) ? order[0]->timer.deadline : next;
        to = later(to, (int64_t)below(3)) - 1;
    }
    size_t max = below(2) ? SIZE_MAX : below(50);
    if (to < now) {
        CHECK(to >= next || weft__wheel_advance(&wheel, to, max, NULL) == 0);
        return;
    }
    now = to;
    advance(max);
}

/* Polling at next() reaches the earliest timer exactly at its tick, in one step per level. */
static void advance_by_next(void)
{
    int64_t due = tick_ns(order[0]->tick, shift), at = -1;
    for (size_t steps = 0, expired = 0; expired == 0; steps++) {
        int64_t next = weft__wheel_next(&wheel);
        CHECK(next <= due);
        CHECK(next > at || !strict || next == INT64_MAX);
        CHECK(steps < WEFT__WHEEL_LEVELS || !strict);
        at = next;
        now = now < at ? at : now;
        expired = advance(SIZE_MAX);
        CHECK(expired > 0 || now < due || !strict);
    }
}

/* Starts a new phase: fills or drains the wheel, around another time. */
static void change_phase(void)
{
    add_share = below(2) ? 90 : 20;
    cluster = later(now, magnitude(shift % 32 + 24));
}

/* Restarts with another tick, after everything pending has expired at the end of time. */
static void restart(void)
{
    static const unsigned shifts[] = {0, 1, 5, 10, 16, 16, 16, 20, 30, 57, 62};
    now = INT64_MAX;
    while (live > 0) {
        CHECK(advance(SIZE_MAX) > 0);
    }
    shift = shifts[below(sizeof shifts / sizeof *shifts)];
    now = magnitude(61);
    strict = below(2);
    weft__wheel_init(&wheel, now, shift);
    wheel.moves = below(2) ? 1 + (unsigned)below(20) : WEFT__WHEEL_MOVES;
    change_phase();
}

static void random_operation(void)
{
    uint64_t dice = below(100);
    if (live == 0 || (dice < add_share && spares > 0)) {
        add_one();
        return;
    }
    switch (below(8)) {
    case 0:
    case 1:
    case 2:
        cancel_one();
        break;
    case 3:
    case 4:
        rearm_one();
        break;
    case 5:
        advance_by_next();
        break;
    default:
        advance_by_random();
    }
}

TEST(wheel_random_operations_match_sorted_array)
{
    weft__rand_seed(&rng, check_seed());
    for (spares = 0; spares < LIVE; spares++) {
        spare[spares] = &items[spares];
    }
    weft__wheel_init(&wheel, 0, 16);
    restart();
    for (long left = check_scale(1000000); left > 0; left--) {
        random_operation();
        check_next();
        if (below(3000) == 0) {
            change_phase();
        }
        if (now > INT64_MAX / 2 || below(50000) == 0) {
            restart();
        }
    }
    restart();
    check_next();
}
