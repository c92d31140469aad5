/* Posts from other threads: order, wakes, refusals, and what a dispatcher does not do while nothing
 * is posted. */
#include <pthread.h>
#include <stdatomic.h>

#include "base/alloc.h"
#include "dispatch/fixture.h"

/* --- order, and one round for all --------------------------------------------------------- */

#define SENDERS 4
#define EACH 2000
#define TOO_LONG (60000 * MS) /* also on a busy machine */

struct item {
    struct weft_post post; /* first */
    int sender, number;
};

static struct {
    weft_group *group;
    struct item items[SENDERS][EACH];
    int last[SENDERS];
    _Atomic(int) received, refused;
    _Atomic(bool) go;
} sent;

static void receives(struct weft_post *post)
{
    const struct item *item = (struct item *)post;
    CHECK(weft_group_self() == sent.group);
    CHECK_EQ(item->number, sent.last[item->sender] + 1);
    sent.last[item->sender] = item->number;
    atomic_fetch_add_explicit(&sent.received, 1, memory_order_relaxed);
}

static void *sends(void *arg)
{
    int sender = (int)(intptr_t)arg;
    while (!atomic_load_explicit(&sent.go, memory_order_relaxed)) {
    }
    for (int i = 0; i < EACH; i++) {
        struct item *item = &sent.items[sender][i];
        *item = (struct item){.post.fn = receives, .sender = sender, .number = i};
        if (weft_group_submit(sent.group, &item->post) != 0) {
            atomic_fetch_add_explicit(&sent.refused, 1, memory_order_relaxed);
        }
    }
    return NULL;
}

static void begin_sending(pthread_t *threads)
{
    atomic_store_explicit(&sent.received, 0, memory_order_relaxed);
    atomic_store_explicit(&sent.refused, 0, memory_order_relaxed);
    atomic_store_explicit(&sent.go, false, memory_order_relaxed);
    for (int i = 0; i < SENDERS; i++) {
        sent.last[i] = -1;
        CHECK_EQ(pthread_create(&threads[i], NULL, sends, (void *)(intptr_t)i), 0);
    }
    atomic_store_explicit(&sent.go, true, memory_order_relaxed);
}

static void end_sending(const pthread_t *threads)
{
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(threads[i], NULL);
    }
}

TEST(posts_of_one_thread_are_called_in_order)
{
    pthread_t threads[SENDERS];
    weft_dispatcher *d = start_dispatcher(NULL);
    sent.group = make_group(d, "g");
    begin_sending(threads);
    end_sending(threads);
    weft_group_stop(sent.group);
    CHECK_EQ(finish_of(sent.group), 0);
    CHECK_EQ(atomic_load(&sent.received), SENDERS * EACH);
    CHECK_EQ(atomic_load(&sent.refused), 0);
    stop_dispatcher(d);
}

/* Each post is called or refused, exactly one of the two. */
TEST(post_racing_with_group_end_is_called_or_rejected)
{
    for (int round = 0; round < 20; round++) {
        pthread_t threads[SENDERS];
        weft_dispatcher *d = start_dispatcher(NULL);
        sent.group = make_group(d, "g");
        begin_sending(threads);
        while (atomic_load(&sent.received) < round * 100) {
        }
        weft_group_stop(sent.group);
        CHECK_EQ(finish_of(sent.group), 0);
        int received = atomic_load(&sent.received);
        end_sending(threads);
        CHECK_EQ(atomic_load(&sent.received), received); /* nothing after the end */
        CHECK_EQ(received + atomic_load(&sent.refused), SENDERS * EACH);
        stop_dispatcher(d);
    }
}

static uint64_t round_now(weft_dispatcher *d)
{
    struct weft_dispatcher_stats stats;
    weft_dispatcher_stats(d, &stats);
    return stats.rounds;
}

static uint64_t rounds[3];

static void notes_round(void *arg)
{
    rounds[(intptr_t)arg] = round_now(weft_dispatcher_self());
}

static void *runs_in_round(void *arg)
{
    notes_round(arg);
    return NULL;
}

TEST(one_round_takes_in_everything_sent)
{
    weft_dispatcher *d;
    CHECK_EQ(weft_dispatcher_create(&d, &(struct weft_dispatcher_opts){.caller = true}), 0);
    weft_group *a = make_group(d, "a"), *b = make_group(d, "b");
    CHECK_EQ(weft_group_post(a, notes_round, (void *)0), 0);
    CHECK_EQ(weft_group_spawn(b, NULL, runs_in_round, (void *)1, NULL), 0);
    CHECK_EQ(weft_group_post(b, notes_round, (void *)2), 0);
    CHECK(weft_dispatcher_poll(d) >= 1);
    CHECK(rounds[0] == rounds[1] && rounds[1] == rounds[2] && rounds[0] == 1);
    weft_dispatcher_request_stop(d);
    stop_dispatcher(d);
}

/* --- wakes ------------------------------------------------------------------------------------ */

static void stays(void *arg)
{
    _Atomic(int) *stage = arg;
    atomic_store_explicit(stage, 1, memory_order_relaxed);
    while (atomic_load_explicit(stage, memory_order_relaxed) != 2) {
    }
}

static void does_nothing(void *arg)
{
    (void)arg;
}

static void counts(void *arg)
{
    atomic_fetch_add_explicit((_Atomic(int) *)arg, 1, memory_order_relaxed);
}

static void wait_for_sleep(weft_dispatcher *d, uint64_t sleeps)
{
    struct weft_dispatcher_stats stats;
    do {
        sched_yield();
        weft_dispatcher_stats(d, &stats);
    } while (stats.sleeps < sleeps);
}

TEST(only_sleeping_dispatcher_is_woken)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group = make_group(d, "g");
    struct weft_dispatcher_stats before, after;
    _Atomic(int) stage = 0, called = 0;
    wait_for_sleep(d, 1);
    CHECK_EQ(weft_group_post(group, stays, &stage), 0);
    while (atomic_load_explicit(&stage, memory_order_relaxed) != 1) {
    }
    weft_dispatcher_stats(d, &before); /* it is awake now, and was woken for that */
    for (int i = 0; i < 1000; i++) {
        CHECK_EQ(weft_group_post(group, counts, &called), 0);
    }
    atomic_store_explicit(&stage, 2, memory_order_relaxed);
    while (atomic_load_explicit(&called, memory_order_relaxed) < 1000) {
        sched_yield();
    }
    weft_dispatcher_stats(d, &after);
    CHECK(after.wakes <= before.wakes + 1); /* the first of the thousand left a permit */
    CHECK(after.rounds <= before.rounds + 4);
    weft_group_stop(group);
    stop_dispatcher(d);
}

static void check_goes_no_rounds(const struct weft_dispatcher_opts *opts)
{
    weft_dispatcher *d = start_dispatcher(opts);
    weft_group *group = make_group(d, "g");
    CHECK_EQ(weft_group_post(group, does_nothing, NULL), 0);
    struct weft_dispatcher_stats before, after;
    wait_for_sleep(d, 1);
    /* Whether the dispatcher sleeps for good cannot be observed: its thread may be late. A
     * dispatcher that wakes up by itself never passes. */
    int64_t began = weft_now();
    do {
        CHECK(weft_now() - began < TOO_LONG);
        weft_dispatcher_stats(d, &before);
        usleep(100000); /* does not wait for an event: nothing may happen during it */
        weft_dispatcher_stats(d, &after);
    } while (after.rounds != before.rounds || after.sleeps != before.sleeps || after.rounds == 0);
    stop_dispatcher(d);
}

TEST(idle_dispatcher_makes_no_rounds)
{
    check_goes_no_rounds(NULL);
    check_goes_no_rounds(&(struct weft_dispatcher_opts){.max_poll_ns = WEFT_FOREVER});
}

TEST(max_poll_makes_dispatcher_poll_periodically)
{
    weft_dispatcher *d = start_dispatcher(&(struct weft_dispatcher_opts){.max_poll_ns = MS});
    uint64_t before = round_now(d);
    while (round_now(d) < before + 10) {
        sched_yield();
    }
    weft_dispatcher *bad;
    CHECK_EQ(weft_dispatcher_create(&bad, &(struct weft_dispatcher_opts){.max_poll_ns = -1}),
             -EINVAL);
    stop_dispatcher(d);
}

/* Idle rounds before a sleep: as many as configured, and one that finds nothing to do. */
static uint64_t idle_rounds(int spin_rounds)
{
    weft_dispatcher *d;
    struct weft_dispatcher_opts opts = {.caller = true, .spin_rounds = spin_rounds};
    CHECK_EQ(weft_dispatcher_create(&d, &opts), 0);
    weft_group *group = make_group(d, "g");
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 5; i++) { /* a wake-up may come in between */
        CHECK_EQ(weft_group_post(group, does_nothing, NULL), 0);
        uint64_t before = round_now(d);
        CHECK_EQ(weft_dispatcher_poll(d), 0);
        uint64_t took = round_now(d) - before;
        least = took < least ? took : least;
    }
    weft_group_stop(group);
    stop_dispatcher(d);
    return least;
}

TEST(spin_rounds_are_counted)
{
    CHECK_EQ(idle_rounds(-1), 1);
    CHECK_EQ(idle_rounds(0), 2);
    CHECK_EQ(idle_rounds(1), 2);
    CHECK_EQ(idle_rounds(10), 11);
}

/* --- from inside the dispatcher --------------------------------------------------------------- */

static void submitted(struct weft_post *post)
{
    (void)post;
    note("s");
}

static void *sends_inside(void *arg)
{
    weft_group *other = arg;
    struct weft_post post = {.fn = submitted};
    CHECK_EQ(weft_group_submit(weft_group_self(), &post), 0);
    note("1");
    CHECK_EQ(weft_group_post(other, does_nothing, NULL), 0); /* in the next round */
    struct weft_post far = {.fn = submitted};
    CHECK_EQ(weft_group_submit(other, &far), 0);
    note("2");
    weft_yield();
    note("3");
    return NULL;
}

TEST(post_in_own_group_is_immediate_and_to_other_group_next_round)
{
    weft_dispatcher *d;
    CHECK_EQ(weft_dispatcher_create(&d, &(struct weft_dispatcher_opts){.caller = true}), 0);
    weft_group *a = make_group(d, "a"), *b = make_group(d, "b");
    forget();
    CHECK_EQ(weft_group_spawn(a, NULL, sends_inside, b, NULL), 0);
    weft_dispatcher_request_stop(d);
    CHECK_EQ(weft_dispatcher_run(d), 0);
    CHECK_STR(ran, "s12s3");
    stop_dispatcher(d);
}

/* --- memory ----------------------------------------------------------------------------------- */

static void *returns_its_argument(void *arg)
{
    return arg;
}

/* A spawn that fails halfway leaves the group unchanged: the group can still finish. */
TEST(group_spawn_without_memory_leaves_nothing_pending)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    for (int i = 0; i < 50; i++) {
        weft_group *group = make_group(d, "g");
        int failed = 0;
        for (long countdown = 1; countdown <= 4; countdown++) {
            weft_fiber fiber;
            weft__alloc_fail_after(countdown, true);
            int err = weft_group_spawn(group, &fiber, returns_its_argument, NULL,
                                       &(struct weft_member_opts){.name = "named"});
            int posted = weft_group_post(group, does_nothing, NULL);
            weft__alloc_fail_after(0, false);
            CHECK(err == 0 || err == -ENOMEM);
            CHECK(posted == 0 || posted == -ENOMEM);
            failed += err != 0;
            if (!err) {
                CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
            }
        }
        CHECK(failed > 0);
        weft_group_stop(group);
        CHECK_EQ(finish_of(group), 0);
        weft_group_destroy(group);
    }
    stop_dispatcher(d);
}

TEST(max_fibers_rejects_group_spawn_and_group_still_finishes)
{
    weft_dispatcher *d;
    struct weft_dispatcher_opts opts = {.caller = true, .max_fibers = 2};
    CHECK_EQ(weft_dispatcher_create(&d, &opts), 0);
    weft_group *group = make_group(d, "g");
    for (int i = 0; i < 5; i++) {
        int err = weft_group_spawn(group, NULL, returns_its_argument, NULL, NULL);
        CHECK_EQ(err, i < 2 ? 0 : -EAGAIN);
    }
    weft_group_stop(group);
    CHECK_EQ(weft_dispatcher_run(d), 0);
    CHECK_EQ(finish_of(group), 0);
    stop_dispatcher(d);
}
