/* labels: valgrind */
#include "supervisor/policy.h"

#include <errno.h>

#include "base/rand.h"
#include "check.h"

#define SECOND ((int64_t)1000000000)

static struct weft__policy make(const struct weft_supervisor_opts *opts, int count,
                                enum weft_child_restart restart)
{
    struct weft__policy policy;
    CHECK_EQ(weft__policy_init(&policy, opts, 1), 0);
    for (int i = 0; i < count; i++) {
        CHECK_EQ(weft__policy_add(&policy, restart, SECOND, NULL), i);
    }
    return policy;
}

static void expect(struct weft__policy *policy, int64_t now, enum weft__policy_action_kind what,
                   uint32_t child)
{
    struct weft__policy_action action = weft__policy_next(policy, now);
    CHECK_EQ(action.what, what);
    if (what != WEFT__POLICY_SLEEP && what != WEFT__POLICY_EXIT) {
        CHECK_EQ(action.child, child);
    }
}

static void expect_sleep(struct weft__policy *policy, int64_t now, int64_t until)
{
    struct weft__policy_action action = weft__policy_next(policy, now);
    CHECK_EQ(action.what, WEFT__POLICY_SLEEP);
    CHECK_EQ(action.at, until);
}

static void start_all(struct weft__policy *policy, int64_t now)
{
    for (uint32_t i = 0; i < policy->count; i++) {
        expect(policy, now, WEFT__POLICY_START, i);
        weft__policy_started(policy, i, now);
    }
    expect_sleep(policy, now, INT64_MAX);
}

static void stop_one(struct weft__policy *policy, int64_t now, uint32_t child)
{
    expect(policy, now, WEFT__POLICY_STOP, child);
    expect_sleep(policy, now, now + SECOND);
    weft__policy_ended(policy, child, 0, now);
}

TEST(policy_one_for_one_restarts_only_exited_child)
{
    struct weft__policy p = make(&(struct weft_supervisor_opts){0}, 3, WEFT_CHILD_PERMANENT);
    start_all(&p, 0);
    weft__policy_ended(&p, 1, 0, 5);
    expect(&p, 5, WEFT__POLICY_START, 1);
    weft__policy_started(&p, 1, 5);
    expect_sleep(&p, 5, INT64_MAX);
    weft__policy_deinit(&p);
}

TEST(policy_one_for_all_stops_in_reverse_and_starts_in_order)
{
    struct weft__policy p =
        make(&(struct weft_supervisor_opts){.strategy = WEFT_ONE_FOR_ALL}, 4, WEFT_CHILD_PERMANENT);
    start_all(&p, 0);
    weft__policy_ended(&p, 1, -EIO, 5);
    stop_one(&p, 5, 3);
    stop_one(&p, 6, 2);
    stop_one(&p, 7, 0);
    for (uint32_t i = 0; i < 4; i++) {
        expect(&p, 8, WEFT__POLICY_START, i);
        weft__policy_started(&p, i, 8);
    }
    expect_sleep(&p, 8, INT64_MAX);
    weft__policy_deinit(&p);
}

TEST(policy_rest_for_one_keeps_earlier_children)
{
    struct weft__policy p = make(&(struct weft_supervisor_opts){.strategy = WEFT_REST_FOR_ONE}, 4,
                                 WEFT_CHILD_PERMANENT);
    start_all(&p, 0);
    weft__policy_ended(&p, 1, -EIO, 5);
    stop_one(&p, 5, 3);
    weft__policy_ended(&p, 2, -EIO,
                       5); /* it ended by itself before it was asked to: not a further restart */
    for (uint32_t i = 1; i < 4; i++) {
        expect(&p, 8, WEFT__POLICY_START, i);
        weft__policy_started(&p, i, 8);
    }
    expect_sleep(&p, 8, INT64_MAX);
    CHECK_EQ(p.restarted, 1);
    weft__policy_deinit(&p);
}

TEST(temporary_child_in_group_restart_stays_stopped)
{
    struct weft__policy p =
        make(&(struct weft_supervisor_opts){.strategy = WEFT_ONE_FOR_ALL}, 1, WEFT_CHILD_PERMANENT);
    weft__policy_add(&p, WEFT_CHILD_TEMPORARY, SECOND, NULL);
    start_all(&p, 0);
    weft__policy_ended(&p, 0, 0, 5);
    stop_one(&p, 5, 1);
    expect(&p, 5, WEFT__POLICY_START, 0);
    weft__policy_started(&p, 0, 5);
    expect_sleep(&p, 5, INT64_MAX);
    CHECK_EQ(p.children[1].state, WEFT_CHILD_STOPPED);
    weft__policy_deinit(&p);
}

TEST(removed_child_is_not_restarted_with_group)
{
    struct weft__policy p =
        make(&(struct weft_supervisor_opts){.strategy = WEFT_ONE_FOR_ALL}, 3, WEFT_CHILD_PERMANENT);
    start_all(&p, 0);
    weft__policy_remove(&p, 0); /* it is due after the next child */
    weft__policy_remove(&p, 1);
    expect(&p, 1, WEFT__POLICY_STOP, 1);
    weft__policy_ended(&p, 2, -EIO, 2);
    weft__policy_ended(&p, 1, 0, 3);
    stop_one(&p, 4, 0);
    expect(&p, 5, WEFT__POLICY_START, 2);
    weft__policy_started(&p, 2, 5);
    expect_sleep(&p, 5, INT64_MAX);
    CHECK_EQ(p.children[0].state, WEFT_CHILD_STOPPED);
    CHECK_EQ(p.children[1].state, WEFT_CHILD_STOPPED);
    weft__policy_deinit(&p);
}

TEST(restart_type_decides_which_exits_restart)
{
    static const struct {
        enum weft_child_restart restart;
        int error;
        enum weft_child_state state;
    } cases[] = {
        {WEFT_CHILD_PERMANENT, 0, WEFT_CHILD_WAITING},
        {WEFT_CHILD_PERMANENT, -EIO, WEFT_CHILD_WAITING},
        {WEFT_CHILD_TRANSIENT, 0, WEFT_CHILD_STOPPED},
        {WEFT_CHILD_TRANSIENT, -EIO, WEFT_CHILD_WAITING},
        {WEFT_CHILD_TEMPORARY, 0, WEFT_CHILD_STOPPED},
        {WEFT_CHILD_TEMPORARY, -EIO, WEFT_CHILD_FAILED},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        struct weft__policy p = make(&(struct weft_supervisor_opts){0}, 1, cases[i].restart);
        start_all(&p, 0);
        weft__policy_ended(&p, 0, cases[i].error, 1);
        CHECK_EQ(p.children[0].state, cases[i].state);
        weft__policy_deinit(&p);
    }
}

TEST(policy_gives_up_only_above_restart_intensity)
{
    struct weft_supervisor_opts opts = {.restarts = 2, .window_ns = 10};
    struct weft__policy p = make(&opts, 2, WEFT_CHILD_PERMANENT);
    start_all(&p, 0);
    for (int64_t now = 100; now < 1000; now += 6) { /* never three within ten */
        weft__policy_ended(&p, 0, -EIO, now);
        expect(&p, now, WEFT__POLICY_START, 0);
        weft__policy_started(&p, 0, now);
    }
    for (int64_t now = 2000; now < 2002; now++) {
        weft__policy_ended(&p, 0, -EIO, now);
        expect(&p, now, WEFT__POLICY_START, 0);
        weft__policy_started(&p, 0, now);
    }
    weft__policy_ended(&p, 0, -EDOM, 2010);
    stop_one(&p, 2010, 1);
    expect(&p, 2010, WEFT__POLICY_EXIT, 0);
    CHECK_EQ(p.error, -EDOM);
    CHECK_EQ(p.children[0].state, WEFT_CHILD_FAILED);
    weft__policy_deinit(&p);
}

TEST(backoff_doubles_within_jitter_up_to_maximum)
{
    struct weft_supervisor_opts opts = {.restarts = WEFT_RESTARTS_UNLIMITED,
                                        .backoff_ns = 1000,
                                        .backoff_max_ns = 1000 << 10,
                                        .jitter = 30,
                                        .stable_ns = SECOND};
    struct weft__policy p = make(&opts, 1, WEFT_CHILD_PERMANENT);
    int64_t now = 0, before = 0;
    start_all(&p, 0);
    bool varies = false;
    for (int i = 0; i < 20; i++) {
        int64_t full = i < 10 ? (int64_t)1000 << i : 1000 << 10;
        weft__policy_ended(&p, 0, -EIO, now);
        struct weft__policy_action action = weft__policy_next(&p, now);
        int64_t pause = action.at - now;
        CHECK_EQ(action.what, WEFT__POLICY_SLEEP);
        CHECK(pause <= full && pause > full * 7 / 10);
        CHECK(i > 10 || pause > before);
        varies = varies || pause != full;
        before = pause;
        expect(&p, action.at - 1, WEFT__POLICY_SLEEP, 0);
        expect(&p, action.at, WEFT__POLICY_START, 0);
        now = action.at;
        weft__policy_started(&p, 0, now);
    }
    CHECK(varies);
    now += SECOND; /* it ran long enough to count as stable */
    weft__policy_ended(&p, 0, -EIO, now);
    CHECK(weft__policy_next(&p, now).at - now <= 1000);
    weft__policy_deinit(&p);
}

TEST(policy_kills_child_that_misses_stop_deadline)
{
    struct weft__policy p = make(&(struct weft_supervisor_opts){0}, 2, WEFT_CHILD_PERMANENT);
    start_all(&p, 0);
    weft__policy_shut_down(&p, 0);
    expect(&p, 10, WEFT__POLICY_STOP, 1);
    expect_sleep(&p, 11, 10 + SECOND);
    expect(&p, 10 + SECOND, WEFT__POLICY_KILL, 1);
    expect_sleep(&p, 10 + SECOND, INT64_MAX); /* once, and no other child before this one is down */
    weft__policy_ended(&p, 1, -ECANCELED, 11 + SECOND);
    stop_one(&p, 11 + SECOND, 0);
    expect(&p, 12 + SECOND, WEFT__POLICY_EXIT, 0);
    CHECK_EQ(p.error, 0);
    weft__policy_deinit(&p);
}

TEST(failed_start_counts_as_exit)
{
    struct weft__policy p =
        make(&(struct weft_supervisor_opts){.restarts = 2}, 1, WEFT_CHILD_PERMANENT);
    start_all(&p, 0);
    weft__policy_ended(&p, 0, -EIO, 1);
    for (int64_t now = 1; now < 3; now++) {
        expect(&p, now, WEFT__POLICY_START, 0);
        weft__policy_ended(&p, 0, -ENOMEM, now);
    }
    expect(&p, 3, WEFT__POLICY_EXIT, 0);
    CHECK_EQ(p.error, -ENOMEM);
    weft__policy_deinit(&p);
}

TEST(dependent_child_waits_until_requirement_runs)
{
    static const uint32_t first[] = {0, UINT32_MAX};
    struct weft_supervisor_opts opts = {.backoff_ns = 1000, .jitter = 1, .restarts = 10};
    struct weft__policy p = make(&opts, 1, WEFT_CHILD_PERMANENT);
    weft__policy_add(&p, WEFT_CHILD_PERMANENT, SECOND, first);
    start_all(&p, 0);
    weft__policy_ended(&p, 1, -EIO, 0);
    weft__policy_ended(&p, 0, -EIO, 500);
    int64_t at = weft__policy_next(&p, 1000).at;
    CHECK(at > 1000); /* the first is delayed, and the second waits for it */
    expect(&p, at, WEFT__POLICY_START, 0);
    weft__policy_started(&p, 0, at);
    expect(&p, at, WEFT__POLICY_START, 1);
    weft__policy_deinit(&p);
}

TEST(dynamic_children_are_stopped_all_at_once)
{
    struct weft__policy p = make(&(struct weft_supervisor_opts){.strategy = WEFT_DYNAMIC}, 0, 0);
    for (uint32_t i = 0; i < 100; i++) {
        CHECK_EQ(weft__policy_add(&p, WEFT_CHILD_TRANSIENT, SECOND, NULL), i);
        expect(&p, 0, WEFT__POLICY_START, i);
        weft__policy_started(&p, i, 0);
    }
    weft__policy_shut_down(&p, 0);
    for (uint32_t i = 0; i < 100; i++) {
        expect(&p, 5, WEFT__POLICY_STOP, 99 - i);
    }
    expect_sleep(&p, 6, 5 + SECOND);
    for (uint32_t i = 0; i < 50; i++) {
        weft__policy_ended(&p, 2 * i, 0, 7);
    }
    expect_sleep(&p, 8, 5 + SECOND);
    for (uint32_t i = 0; i < 50; i++) {
        expect(&p, 5 + SECOND, WEFT__POLICY_KILL, 99 - 2 * i);
    }
    expect_sleep(&p, 5 + SECOND, INT64_MAX);
    for (uint32_t i = 0; i < 50; i++) {
        weft__policy_ended(&p, 2 * i + 1, -ECANCELED, 6 + SECOND);
    }
    expect(&p, 6 + SECOND, WEFT__POLICY_EXIT, 0);
    weft__policy_deinit(&p);
}

TEST(failed_policy_action_is_retried_and_stop_stays_stop)
{
    static const enum weft_supervisor_strategy strategies[] = {WEFT_ONE_FOR_ONE, WEFT_DYNAMIC};
    for (int i = 0; i < 2; i++) {
        struct weft__policy p = make(&(struct weft_supervisor_opts){.strategy = strategies[i]}, 1,
                                     WEFT_CHILD_PERMANENT);
        start_all(&p, 0);
        weft__policy_shut_down(&p, 0);
        expect(&p, 10, WEFT__POLICY_STOP, 0);
        weft__policy_postpone(&p, (struct weft__policy_action){.what = WEFT__POLICY_STOP}, 15);
        expect_sleep(&p, 10, 15);
        expect(&p, 15, WEFT__POLICY_STOP, 0);
        expect_sleep(&p, 15, 15 + SECOND); /* the whole delay, from now */
        expect(&p, 15 + SECOND, WEFT__POLICY_KILL, 0);
        weft__policy_postpone(&p, (struct weft__policy_action){.what = WEFT__POLICY_KILL},
                              20 + SECOND);
        expect_sleep(&p, 16 + SECOND, 20 + SECOND);
        expect(&p, 20 + SECOND, WEFT__POLICY_KILL, 0);
        expect_sleep(&p, 20 + SECOND, INT64_MAX);
        weft__policy_ended(&p, 0, -ECANCELED, 21 + SECOND);
        expect(&p, 21 + SECOND, WEFT__POLICY_EXIT, 0);
        weft__policy_deinit(&p);
    }
}

TEST(supervisor_policy_bad_options_are_einval)
{
    static const struct weft_supervisor_opts bad[] = {
        {.jitter = 51},     {.restarts = 100001}, {.window_ns = -1},
        {.backoff_ns = -1}, {.stable_ns = -1},    {.strategy = (enum weft_supervisor_strategy)4},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        struct weft__policy p;
        CHECK_EQ(weft__policy_init(&p, &bad[i], 1), -EINVAL);
    }
}

/* --- against a model ------------------------------------------------------------------------ */

/* Random exits, failing starts and times. The invariants of every action, stated without reference
 * to how the policy decides. */
enum { MOST = 6 };

struct model {
    bool up[MOST], asked[MOST], killed[MOST];
    int64_t asked_at[MOST], times[1000];
    int restarts;
};

static int count_recent(const struct model *m, int64_t now, int64_t window)
{
    int count = 0;
    for (int i = 0; i < m->restarts; i++) {
        count += now - m->times[i] <= window;
    }
    return count;
}

static int highest_up(const struct model *m, int count)
{
    while (count > 0 && !m->up[count - 1]) {
        count--;
    }
    return count - 1;
}

static bool done_or_put_off(struct weft__policy *p, struct weft__policy_action action, int64_t now,
                            struct weft__rand *rand)
{
    bool done = weft__rand_next(rand) % 4;
    if (!done) {
        weft__policy_postpone(p, action, now + 3);
    }
    return done;
}

static void play(struct weft__rand *rand, enum weft_supervisor_strategy strategy)
{
    struct weft_supervisor_opts opts = {.strategy = strategy,
                                        .restarts = 1 + weft__rand_next(rand) % 5,
                                        .window_ns = 40,
                                        .backoff_ns = weft__rand_next(rand) % 8,
                                        .backoff_max_ns = 64};
    int count = 1 + (int)(weft__rand_next(rand) % MOST);
    struct weft__policy p = make(&opts, count, WEFT_CHILD_PERMANENT);
    struct model m = {.restarts = 0};
    int64_t now = 0;
    bool over = false;
    for (int turn = 0; turn < 400 && !over; turn++) {
        struct weft__policy_action action;
        while ((action = weft__policy_next(&p, now)).what != WEFT__POLICY_SLEEP && !over) {
            uint32_t i = action.child;
            switch (action.what) {
            case WEFT__POLICY_START:
                CHECK(!m.up[i] && !p.ending);
                if (strategy != WEFT_ONE_FOR_ONE) { /* in order: no later child is up */
                    CHECK(highest_up(&m, count) < (int)i);
                }
                if (weft__rand_next(rand) % 8) {
                    m.up[i] = true;
                    m.asked[i] = m.killed[i] = false;
                    weft__policy_started(&p, i, now);
                } else {
                    if (count_recent(&m, now, 40) < (int)p.limit) {
                        m.times[m.restarts++] = now;
                    }
                    weft__policy_ended(&p, i, -EIO, now);
                }
                break;
            case WEFT__POLICY_STOP:
                CHECK(m.up[i] && !m.asked[i]);
                CHECK_EQ(highest_up(&m, count), (int)i); /* in reverse order, one after another */
                m.asked[i] = done_or_put_off(&p, action, now, rand);
                m.asked_at[i] = now;
                break;
            case WEFT__POLICY_KILL:
                CHECK(m.up[i] && m.asked[i] && !m.killed[i] && now >= m.asked_at[i] + SECOND);
                m.killed[i] = done_or_put_off(&p, action, now, rand);
                break;
            case WEFT__POLICY_EXIT:
                CHECK_EQ(highest_up(&m, count), -1);
                CHECK(p.ending);
                over = true;
                break;
            case WEFT__POLICY_SLEEP:
                break;
            }
        }
        CHECK(over || action.at > now);
        /* No child is forgotten: each child that is down has a pending action, or waits for another
         * child. */
        CHECK(over || highest_up(&m, count) >= 0 || action.at != INT64_MAX);
        uint32_t victim = weft__rand_next(rand) % (uint32_t)count;
        if (!over && m.up[victim]) {
            bool counts = !p.children[victim].halt && !p.ending;
            bool gives_up = count_recent(&m, now, 40) >= (int)p.limit;
            m.up[victim] = false;
            weft__policy_ended(&p, victim, -EIO, now);
            if (counts) {
                CHECK_EQ(p.ending, gives_up);
                m.times[m.restarts++] = now;
            }
        } else if (!over) {
            now = action.at != INT64_MAX && weft__rand_next(rand) % 2
                      ? action.at
                      : now + weft__rand_next(rand) % 30;
        }
        if (turn == 390) {
            weft__policy_shut_down(&p, 0);
        }
    }
    weft__policy_deinit(&p);
}

TEST(policy_invariants_hold_under_random_events)
{
    struct weft__rand rand;
    weft__rand_seed(&rand, check_seed());
    for (int i = 0; i < 3000; i++) {
        play(&rand, (enum weft_supervisor_strategy)(i % 3));
    }
}
