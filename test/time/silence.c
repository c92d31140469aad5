/* labels: valgrind */
/* Silence under a virtual clock, against what a look at every member would say. */
#include "time/silence.h"

#include <errno.h>

#include "base/rand.h"
#include "check.h"

#define MEMBERS 300

struct member {
    struct weft__quiet quiet; /* first */
    int64_t touched;
    bool in;
};

static struct weft__rand rng;
static struct weft__silence silence;
static struct member members[MEMBERS];
static int64_t now, period, precision;
static size_t in;

static uint64_t below(uint64_t limit)
{
    return ((uint64_t)weft__rand_next(&rng) << 32 | weft__rand_next(&rng)) % limit;
}

static int64_t clock_now(void)
{
    return now;
}

static void check_batch(bool in_time)
{
    size_t n, counted = 0;
    struct weft__quiet *next;
    for (struct weft__quiet *quiet = weft__silence_take(&silence, &n); quiet; quiet = next) {
        struct member *member = (struct member *)quiet;
        next = quiet->next;
        CHECK(member->in && quiet->place == 0);
        CHECK(now - member->touched >= period);
        CHECK(!in_time || now - member->touched <= period + precision);
        member->in = false;
        in--;
        counted++;
    }
    CHECK_EQ(counted, n);
}

/* Ticks that are never later than an eighth of the precision: nobody stays silent for too long. */
static void tick_to(int64_t to)
{
    while (silence.members && weft__silence_next(&silence) + precision / 8 < to) {
        int64_t at = weft__silence_next(&silence) + (int64_t)below((uint64_t)precision / 8 + 1);
        now = at > now ? at : now;
        CHECK(!weft__silence_tick(&silence, clock_now, SIZE_MAX));
        check_batch(true);
    }
    now = to > now ? to : now;
    for (int i = 0; i < MEMBERS; i++) {
        CHECK(!members[i].in || now - members[i].touched <= period + precision);
    }
}

static void operate(struct member *member)
{
    uint64_t dice = below(10);
    if (!member->in) {
        CHECK(!weft__silence_remove(&silence, &member->quiet));
        weft__silence_add(&silence, &member->quiet, now);
        member->in = true;
        member->touched = now;
        in++;
    } else if (dice == 0) {
        CHECK(weft__silence_remove(&silence, &member->quiet));
        member->in = false;
        in--;
    } else {
        weft__silence_touch(&silence, &member->quiet);
        member->touched = now;
    }
    CHECK_EQ(silence.members + silence.silent, in);
}

static void begin(int64_t with_period, int64_t with_precision)
{
    period = with_period;
    precision = with_precision;
    in = 0;
    memset(members, 0, sizeof members);
    CHECK_EQ(weft__silence_init(&silence, period, precision, now), 0);
}

static void end(void)
{
    for (int i = 0; i < MEMBERS; i++) {
        CHECK_EQ(weft__silence_remove(&silence, &members[i].quiet), members[i].in);
    }
    CHECK_EQ(silence.members + silence.silent, 0);
    weft__silence_deinit(&silence);
}

TEST(nobody_comes_out_early_or_more_than_a_precision_step_late)
{
    weft__rand_seed(&rng, check_seed());
    for (int life = 0; life < 10; life++) {
        int64_t step = 8 + (int64_t)below(1000);
        begin(step * (1 + (int64_t)below(100)), step);
        for (long i = check_scale(100000); i > 0; i--) {
            if (below(20) == 0) {
                tick_to(now + (int64_t)below((uint64_t)period / 8 + 2));
            }
            operate(&members[below(below(2) ? MEMBERS : 20)]);
        }
        end();
    }
}

/* A stalled loop, and ticks that may look at three members at a time. */
TEST(a_stall_and_slices_make_it_late_but_never_early)
{
    weft__rand_seed(&rng, check_seed() + 1);
    begin(100, 10);
    for (long i = check_scale(100000); i > 0; i--) {
        if (below(50) == 0) {
            now += (int64_t)below(below(50) ? 5 : 500);
            weft__silence_tick(&silence, clock_now, 3);
            check_batch(false);
        }
        operate(&members[below(MEMBERS)]);
        CHECK(silence.step - silence.oldest < silence.slots);
    }
    end();
}

TEST(silent_members_come_out_as_one_batch)
{
    size_t n;
    now = 0;
    begin(60, 1);
    for (int i = 0; i < MEMBERS; i++) {
        weft__silence_add(&silence, &members[i].quiet, now);
    }
    for (now = 0; silence.silent == 0; now++) {
        if (now == 30) {
            weft__silence_touch(&silence, &members[0].quiet);
        }
        CHECK(!weft__silence_tick(&silence, clock_now, SIZE_MAX));
    }
    CHECK_EQ(silence.silent, MEMBERS - 1);
    CHECK(weft__silence_take(&silence, &n) == &members[1].quiet);
    CHECK_EQ(n, MEMBERS - 1);
    members[0].in = true;
    end();
}

TEST(what_cannot_be_is_refused)
{
    CHECK_EQ(weft__silence_init(&silence, 10, 0, 0), -EINVAL);
    CHECK_EQ(weft__silence_init(&silence, 10, 11, 0), -EINVAL);
    CHECK_EQ(weft__silence_init(&silence, -10, -11, 0), -EINVAL);
    CHECK_EQ(weft__silence_init(&silence, 70000, 1, 0), -EINVAL);
}
