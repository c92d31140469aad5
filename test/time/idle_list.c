/* labels: valgrind */
/* The idle list under a virtual clock, compared with a scan of every member. */
#include "time/idle_list.h"

#include <errno.h>

#include "base/rand.h"
#include "check.h"

#define MEMBERS 300

struct member {
    struct weft__idle_list_node entry; /* first */
    int64_t touched;
    bool in;
};

static struct weft__rand rng;
static struct weft__idle_list list;
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
    struct weft__idle_list_node *next;
    for (struct weft__idle_list_node *entry = weft__idle_list_take_expired(&list, &n); entry;
         entry = next) {
        struct member *member = (struct member *)entry;
        next = entry->next;
        CHECK(member->in && entry->place == 0);
        CHECK(now - member->touched >= period);
        CHECK(!in_time || now - member->touched <= period + precision);
        member->in = false;
        in--;
        counted++;
    }
    CHECK_EQ(counted, n);
}

/* Ticks at most an eighth of the precision apart: no member stays idle for too long. */
static void tick_to(int64_t to)
{
    while (list.members && weft__idle_list_next(&list) + precision / 8 < to) {
        int64_t at = weft__idle_list_next(&list) + (int64_t)below((uint64_t)precision / 8 + 1);
        now = at > now ? at : now;
        CHECK(!weft__idle_list_tick(&list, clock_now, SIZE_MAX));
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
        CHECK(!weft__idle_list_remove(&list, &member->entry));
        weft__idle_list_add(&list, &member->entry, now);
        member->in = true;
        member->touched = now;
        in++;
    } else if (dice == 0) {
        CHECK(weft__idle_list_remove(&list, &member->entry));
        member->in = false;
        in--;
    } else {
        weft__idle_list_touch(&list, &member->entry);
        member->touched = now;
    }
    CHECK_EQ(list.members + list.expired, in);
}

static void begin(int64_t with_period, int64_t with_precision)
{
    period = with_period;
    precision = with_precision;
    in = 0;
    memset(members, 0, sizeof members);
    CHECK_EQ(weft__idle_list_init(&list, period, precision, now), 0);
}

static void end(void)
{
    for (int i = 0; i < MEMBERS; i++) {
        CHECK_EQ(weft__idle_list_remove(&list, &members[i].entry), members[i].in);
    }
    CHECK_EQ(list.members + list.expired, 0);
    weft__idle_list_deinit(&list);
}

TEST(idle_member_expires_never_early_and_at_most_one_step_late)
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

/* A stalled loop, and ticks that may check three members at a time. */
TEST(stalled_or_sliced_tick_expires_late_but_never_early)
{
    weft__rand_seed(&rng, check_seed() + 1);
    begin(100, 10);
    for (long i = check_scale(100000); i > 0; i--) {
        if (below(50) == 0) {
            now += (int64_t)below(below(50) ? 5 : 500);
            weft__idle_list_tick(&list, clock_now, 3);
            check_batch(false);
        }
        operate(&members[below(MEMBERS)]);
        CHECK(list.step - list.oldest < list.slots);
    }
    end();
}

TEST(idle_members_expire_as_one_batch)
{
    size_t n;
    now = 0;
    begin(60, 1);
    for (int i = 0; i < MEMBERS; i++) {
        weft__idle_list_add(&list, &members[i].entry, now);
    }
    for (now = 0; list.expired == 0; now++) {
        if (now == 30) {
            weft__idle_list_touch(&list, &members[0].entry);
        }
        CHECK(!weft__idle_list_tick(&list, clock_now, SIZE_MAX));
    }
    CHECK_EQ(list.expired, MEMBERS - 1);
    CHECK(weft__idle_list_take_expired(&list, &n) == &members[1].entry);
    CHECK_EQ(n, MEMBERS - 1);
    members[0].in = true;
    end();
}

TEST(invalid_idle_period_or_precision_is_rejected)
{
    CHECK_EQ(weft__idle_list_init(&list, 10, 0, 0), -EINVAL);
    CHECK_EQ(weft__idle_list_init(&list, 10, 11, 0), -EINVAL);
    CHECK_EQ(weft__idle_list_init(&list, -10, -11, 0), -EINVAL);
    CHECK_EQ(weft__idle_list_init(&list, 70000, 1, 0), -EINVAL);
}
