/* A dispatcher on the caller's thread: run, poll in a host's loop, deadlocks. */
#include <pthread.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <weft/inspect.h>
#include <weft/net.h>

#include "dispatch/fixture.h"
#include "obs/reports.h"

static weft_dispatcher *callers(void)
{
    weft_dispatcher *d;
    CHECK_EQ(weft_dispatcher_create(&d, &(struct weft_dispatcher_opts){.caller = true}), 0);
    return d;
}

/* --- run ------------------------------------------------------------------------------------- */

static void *sleeps_and_adds(void *arg)
{
    CHECK_EQ(weft_sleep(weft_after(MS)), 0);
    ++*(int *)arg;
    return NULL;
}

TEST(dispatcher_run_returns_when_no_group_is_left)
{
    weft_dispatcher *d = callers();
    int sum = 0;
    CHECK_EQ(weft_dispatcher_run(d), 0); /* there is none */
    for (int i = 0; i < 3; i++) {
        weft_group *group = make_group(d, "g");
        CHECK_EQ(weft_group_spawn(group, NULL, sleeps_and_adds, &sum, NULL), 0);
        weft_group_stop(group);
    }
    CHECK_EQ(weft_dispatcher_run(d), 0);
    CHECK_EQ(sum, 3);
    weft_group *more = make_group(d, "more"); /* and again */
    CHECK_EQ(weft_group_spawn(more, NULL, sleeps_and_adds, &sum, NULL), 0);
    weft_group_stop(more);
    CHECK_EQ(weft_dispatcher_run(d), 0);
    CHECK_EQ(sum, 4);
    CHECK_EQ(weft_dispatcher_stop(d, NULL, 0, WEFT_FOREVER), 0);
    CHECK_EQ(weft_dispatcher_run(d), -ESHUTDOWN);
    CHECK_EQ(weft_dispatcher_poll(d), -ESHUTDOWN);
    weft_dispatcher_destroy(d);
}

static void *runs_it(void *arg)
{
    CHECK_EQ(weft_dispatcher_run(arg), -EINVAL);
    CHECK_EQ(weft_dispatcher_poll(arg), -EINVAL);
    return NULL;
}

static void *runs_inside(void *arg)
{
    CHECK_EQ(weft_dispatcher_run(arg), -EBUSY);
    CHECK_EQ(weft_dispatcher_poll(arg), -EBUSY);
    return NULL;
}

TEST(only_caller_thread_can_run_dispatcher)
{
    weft_dispatcher *d = callers(), *own = start_dispatcher(NULL);
    pthread_t thread;
    CHECK_EQ(pthread_create(&thread, NULL, runs_it, d), 0);
    pthread_join(thread, NULL);
    CHECK_EQ(weft_dispatcher_run(own), -EINVAL);
    CHECK_EQ(weft_dispatcher_poll(own), -EINVAL);
    CHECK_EQ(weft_dispatcher_fd(own), -EINVAL);
    weft_group *group = make_group(d, "g");
    CHECK_EQ(weft_group_spawn(group, NULL, runs_inside, d, NULL), 0);
    weft_group_stop(group);
    CHECK_EQ(weft_dispatcher_run(d), 0);
    stop_dispatcher(d);
    stop_dispatcher(own);
}

/* The dispatcher is not running: its stop returns an error. */
static void *stops_it(void *arg)
{
    CHECK_EQ(weft_dispatcher_stop(arg, NULL, 0, WEFT_FOREVER), -EDEADLK);
    return NULL;
}

TEST(stop_from_other_thread_needs_caller)
{
    weft_dispatcher *d = callers();
    pthread_t thread;
    int sum = 0;
    CHECK_EQ(weft_group_spawn(make_group(d, "g"), NULL, sleeps_and_adds, &sum, NULL), 0);
    CHECK_EQ(pthread_create(&thread, NULL, stops_it, d), 0);
    pthread_join(thread, NULL);
    CHECK_EQ(weft_dispatcher_stop(d, NULL, 0, WEFT_FOREVER),
             0); /* the caller's stop serves meanwhile */
    CHECK_EQ(sum, 1);
    weft_dispatcher_destroy(d);
}

static void *never_ends(void *arg)
{
    while (weft_sleep(WEFT_FOREVER) != -ECANCELED) {
    }
    return arg;
}

static int stop_a_late_one(void)
{
    weft_dispatcher *d;
    struct weft_dispatcher_opts opts = {.caller = true, .on_overdue = WEFT_OVERDUE_CANCEL};
    const char *late[2] = {NULL};
    CHECK_EQ(weft_dispatcher_create(&d, &opts), 0);
    CHECK_EQ(weft_group_spawn(make_group(d, "late"), NULL, never_ends, NULL, NULL), 0);
    int n = weft_dispatcher_stop(d, late, 2, weft_after(MS));
    CHECK_STR(late[0], "late");
    CHECK_EQ(weft_dispatcher_stop(d, NULL, 0, WEFT_FOREVER), 0);
    weft_dispatcher_destroy(d);
    return n;
}

TEST(stop_with_deadline_by_caller_names_late_group)
{
    int n = -EBUSY;
    for (int tries = 0; tries < 20 && n == -EBUSY; tries++) { /* as in test/dispatch/stop.c */
        n = stop_a_late_one();
    }
    CHECK_EQ(n, 1);
}

/* --- a host's loop ---------------------------------------------------------------------------- */

struct host {
    weft_dispatcher *d;
    weft_group *group;
    int epoll, fds[2], echoed, ticks;
    weft_fiber echo;
};

static void *echoes(void *arg)
{
    struct host *h = arg;
    char c;
    while (weft_read(h->fds[0], &c, 1, WEFT_FOREVER) == 1) {
        CHECK_EQ(weft_write(h->fds[0], &c, 1, WEFT_FOREVER), 1);
        h->echoed++;
    }
    return NULL;
}

static void *ticks(void *arg)
{
    struct host *h = arg;
    for (h->ticks = 0; h->ticks < 5; h->ticks++) {
        CHECK_EQ(weft_sleep(weft_after(MS)), 0);
    }
    return NULL;
}

/* One iteration of the host's own loop: its own descriptor, the dispatcher's, the nearest
 * deadline. */
static void turn(struct host *h)
{
    struct epoll_event events[2];
    int64_t deadline = weft_dispatcher_next_deadline(h->d), now = weft_now();
    int ms = deadline == WEFT_FOREVER ? -1
             : deadline <= now        ? 0
                                      : (int)((deadline - now + MS - 1) / MS);
    int n = epoll_wait(h->epoll, events, 2, ms);
    CHECK(n >= 0 || errno == EINTR); /* the watchdog may interrupt a thread to sample its stack */
    for (int i = 0; i < n; i++) {
        if (events[i].data.fd == h->fds[1]) {
            char c;
            CHECK_EQ(read(h->fds[1], &c, 1), 1);
            if (c < 'e') {
                c++;
                CHECK_EQ(write(h->fds[1], &c, 1), 1);
            } else {
                shutdown(h->fds[1], SHUT_WR);
            }
        }
    }
    CHECK(weft_dispatcher_poll(h->d) >= 0);
}

static void watch(const struct host *h, int fd)
{
    struct epoll_event event = {.events = EPOLLIN, .data.fd = fd};
    CHECK_EQ(epoll_ctl(h->epoll, EPOLL_CTL_ADD, fd, &event), 0);
}

static void *posts_later(void *arg)
{
    struct host *h = arg;
    weft_group_stop(h->group); /* from another thread: the host's wait ends */
    return NULL;
}

TEST(dispatcher_runs_inside_epoll_loop)
{
    struct host h = {.d = callers(), .epoll = epoll_create1(EPOLL_CLOEXEC)};
    pthread_t thread;
    CHECK_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, h.fds), 0);
    h.group = make_group(h.d, "g");
    watch(&h, h.fds[1]);
    watch(&h, weft_dispatcher_fd(h.d));
    CHECK_EQ(weft_group_spawn(h.group, NULL, echoes, &h, NULL), 0);
    CHECK_EQ(weft_group_spawn(h.group, NULL, ticks, &h, NULL), 0);
    CHECK_EQ(weft_dispatcher_poll(h.d) >= 0, 1);
    CHECK_EQ(write(h.fds[1], "a", 1), 1);
    while (h.ticks < 5 || h.echoed < 5) {
        turn(&h);
    }
    CHECK_EQ(pthread_create(&thread, NULL, posts_later, &h), 0);
    while (!weft_future_is_done(weft_group_finished(h.group))) {
        turn(&h);
    }
    pthread_join(thread, NULL);
    CHECK_EQ(h.echoed, 5);
    stop_dispatcher(h.d);
    close(h.epoll);
    close(h.fds[0]);
    close(h.fds[1]);
}

static void *yields_until(void *arg)
{
    while (!*(volatile bool *)arg) {
        weft_yield();
    }
    return NULL;
}

TEST(endlessly_yielding_fiber_does_not_block_poll)
{
    weft_dispatcher *d = callers();
    weft_group *group = make_group(d, "g");
    bool over = false;
    CHECK_EQ(weft_group_spawn(group, NULL, yields_until, &over, NULL), 0);
    for (int i = 0; i < 100; i++) {
        int n = weft_dispatcher_poll(d);
        CHECK(n >= 1 && n <= (i ? 64 : 128)); /* a wake-up meanwhile makes it check again */
        CHECK(weft_dispatcher_next_deadline(d) <= weft_now());
        struct epoll_event event;
        CHECK_EQ(epoll_wait(weft_dispatcher_fd(d), &event, 1, 0), 1);
    }
    over = true;
    weft_group_stop(group);
    stop_dispatcher(d);
}

TEST(max_poll_bounds_next_deadline_of_host)
{
    weft_dispatcher *d;
    struct weft_dispatcher_opts opts = {.caller = true, .max_poll_ns = 5 * MS};
    CHECK_EQ(weft_dispatcher_create(&d, &opts), 0);
    CHECK_EQ(weft_dispatcher_poll(d), 0);
    CHECK(weft_dispatcher_next_deadline(d) <= weft_now() + 5 * MS);
    stop_dispatcher(d);
}

/* --- deadlocks -------------------------------------------------------------------------------- */

static char found[4096];

static void keeps_report(enum weft_report_kind kind, const char *text, void *arg)
{
    (void)kind, (void)arg;
    snprintf(found, sizeof found, "%s", text);
}

static void *waits_for_ever(void *arg)
{
    return (void *)(intptr_t)weft_event_wait(arg, WEFT_FOREVER);
}

static void deadlocks(void *arg)
{
    struct weft_dispatcher_opts opts = {.caller = true, .on_overdue = WEFT_OVERDUE_CANCEL};
    weft_dispatcher *d;
    weft_event event;
    (void)arg;
    weft_event_init(&event, &(struct weft_sync_opts){.name = "godot"});
    ignore_other_threads();
    weft_on_report(keeps_report, NULL);
    CHECK_EQ(weft_dispatcher_create(&d, &opts), 0);
    weft_group *group = make_group(d, "g");
    CHECK_EQ(weft_group_spawn(group, NULL, waits_for_ever, &event, NULL), 0);
    weft_group_stop(group);
    CHECK_EQ(weft_dispatcher_run(d), -EDEADLK);
    CHECK(strstr(found, "godot"));
    CHECK_EQ(weft_dispatcher_stop(d, NULL, 0, WEFT_FOREVER), -EDEADLK);
    int late = weft_dispatcher_stop(d, NULL, 0, weft_after(0)); /* it is cancelled */
    CHECK(late == 1 || (late == -EBUSY && weft_dispatcher_stop(d, NULL, 0, WEFT_FOREVER) == 0));
    weft_dispatcher_destroy(d);
}

TEST(deadlock_is_reported_and_ends_dispatcher_run)
{
    char err[8192];
    int status = check_child(deadlocks, NULL, err, sizeof err);
    if (status != 0) {
        fputs(err, stderr);
    }
    CHECK_EQ(status, 0);
}
