/* labels: valgrind */
#include "base/alloc.h"
#include "supervisor/children.h"

/* --- strategies ------------------------------------------------------------------------------- */

TEST(children_start_in_order_and_stop_in_reverse)
{
    weft_host *host = make_host();
    weft_pid pid = start(host, &(struct weft_supervisor_opts){.children = abc, .count = 3});
    CHECK_STR(heard(), "+a +b +c"); /* all children run when it returns */
    struct weft_actor_info info;
    CHECK_EQ(weft_actor_info(look(pid, "b").pid, &info), 0);
    CHECK(weft_pid_equal(info.parent, pid)); /* although a plain thread has run its init */
    CHECK_EQ(stop(pid), 0);
    await("+a +b +c -c -b -a");
    end_host(host);
}

TEST(one_for_one_restarts_only_failed_child)
{
    weft_host *host = make_host();
    weft_pid pid = start(host, &(struct weft_supervisor_opts){.children = abc, .count = 3});
    tell(pid, "b", "crash");
    await("+a +b +c -b +b");
    struct weft_child_info b = await_state(pid, "b", WEFT_CHILD_RUNNING);
    CHECK_EQ(b.restarts, 1);
    CHECK_EQ(b.error, -EDOM);
    tell(pid, "b", "finish");
    await("+a +b +c -b +b -b +b");
    CHECK_EQ(stop(pid), 0);
    await("+a +b +c -b +b -b +b -c -b -a");
    end_host(host);
}

TEST(one_for_all_restarts_all_children)
{
    weft_host *host = make_host();
    weft_pid pid = start(host, &(struct weft_supervisor_opts){
                                   .strategy = WEFT_ONE_FOR_ALL, .children = abc, .count = 3});
    tell(pid, "b", "crash");
    await("+a +b +c -b -c -a +a +b +c");
    CHECK_EQ(stop(pid), 0);
    end_host(host);
}

TEST(rest_for_one_restarts_failed_and_later_children)
{
    weft_host *host = make_host();
    weft_pid pid = start(host, &(struct weft_supervisor_opts){
                                   .strategy = WEFT_REST_FOR_ONE, .children = abc, .count = 3});
    tell(pid, "b", "crash");
    await("+a +b +c -b -c +b +c");
    CHECK_EQ(stop(pid), 0);
    end_host(host);
}

TEST(transient_and_temporary_children_may_exit_normally)
{
    static const struct weft_child_spec children[] = {CHILD("t", .restart = WEFT_CHILD_TRANSIENT),
                                                      CHILD("x", .restart = WEFT_CHILD_TEMPORARY)};
    weft_host *host = make_host();
    weft_pid pid = start(host, &(struct weft_supervisor_opts){.children = children, .count = 2});
    tell(pid, "t", "crash");
    await("+t +x -t +t");
    tell(pid, "t", "finish");
    await_state(pid, "t", WEFT_CHILD_STOPPED);
    tell(pid, "x", "crash");
    struct weft_child_info x = await_state(pid, "x", WEFT_CHILD_FAILED);
    CHECK_EQ(x.error, -EDOM);
    CHECK(weft_pid_is_none(x.pid));
    await("+t +x -t +t -t -x");
    CHECK_EQ(stop(pid), 0);
    end_host(host);
}

/* --- giving up -------------------------------------------------------------------------------- */

TEST(supervisor_giving_up_is_restarted_by_its_parent)
{
    static const struct weft_supervisor_opts low = {
        .name = "low", .children = abc, .count = 2, .restarts = 1, .window_ns = 3600000 * MS};
    static const struct weft_child_spec children[] = {{.name = "low", .supervisor = &low},
                                                      CHILD("z")};
    static const struct weft_supervisor_opts top = {
        .name = "top", .children = children, .count = 2};
    weft_host *host = make_host();
    weft_pid pid = start(host, &top);
    CHECK_STR(heard(), "+a +b +z");
    weft_pid below = look(pid, "low").pid;
    tell(below, "a", "crash");
    await("+a +b +z -a +a");
    tell(below, "a", "crash");
    await("+a +b +z -a +a -a -b +a +b");
    struct weft_child_info info = await_state(pid, "low", WEFT_CHILD_RUNNING);
    CHECK_EQ(info.restarts, 1);
    CHECK_EQ(info.error, -EDOM);
    CHECK(!weft_pid_equal(info.pid, below));
    CHECK_EQ(weft_supervisor_children(below, NULL, 0), -ESRCH);
    char text[1000];
    CHECK(weft_supervisor_format(pid, text, sizeof text) > 0);
    CHECK(strstr(text, "top <") && strstr(text, " one-for-one, 2 children\n"));
    CHECK(strstr(text, "\n    low <") && strstr(text, "\n      a <"));
    CHECK(strstr(text, "running, 1 restart, last error -33\n"));
    int whole = weft_supervisor_format(pid, NULL, 0);
    CHECK_EQ(whole, (int)strlen(text));
    CHECK_EQ(stop(pid), 0);
    await("+a +b +z -a +a -a -b +a +b -z -b -a");
    end_host(host);
}

static atomic_int reason;

static int watch_it(weft_actor *self, const char *method, const weft_buf *input)
{
    weft_pid pid;
    (void)method;
    memcpy(&pid, input->data, sizeof pid);
    return weft_actor_monitor(self, weft_actor_state(self), pid);
}

static int wait_for_end(weft_actor *self, const struct weft_actor_event *events, size_t n,
                        weft_out *out)
{
    (void)self;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_DOWN) {
            atomic_store(&reason, events[i].error);
            weft_out_done(out, NULL);
        }
    }
    return 0;
}

static const struct weft_actor_kind watcher = {
    .name = "watcher", .state_bytes = sizeof(uint64_t), .init = watch_it, .step = wait_for_end};

TEST(supervisor_giving_up_exits_with_child_reason)
{
    weft_host *host = make_host();
    weft_pid pid =
        start(host, &(struct weft_supervisor_opts){
                        .children = abc, .count = 2, .restarts = 1, .window_ns = 3600000 * MS});
    weft_buf *input = weft_buf_copy(&pid, sizeof pid);
    atomic_store(&reason, 1);
    CHECK_EQ(weft_actor_spawn(host, NULL, &watcher, NULL, input), 0);
    weft_buf_free(input);
    tell(pid, "a", "crash");
    await("+a +b -a +a");
    tell(pid, "a", "crash");
    while (atomic_load(&reason) == 1) {
        sched_yield();
    }
    CHECK_EQ(atomic_load(&reason), -EDOM);
    await("+a +b -a +a -a -b");
    end_host(host);
}

TEST(failed_restarts_are_retried_with_backoff)
{
    weft_host *host = make_host();
    weft_pid pid = start(
        host, &(struct weft_supervisor_opts){
                  .children = abc, .count = 1, .restarts = 10, .backoff_ns = MS, .jitter = 10});
    atomic_store(&refusals, 4);
    int64_t from = weft_now();
    tell(pid, "a", "crash");
    await("+a -a +a");
    CHECK(weft_now() - from >= (1 + 2 + 4 + 8 + 16) * MS * 9 / 10);
    struct weft_child_info a = await_state(pid, "a", WEFT_CHILD_RUNNING);
    CHECK_EQ(a.error, -EADDRINUSE);
    CHECK_EQ(stop(pid), 0);
    end_host(host);
}

TEST(failed_initial_start_leaves_no_children)
{
    static const struct weft_child_spec children[] = {
        CHILD("a"), CHILD("b"), {.name = "no", .kind = &kind, .method = "no", .input = NULL}};
    weft_host *host = make_host();
    weft_pid pid;
    atomic_store(&refusals, 1);
    CHECK_EQ(weft_supervisor_start(
                 host, &pid, &(struct weft_supervisor_opts){.children = children, .count = 3}),
             -EADDRINUSE);
    static const char *const methods[] = {"known", NULL};
    static const struct weft_actor_kind picky = {.name = "picky", .methods = methods, .step = step};
    static const struct weft_child_spec last[] = {
        CHILD("a"), CHILD("b"), {.name = "p", .kind = &picky, .method = "unknown"}};
    CHECK_EQ(weft_supervisor_start(host, &pid,
                                   &(struct weft_supervisor_opts){.children = last, .count = 3}),
             -ENOENT);
    end_host(host); /* the search finds no actor alive */
    CHECK_EQ(strlen(heard()), strlen("+a +b -b -a"));
}

static void await_nobody(weft_host *host)
{
    struct weft_host_stats stats;
    int64_t deadline = weft_after(300000 * MS);
    do {
        sched_yield();
        CHECK(weft_now() < deadline);
        weft_host_stats(host, &stats);
    } while (stats.live > 0);
}

TEST(initial_start_without_memory_leaves_no_children)
{
    static const struct weft_supervisor_opts opts = {.children = abc, .count = 3};
    weft_host *host = make_host();
    weft_pid pid;
    int err, tries = 0;
    do {
        forget();
        weft__alloc_fail_after(++tries, true);
        err = weft_supervisor_start(host, &pid, &opts);
        weft__alloc_fail_after(0, false);
        if (err) {
            CHECK_EQ(err, -ENOMEM);
            await_nobody(host);
        }
    } while (err);
    CHECK(tries > 10); /* some of them failed after the first child had started */
    CHECK_EQ(stop(pid), 0);
    end_host(host);
}

static int refuse_supervisors(weft_host *host, weft_pid pid, const struct weft_actor_kind *who,
                              void *arg)
{
    (void)host, (void)pid, (void)arg;
    return strcmp(who->name, "supervisor") == 0 ? -EPERM : 0;
}

TEST(vetoed_supervisor_start_ends_its_children)
{
    weft_host *host = make_host();
    weft_pid pid;
    CHECK_EQ(weft_host_add_hook(host, &(struct weft_host_hook){.name = "no supervisors",
                                                               .on_start = refuse_supervisors}),
             0);
    CHECK_EQ(weft_supervisor_start(host, &pid,
                                   &(struct weft_supervisor_opts){.children = abc, .count = 3}),
             -EPERM);
    await_nobody(host);
    CHECK_EQ(strlen(heard()), strlen("+a +b +c -a -b -c"));
    end_host(host);
}

/* --- stopping --------------------------------------------------------------------------------- */

static atomic_int aborted;

static void note_abort(weft_actor *self)
{
    (void)self;
    atomic_fetch_add(&aborted, 1);
}

/* From the n-th allocation on, no memory is available until the stop must have been retried. */
static void stop_in_want(weft_pid pid, long n)
{
    atomic_store(&aborted, 0);
    weft__alloc_fail_after(n, true);
    while (weft_actor_cancel(pid, NULL) == -ENOMEM) {
        weft__alloc_fail_after(++n, true);
    }
    while (weft_supervisor_children(pid, NULL, 0) >= 0 && weft__alloc_requests() < n + 20) {
        sched_yield();
    }
    weft__alloc_fail_after(0, false);
    int err = weft_actor_join(pid, NULL, WEFT_FOREVER);
    CHECK(err == 0 || err == -ESRCH);
    CHECK_EQ(atomic_load(&aborted), 0);
}

TEST(child_stop_without_memory_is_retried_not_killed)
{
    static const struct weft_actor_kind gentle = {.name = "gentle",
                                                  .state_bytes = sizeof(struct child),
                                                  .init = begin,
                                                  .step = step,
                                                  .abort = note_abort};
    static const struct weft_child_spec children[] = {
        {.name = "a", .kind = &gentle, .method = "a", .stop_ns = 3600000 * MS},
        {.name = "b", .kind = &gentle, .method = "b", .stop_ns = 3600000 * MS}};
    weft_host *host = make_host();
    for (long n = 1; n < 8; n++) {
        weft_pid none;
        forget();
        stop_in_want(start(host, &(struct weft_supervisor_opts){.children = children, .count = 2}),
                     n);
        weft_pid dynamic =
            start(host, &(struct weft_supervisor_opts){
                            .strategy = WEFT_DYNAMIC, .children = children, .count = 1});
        for (int i = 0; i < 4; i++) {
            CHECK_EQ(weft_supervisor_add(dynamic, &none, NULL, WEFT_FOREVER), 0);
        }
        stop_in_want(dynamic, n);
    }
    end_host(host);
}

/* True if b had its step between the request and the deadline. */
static bool stop_with_a_stubborn_one(void)
{
    static const struct weft_child_spec children[] = {CHILD("a"), CHILD("b", .stop_ns = 20 * MS),
                                                      CHILD("c", .stop_ns = -1)};
    weft_host *host = make_host();
    weft_pid pid = start(host, &(struct weft_supervisor_opts){.children = children, .count = 3});
    tell(pid, "b", "stubborn");
    await("+a +b +c !b");
    tell(pid, "c", "stubborn");
    await("+a +b +c !b !c"); /* a cancel is delivered before queued messages */
    int64_t from = weft_now();
    CHECK_EQ(stop(pid), 0);
    CHECK(weft_now() - from >= 20 * MS);
    end_host(host);
    bool asked =
        strcmp(heard(), "+a +b +c !b !c -c ?b -b -a") == 0; /* c was not even asked to stop */
    CHECK(asked || strcmp(heard(), "+a +b +c !b !c -c -b -a") == 0);
    return asked;
}

TEST(child_ignoring_stop_is_killed_at_deadline)
{
    int tries = 1;
    for (; !stop_with_a_stubborn_one(); tries++) { /* a machine may be busy for 20 ms */
        CHECK(tries < 200);
    }
}

TEST(killed_supervisor_ends_its_children)
{
    static const struct weft_supervisor_opts low = {.children = abc, .count = 1};
    static const struct weft_child_spec children[] = {{.name = "low", .supervisor = &low},
                                                      CHILD("z")};
    weft_host *host = make_host();
    weft_pid pid = start(host, &(struct weft_supervisor_opts){.children = children, .count = 2});
    weft_pid below = look(pid, "low").pid, z = look(pid, "z").pid;
    CHECK_EQ(weft_actor_kill(pid), 0);
    int err = weft_actor_join(below, NULL, WEFT_FOREVER);
    CHECK(err == -ECANCELED || err == -ESRCH);
    err = weft_actor_join(z, NULL, WEFT_FOREVER);
    CHECK(err == -ECANCELED || err == -ESRCH);
    end_host(host);
    CHECK(strstr(heard(), "-a") && strstr(heard(), "-z"));
}

TEST(host_stop_stops_supervisors_without_restarts)
{
    weft_host *host = make_host();
    static const struct weft_supervisor_opts opts = {
        .children = abc, .count = 3, .restarts = WEFT_RESTARTS_UNLIMITED};
    for (int i = 0; i < 10; i++) {
        start(host, &opts);
    }
    end_host(host);
}

TEST(exit_signal_to_supervisor_stops_children_in_order)
{
    weft_host *host = make_host();
    weft_pid pid = start(host, &(struct weft_supervisor_opts){.children = abc, .count = 2});
    CHECK_EQ(weft_actor_exit(pid, 0, NULL), 0); /* a normal exit has no effect */
    CHECK_EQ(weft_actor_exit(pid, -EPERM, NULL), 0);
    int err = weft_actor_join(pid, NULL, WEFT_FOREVER);
    CHECK(err == -EPERM || err == -ESRCH);
    await("+a +b -b -a");
    end_host(host);
}

static weft_pid above; /* the supervisor of the children that report to it */

static int speak_up(weft_actor *self, const struct weft_actor_event *events, size_t n,
                    weft_out *out)
{
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        } else {
            CHECK_EQ(weft_actor_exit(above, events[i].tag ? -EPERM : 0, NULL), 0);
            return -EDOM;
        }
    }
    (void)self;
    return 0;
}

/* One worker: the supervisor reads the child's message after the child has ended. */
TEST(exit_signal_from_exited_child_is_not_its_exit)
{
    static const struct weft_actor_kind loud = {.name = "loud",
                                                .state_bytes = sizeof(struct child),
                                                .init = begin,
                                                .step = speak_up,
                                                .close = end};
    static const struct weft_child_spec children[] = {
        {.name = "l", .kind = &loud, .method = "l", .restart = WEFT_CHILD_TRANSIENT}};
    weft_host *host;
    forget();
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 1}), 0);
    above = start(host, &(struct weft_supervisor_opts){.children = children, .count = 1});
    CHECK_EQ(weft_actor_send(look(above, "l").pid, "exit", 0, NULL, WEFT_BY_POLICY), 0);
    await("+l -l +l");
    struct weft_child_info info = await_state(above, "l", WEFT_CHILD_RUNNING);
    CHECK_EQ(info.error, -EDOM);
    CHECK_EQ(info.restarts, 1);
    CHECK_EQ(weft_actor_send(info.pid, "exit", 1, NULL, WEFT_BY_POLICY), 0);
    int err = weft_actor_join(above, NULL, WEFT_FOREVER);
    CHECK(err == -EPERM || err == -ESRCH);
    await("+l -l +l -l"); /* the supervisor was asked to stop: no child is restarted */
    end_host(host);
}

/* --- services --------------------------------------------------------------------------------- */

#define REQUIRES(...)                                                                              \
    .requires = (const char *const[])                                                              \
    {                                                                                              \
        __VA_ARGS__, NULL                                                                          \
    }

TEST(services_start_after_and_stop_before_their_requirements)
{
    const struct weft_child_spec children[] = {CHILD("web", REQUIRES("db", "log")),
                                               CHILD("db", REQUIRES("log")), CHILD("log"),
                                               CHILD("cron")};
    weft_host *host = make_host();
    weft_pid pid = start(host, &(struct weft_supervisor_opts){.children = children, .count = 4});
    CHECK_STR(heard(), "+log +db +web +cron");
    struct weft_child_info infos[4];
    CHECK_EQ(weft_supervisor_children(pid, infos, 4), 4);
    CHECK_STR(infos[0].name, "log");
    CHECK_STR(weft_child_state_name(infos[0].state), "running");
    CHECK_EQ(stop(pid), 0);
    await("+log +db +web +cron -cron -web -db -log");
    end_host(host);
}

TEST(invalid_supervisor_trees_are_refused)
{
    const struct weft_child_spec twice[] = {CHILD("a"), CHILD("a")},
                                 unknown[] = {CHILD("a", REQUIRES("b"))},
                                 circle[] = {CHILD("a", REQUIRES("b")), CHILD("b", REQUIRES("a"))},
                                 nameless[] = {{.kind = &kind}}, empty[] = {{.name = "a"}};
    const struct {
        struct weft_supervisor_opts opts;
        int err;
    } bad[] = {
        {{.children = twice, .count = 2}, -EEXIST},
        {{.children = unknown, .count = 1}, -ENOENT},
        {{.children = circle, .count = 2}, -ELOOP},
        {{.children = nameless, .count = 1}, -EINVAL},
        {{.children = empty, .count = 1}, -EINVAL},
        {{.children = abc, .count = 2, .strategy = WEFT_DYNAMIC}, -EINVAL},
        {{.children = abc, .count = 1, .jitter = 99}, -EINVAL},
    };
    weft_host *host = make_host();
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        weft_pid pid;
        CHECK_EQ(weft_supervisor_start(host, &pid, &bad[i].opts), bad[i].err);
    }
    end_host(host);
}

TEST(restarted_child_keeps_registered_name)
{
    static const struct weft_child_spec children[] = {CHILD("store", .named = true)};
    weft_host *host = make_host();
    weft_pid pid = start(host, &(struct weft_supervisor_opts){.children = children, .count = 1});
    weft_pid before, after;
    CHECK_EQ(weft_actor_whereis(host, &before, "store"), 0);
    CHECK_EQ(weft_actor_send(before, "crash", 0, NULL, WEFT_BY_POLICY), 0);
    await("+store -store +store");
    while (weft_actor_whereis(host, &after, "store") != 0) {
        sched_yield(); /* it owns the name when its init has returned */
    }
    CHECK(!weft_pid_equal(before, after));
    CHECK_EQ(stop(pid), 0);
    end_host(host);
}

/* --- under load ------------------------------------------------------------------------------- */

static int crash_soon(weft_actor *self, const struct weft_actor_event *events, size_t n,
                      weft_out *out)
{
    int *hits = weft_actor_state(self);
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
            return 0;
        }
        if (++*hits == 3) {
            return -EIO;
        }
    }
    return 0;
}

TEST(concurrent_restarts_are_all_performed)
{
    static const struct weft_actor_kind fragile = {
        .name = "fragile", .state_bytes = sizeof(int), .step = crash_soon};
    static const struct weft_child_spec children[] = {{.name = "f", .kind = &fragile},
                                                      {.name = "g", .kind = &fragile}};
    weft_host *host = make_host();
    weft_pid pid = start(host, &(struct weft_supervisor_opts){.strategy = WEFT_ONE_FOR_ALL,
                                                              .children = children,
                                                              .count = 2,
                                                              .restarts = WEFT_RESTARTS_UNLIMITED});
    struct weft_child_info infos[2];
    do {
        CHECK_EQ(weft_supervisor_children(pid, infos, 2), 2);
        for (int i = 0; i < 2; i++) {
            if (infos[i].state == WEFT_CHILD_RUNNING) {
                weft_actor_send(infos[i].pid, "hit", 0, NULL, WEFT_BY_POLICY);
            }
        }
        sched_yield();
    } while (infos[0].restarts < 100);
    await_state(pid, "f", WEFT_CHILD_RUNNING);
    await_state(pid, "g", WEFT_CHILD_RUNNING);
    CHECK_EQ(look(pid, "f").restarts, look(pid, "g").restarts);
    CHECK_EQ(stop(pid), 0);
    end_host(host);
}
