/* labels: valgrind */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include <weft/weft.h>

#include "check.h"
#include "host/forced_stop.h"
#include "host/state.h"

static weft_host *make_host(unsigned workers)
{
    weft_host *host;
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = workers}), 0);
    return host;
}

static void end_host(weft_host *host)
{
    CHECK_EQ(forced_stop(host, "enough", WEFT_FOREVER), 0);
    weft_host_destroy(host);
}

static weft_buf *text(const char *s)
{
    return weft_buf_copy(s, strlen(s) + 1);
}

/* The actor has ended, possibly before it could be joined. */
static void joins(weft_pid pid, int how)
{
    int err = weft_actor_join(pid, NULL, WEFT_FOREVER);
    CHECK(err == how || err == -ESRCH);
}

/* --- receiving ------------------------------------------------------------------------- */

static int add_up(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    uint64_t *total = weft_actor_state(self);
    CHECK(weft_actor_self() == self);
    while (*total < 5050) {
        CHECK_EQ(weft_actor_receive(&event, WEFT_FOREVER), 0);
        CHECK_EQ(event->kind, WEFT_EVENT_MESSAGE);
        CHECK_STR(event->topic, "add");
        *total += event->tag;
    }
    *result = weft_buf_copy(total, sizeof *total);
    return 0;
}

static atomic_int closed;

static void count_close(weft_actor *self)
{
    (void)self;
    atomic_fetch_add(&closed, 1);
}

static int begin_at(weft_actor *self, const char *method, const weft_buf *input)
{
    uint64_t *total = weft_actor_state(self);
    CHECK(!method || strcmp(method, "count") == 0);
    memcpy(total, input->data, sizeof *total);
    return *total == 0 ? -EDOM : 0;
}

static const char *const methods[] = {"count", NULL};
static const struct weft_actor_kind adder = {.name = "adder",
                                             .state_bytes = sizeof(uint64_t),
                                             .methods = methods,
                                             .init = begin_at,
                                             .run = add_up,
                                             .close = count_close};

TEST(fiber_actor_receives_messages_and_returns_result)
{
    weft_host *host = make_host(2);
    weft_pid pid;
    uint64_t one = 1, none = 0;
    weft_buf *input = weft_buf_copy(&one, sizeof one), *bad = weft_buf_copy(&none, sizeof none);
    weft_buf *result = NULL;
    struct weft_actor_kind neither = adder, both = adder;
    neither.run = NULL;
    both.step = (int (*)(weft_actor *, const struct weft_actor_event *, size_t, weft_out *))abort;
    CHECK_EQ(weft_actor_spawn(host, &pid, &neither, "count", input), -EINVAL);
    CHECK_EQ(weft_actor_spawn(host, &pid, &both, "count", input), -EINVAL);
    CHECK_EQ(weft_actor_spawn(host, &pid, &adder, "sing", input), -ENOENT);
    CHECK_EQ(weft_actor_spawn(host, &pid, &adder, "count", bad), -EDOM);
    CHECK_EQ(atomic_load(&closed), 0);
    CHECK_EQ(weft_actor_spawn(host, &pid, &adder, "count", input), 0);
    CHECK_EQ(weft_actor_join(pid, NULL, 0), -ETIMEDOUT);
    for (uint64_t i = 2; i < 100; i++) {
        CHECK_EQ(weft_actor_send(pid, "add", i, NULL, WEFT_BY_POLICY), 0);
    }
    until(pid, WEFT_ACTOR_IDLE);
    struct weft_actor_info info = info_of(pid);
    CHECK(info.fiber);
    CHECK_EQ(info.steps, 98);
    CHECK_EQ(info.mailbox, 0);
    CHECK_STR(info.topic, "add");
    CHECK_STR(info.kind, "adder");
    CHECK_EQ(weft_actor_send(pid, "add", 100, NULL, WEFT_BY_POLICY), 0);
    int err = weft_actor_join(pid, &result, WEFT_FOREVER);
    if (err == 0) {
        CHECK_EQ(*(uint64_t *)(void *)result->data, 5050);
        weft_buf_free(result);
    } else {
        CHECK_EQ(err, -ESRCH); /* it ended before the join */
    }
    CHECK_EQ(weft_actor_send(pid, "add", 1, NULL, WEFT_BY_POLICY), -ESRCH);
    CHECK_EQ(weft_actor_info(pid, &info), -ESRCH);
    CHECK_EQ(atomic_exchange(&closed, 0), 1);
    weft_buf_free(input);
    weft_buf_free(bad);
    end_host(host);
}

static int answer(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    (void)self, (void)result;
    while (weft_actor_receive(&event, WEFT_FOREVER) == 0 && event->kind == WEFT_EVENT_MESSAGE) {
        CHECK_EQ(weft_actor_send(event->from, "answer", event->tag + 1, weft_actor_take_buf(event),
                                 WEFT_BY_POLICY),
                 0);
    }
    return 0;
}
static const struct weft_actor_kind answerer = {.name = "answerer", .run = answer};

static int ask(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    weft_pid other = *(weft_pid *)weft_actor_state(self);
    (void)result;
    for (uint64_t i = 0; i < 1000; i++) {
        CHECK_EQ(weft_actor_send(other, "ask", i, text("hello"), WEFT_BY_POLICY), 0);
        CHECK_EQ(weft_actor_receive_topic(&event, "answer", WEFT_FOREVER), 0);
        CHECK(weft_pid_equal(event->from, other));
        CHECK_EQ(event->tag, i + 1);
        CHECK_STR((char *)event->buf->data, "hello");
    }
    return 0;
}

static int know(weft_actor *self, const char *method, const weft_buf *input)
{
    (void)method;
    memcpy(weft_actor_state(self), input->data, input->len);
    return 0;
}

/* The same actor, written as steps. */
static int ask_in_steps(weft_actor *self, const struct weft_actor_event *events, size_t n,
                        weft_out *out)
{
    weft_pid other = *(weft_pid *)weft_actor_state(self);
    uint64_t next = 0;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        CHECK(weft_pid_equal(events[i].from, other));
        next = events[i].tag;
    }
    if (next == 1000) {
        weft_out_done(out, NULL);
    } else {
        CHECK_EQ(weft_actor_send(other, "ask", next, NULL, WEFT_BY_POLICY), 0);
    }
    return 0;
}

TEST(fiber_and_step_actors_exchange_messages)
{
    static const struct weft_actor_kind fiber = {
        .name = "asker", .state_bytes = sizeof(weft_pid), .init = know, .run = ask};
    static const struct weft_actor_kind steps = {
        .name = "asker", .state_bytes = sizeof(weft_pid), .init = know, .step = ask_in_steps};
    weft_host *host = make_host(2);
    weft_pid server, asker;
    CHECK_EQ(weft_actor_spawn(host, &server, &answerer, NULL, NULL), 0);
    weft_buf *input = weft_buf_copy(&server, sizeof server);
    CHECK_EQ(weft_actor_spawn(host, &asker, &fiber, NULL, input), 0);
    joins(asker, 0);
    CHECK_EQ(weft_actor_spawn(host, &asker, &steps, NULL, input), 0);
    joins(asker, 0);
    weft_buf_free(input);
    end_host(host);
}

/* --- selective receive -------------------------------------------------------------------- */

static char order[64];
static weft_pid whose;

static void note(const struct weft_actor_event *event)
{
    size_t len = strlen(order);
    order[len] = (char)event->tag;
    order[len + 1] = 0;
}

static bool is_lower(const struct weft_actor_event *event, void *arg)
{
    CHECK(arg == order);
    return event->kind == WEFT_EVENT_MESSAGE && event->tag >= 'a';
}

static bool is_cancel(const struct weft_actor_event *event, void *arg)
{
    (void)arg;
    return event->kind == WEFT_EVENT_CANCEL;
}

static int choose(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    (void)self, (void)result;
    CHECK_EQ(weft_actor_receive_topic(&event, "begin", WEFT_FOREVER), 0); /* sent last */
    CHECK_EQ(weft_actor_receive_topic(&event, "nothing", 0), -ETIMEDOUT);
    CHECK_EQ(weft_actor_receive_topic(&event, "nothing", weft_after(1000000)), -ETIMEDOUT);
    CHECK_EQ(info_of(weft_actor_pid(self)).mailbox, 6); /* 1 A b 2 c D */
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_actor_receive_topic(&event, "digit", 0), 0);
        note(event);
    }
    CHECK_EQ(weft_actor_receive_topic(&event, "digit", 0), -ETIMEDOUT);
    CHECK_EQ(weft_actor_receive_if(&event, is_lower, order, 0), 0);
    note(event);
    CHECK_EQ(weft_actor_receive(&event, 0), 0);
    note(event);
    CHECK_EQ(weft_actor_receive_if(&event, is_cancel, NULL, 0), -ETIMEDOUT);
    CHECK_EQ(weft_actor_cancel(weft_actor_pid(self), "now"), 0);
    CHECK_EQ(weft_actor_receive_topic(&event, "letter", 0), 0); /* the cancel stays pending */
    note(event);
    CHECK_EQ(weft_actor_send(weft_actor_pid(self), "letter", 'e', NULL, WEFT_BY_POLICY), 0);
    CHECK_EQ(weft_actor_receive(&event, 0), 0);
    CHECK_EQ(event->kind, WEFT_EVENT_CANCEL);
    CHECK_STR((char *)event->buf->data, "now");
    while (weft_actor_receive(&event, 0) == 0) {
        note(event);
    }
    CHECK_EQ(info_of(weft_actor_pid(self)).mailbox, 0);
    return 0;
}

TEST(selective_receive_keeps_unmatched_messages_in_order)
{
    static const struct weft_actor_kind chooser = {.name = "chooser", .run = choose};
    static const char tags[] = "1Ab2cD";
    weft_host *host = make_host(1);
    CHECK_EQ(weft_actor_spawn(host, &whose, &chooser, NULL, NULL), 0);
    for (const char *t = tags; *t; t++) {
        CHECK_EQ(weft_actor_send(whose, *t < 'A' ? "digit" : "letter", (uint64_t)*t, NULL,
                                 WEFT_BY_POLICY),
                 0);
    }
    CHECK_EQ(weft_actor_send(whose, "begin", 0, NULL, WEFT_BY_POLICY), 0);
    joins(whose, 0);
    CHECK_STR(order, "12bAcDe");
    end_host(host);
}

static int take_few(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    (void)self, (void)result;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_actor_receive_topic(&event, "wanted", WEFT_FOREVER), 0);
    }
    return 0;
}

TEST(messages_never_received_become_dead_letters)
{
    static const struct weft_actor_kind taker = {.name = "taker", .run = take_few};
    weft_host *host = make_host(1);
    struct weft_host_stats stats;
    weft_pid pid;
    CHECK_EQ(weft_actor_spawn(host, &pid, &taker, NULL, NULL), 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(weft_actor_send(pid, "unwanted", 0, text("a"), WEFT_BY_POLICY), 0);
        CHECK_EQ(weft_actor_send(pid, "wanted", 0, text("b"), WEFT_BY_POLICY), 0);
    }
    CHECK_EQ(weft_actor_send(pid, "unwanted", 0, text("c"), WEFT_BY_POLICY), 0);
    until(pid, WEFT_ACTOR_IDLE);
    CHECK_EQ(weft_actor_send(pid, "wanted", 0, text("d"), WEFT_BY_POLICY), 0);
    joins(pid, 0);
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_stats(host, &stats);
    CHECK_EQ(stats.dead_letters, 3);
    weft_host_destroy(host);
}

/* --- ends ------------------------------------------------------------------------------------- */

static atomic_int seen;

static int hear_cancel(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    (void)self, (void)result;
    CHECK_EQ(weft_actor_receive(&event, WEFT_FOREVER), 0);
    CHECK_EQ(event->kind, WEFT_EVENT_CANCEL);
    CHECK_STR((char *)event->buf->data, "please");
    CHECK(!weft_fiber_is_cancelled()); /* it may still be waiting */
    CHECK_EQ(weft_sleep(weft_after(1000)), 0);
    CHECK_EQ(weft_actor_receive(&event, 0), -ETIMEDOUT);
    atomic_fetch_add(&seen, 1);
    return -EDOM;
}

TEST(fiber_actor_cancel_is_event_and_wakes_no_other_wait)
{
    static const struct weft_actor_kind kind = {
        .name = "polite", .run = hear_cancel, .close = count_close};
    weft_host *host = make_host(1);
    weft_pid pid;
    CHECK_EQ(weft_actor_spawn(host, &pid, &kind, NULL, NULL), 0);
    until(pid, WEFT_ACTOR_IDLE);
    CHECK_EQ(weft_actor_cancel(pid, "please"), 0);
    joins(pid, -EDOM);
    CHECK_EQ(atomic_exchange(&seen, 0), 1);
    CHECK_EQ(atomic_exchange(&closed, 0), 1);
    end_host(host);
}

static int hear_kill(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    (void)self;
    CHECK_EQ(weft_actor_receive_topic(&event, "never", WEFT_FOREVER), -ECANCELED);
    CHECK(weft_fiber_is_cancelled());
    CHECK_EQ(weft_actor_receive(&event, WEFT_FOREVER), -ECANCELED); /* despite the message */
    CHECK_EQ(weft_sleep(weft_after(1000)), -ECANCELED);
    *result = text("lost");
    atomic_fetch_add(&seen, 1);
    return 0;
}

TEST(kill_ends_receive)
{
    static const struct weft_actor_kind kind = {
        .name = "victim", .run = hear_kill, .close = count_close};
    weft_host *host = make_host(2);
    struct weft_host_stats stats;
    weft_pid pid;
    CHECK_EQ(weft_actor_spawn(host, &pid, &kind, NULL, NULL), 0);
    CHECK_EQ(weft_actor_send(pid, "other", 0, text("x"), WEFT_BY_POLICY), 0);
    until(pid, WEFT_ACTOR_IDLE);
    CHECK_EQ(weft_actor_kill(pid), 0);
    joins(pid, -ECANCELED);
    CHECK_EQ(atomic_exchange(&seen, 0), 1);
    CHECK_EQ(atomic_exchange(&closed, 0), 1);
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0); /* no actor was forced */
    weft_host_stats(host, &stats);
    CHECK_EQ(stats.dead_letters, 1);
    weft_host_destroy(host);
}

static weft_event never, shielded;

static int block(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    (void)self, (void)result;
    CHECK_EQ(weft_event_wait(&never, WEFT_FOREVER), -ECANCELED);
    weft_fiber_shield_enter();
    CHECK_EQ(weft_event_wait(&shielded, WEFT_FOREVER), 0);
    CHECK_EQ(weft_actor_receive(&event, 0), -ECANCELED);
    weft_fiber_shield_leave();
    atomic_fetch_add(&seen, 1);
    weft_fiber_exit(NULL);
}

TEST(kill_ends_other_waits_and_weft_exit_ends_fiber_actor)
{
    static const struct weft_actor_kind kind = {
        .name = "blocked", .run = block, .close = count_close};
    weft_host *host = make_host(1);
    weft_pid pid;
    weft_event_init(&never, NULL);
    weft_event_init(&shielded, NULL);
    CHECK_EQ(weft_actor_spawn(host, &pid, &kind, NULL, NULL), 0);
    until(pid, WEFT_ACTOR_BLOCKED);
    CHECK_EQ(weft_actor_send(pid, "kept", 0, NULL, WEFT_BY_POLICY), 0);
    CHECK_EQ(info_of(pid).mailbox, 1);
    CHECK_EQ(info_of(pid).state, WEFT_ACTOR_BLOCKED);
    CHECK_EQ(weft_actor_kill(pid), 0);
    weft_event_set(&shielded);
    joins(pid, -ECANCELED);
    CHECK_EQ(atomic_exchange(&seen, 0), 1);
    CHECK_EQ(atomic_exchange(&closed, 0), 1);
    end_host(host);
}

static int leave(weft_actor *self, weft_buf **result)
{
    (void)self, (void)result;
    weft_fiber_exit(NULL);
}

static int never_runs(weft_actor *self, weft_buf **result)
{
    (void)self, (void)result;
    CHECK(!"it was killed before it began");
    return 0;
}

/* Runs in a step of the only worker, so that no spawned fiber starts meanwhile. */
static int spawn_and_kill(weft_actor *self, const struct weft_actor_event *events, size_t n,
                          weft_out *out)
{
    static const struct weft_actor_kind kind = {
        .name = "unborn", .run = never_runs, .close = count_close};
    (void)events, (void)n;
    weft_pid pid;
    CHECK_EQ(weft_actor_spawn(weft_actor_host(self), &pid, &kind, NULL, NULL), 0);
    CHECK(weft_pid_equal(info_of(pid).parent, weft_actor_pid(self)));
    CHECK_EQ(info_of(pid).state, WEFT_ACTOR_READY);
    CHECK_EQ(weft_actor_kill(pid), 0);
    weft_out_done(out, NULL);
    return 0;
}

TEST(fiber_actor_killed_before_start_never_runs)
{
    static const struct weft_actor_kind kind = {.name = "killer", .step = spawn_and_kill};
    static const struct weft_actor_kind leaver = {
        .name = "leaver", .run = leave, .close = count_close};
    weft_host *host = make_host(1);
    weft_pid pid;
    CHECK_EQ(weft_actor_spawn(host, &pid, &kind, NULL, NULL), 0);
    joins(pid, 0);
    CHECK_EQ(weft_actor_spawn(host, &pid, &leaver, NULL, NULL), 0);
    joins(pid, 0);
    end_host(host);
    CHECK_EQ(atomic_exchange(&closed, 0), 2);
}

static int interrupted(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    (void)self, (void)result;
    CHECK_EQ(weft_actor_receive(&event, WEFT_FOREVER), -EINTR);
    CHECK_EQ(weft_actor_receive(&event, WEFT_FOREVER), 0);
    CHECK_STR(event->topic, "go");
    return 0;
}

TEST(interrupt_ends_one_receive)
{
    static const struct weft_actor_kind kind = {.name = "interrupted", .run = interrupted};
    weft_host *host = make_host(1);
    weft_pid pid;
    CHECK_EQ(weft_actor_spawn(host, &pid, &kind, NULL, NULL), 0);
    until(pid, WEFT_ACTOR_IDLE);
    CHECK_EQ(weft_fiber_interrupt(pid.id), 0);
    CHECK_EQ(weft_actor_send(pid, "go", 0, NULL, WEFT_BY_POLICY), 0);
    joins(pid, 0);
    end_host(host);
}

/* --- relations -------------------------------------------------------------------------------- */

static weft_pid first_pid;

/* The first actor's parent links this actor to it; this actor waits for another event. */
static int be_blocked(weft_actor *self, weft_buf **result)
{
    (void)self, (void)result;
    CHECK_EQ(weft_event_wait(&never, WEFT_FOREVER), -ECANCELED);
    atomic_fetch_add(&seen, 1);
    return 0;
}

static int wait_and_fail(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    (void)self, (void)result;
    CHECK_EQ(weft_actor_receive_topic(&event, "fail", WEFT_FOREVER), 0);
    return -EDOM;
}

static bool is_down(const struct weft_actor_event *event, void *arg)
{
    return event->kind == WEFT_EVENT_DOWN && event->tag == *(uint64_t *)arg;
}

/* Spawns both actors, monitors both, and traps exits. */
static int watch(weft_actor *self, weft_buf **result)
{
    static const struct weft_actor_kind blocked = {
        .name = "blocked", .run = be_blocked, .close = count_close};
    static const struct weft_actor_kind failing = {.name = "failing", .run = wait_and_fail};
    const struct weft_actor_event *event;
    weft_host *host = weft_actor_host(self);
    uint64_t refs[3], again;
    weft_pid pids[2];
    (void)result;
    CHECK_EQ(weft_actor_spawn_with(
                 host, &pids[0], &failing,
                 &(struct weft_actor_spawn_opts){.self = self, .link = true, .monitor = &refs[0]}),
             0);
    first_pid = pids[0];
    CHECK_EQ(weft_actor_spawn_with(
                 host, &pids[1], &blocked,
                 &(struct weft_actor_spawn_opts){.self = self, .link = true, .monitor = &refs[1]}),
             0);
    CHECK_EQ(weft_actor_monitor(self, &refs[2], pids[1]), 0);
    CHECK_EQ(weft_actor_send(pids[0], "fail", 0, NULL, WEFT_BY_POLICY), 0);
    CHECK_EQ(weft_actor_receive_if(&event, is_down, &refs[0], WEFT_FOREVER), 0);
    CHECK_EQ(event->error, -EDOM);
    CHECK_EQ(weft_actor_receive(&event, WEFT_FOREVER), 0); /* from the link, which it traps */
    CHECK_EQ(event->kind, WEFT_EVENT_EXIT);
    CHECK_EQ(event->error, -EDOM);
    CHECK(weft_pid_equal(event->from, pids[0]));
    while (info_of(pids[1]).state != WEFT_ACTOR_BLOCKED) {
        weft_yield();
    }
    CHECK_EQ(weft_actor_exit(pids[1], -EXDEV, text("because")), 0); /* it does not trap */
    CHECK_EQ(weft_actor_receive_if(&event, is_down, &refs[1], WEFT_FOREVER), 0);
    CHECK_EQ(event->error, -EXDEV);
    CHECK_STR((const char *)event->reason->data, "because");
    CHECK_EQ(weft_actor_receive_topic(&event, "none", 0), -ETIMEDOUT);
    CHECK_EQ(weft_actor_demonitor(self, refs[2]), 0); /* skipped by the receive: never delivered */
    CHECK_EQ(weft_actor_receive(&event, WEFT_FOREVER), 0);
    CHECK_EQ(event->kind, WEFT_EVENT_EXIT);
    CHECK_EQ(weft_actor_receive(&event, 0), -ETIMEDOUT);
    CHECK_EQ(weft_actor_monitor(self, &again, pids[0]), 0); /* already ended */
    CHECK_EQ(weft_actor_receive_if(&event, is_down, &again, WEFT_FOREVER), 0);
    CHECK_EQ(event->error, -ESRCH);
    *result = text("done");
    return 0;
}

TEST(links_and_monitors_work_for_fiber_actors)
{
    static const struct weft_actor_kind watcher = {.name = "watcher", .run = watch, .trap = true};
    weft_host *host = make_host(2);
    weft_buf *result = NULL;
    weft_event_init(&never, NULL);
    CHECK_EQ(weft_actor_exec(host, &result, &watcher, NULL, NULL, WEFT_FOREVER), 0);
    CHECK_STR((char *)result->data, "done");
    weft_buf_free(result);
    CHECK_EQ(atomic_exchange(&seen, 0), 1);
    CHECK_EQ(atomic_exchange(&closed, 0), 1);
    end_host(host);
}

/* An untrapped exit ends a linked actor, even one that waits for another event. */
static weft_pid block_until_it_fails(weft_actor *self)
{
    static const struct weft_actor_kind failing = {.name = "failing", .run = wait_and_fail};
    weft_pid pid;
    CHECK_EQ(weft_actor_spawn_with(
                 weft_actor_host(self), &pid, &failing,
                 &(struct weft_actor_spawn_opts){.self = self, .link = true, .topic = "fail"}),
             0);
    CHECK_EQ(weft_event_wait(&never, WEFT_FOREVER), -ECANCELED);
    return pid;
}

static int link_and_block(weft_actor *self, weft_buf **result)
{
    (void)result;
    block_until_it_fails(self);
    return 0;
}

static int link_and_unlink(weft_actor *self, weft_buf **result)
{
    (void)result;
    return weft_actor_unlink(self, block_until_it_fails(self)); /* too late */
}

static int link_and_trap(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    (void)result;
    block_until_it_fails(self);
    weft_actor_trap(self, true); /* too late */
    CHECK_EQ(weft_actor_receive(&event, WEFT_FOREVER), -ECANCELED);
    return 0;
}

TEST(linked_exit_ends_fiber_actor_with_same_reason)
{
    static const struct weft_actor_kind linked = {
        .name = "linked", .run = link_and_block, .close = count_close};
    weft_host *host = make_host(2);
    weft_event_init(&never, NULL);
    CHECK_EQ(weft_actor_exec(host, NULL, &linked, NULL, NULL, WEFT_FOREVER), -EDOM);
    CHECK_EQ(atomic_exchange(&closed, 0), 1);
    end_host(host);
}

TEST(unlink_or_trap_after_linked_exit_does_not_revive_fiber_actor)
{
    static const struct weft_actor_kind unlinks = {.name = "unlinks", .run = link_and_unlink};
    static const struct weft_actor_kind traps = {.name = "traps", .run = link_and_trap};
    weft_host *host = make_host(2);
    weft_event_init(&never, NULL);
    CHECK_EQ(weft_actor_exec(host, NULL, &unlinks, NULL, NULL, WEFT_FOREVER), -EDOM);
    CHECK_EQ(weft_actor_exec(host, NULL, &traps, NULL, NULL, WEFT_FOREVER), -EDOM);
    end_host(host);
}

/* Enables trapping again and again until an exit arrives: the exit becomes an event, or ends the
 * actor with its reason. */
static atomic_int said;

static int trap_and_not(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    int err;
    (void)result;
    do {
        weft_actor_trap(self, false);
        atomic_store(&said, 1);
        weft_actor_trap(self, true);
        err = weft_actor_receive(&event, 0);
    } while (err == -ETIMEDOUT);
    CHECK(err == -ECANCELED || (event->kind == WEFT_EVENT_EXIT && event->error == -EIO));
    return err ? 0 : -EXDEV;
}

TEST(exit_racing_trap_is_event_or_exit_reason)
{
    static const struct weft_actor_kind kind = {.name = "late", .run = trap_and_not};
    weft_host *host = make_host(2);
    for (int i = 0; i < 200; i++) {
        weft_pid pid;
        atomic_store(&said, 0);
        CHECK_EQ(weft_actor_spawn(host, &pid, &kind, NULL, NULL), 0);
        while (!atomic_load(&said)) {
        }
        CHECK_EQ(weft_actor_exit(pid, -EIO, NULL), 0);
        int err = weft_actor_join(pid, NULL, WEFT_FOREVER);
        CHECK(err == -EIO || err == -EXDEV || err == -ESRCH);
    }
    end_host(host);
}

/* --- the host's end --------------------------------------------------------------------------- */

static int ignore(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    (void)self, (void)result;
    int err;
    while ((err = weft_actor_receive(&event, WEFT_FOREVER)) == 0) {
    }
    CHECK_EQ(err, -ECANCELED);
    return err;
}

TEST(host_stop_cancels_then_kills_fiber_actors_at_deadline)
{
    enum { ACTORS = 50 };
    static const struct weft_actor_kind stubborn = {
        .name = "stubborn", .run = ignore, .close = count_close};
    weft_host *host = make_host(2);
    weft_pid pid;
    atomic_store(&closed, 0);
    for (int i = 0; i < ACTORS; i++) {
        CHECK_EQ(weft_actor_spawn(host, &pid, i % 2 ? &stubborn : &answerer, NULL, NULL), 0);
    }
    int forced = forced_stop(host, "enough", weft_after(100000000));
    CHECK(forced >= ACTORS / 2 && forced <= ACTORS);
    CHECK_EQ(atomic_exchange(&closed, 0), ACTORS / 2);
    weft_host_destroy(host);
}

TEST(fiber_actor_limit_is_exact_and_refusal_leaks_nothing)
{
    static const struct weft_actor_kind stubborn = {.name = "stubborn", .run = ignore};
    weft_host *host;
    weft_pid a, b;
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 1, .max_actors = 2}), 0);
    CHECK_EQ(weft_actor_spawn(host, &a, &stubborn, NULL, NULL), 0);
    CHECK_EQ(weft_actor_spawn(host, &b, &answerer, NULL, NULL), 0);
    CHECK_EQ(weft_actor_spawn(host, NULL, &answerer, NULL, NULL), -EAGAIN);
    CHECK_EQ(weft_actor_kill(a), 0);
    joins(a, -ECANCELED);
    int err;
    do { /* its fiber ends shortly after the actor */
        err = weft_actor_spawn(host, NULL, &answerer, NULL, NULL);
    } while (err == -EAGAIN);
    CHECK_EQ(err, 0);
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_actor_spawn(host, NULL, &answerer, NULL, NULL), -ESHUTDOWN);
    weft_host_destroy(host);
}

/* --- a time slice ---------------------------------------------------------------------------- */

static atomic_bool others_ran;

static int hog(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    (void)result;
    CHECK_EQ(weft_actor_send(weft_actor_pid(self), "again", 0, NULL, WEFT_BY_POLICY), 0);
    while (!atomic_load(&others_ran)) { /* on the only worker, always with a message */
        CHECK_EQ(weft_actor_receive(&event, WEFT_FOREVER), 0);
        CHECK_EQ(weft_actor_send(weft_actor_pid(self), "again", 0, NULL, WEFT_BY_POLICY), 0);
    }
    return 0;
}

static int run_once(weft_actor *self, weft_buf **result)
{
    (void)self, (void)result;
    atomic_store(&others_ran, true);
    return 0;
}

TEST(fiber_actor_with_full_mailbox_does_not_starve_others)
{
    static const struct weft_actor_kind kinds[] = {{.name = "hog", .run = hog},
                                                   {.name = "other", .run = run_once}};
    weft_host *host = make_host(1);
    weft_pid pid;
    CHECK_EQ(weft_actor_spawn(host, &pid, &kinds[0], NULL, NULL), 0);
    while (info_of(pid).steps == 0) {
        weft_yield();
    }
    CHECK_EQ(weft_actor_spawn(host, NULL, &kinds[1], NULL, NULL), 0);
    joins(pid, 0);
    end_host(host);
}

/* --- many ------------------------------------------------------------------------------------- */

enum { SENDERS = 8, EACH = 200 };

static int pour(weft_actor *self, weft_buf **result)
{
    weft_pid to = *(weft_pid *)weft_actor_state(self);
    (void)result;
    for (uint64_t i = 0; i < EACH; i++) {
        CHECK_EQ(weft_actor_send(to, i % 2 ? "odd" : "even", i, NULL, WEFT_BY_POLICY), 0);
        if (i % 7 == 0) {
            weft_yield();
        }
    }
    return 0;
}

static int drink(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    uint64_t next[SENDERS][2] = {{0}};
    weft_pid from[SENDERS] = {{0}};
    (void)self, (void)result;
    for (int i = 0; i < SENDERS * EACH; i++) {
        bool odd = i >= SENDERS * EACH / 2; /* all odd numbers come last */
        CHECK_EQ(weft_actor_receive_topic(&event, odd ? "odd" : "even", WEFT_FOREVER), 0);
        int who = 0;
        while (!weft_pid_is_none(from[who]) && !weft_pid_equal(from[who], event->from)) {
            who++;
        }
        from[who] = event->from;
        CHECK_EQ(event->tag, 2 * next[who][odd]++ + odd);
    }
    return 0;
}

TEST(selective_receive_keeps_order_per_sender)
{
    static const struct weft_actor_kind sender = {
        .name = "sender", .state_bytes = sizeof(weft_pid), .init = know, .run = pour};
    static const struct weft_actor_kind drinker = {.name = "drinker", .run = drink};
    weft_host *host = make_host(2), *other = make_host(1);
    weft_pid pid;
    CHECK_EQ(weft_actor_spawn(host, &pid, &drinker, NULL, NULL), 0);
    weft_buf *input = weft_buf_copy(&pid, sizeof pid);
    for (int i = 0; i < SENDERS; i++) { /* on two hosts */
        CHECK_EQ(weft_actor_spawn(i % 2 ? host : other, NULL, &sender, NULL, input), 0);
    }
    joins(pid, 0);
    weft_buf_free(input);
    end_host(other);
    end_host(host);
}
