/* labels: valgrind */
/* A group's life cycle: running, stopping, finished; daemons; errors. */
#include <pthread.h>
#include <stdatomic.h>

#include <weft/sync.h>

#include "dispatch/fixture.h"

static void *does_nothing(void *arg)
{
    return arg;
}

static void calls_nothing(void *arg)
{
    (void)arg;
}

/* --- stopping ------------------------------------------------------------------------------- */

struct sleeper {
    int64_t deadline;
    int result, loops;
};

static void *sleeps_until_stop(void *arg)
{
    struct sleeper *s = arg;
    s->result = weft_group_sleep(s->deadline);
    for (int i = 0; i < 3; i++) { /* the group stays stopping, and the call yields */
        CHECK_EQ(weft_group_sleep(WEFT_FOREVER), 0);
        s->loops++;
    }
    return NULL;
}

TEST(stop_wakes_stop_sleepers_and_group_finishes_after_them)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group = make_group(d, "g");
    struct sleeper s = {.deadline = WEFT_FOREVER, .result = 1};
    weft_fiber fiber;
    CHECK_EQ(weft_group_spawn(group, &fiber, sleeps_until_stop, &s, NULL), 0);
    CHECK(!weft_group_is_stopping(group));
    CHECK_EQ(weft_future_wait(weft_group_finished(group), weft_after(MS)), -ETIMEDOUT);
    weft_group_stop(group);
    weft_group_stop(group);
    CHECK(weft_group_is_stopping(group));
    CHECK_EQ(finish_of(group), 0);
    weft_group_stop(group);
    CHECK_EQ(s.result, 0);
    CHECK_EQ(s.loops, 3);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    struct weft_group_stats stats;
    weft_group_stats(group, &stats);
    CHECK_EQ(stats.state, WEFT_GROUP_FINISHED);
    CHECK_EQ(stats.fibers + stats.daemons + stats.ready, 0);
    CHECK_EQ(weft_group_spawn(group, NULL, does_nothing, NULL, NULL), -ESHUTDOWN);
    CHECK_EQ(weft_group_post(group, calls_nothing, NULL), -ESHUTDOWN);
    struct weft_post post = {0};
    CHECK_EQ(weft_group_submit(group, &post), -ESHUTDOWN);
    stop_dispatcher(d);
}

static void *sleeps_a_little(void *arg)
{
    CHECK_EQ(weft_group_sleep(weft_after(MS)), -ETIMEDOUT);
    weft_group_stop(weft_group_self()); /* from inside: visible at once */
    CHECK(weft_group_is_stopping(weft_group_self()));
    CHECK_EQ(weft_group_sleep(WEFT_FOREVER), 0);
    return arg;
}

TEST(sleep_until_stop_times_out_and_group_can_stop_itself)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group = make_group(d, "g");
    CHECK_EQ(weft_group_spawn(group, NULL, sleeps_a_little, NULL, NULL), 0);
    CHECK_EQ(finish_of(group), 0);
    stop_dispatcher(d);
}

static void *is_cancelled_meanwhile(void *arg)
{
    int *results = arg;
    results[0] = weft_group_sleep(WEFT_FOREVER);
    results[1] = weft_group_sleep(WEFT_FOREVER); /* and while it is stopping */
    return NULL;
}

TEST(cancel_ends_sleep_in_stopping_group)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group = make_group(d, "g");
    int results[2] = {0};
    weft_fiber fiber;
    CHECK_EQ(weft_group_spawn(group, &fiber, is_cancelled_meanwhile, results, NULL), 0);
    CHECK_EQ(weft_cancel(fiber), 0);
    weft_group_stop(group);
    CHECK_EQ(finish_of(group), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK(results[0] == -ECANCELED || results[0] == 0); /* the stop may have been first */
    CHECK_EQ(results[1], -ECANCELED);
    stop_dispatcher(d);
}

TEST(empty_group_finishes_on_stop)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group = make_group(d, "empty");
    weft_group_stop(group);
    CHECK_EQ(finish_of(group), 0);
    weft_group_destroy(group);
    stop_dispatcher(d);
}

static void spawns_from_post(void *arg)
{
    CHECK_EQ(weft_group_spawn(weft_group_self(), NULL, does_nothing, arg, NULL), 0);
}

#define MOST_POSTS 100000 /* not yet called */

static void counts_post(void *arg)
{
    atomic_fetch_add_explicit((_Atomic(int) *)arg, 1, memory_order_relaxed);
}

/* Only posts, which wake no fiber: the group is settled after the last of them. */
TEST(posts_without_wakes_do_not_keep_group_from_finishing)
{
    for (int i = 0; i < 20; i++) {
        weft_dispatcher *d = start_dispatcher(NULL);
        weft_group *group = make_group(d, "posts");
        for (int k = 0; k < 10; k++) {
            CHECK_EQ(weft_group_post(group, k == 5 ? spawns_from_post : calls_nothing, NULL), 0);
        }
        weft_group_stop(group);
        _Atomic(int) called = 0;
        int err, sent = 0;
        while ((err = weft_group_post(group, counts_post, &called)) == 0) {
            sent++;
            while (sent - atomic_load_explicit(&called, memory_order_relaxed) > MOST_POSTS) {
                sched_yield(); /* its thread may be late, and memory is limited */
            }
        }
        CHECK_EQ(err, -ESHUTDOWN);
        CHECK_EQ(finish_of(group), 0);
        stop_dispatcher(d);
    }
}

/* --- many ------------------------------------------------------------------------------------- */

TEST(thousand_groups_can_be_created_and_finished)
{
    enum { GROUPS = 1000 };
    static weft_group *groups[GROUPS];
    weft_dispatcher *d = start_dispatcher(NULL);
    for (int round = 0; round < 3; round++) {
        for (int i = 0; i < GROUPS; i++) {
            groups[i] = make_group(d, "one of many");
            CHECK_EQ(weft_group_spawn(groups[i], NULL, does_nothing, NULL, NULL), 0);
            weft_group_stop(groups[i]);
        }
        for (int i = 0; i < GROUPS; i++) {
            CHECK_EQ(finish_of(groups[i]), 0);
            weft_group_destroy(groups[i]);
        }
    }
    struct weft_dispatcher_stats stats;
    weft_dispatcher_stats(d, &stats);
    CHECK_EQ(stats.groups, 0);
    CHECK_EQ(stats.unfinished, 0);
    stop_dispatcher(d);
}

/* There are 65,535 numbers: they are reused. */
TEST(group_numbers_are_reused)
{
    weft_dispatcher *d;
    CHECK_EQ(weft_dispatcher_create(&d, &(struct weft_dispatcher_opts){.caller = true}), 0);
    weft_group *kept = make_group(d, "kept");
    for (int i = 0; i < 70; i++) {
        weft_group *groups[1000];
        for (int k = 0; k < 1000; k++) {
            groups[k] = make_group(d, "short");
            weft_group_stop(groups[k]);
        }
        while (!weft_future_is_done(weft_group_finished(groups[999]))) {
            CHECK(weft_dispatcher_poll(d) >= 0);
        }
        for (int k = 0; k < 1000; k++) {
            weft_group_destroy(groups[k]);
        }
    }
    weft_group_stop(kept);
    stop_dispatcher(d);
}

static void *asks_where_it_is(void *arg)
{
    CHECK(weft_group_dispatcher(weft_group_self()) == weft_dispatcher_self());
    CHECK_STR(weft_group_name(weft_group_self()), arg);
    return NULL;
}

TEST(many_dispatchers_have_independent_groups)
{
    enum { DISPATCHERS = 16 };
    weft_dispatcher *d[DISPATCHERS];
    weft_group *groups[DISPATCHERS];
    static char name[] = "a name of more than 31 bytes is kept whole, as all names are";
    CHECK(!weft_dispatcher_self());
    CHECK(!weft_group_self());
    for (int i = 0; i < DISPATCHERS; i++) {
        d[i] = start_dispatcher(&(struct weft_dispatcher_opts){.name = "my-dispatcher"});
        CHECK_STR(weft_dispatcher_name(d[i]), "my-dispatcher");
        groups[i] = make_group(d[i], name);
        CHECK_EQ(weft_group_spawn(groups[i], NULL, asks_where_it_is, name, NULL), 0);
    }
    for (int i = 0; i < DISPATCHERS; i++) {
        stop_dispatcher(d[i]);
    }
}

/* --- perf events ------------------------------------------------------------------------------ */

struct ear {
    atomic_ulong told;
    weft_pool *pool; /* the dispatcher's; set before anything runs there */
};

static void ear_hears(unsigned type, int64_t cost_ns, uint64_t count, uint64_t sum, weft_pool *pool,
                      void *arg)
{
    struct ear *ear = arg;
    (void)type, (void)cost_ns, (void)count, (void)sum;
    CHECK(pool == ear->pool);
    atomic_fetch_add(&ear->told, 1);
}

static void *sleeps_until_told(void *arg)
{
    struct ear *ear = arg;
    while (!atomic_load(&ear->told)) {
        CHECK_EQ(weft_sleep(weft_after(MS)), 0);
    }
    return NULL;
}

TEST(each_dispatcher_has_own_perf_callback)
{
    struct ear ears[2] = {0};
    weft_dispatcher *d[2];
    for (int i = 0; i < 2; i++) {
        struct weft_perf perf = {.on_event = ear_hears, .arg = &ears[i]}; /* is copied */
        CHECK_EQ(weft_dispatcher_create(&d[i], &(struct weft_dispatcher_opts){.perf = &perf}), 0);
        ears[i].pool = weft_dispatcher_pool(d[i]);
        CHECK(weft_pool_name(ears[i].pool) == weft_dispatcher_name(d[i]));
    }
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_dispatcher_start(d[i]), 0);
        CHECK_EQ(weft_group_spawn(make_group(d[i], "g"), NULL, sleeps_until_told, &ears[i], NULL),
                 0);
    }
    for (int i = 0; i < 2; i++) {
        stop_dispatcher(d[i]);
    }
    struct weft_perf none = {0};
    weft_dispatcher *without;
    CHECK_EQ(weft_dispatcher_create(&without, &(struct weft_dispatcher_opts){.perf = &none}),
             -EINVAL);
}

/* --- one group observes the end of another ---------------------------------------------------- */

static void *waits_for_the_other(void *arg)
{
    CHECK_EQ(weft_future_wait(weft_group_finished(arg), WEFT_FOREVER), 0);
    struct weft_group_stats stats;
    weft_group_stats(arg, &stats);
    CHECK_EQ(stats.state, WEFT_GROUP_FINISHED);
    weft_group_destroy(arg); /* on the dispatcher's own thread */
    return NULL;
}

TEST(fiber_can_wait_for_and_destroy_other_group)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *a = make_group(d, "a"), *b = make_group(d, "b");
    CHECK_EQ(weft_group_spawn(b, NULL, waits_for_the_other, a, NULL), 0);
    CHECK_EQ(weft_group_spawn(a, NULL, does_nothing, NULL, NULL), 0);
    weft_group_stop(a);
    weft_group_stop(b);
    CHECK_EQ(finish_of(b), 0);
    stop_dispatcher(d);
}

/* --- daemons ---------------------------------------------------------------------------------- */

static int cleaned;

static void cleans(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_sleep(weft_after(MS / 10)),
             -ECANCELED); /* it is cancelled: a waiting cleanup needs a shield */
    weft_fiber_shield_enter();
    CHECK_EQ(weft_sleep(weft_after(MS / 10)), 0);
    weft_fiber_shield_leave();
    cleaned++;
}

static void *serves_for_ever(void *arg)
{
    struct weft_fiber_cleanup cleanup;
    weft_fiber_cleanup_push(&cleanup, cleans, NULL);
    CHECK_EQ(weft_sleep(WEFT_FOREVER), -ECANCELED);
    weft_fiber_cleanup_pop(&cleanup, true);
    return arg;
}

static void *joins_a_daemon(void *arg)
{
    void *result;
    CHECK_EQ(weft_join(*(weft_fiber *)arg, &result, WEFT_FOREVER), 0);
    return result;
}

struct shop {
    weft_frame frame;
    struct weft_wait wait;
    weft_event never;
    int finals;
};

static enum weft_step shop_opens(weft_frame *f, struct weft_got got)
{
    struct shop *s = (struct shop *)f;
    (void)got;
    return weft_frame_await_event(f, &s->wait, &s->never, WEFT_FOREVER, WEFT_THEN(shop_opens));
}

static enum weft_step shop_closed(weft_frame *f, struct weft_got got)
{
    (void)got;
    ((struct shop *)f)->finals++;
    return weft_frame_done(f);
}

static enum weft_step shop_closes(weft_frame *f)
{
    return weft_frame_sleep(f, weft_after(MS / 10), WEFT_THEN(shop_closed));
}

static const struct weft_frame_kind shopping = {
    .name = "shop", .start = shop_opens, .finally = shop_closes};

static void says_nothing(weft_fiber fiber, const char *name, const weft_error *error)
{
    (void)fiber, (void)name;
    CHECK_EQ(weft_error_code(error), -ECANCELED);
}

TEST(daemons_do_not_hold_group_open_and_are_cancelled_cleanly)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group = make_group(d, "g"), *other = make_group(d, "other");
    struct weft_member_opts daemon = {.daemon = true};
    weft_fiber served, framed, joiner;
    static struct shop shop;
    int token;
    void *result;
    weft_error_fn before = weft_frame_on_error(says_nothing);
    cleaned = 0;
    weft_frame_init(&shop.frame, &shopping);
    CHECK_EQ(weft_group_spawn(group, &served, serves_for_ever, &token, &daemon), 0);
    CHECK_EQ(weft_group_spawn_frame(group, &framed, &shop.frame, &daemon), 0);
    CHECK_EQ(weft_group_spawn(other, &joiner, joins_a_daemon, &served, NULL), 0);
    struct weft_group_stats stats;
    do {
        weft_group_stats(group, &stats);
    } while (stats.daemons < 2);
    CHECK_EQ(stats.fibers, 0);
    weft_group_stop(group);
    CHECK_EQ(finish_of(group), 0);
    CHECK_EQ(cleaned, 1);
    CHECK_EQ(shop.finals, 1);
    int err = weft_join(joiner, &result, WEFT_FOREVER); /* woken by the end, or by its own cancel */
    CHECK_EQ(err, 0);
    err = weft_join(served, &result, WEFT_FOREVER);
    CHECK(err == -ESRCH ||
          (err == 0 && result == &token)); /* the first joiner has used the right */
    CHECK_EQ(weft_join(framed, NULL, WEFT_FOREVER), -ECANCELED);
    weft_frame_on_error(before);
    stop_dispatcher(d);
}

/* In its cleanup a daemon starts other fibers: daemons, which are cancelled as well, and one
 * non-daemon, which is waited for. */
static int spawned_late;

static void *late_daemon(void *arg)
{
    CHECK_EQ(weft_sleep(WEFT_FOREVER), -ECANCELED);
    spawned_late++;
    return arg;
}

static void *late_worker(void *arg)
{
    CHECK_EQ(weft_sleep(weft_after(MS)), 0);
    spawned_late++;
    return arg;
}

static void *breeds_at_its_end(void *arg)
{
    CHECK_EQ(weft_sleep(WEFT_FOREVER), -ECANCELED);
    CHECK_EQ(weft_spawn(NULL, late_daemon, NULL, NULL), 0); /* a daemon, like this fiber */
    CHECK_EQ(weft_group_spawn(weft_group_self(), NULL, late_daemon, NULL,
                              &(struct weft_member_opts){.daemon = true}),
             0);
    CHECK_EQ(weft_group_spawn(weft_group_self(), NULL, late_worker, NULL, NULL), 0);
    return arg;
}

TEST(fiber_spawned_while_group_finishes_ends_with_group)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group = make_group(d, "g");
    spawned_late = 0;
    CHECK_EQ(weft_group_spawn(group, NULL, breeds_at_its_end, NULL,
                              &(struct weft_member_opts){.daemon = true}),
             0);
    weft_group_stop(group);
    CHECK_EQ(finish_of(group), 0);
    CHECK_EQ(spawned_late, 3);
    stop_dispatcher(d);
}

static void *is_no_daemon(void *arg)
{
    CHECK(!weft_fiber_is_cancelled());
    return arg;
}

static int is_no_daemon_child(void *arg)
{
    is_no_daemon(arg);
    return 0;
}

static void *spawns_children(void *arg)
{
    weft_scope scope;
    CHECK_EQ(weft_scope_open(&scope, NULL), 0);
    for (int i = 0; i < 5; i++) {
        CHECK_EQ(weft_scope_spawn(&scope, NULL, is_no_daemon_child, NULL, NULL), 0);
        CHECK_EQ(weft_spawn(NULL, is_no_daemon, NULL, NULL), 0);
    }
    CHECK_EQ(weft_scope_close(&scope, WEFT_FOREVER), 0);
    return arg;
}

TEST(spawned_fiber_belongs_to_group_of_spawner)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group = make_group(d, "g");
    CHECK_EQ(weft_group_spawn(group, NULL, spawns_children, NULL, NULL), 0);
    weft_group_stop(group);
    CHECK_EQ(finish_of(group), 0);
    struct weft_group_stats stats;
    weft_group_stats(group, &stats);
    CHECK(stats.executed >= 11);
    stop_dispatcher(d);
}

/* --- callbacks without a group ---------------------------------------------------------------- */

struct caller {
    weft_group *group;
    int spawned;
    _Atomic(int) called;
};

static void counts_call(void *arg)
{
    atomic_fetch_add_explicit(&((struct caller *)arg)->called, 1, memory_order_relaxed);
}

static void *counts_run(void *arg)
{
    counts_call(arg);
    return NULL;
}

static void finished_then(void *arg, int err, void *value)
{
    (void)err, (void)value;
    struct caller *a = arg;
    /* On the dispatcher's thread, in no group. */
    a->spawned = weft_group_spawn(a->group, NULL, counts_run, a, NULL);
    CHECK_EQ(weft_group_post(a->group, counts_call, a), 0);
}

TEST(callback_on_dispatcher_thread_can_spawn_and_post)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    for (int i = 0; i < 100; i++) {
        weft_group *first = make_group(d, "first");
        struct caller a = {.group = make_group(d, "second"), .spawned = 1};
        CHECK_EQ(weft_future_then(weft_group_finished(first), finished_then, &a), 0);
        weft_group_stop(first);
        CHECK_EQ(finish_of(first), 0);
        while (atomic_load_explicit(&a.called, memory_order_relaxed) < 2) {
            sched_yield();
        }
        CHECK_EQ(a.spawned, 0);
        weft_group_stop(a.group);
        CHECK_EQ(finish_of(a.group), 0);
        weft_group_destroy(first);
        weft_group_destroy(a.group);
    }
    stop_dispatcher(d);
}

/* --- errors ----------------------------------------------------------------------------------- */

static void *fails(void *arg)
{
    weft_group_fail(*(int *)arg);
    CHECK(weft_group_is_stopping(weft_group_self()));
    weft_group_fail(-EIO); /* the first error counts */
    return NULL;
}

TEST(fatal_error_stops_group_and_is_its_result)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group = make_group(d, "g"), *other = make_group(d, "other");
    struct sleeper s = {.deadline = WEFT_FOREVER, .result = 1};
    int err = -EPROTO;
    CHECK_EQ(weft_group_spawn(group, NULL, sleeps_until_stop, &s, NULL), 0);
    CHECK_EQ(weft_group_spawn(group, NULL, fails, &err, NULL), 0);
    CHECK_EQ(finish_of(group), -EPROTO);
    CHECK_EQ(s.result, 0);
    CHECK(!weft_group_is_stopping(other));
    stop_dispatcher(d);
}

TEST(fatal_error_can_stop_whole_dispatcher)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group, *other = make_group(d, "other");
    int err = -EPROTO;
    struct weft_group_opts opts = {.on_fatal = WEFT_FATAL_STOPS_DISPATCHER};
    CHECK_EQ(weft_group_create(d, &group, &opts), 0);
    CHECK_EQ(weft_group_spawn(group, NULL, fails, &err, NULL), 0);
    CHECK_EQ(finish_of(group), -EPROTO);
    CHECK_EQ(finish_of(other), 0);
    CHECK_EQ(weft_group_create(d, &group, NULL), -ESHUTDOWN);
    stop_dispatcher(d);
}

static void fails_for_good(void *arg)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group;
    int err = -EPROTO;
    (void)arg;
    struct weft_group_opts opts = {.name = "vital", .on_fatal = WEFT_FATAL_ABORTS};
    CHECK_EQ(weft_group_create(d, &group, &opts), 0);
    CHECK_EQ(weft_group_spawn(group, NULL, fails, &err, NULL), 0);
    finish_of(group);
}

TEST(fatal_error_can_abort_program)
{
    char err[4096];
    CHECK(check_child(fails_for_good, NULL, err, sizeof err) != 0);
    CHECK(strstr(err, "group vital failed: Protocol error"));
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group;
    struct weft_group_opts opts = {.on_fatal = (enum weft_on_fatal)17};
    CHECK_EQ(weft_group_create(d, &group, &opts), -EINVAL);
    stop_dispatcher(d);
}

static void destroys_early(void *arg)
{
    (void)arg;
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group_destroy(make_group(d, "young"));
}

static void fails_outside(void *arg)
{
    (void)arg;
    weft_group_fail(-EIO);
}

static void sleeps_outside(void *arg)
{
    (void)arg;
    weft_group_sleep(0);
}

TEST(group_misuse_aborts_with_message)
{
    char err[4096];
    CHECK(check_child(destroys_early, NULL, err, sizeof err) != 0);
    CHECK(strstr(err, "group young is destroyed before it has finished"));
    CHECK(check_child(fails_outside, NULL, err, sizeof err) != 0);
    CHECK(strstr(err, "outside of a group"));
    CHECK(check_child(sleeps_outside, NULL, err, sizeof err) != 0);
    CHECK(strstr(err, "outside of a group"));
}
