/* labels: valgrind */
/* Calls that are never answered: every way in which the called actor can end, for callers that are
 * plain threads, fibers and steps. Deadlines are long, so a caller that waits for its deadline
 * fails the test. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "base/alloc.h"
#include "check.h"

#define MS ((int64_t)1000000)
#define LONG weft_after(120000 * MS)

/* --- the server: what each topic makes it do -------------------------------------------------- */

struct server {
    uint64_t kept[16];
    int count;
    bool answers_at_close;
};

static weft_host *host;
static weft_pid pid; /* the server's state */
static atomic_int kept;

static int hear(struct server *s, const struct weft_actor_event *e, weft_out *out)
{
    const char *topic = e->topic ? e->topic : "";
    if (e->kind == WEFT_EVENT_CALL && strcmp(topic, "keep") == 0) {
        s->kept[s->count++] = e->tag;
        atomic_fetch_add(&kept, 1);
    } else if (e->kind == WEFT_EVENT_CALL && strcmp(topic, "echo") == 0) {
        CHECK_EQ(weft_actor_reply(e->tag, 0, weft_actor_take_buf(e)), 0);
    } else if (strcmp(topic, "answer") == 0) { /* the kept references */
        while (s->count > 0) {
            CHECK_EQ(weft_actor_reply(s->kept[--s->count], 0, NULL), 0);
        }
    } else if (strcmp(topic, "answer at close") == 0) {
        s->answers_at_close = true;
    } else if (strcmp(topic, "fail") == 0) {
        return -EIO;
    } else if (strcmp(topic, "exit") == 0) {
        CHECK_EQ(weft_out_exit(out, -EPROTO, NULL), 0);
    } else if (strcmp(topic, "done") == 0 || e->kind == WEFT_EVENT_CANCEL) {
        weft_out_done(out, NULL);
    }
    return 0;
}

static int serve(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    int err = 0;
    weft_out_idle(out);
    for (size_t i = 0; i < n && !err; i++) {
        err = hear(weft_actor_state(self), &events[i], out);
    }
    return err;
}

static void close_server(weft_actor *self)
{
    struct server *s = weft_actor_state(self);
    while (s->answers_at_close && s->count > 0) {
        CHECK_EQ(weft_actor_reply(s->kept[--s->count], 0, NULL), 0);
    }
}

static const struct weft_actor_kind server = {
    .name = "server", .state_bytes = sizeof(struct server), .step = serve, .close = close_server};

/* The same server as a fiber actor. */
static int serve_in_fiber(weft_actor *self, weft_buf **result)
{
    (void)result;
    for (;;) {
        const struct weft_actor_event *e;
        int err = weft_actor_receive(&e, WEFT_FOREVER);
        if (err) {
            return err;
        }
        if (strcmp(e->topic ? e->topic : "", "fail") == 0) {
            return -EIO;
        }
        if (e->kind == WEFT_EVENT_CANCEL || strcmp(e->topic, "done") == 0) {
            return 0;
        }
        hear(weft_actor_state(self), e, NULL);
    }
}

static const struct weft_actor_kind fiber_server = {
    .name = "fiber server", .state_bytes = sizeof(struct server), .run = serve_in_fiber};

/* --- the callers ------------------------------------------------------------------------------ */

struct caller {
    const char *topic;
    int err;
    atomic_bool over;
};

static void call(struct caller *caller)
{
    caller->err = weft_actor_call(pid, NULL, caller->topic, NULL, LONG);
    atomic_store(&caller->over, true);
}

static void *call_in_thread(void *arg)
{
    call(arg);
    return NULL;
}

static int call_in_step(weft_actor *self, const struct weft_actor_event *events, size_t n,
                        weft_out *out)
{
    struct caller *caller = *(struct caller **)weft_actor_state(self);
    if (n == 0 || events[0].kind != WEFT_EVENT_COMPLETE) {
        return weft_out_call(out, 1, pid, caller->topic, NULL, LONG);
    }
    CHECK_EQ(n, 1);
    caller->err = events[0].error;
    atomic_store(&caller->over, true);
    weft_out_done(out, NULL);
    return 0;
}

static int init_step(weft_actor *self, const char *method, const weft_buf *input)
{
    (void)method;
    memcpy(weft_actor_state(self), input->data, sizeof(struct caller *));
    return 0;
}

static const struct weft_actor_kind step_caller = {.name = "step caller",
                                                   .state_bytes = sizeof(struct caller *),
                                                   .init = init_step,
                                                   .step = call_in_step};

static struct caller callers[3];
static pthread_t thread;
static weft_pool *pool;
static weft_pid step_pid;

static void start_callers(const char *topic)
{
    for (int i = 0; i < 3; i++) {
        callers[i].topic = topic;
        callers[i].err = 1;
        atomic_store(&callers[i].over, false);
    }
    struct caller *third = &callers[2];
    weft_buf *input = weft_buf_copy(&third, sizeof third);
    CHECK_EQ(pthread_create(&thread, NULL, call_in_thread, &callers[0]), 0);
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1}), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    CHECK_EQ(weft_pool_submit(pool, call_in_thread, &callers[1]), 0);
    CHECK_EQ(weft_actor_spawn(host, &step_pid, &step_caller, NULL, input), 0);
    weft_buf_free(input);
}

static void join_callers(int err)
{
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
    weft_actor_join(step_pid, NULL, WEFT_FOREVER);
    for (int i = 0; i < 3; i++) {
        CHECK(atomic_load(&callers[i].over));
        CHECK_EQ(callers[i].err, err);
    }
}

static void await_kept(int n)
{
    while (atomic_load(&kept) < n) {
        sched_yield();
    }
}

static void await_mailbox(unsigned n)
{
    struct weft_actor_info info;
    do {
        CHECK_EQ(weft_actor_info(pid, &info), 0);
        sched_yield();
    } while (info.mailbox < n);
}

static void begin(const struct weft_actor_kind *kind)
{
    atomic_store(&kept, 0);
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 2}), 0);
    CHECK_EQ(weft_actor_spawn(host, &pid, kind, NULL, NULL), 0);
}

static void finish(void)
{
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
}

/* --- ways to end ------------------------------------------------------------------------------ */

static void by_error(void)
{
    CHECK_EQ(weft_actor_send(pid, "fail", 0, NULL, WEFT_BY_POLICY), 0);
}
static void normally(void)
{
    CHECK_EQ(weft_actor_send(pid, "done", 0, NULL, WEFT_BY_POLICY), 0);
}
static void by_exit(void)
{
    CHECK_EQ(weft_actor_send(pid, "exit", 0, NULL, WEFT_BY_POLICY), 0);
}
static void by_kill(void)
{
    CHECK_EQ(weft_actor_kill(pid), 0);
}
static void by_cancel(void)
{
    CHECK_EQ(weft_actor_cancel(pid, "enough"), 0);
}
static void by_exit_from_outside(void)
{
    CHECK_EQ(weft_actor_exit(pid, -EIO, NULL), 0);
}

static void (*const ways[])(void) = {by_error, normally, by_kill, by_cancel, by_exit_from_outside,
                                     by_exit};

static void seen_calls_end(const struct weft_actor_kind *kind, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        begin(kind);
        start_callers("keep");
        await_kept(3);
        ways[i]();
        join_callers(-EOWNERDEAD);
        finish();
    }
}

TEST(received_calls_fail_on_any_callee_exit)
{
    seen_calls_end(&server, 6);
}

TEST(received_calls_fail_on_fiber_actor_exit)
{
    seen_calls_end(&fiber_server, 5);
}

static atomic_int batch; /* calls in the batch of the failing step */

/* Blocks until it is cancelled, then handles everything in one batch. */
static int wait_for_cancel(weft_actor *self, const struct weft_actor_event *events, size_t n,
                           weft_out *out)
{
    bool *waits = weft_actor_state(self);
    if (!*waits) {
        *waits = true;
        CHECK_EQ(weft_out_at(out, 1, WEFT_FOREVER), 0);
        weft_out_wait(out);
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CALL) {
            atomic_store(&batch, (int)n);
            return -EIO;
        }
    }
    weft_out_idle(out);
    return 0;
}

static const struct weft_actor_kind waiting = {
    .name = "waiting", .state_bytes = sizeof(bool), .step = wait_for_cancel};

static void begin_blocked(const struct weft_actor_kind *kind)
{
    struct weft_actor_info info;
    begin(kind);
    do {
        CHECK_EQ(weft_actor_info(pid, &info), 0);
        sched_yield();
    } while (info.state != WEFT_ACTOR_BLOCKED);
}

/* A call is counted before it is linked, so the cancel may find fewer than three calls. Repeat
 * until all three are in the batch that failed. */
TEST(calls_in_batch_of_failing_step_return_eownerdead)
{
    do {
        begin_blocked(&waiting);
        start_callers("keep");
        await_mailbox(3);
        CHECK_EQ(weft_actor_cancel(pid, NULL), 0);
        join_callers(-EOWNERDEAD);
        finish();
    } while (atomic_load(&batch) != 3);
}

TEST(queued_calls_fail_when_callee_is_killed)
{
    begin_blocked(&waiting);
    start_callers("keep");
    await_mailbox(3);
    CHECK_EQ(weft_actor_kill(pid), 0);
    join_callers(-EOWNERDEAD);
    finish();
}

static int wait_for_ever(weft_actor *self, const struct weft_actor_event *events, size_t n,
                         weft_out *out)
{
    (void)self, (void)events, (void)n;
    weft_out_wait(out);
    return weft_out_at(out, 1, WEFT_FOREVER);
}

static const struct weft_actor_kind stubborn = {.name = "stubborn", .step = wait_for_ever};

TEST(queued_call_fails_on_forced_host_stop)
{
    begin_blocked(&stubborn);
    callers[0] = (struct caller){.topic = "keep", .err = 1};
    CHECK_EQ(pthread_create(&thread, NULL, call_in_thread, &callers[0]), 0);
    await_mailbox(1);
    int forced;
    do {
        forced = weft_host_stop(host, NULL, 0);
    } while (forced == -EBUSY);
    CHECK_EQ(forced, 1);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(callers[0].err, -EOWNERDEAD);
    weft_host_destroy(host);
}

TEST(call_to_exited_actor_returns_esrch)
{
    begin(&server);
    CHECK_EQ(weft_actor_kill(pid), 0);
    weft_actor_join(pid, NULL, WEFT_FOREVER);
    start_callers("keep");
    join_callers(-ESRCH);
    finish();
}

TEST(close_callback_can_still_reply)
{
    begin(&server);
    start_callers("keep");
    await_kept(3);
    CHECK_EQ(weft_actor_send(pid, "answer at close", 0, NULL, WEFT_BY_POLICY), 0);
    CHECK_EQ(weft_actor_send(pid, "fail", 0, NULL, WEFT_BY_POLICY), 0);
    join_callers(0);
    finish();
}

/* --- restart by a supervisor ------------------------------------------------------------------ */

static atomic_int starts;

static int init_child(weft_actor *self, const char *method, const weft_buf *input)
{
    (void)method, (void)input;
    pid = weft_actor_pid(self);
    atomic_fetch_add(&starts, 1);
    return 0;
}

TEST(supervisor_restart_fails_calls_of_old_incarnation)
{
    static const struct weft_actor_kind child_kind = {
        .name = "server", .state_bytes = sizeof(struct server), .init = init_child, .step = serve};
    struct weft_child_spec child = {.name = "server", .kind = &child_kind};
    struct weft_supervisor_opts opts = {.children = &child, .count = 1};
    weft_pid supervisor;
    atomic_store(&kept, 0);
    atomic_store(&starts, 0);
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 2}), 0);
    CHECK_EQ(weft_supervisor_start(host, &supervisor, &opts), 0);
    start_callers("keep");
    await_kept(3);
    CHECK_EQ(weft_actor_send(pid, "fail", 0, NULL, WEFT_BY_POLICY), 0);
    join_callers(-EOWNERDEAD);
    while (atomic_load(&starts) < 2) {
        sched_yield();
    }
    /* The restarted actor has no state of its predecessor, and replies. */
    CHECK_EQ(weft_actor_call(pid, NULL, "echo", NULL, LONG), 0);
    finish();
}

/* --- upgrade ---------------------------------------------------------------------------------- */

static int convert_with_calls(weft_actor *self, void *old_state, void *new_state)
{
    struct server *s = old_state;
    memcpy(new_state, s, sizeof *s);
    for (int i = 0; i < s->count; i++) {
        CHECK_EQ(weft_actor_call_transfer(s->kept[i], weft_actor_pid(self)), 0);
    }
    return 0;
}

static int convert_without_calls(weft_actor *self, void *old_state, void *new_state)
{
    (void)self, (void)old_state, (void)new_state;
    return 0;
}

static int convert_refuses(weft_actor *self, void *old_state, void *new_state)
{
    convert_with_calls(self, old_state, new_state);
    return -EILSEQ;
}

/* "upgrade": to the version that the tag names. */
static const weft_upgrade_fn converters[] = {NULL, convert_with_calls, convert_without_calls,
                                             convert_refuses};

static int serve_and_upgrade(weft_actor *self, const struct weft_actor_event *events, size_t n,
                             weft_out *out)
{
    int err = serve(self, events, n, out);
    for (size_t i = 0; i < n && !err; i++) {
        if (events[i].topic && strcmp(events[i].topic, "upgrade") == 0) {
            err = weft_out_upgrade(out, &server, converters[events[i].tag]);
        }
    }
    return err;
}

static const struct weft_actor_kind older = {
    .name = "older", .state_bytes = sizeof(struct server), .step = serve_and_upgrade};

static void upgrade(uint64_t how, bool answered)
{
    begin(&older);
    start_callers("keep");
    await_kept(3);
    CHECK_EQ(weft_actor_send(pid, "upgrade", how, NULL, WEFT_BY_POLICY), 0);
    CHECK_EQ(weft_actor_call(pid, NULL, "echo", NULL, LONG), 0); /* after the upgrade */
    CHECK_EQ(weft_actor_send(pid, "answer", 0, NULL, WEFT_BY_POLICY), 0);
    join_callers(answered ? 0 : -EOWNERDEAD);
    CHECK_EQ(weft_actor_call(pid, NULL, "echo", NULL, LONG), 0);
    finish();
}

TEST(upgrade_with_same_state_keeps_calls)
{
    upgrade(0, true);
}

TEST(upgrade_keeps_calls_taken_over_by_new_code)
{
    upgrade(1, true);
}

TEST(upgrade_fails_calls_not_taken_over_by_new_code)
{
    upgrade(2, false);
}

TEST(refused_upgrade_keeps_calls)
{
    upgrade(3, true);
}

TEST(call_kept_by_refused_upgrade_fails_on_next_upgrade)
{
    begin(&older);
    start_callers("keep");
    await_kept(3);
    CHECK_EQ(weft_actor_send(pid, "upgrade", 3, NULL, WEFT_BY_POLICY),
             0); /* the upgrade is refused */
    CHECK_EQ(weft_actor_send(pid, "upgrade", 2, NULL, WEFT_BY_POLICY), 0);
    join_callers(-EOWNERDEAD);
    finish();
}

/* Calls wait in the mailbox of an actor that handles nothing until its upgrade; the new code
 * replies. */
static int upgrade_blocked(weft_actor *self, const struct weft_actor_event *events, size_t n,
                           weft_out *out)
{
    bool *waits = weft_actor_state(self);
    (void)events, (void)n;
    if (!*waits) {
        *waits = true;
        CHECK_EQ(weft_out_at(out, 1, WEFT_FOREVER), 0);
        weft_out_wait(out);
        return 0;
    }
    return weft_out_upgrade(out, &server, convert_without_calls);
}

TEST(queued_calls_are_received_by_upgraded_code)
{
    static const struct weft_actor_kind blocked = {
        .name = "blocked", .state_bytes = sizeof(bool), .step = upgrade_blocked};
    begin_blocked(&blocked);
    start_callers("echo");
    await_mailbox(3);
    CHECK_EQ(weft_actor_cancel(pid, NULL), 0);
    join_callers(0);
    finish();
}

/* --- another actor replies -------------------------------------------------------------------- */

static weft_pid second;

/* Forwards every call: "answer" with its reference; "lazy" without a transfer. */
static int hand_on(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CALL) {
            if (strcmp(events[i].topic, "lazy") != 0) {
                CHECK_EQ(weft_actor_call_transfer(events[i].tag, second), 0);
            }
            CHECK_EQ(weft_actor_send(second, "take", events[i].tag, NULL, WEFT_BY_POLICY), 0);
            atomic_fetch_add(&kept, 1);
        } else {
            weft_out_done(out, NULL);
        }
    }
    return 0;
}

static int answer_for_another(weft_actor *self, const struct weft_actor_event *events, size_t n,
                              weft_out *out)
{
    struct server *s = weft_actor_state(self);
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        } else if (strcmp(events[i].topic, "take") == 0) {
            s->kept[s->count++] = events[i].tag;
        } else {
            while (s->count > 0) {
                CHECK_EQ(weft_actor_reply(s->kept[--s->count], 0, NULL), 0);
            }
        }
    }
    return 0;
}

static const struct weft_actor_kind router = {.name = "router", .step = hand_on},
                                    backend = {.name = "backend",
                                               .state_bytes = sizeof(struct server),
                                               .step = answer_for_another};

static void begin_routed(const char *topic)
{
    begin(&router);
    CHECK_EQ(weft_actor_spawn(host, &second, &backend, NULL, NULL), 0);
    start_callers(topic);
    await_kept(3);
}

TEST(transferred_call_survives_callee_exit)
{
    begin_routed("hand on");
    CHECK_EQ(weft_actor_cancel(pid, NULL), 0);
    weft_actor_join(pid, NULL, WEFT_FOREVER);
    CHECK_EQ(weft_actor_send(second, "answer", 0, NULL, WEFT_BY_POLICY), 0);
    join_callers(0);
    finish();
}

TEST(transferred_call_fails_when_new_owner_exits)
{
    begin_routed("hand on");
    CHECK_EQ(weft_actor_kill(second), 0);
    join_callers(-EOWNERDEAD);
    CHECK_EQ(weft_actor_cancel(pid, NULL), 0);
    finish();
}

TEST(forwarded_call_without_transfer_fails_on_callee_exit)
{
    begin_routed("lazy");
    CHECK_EQ(weft_actor_cancel(pid, NULL), 0);
    join_callers(-EOWNERDEAD);
    finish();
}

static _Atomic(uint64_t) told_ref;

static int tell_ref(weft_actor *self, const struct weft_actor_event *events, size_t n,
                    weft_out *out)
{
    (void)self;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CALL) {
            atomic_store(&told_ref, events[i].tag);
        } else {
            weft_out_done(out, NULL);
        }
    }
    return 0;
}

TEST(failed_call_transfer_leaves_owner_unchanged)
{
    static const struct weft_actor_kind teller = {.name = "teller", .step = tell_ref};
    weft_pid other, remote;
    begin(&teller);
    atomic_store(&told_ref, 0);
    CHECK_EQ(weft_actor_spawn(host, &other, &teller, NULL, NULL), 0);
    remote = other;
    remote.node++;
    CHECK_EQ(weft_actor_kill(other), 0);
    weft_actor_join(other, NULL, WEFT_FOREVER);
    callers[0] = (struct caller){.topic = "tell", .err = 1};
    CHECK_EQ(pthread_create(&thread, NULL, call_in_thread, &callers[0]), 0);
    while (!atomic_load(&told_ref)) {
        sched_yield();
    }
    CHECK_EQ(weft_actor_call_transfer(told_ref, other), -EOWNERDEAD);
    CHECK_EQ(weft_actor_call_transfer(told_ref, remote), -EREMOTE);
    CHECK_EQ(weft_actor_call_transfer(told_ref, (weft_pid){0}), -EOWNERDEAD);
    CHECK_EQ(weft_actor_call_transfer(told_ref + ((uint64_t)1 << 32), pid), -ESRCH);
    CHECK(!atomic_load(&callers[0].over));
    CHECK_EQ(weft_actor_cancel(pid, NULL), 0);
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(callers[0].err, -EOWNERDEAD);
    CHECK_EQ(weft_actor_call_transfer(told_ref, pid), -ESRCH);
    CHECK_EQ(weft_actor_reply(told_ref, 0, NULL), -ESRCH);
    finish();
}

/* --- the caller ends first -------------------------------------------------------------------- */

TEST(caller_gone_before_callee_exit_is_not_notified)
{
    weft_fiber fiber;
    begin(&server);
    struct caller *third = &callers[2];
    callers[1] = callers[2] = (struct caller){.topic = "keep", .err = 1};
    weft_buf *input = weft_buf_copy(&third, sizeof third);
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1}), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    CHECK_EQ(weft_pool_spawn(pool, &fiber, call_in_thread, &callers[1], NULL), 0);
    CHECK_EQ(weft_actor_spawn(host, &step_pid, &step_caller, NULL, input), 0);
    weft_buf_free(input);
    await_kept(2);
    CHECK_EQ(weft_actor_kill(step_pid), 0);
    weft_actor_join(step_pid, NULL, WEFT_FOREVER);
    CHECK_EQ(weft_cancel(fiber), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(callers[1].err, -ECANCELED);
    CHECK_EQ(weft_actor_send(pid, "fail", 0, NULL, WEFT_BY_POLICY), 0);
    CHECK(weft_actor_join(pid, NULL, WEFT_FOREVER) < 0);
    CHECK_EQ(callers[2].err, 1);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
    finish();
}

/* --- deadlines that race with the end --------------------------------------------------------- */

static atomic_int answers, ends, timeouts;

static void count(int err)
{
    CHECK(err == 0 || err == -EOWNERDEAD || err == -ESRCH || err == -ETIMEDOUT);
    atomic_fetch_add(err == 0 ? &answers : err == -ETIMEDOUT ? &timeouts : &ends, 1);
}

static void *call_shortly(void *arg)
{
    count(weft_actor_call(pid, NULL, "keep", NULL, *(int64_t *)arg));
    return NULL;
}

static int call_shortly_in_step(weft_actor *self, const struct weft_actor_event *events, size_t n,
                                weft_out *out)
{
    int64_t deadline = *(int64_t *)weft_actor_state(self);
    if (n == 0 || events[0].kind != WEFT_EVENT_COMPLETE) {
        return weft_out_call(out, 1, pid, "keep", NULL, deadline);
    }
    count(events[0].error);
    weft_out_done(out, NULL);
    return 0;
}

static int init_deadline(weft_actor *self, const char *method, const weft_buf *input)
{
    (void)method;
    memcpy(weft_actor_state(self), input->data, sizeof(int64_t));
    return 0;
}

TEST(callee_exit_racing_deadline_is_exit_or_timeout)
{
    static const struct weft_actor_kind hasty = {.name = "hasty",
                                                 .state_bytes = sizeof(int64_t),
                                                 .init = init_deadline,
                                                 .step = call_shortly_in_step};
    enum { ROUNDS = 100 };
    begin(&server);
    atomic_store(&answers, 0);
    atomic_store(&ends, 0);
    atomic_store(&timeouts, 0);
    for (int i = 0; i < ROUNDS; i++) {
        weft_pid caller;
        int64_t deadline = weft_after((int64_t)i * 10000 % MS);
        weft_buf *input = weft_buf_copy(&deadline, sizeof deadline);
        CHECK_EQ(pthread_create(&thread, NULL, call_shortly, &deadline), 0);
        CHECK_EQ(weft_actor_spawn(host, &caller, &hasty, NULL, input), 0);
        weft_buf_free(input);
        while (weft_now() < deadline) {
            sched_yield();
        }
        CHECK_EQ(weft_actor_kill(pid), 0);
        CHECK_EQ(pthread_join(thread, NULL), 0);
        weft_actor_join(caller, NULL, WEFT_FOREVER);
        CHECK_EQ(atomic_load(&answers) + atomic_load(&ends) + atomic_load(&timeouts), 2 * i + 2);
        weft_actor_join(pid, NULL, WEFT_FOREVER);
        CHECK_EQ(weft_actor_spawn(host, &pid, &server, NULL, NULL), 0);
    }
    CHECK_EQ(atomic_load(&answers), 0);
    finish();
}

/* --- nothing is left over --------------------------------------------------------------------- */

/* A new actor's calls have a bucket of the pending table to themselves, most likely an empty
 * one. */
TEST(call_without_memory_releases_mailbox_capacity)
{
    struct weft_actor_info info;
    int failures = 0;
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 1}), 0);
    for (int i = 0; i < 64; i++) {
        CHECK_EQ(weft_actor_spawn(host, &pid, &stubborn, NULL, NULL), 0);
        do {
            CHECK_EQ(weft_actor_info(pid, &info), 0);
        } while (info.state != WEFT_ACTOR_BLOCKED);
        weft__alloc_fail_after(1 + i % 2, false); /* for the envelope, or for the table */
        int err = weft_actor_call(pid, NULL, "keep", NULL, 0);
        weft__alloc_fail_after(0, false);
        CHECK(err == -ENOMEM || err == -ETIMEDOUT);
        CHECK_EQ(weft_actor_info(pid, &info), 0);
        CHECK_EQ(info.mailbox, err == -ETIMEDOUT);
        failures += err == -ENOMEM;
    }
    CHECK(failures > 0);
    while (weft_host_stop(host, NULL, 0) == -EBUSY) {
    }
    weft_host_destroy(host);
}
