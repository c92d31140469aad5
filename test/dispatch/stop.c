/* Stopping a dispatcher: with a deadline, twice, from inside, before it was started, while other
 * threads use it. */
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>

#include "dispatch/fixture.h"

static void *never_ends(void *arg)
{
    while (weft_sleep(WEFT_FOREVER) != -ECANCELED) {
    }
    return arg;
}

/* In a shield, so that only the event ends the wait. */
static void *ends_late(void *arg)
{
    weft_fiber_shield_enter();
    CHECK_EQ(weft_event_wait(arg, WEFT_FOREVER), 0);
    weft_fiber_shield_leave();
    return NULL;
}

static void *waits_for_stop(void *arg)
{
    CHECK_EQ(weft_group_sleep(WEFT_FOREVER), 0);
    return arg;
}

/* Waits until each fiber of the group has reached its wait. */
static void await_rest(weft_group *group, unsigned fibers)
{
    struct weft_group_stats stats;
    do {
        sched_yield();
        weft_group_stats(group, &stats);
    } while (stats.executed < fibers || stats.ready > 0);
}

/* Redirects stderr to a file. */
static int hide_stderr(FILE **file)
{
    *file = tmpfile();
    CHECK(*file);
    fflush(stderr);
    int before = dup(2);
    CHECK(before >= 0 && dup2(fileno(*file), 2) == 2);
    return before;
}

/* Returns whether the file contains `what`. */
static bool says(FILE *file, const char *what)
{
    static char text[65536];
    ssize_t n = pread(fileno(file), text, sizeof text - 1, 0);
    CHECK(n >= 0);
    text[n] = 0;
    return strstr(text, what);
}

static void show_stderr(int before, FILE *file, char *text, size_t size)
{
    fflush(stderr);
    dup2(before, 2);
    close(before);
    rewind(file);
    size_t n = fread(text, 1, size - 1, file);
    text[n] = 0;
    fclose(file);
}

/* Returns the result of the stop. -EBUSY: cancelled fibers have one second to end, which a busy
 * machine may exceed. */
static int stop_two_late_ones(void)
{
    weft_dispatcher *d =
        start_dispatcher(&(struct weft_dispatcher_opts){.on_overdue = WEFT_OVERDUE_CANCEL});
    weft_group *good = make_group(d, "good"), *bad = make_group(d, "bad one"),
               *worse = make_group(d, "worse");
    const char *late[1] = {NULL};
    static char text[65536];
    FILE *file;
    CHECK_EQ(weft_group_spawn(good, NULL, waits_for_stop, NULL, NULL), 0);
    CHECK_EQ(weft_group_spawn(bad, NULL, never_ends, NULL,
                              &(struct weft_member_opts){.name = "stubborn"}),
             0);
    CHECK_EQ(weft_group_spawn(worse, NULL, never_ends, NULL, NULL), 0);
    weft_group_stop(good);
    CHECK_EQ(finish_of(good), 0);
    await_rest(bad, 1);
    await_rest(worse, 1);
    int before = hide_stderr(&file);
    int n = weft_dispatcher_stop(d, late, 1, weft_after(MS));
    show_stderr(before, file, text, sizeof text);
    CHECK(late[0] && (strcmp(late[0], "bad one") == 0 || strcmp(late[0], "worse") == 0));
    CHECK(strstr(text, "2 groups have not finished in time; their fibers are cancelled"));
    CHECK(strstr(text, "group bad one: stopping fibers=1"));
    CHECK(strstr(text, "group good: finished"));
    CHECK(strstr(text, "stubborn"));
    CHECK(strstr(text, "group=bad one"));
    CHECK_EQ(finish_of(good), 0);
    CHECK_EQ(finish_of(bad), 0);
    CHECK_EQ(finish_of(worse), 0);
    CHECK_EQ(weft_dispatcher_stop(d, NULL, 0, weft_after(MS)), 0); /* again: nothing is left */
    CHECK_EQ(weft_dispatcher_start(d), -ESHUTDOWN);
    weft_dispatcher_destroy(d);
    return n;
}

TEST(stop_at_deadline_cancels_dumps_and_names_late_groups)
{
    int n = -EBUSY;
    for (int tries = 0; tries < 20 && n == -EBUSY; tries++) {
        n = stop_two_late_ones();
    }
    CHECK_EQ(n, 2);
}

struct stopper {
    weft_dispatcher *d;
    int result;
};

static void *stops_soon(void *arg)
{
    struct stopper *s = arg;
    s->result = weft_dispatcher_stop(s->d, NULL, 0, weft_after(MS));
    return NULL;
}

TEST(stop_at_deadline_can_warn_and_keep_waiting)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *group = make_group(d, "slow");
    weft_event event;
    static char text[65536];
    FILE *file;
    struct stopper s = {.d = d, .result = -1};
    pthread_t thread;
    weft_event_init(&event, NULL);
    CHECK_EQ(weft_group_spawn(group, NULL, ends_late, &event, NULL), 0);
    await_rest(group, 1);
    int before = hide_stderr(&file);
    CHECK_EQ(pthread_create(&thread, NULL, stops_soon, &s), 0);
    while (!says(file, "event")) { /* it has warned, with the reason */
        sched_yield();
    }
    weft_event_set(&event);
    pthread_join(thread, NULL);
    show_stderr(before, file, text, sizeof text);
    CHECK_EQ(s.result, 1);
    CHECK(strstr(text, "1 group has not finished in time\n"));
    CHECK(strstr(text, "event"));
    CHECK(!strstr(text, "cancelled"));
    CHECK_EQ(finish_of(group), 0);
    weft_dispatcher_destroy(d);
}

TEST(stop_is_busy_while_cancelled_fiber_does_not_end)
{
    weft_dispatcher *d =
        start_dispatcher(&(struct weft_dispatcher_opts){.on_overdue = WEFT_OVERDUE_CANCEL});
    weft_group *group = make_group(d, "shielded");
    weft_event event;
    static char text[65536];
    FILE *file;
    const char *late[4];
    weft_event_init(&event, NULL);
    CHECK_EQ(weft_group_spawn(group, NULL, ends_late, &event, NULL), 0);
    await_rest(group, 1);
    int before = hide_stderr(&file);
    int busy = weft_dispatcher_stop(d, late, 4, weft_after(MS));
    show_stderr(before, file, text, sizeof text);
    CHECK_EQ(busy, -EBUSY);
    CHECK_STR(late[0], "shielded");
    weft_event_set(&event);
    CHECK_EQ(weft_dispatcher_stop(d, late, 4, WEFT_FOREVER), 0);
    weft_dispatcher_destroy(d);
}

/* --- twice, inside, before ------------------------------------------------------------------ */

static void *stops_from_inside(void *arg)
{
    CHECK_EQ(weft_dispatcher_stop(weft_dispatcher_self(), NULL, 0, WEFT_FOREVER), -EINPROGRESS);
    CHECK(weft_group_is_stopping(weft_group_self()));
    weft_group *group;
    CHECK_EQ(weft_group_create(weft_dispatcher_self(), &group, NULL), -ESHUTDOWN);
    CHECK_EQ(weft_spawn(NULL, waits_for_stop, NULL, NULL), 0); /* existing fibers may continue */
    return arg;
}

TEST(stop_from_inside_begins_and_other_thread_completes)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_group *a = make_group(d, "a"), *b = make_group(d, "b");
    CHECK_EQ(weft_group_spawn(b, NULL, waits_for_stop, NULL, NULL), 0);
    CHECK_EQ(weft_group_spawn(a, NULL, stops_from_inside, NULL, NULL), 0);
    CHECK_EQ(finish_of(a), 0);
    CHECK_EQ(finish_of(b), 0);
    stop_dispatcher(d);
}

static void *stops_for_ever(void *arg)
{
    struct stopper *s = arg;
    s->result = weft_dispatcher_stop(s->d, NULL, 0, WEFT_FOREVER);
    return NULL;
}

TEST(concurrent_dispatcher_stops_all_succeed)
{
    for (int i = 0; i < 20; i++) {
        weft_dispatcher *d = start_dispatcher(NULL);
        struct stopper s[4];
        pthread_t threads[4];
        CHECK_EQ(weft_group_spawn(make_group(d, "g"), NULL, waits_for_stop, NULL, NULL), 0);
        for (int k = 0; k < 4; k++) {
            s[k] = (struct stopper){.d = d, .result = -1};
            CHECK_EQ(pthread_create(&threads[k], NULL, stops_for_ever, &s[k]), 0);
        }
        for (int k = 0; k < 4; k++) {
            pthread_join(threads[k], NULL);
            CHECK_EQ(s[k].result, 0);
        }
        weft_dispatcher_destroy(d);
    }
}

static void *sets_flag(void *arg)
{
    *(int *)arg = 1;
    return NULL;
}

TEST(dispatcher_stop_before_start_runs_existing_fibers)
{
    weft_dispatcher *d;
    int flag = 0;
    CHECK_EQ(weft_dispatcher_create(&d, NULL), 0);
    CHECK_EQ(weft_group_spawn(make_group(d, "g"), NULL, sets_flag, &flag, NULL), 0);
    stop_dispatcher(d);
    CHECK_EQ(flag, 1);
    CHECK_EQ(weft_dispatcher_create(&d, NULL), 0);
    stop_dispatcher(d);
    CHECK_EQ(weft_dispatcher_create(&d, NULL), 0);
    weft_dispatcher_destroy(d); /* never started */
    weft_dispatcher_destroy(NULL);
}

/* --- while other threads use it --------------------------------------------------------------- */

struct busy {
    weft_dispatcher *d;
    weft_group *shared;
    _Atomic(int) created, ran, accepted;
};

static void *counts_run(void *arg)
{
    atomic_fetch_add_explicit(&((struct busy *)arg)->ran, 1, memory_order_relaxed);
    return NULL;
}

static void counts_post(void *arg)
{
    counts_run(arg);
}

/* Creates groups and uses them until the dispatcher refuses; not many more than it can end in a
 * test's time. */
static void *keeps_it_busy(void *arg)
{
    struct busy *b = arg;
    for (;;) {
        weft_group *group;
        while (atomic_load_explicit(&b->created, memory_order_relaxed) > 400 &&
               !weft_group_is_stopping(b->shared)) {
            sched_yield();
        }
        int err = weft_group_create(b->d, &group, NULL);
        if (err) {
            CHECK_EQ(err, -ESHUTDOWN);
            return NULL;
        }
        atomic_fetch_add_explicit(&b->created, 1, memory_order_relaxed);
        weft_group *both[2] = {group, b->shared};
        for (int i = 0; i < 2; i++) {
            int spawned = weft_group_spawn(both[i], NULL, counts_run, b, NULL);
            int posted = weft_group_post(both[i], counts_post, b);
            CHECK(spawned == 0 || spawned == -ESHUTDOWN);
            CHECK(posted == 0 || posted == -ESHUTDOWN);
            atomic_fetch_add_explicit(&b->accepted, (spawned == 0) + (posted == 0),
                                      memory_order_relaxed);
        }
    }
}

TEST(groups_can_be_created_and_posted_to_during_stop)
{
    for (int i = 0; i < 10; i++) {
        struct busy b = {.d = start_dispatcher(NULL)};
        pthread_t threads[3];
        b.shared = make_group(b.d, "shared");
        for (int k = 0; k < 3; k++) {
            CHECK_EQ(pthread_create(&threads[k], NULL, keeps_it_busy, &b), 0);
        }
        while (atomic_load(&b.created) < 20 * i) {
            sched_yield();
        }
        CHECK_EQ(weft_dispatcher_stop(b.d, NULL, 0, WEFT_FOREVER), 0);
        for (int k = 0; k < 3; k++) {
            pthread_join(threads[k], NULL);
        }
        CHECK_EQ(atomic_load(&b.ran), atomic_load(&b.accepted));
        weft_dispatcher_destroy(b.d);
    }
}

/* --- the underlying pool -------------------------------------------------------------------- */

static void *gives_its_pool(void *arg)
{
    *(weft_pool **)arg = weft_pool_self();
    CHECK_EQ(weft_pool_stop(weft_pool_self(), WEFT_STOP_CANCEL, 0), -EINVAL);
    CHECK_EQ(weft_group_sleep(WEFT_FOREVER), 0);
    return NULL;
}

TEST(pool_of_dispatcher_rejects_direct_use)
{
    weft_dispatcher *d = start_dispatcher(NULL);
    weft_pool *pool = NULL;
    weft_group *group = make_group(d, "g");
    CHECK_EQ(weft_group_spawn(group, NULL, gives_its_pool, &pool, NULL), 0);
    await_rest(group, 1);
    CHECK_STR(weft_pool_name(pool), "dispatch");
    CHECK_EQ(weft_pool_workers(pool), 1);
    CHECK_EQ(weft_pool_start(pool), -EINVAL);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_pool_run(pool, NULL, sets_flag, NULL, WEFT_FOREVER), -EINVAL);
    CHECK_EQ(weft_pool_poll(pool), -EINVAL);
    CHECK_EQ(weft_pool_spawn(pool, NULL, sets_flag, NULL, NULL), -EINVAL);
    CHECK_EQ(weft_pool_submit(pool, sets_flag, NULL), -EINVAL);
    CHECK_EQ(weft_pool_submit_batch(pool, &(struct weft_job){sets_flag, NULL}, 1), -EINVAL);
    CHECK_EQ(weft_pool_call(pool, NULL, WEFT_ANY_WORKER, sets_flag, NULL, WEFT_FOREVER), -EINVAL);
    weft_frame frame;
    static const struct weft_frame_kind kind = {.name = "party", .start = party_step};
    weft_frame_init(&frame, &kind);
    CHECK_EQ(weft_pool_spawn_frame(pool, NULL, &frame, NULL), -EINVAL);
    weft_fiber fiber;
    CHECK_EQ(weft_fiber_create(&fiber, sets_flag, NULL, NULL), 0);
    CHECK_EQ(weft_fiber_submit(fiber, pool, WEFT_ANY_WORKER), -EINVAL);
    CHECK_EQ(weft_fiber_discard(fiber), 0);
    stop_dispatcher(d);
}
