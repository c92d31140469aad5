/* labels: valgrind */
#include <weft/timer.h>

#include "sync/fixture.h"
#include "sync/idle_group.h"
#include "sync/stackless.h"

#define MS INT64_C(1000000)
#define PERIOD (8 * MS)

struct member {
    weft_idle_member member; /* first */
    _Atomic(int64_t) touched;
};

static weft_idle_group group;
static struct member members[100];
static struct member *const talker = &members[7]; /* is touched repeatedly */
static atomic_int came_out, batches;

static void note_batch(weft_idle_group *which, weft_idle_member *first, size_t n, void *arg)
{
    size_t counted = 0;
    CHECK(which == &group && arg == members);
    for (weft_idle_member *m = first; m; m = weft_idle_next(m)) {
        struct member *member = (struct member *)(void *)m;
        CHECK(member == talker || weft_now() - atomic_load(&member->touched) >= PERIOD);
        CHECK(!weft_idle_remove(which, m)); /* no longer a member */
        counted++;
    }
    CHECK_EQ(counted, n);
    atomic_fetch_add(&batches, 1);
    atomic_fetch_add(&came_out, (int)n);
}

/* Returns an upper bound of the member's idle time: this thread may be delayed before the touch,
 * and after it. */
static int64_t touch(struct member *member)
{
    int64_t before = weft_now();
    weft_idle_touch(&group, &member->member);
    return weft_now() - atomic_exchange(&member->touched, before);
}

static weft_pool *open_group(bool callback)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 2});
    struct weft_idle_opts opts = {.name = "quiet",
                                  .pool = pool,
                                  .period_ns = PERIOD,
                                  .precision_ns = 2 * MS,
                                  .on_idle = callback ? note_batch : NULL,
                                  .arg = members};
    memset(&group, 0xa5, sizeof group);
    CHECK_EQ(weft_idle_init(&group, &opts), 0);
    atomic_store(&came_out, 0);
    atomic_store(&batches, 0);
    memset(members, 0, sizeof members);
    return pool;
}

static void add(struct member *member)
{
    atomic_store(&member->touched, weft_now());
    weft_idle_add(&group, &member->member);
}

static void close_group(weft_pool *pool)
{
    weft_idle_deinit(&group);
    pool_close(pool);
}

TEST(idle_members_expire_and_touched_members_stay)
{
    int64_t longest = 0;
    weft_pool *pool = open_group(true);
    for (int i = 0; i < 100; i++) {
        add(&members[i]);
    }
    CHECK(weft_idle_count(&group) == 100 ||
          weft_now() - atomic_load(&members[0].touched) >= PERIOD);
    while (atomic_load(&came_out) < 99) {
        int64_t silent = touch(talker);
        longest = silent > longest ? silent : longest;
        sched_yield();
    }
    if (weft_idle_remove(&group, &talker->member)) {
        CHECK_EQ(atomic_load(&came_out), 99);
    } else { /* a slow machine: this thread was idle as well */
        CHECK(longest >= PERIOD || weft_now() - atomic_load(&talker->touched) >= PERIOD);
    }
    while (weft_idle_count(&group) > 0) {
        sched_yield();
    }
    close_group(pool);
    CHECK(atomic_load(&came_out) >= 99);
}

TEST(empty_idle_group_resumes_with_next_member)
{
    weft_pool *pool = open_group(true);
    for (int i = 0; i < 3; i++) {
        await_idle(pool);
        add(&members[i]);
        await_count(&came_out, i + 1);
        CHECK(!weft_idle_remove(&group, &members[i].member));
    }
    add(&members[3]);
    bool in_time = weft_idle_remove(&group, &members[3].member);
    CHECK(in_time || weft_now() - atomic_load(&members[3].touched) >= PERIOD);
    CHECK(!weft_idle_remove(&group, &members[3].member));
    close_group(pool);
    CHECK_EQ(atomic_load(&came_out), in_time ? 3 : 4);
}

/* More steps of a second than a group can distinguish: then the usual precision is coarser. */
TEST(idle_period_can_be_arbitrarily_long)
{
    weft_pool *pool = pool_open(&(struct weft_pool_opts){.workers = 1});
    const int64_t day = INT64_C(86400000000000);
    const int64_t periods[] = {1, day, 365 * day, WEFT_FOREVER - 1, WEFT_FOREVER};
    for (size_t i = 0; i < sizeof periods / sizeof *periods; i++) {
        struct weft_idle_opts opts = {.pool = pool, .period_ns = periods[i]};
        memset(members, 0, sizeof members);
        CHECK_EQ(weft_idle_init(&group, &opts), 0);
        weft_idle_add(&group, &members[0].member);
        CHECK_EQ(weft_idle_count(&group), 1);
        if (periods[i] > 1) {
            CHECK(weft_idle_remove(&group, &members[0].member));
        } else {
            weft_idle_member *first;
            CHECK_EQ(weft_idle_wait(&group, &first, WEFT_FOREVER), 1);
        }
        weft_idle_deinit(&group);
        CHECK_EQ(weft_idle_init(&group, &opts), 0); /* and without members */
        weft_idle_deinit(&group);
    }
    struct weft_idle_opts negative = {.pool = pool, .period_ns = INT64_MIN};
    CHECK_EQ(weft_idle_init(&group, &negative), -EINVAL);
    pool_close(pool);
}

static void *wait_for_batch(void *arg)
{
    weft_idle_member *first = NULL;
    (void)arg;
    ssize_t n = weft_idle_wait(&group, &first, WEFT_FOREVER);
    for (ssize_t i = 0; i < n; i++, first = weft_idle_next(first)) {
        struct member *member = (struct member *)(void *)first;
        CHECK(weft_now() - atomic_load(&member->touched) >= PERIOD);
        atomic_fetch_add(&came_out, 1);
    }
    return (void *)(intptr_t)n;
}

TEST(fiber_or_thread_waits_for_expired_batch)
{
    weft_fiber fiber;
    weft_idle_member *first;
    weft_pool *pool = open_group(false);
    CHECK_EQ(weft_idle_wait(&group, &first, 0), -ETIMEDOUT);
    CHECK_EQ(weft_idle_wait(&group, &first, weft_after(MS)), -ETIMEDOUT);
    for (int i = 0; i < 10; i++) {
        add(&members[i]);
    }
    CHECK_EQ(weft_pool_spawn(pool, &fiber, wait_for_batch, NULL, NULL), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    while (atomic_load(&came_out) < 10) { /* a slow machine: several batches */
        wait_for_batch(NULL);
    }
    CHECK_EQ(atomic_load(&came_out), 10);
    CHECK_EQ(weft_idle_wait(&group, &first, 0), -ETIMEDOUT);
    close_group(pool);
}

TEST(cancel_and_interrupt_end_wait_for_expired_batch)
{
    weft_fiber fiber;
    void *result;
    weft_pool *pool = open_group(false);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_pool_spawn(pool, &fiber, wait_for_batch, NULL, NULL), 0);
        await_state(fiber, WEFT_FIBER_WAITING);
        CHECK_EQ(i ? weft_cancel(fiber) : weft_fiber_interrupt(fiber), 0);
        CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
        CHECK_EQ((intptr_t)result, i ? -ECANCELED : -EINTR);
    }
    close_group(pool);
}

TEST(stackless_task_waits_for_expired_batch)
{
    struct body body, second;
    size_t n;
    weft_pool *pool = open_group(false);
    struct weft__idle_group *g = weft__idle_group_of(&group);
    body_arm(&body);
    body_arm(&second);
    CHECK(weft__idle_group_arm(g, &body.node));
    CHECK(weft__idle_group_arm(g, &second.node));
    add(&members[0]);
    while (!body_told(&body)) {
        sched_yield();
    }
    weft__idle_group_finish(g, &body.node); /* leaves the batch to the second waiter */
    CHECK(body_told(&second));
    CHECK(weft__idle_group_take(g, &n) == &members[0].member && n == 1);
    weft__idle_group_finish(g, &second.node);
    close_group(pool);
}

static void destroys_with_members(void *arg)
{
    (void)arg;
    struct weft_idle_opts opts = {.name = "quiet",
                                  .pool = pool_open(&(struct weft_pool_opts){.workers = 1}),
                                  .period_ns = 3600000 * MS,
                                  .precision_ns = 60000 * MS};
    CHECK_EQ(weft_idle_init(&group, &opts), 0);
    weft_idle_add(&group, &members[0].member);
    weft_idle_deinit(&group);
}

static void destroys_while_waited_on(void *arg)
{
    weft_fiber fiber;
    weft_pool *pool = open_group(false);
    CHECK_EQ(weft_pool_spawn(pool, &fiber, wait_for_batch, arg, NULL), 0);
    await_state(fiber, WEFT_FIBER_WAITING);
    weft_idle_deinit(&group);
}

static void waits_beside_a_callback(void *arg)
{
    open_group(true);
    weft_idle_wait(&group, arg, 0);
}

TEST(idle_group_misuse_aborts_with_message)
{
    must_stop(destroys_with_members, NULL, "quiet was destroyed with 1 members");
    must_stop(destroys_while_waited_on, NULL,
              "idle group quiet was destroyed while a fiber or thread waits");
    must_stop(waits_beside_a_callback, NULL, "has an on_idle");
    struct weft_idle_opts opts = {.period_ns = 5, .precision_ns = 6};
    CHECK_EQ(weft_idle_init(&group, &opts), -EINVAL);
}
