/* labels: valgrind */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "actor/actor.h"
#include "base/alloc.h"
#include "check.h"

#define MS ((int64_t)1000000)

static weft_host *host;

static void begin(unsigned workers)
{
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = workers}), 0);
}

static void end(void)
{
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
}

static void join(weft_pid pid)
{
    int err = weft_actor_join(pid, NULL, WEFT_FOREVER);
    if (err != 0 && err != -ESRCH) {
        CHECK_EQ(err, 0);
    }
}

static void run(const struct weft_actor_kind *kind)
{
    weft_pid pid;
    CHECK_EQ(weft_actor_spawn(host, &pid, kind, NULL, NULL), 0);
    join(pid);
}

TEST(builtin_command_ids_are_reserved)
{
    begin(1);
    for (unsigned id = 0; id < WEFT_COMMAND_USER; id++) {
        CHECK_EQ(weft_host_handle(host, id, (weft_command_fn)(void (*)(void))abort, NULL), -EINVAL);
    }
    CHECK_EQ(
        weft_host_handle(host, WEFT_COMMAND_USER, (weft_command_fn)(void (*)(void))abort, NULL), 0);
    end();
}

/* --- timers ---------------------------------------------------------------------------------- */

static int64_t begun;

static int sleep_step(weft_actor *self, const struct weft_actor_event *events, size_t n,
                      weft_out *out)
{
    int *seen = weft_actor_state(self);
    if (!n) {
        begun = weft_now();
        CHECK_EQ(weft_out_at(out, 2, weft_after(6 * MS)), 0);
        CHECK_EQ(weft_out_at(out, 1, begun + 3 * MS), 0);
        CHECK_EQ(weft_out_at(out, 0, 0), 0);
        CHECK_EQ(weft_out_at(out, 9, weft_after(3600000 * MS)), 0); /* ends with its actor */
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        CHECK_EQ(events[i].kind, WEFT_EVENT_COMPLETE);
        CHECK_EQ(events[i].error, 0);
        CHECK_EQ(events[i].tag, *seen);
        CHECK(weft_now() >= begun + *seen * 3 * MS);
        ++*seen;
    }
    if (*seen < 3) {
        weft_out_wait(out);
    } else {
        weft_out_done(out, NULL);
    }
    return 0;
}

TEST(sleep_command_completes_at_its_time)
{
    static const struct weft_actor_kind sleeper = {
        .name = "sleeper", .state_bytes = sizeof(int), .step = sleep_step};
    begin(1);
    run(&sleeper);
    end();
}

/* --- send ------------------------------------------------------------------------------------- */

static weft_pid gone, partner;
static atomic_int got;

static int send_step(weft_actor *self, const struct weft_actor_event *events, size_t n,
                     weft_out *out)
{
    int *seen = weft_actor_state(self);
    if (!n) {
        CHECK_EQ(weft_out_send(out, 1, partner, "hello", 42, weft_buf_copy("x", 1), WEFT_BY_POLICY),
                 0);
        CHECK_EQ(weft_out_send(out, 2, gone, "hello", 42, weft_buf_copy("x", 1), WEFT_BY_POLICY),
                 0);
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        CHECK_EQ(events[i].error, events[i].tag == 1 ? 0 : -ESRCH);
        ++*seen;
    }
    if (*seen == 2) {
        weft_out_done(out, NULL);
    }
    return 0;
}

static int hear_step(weft_actor *self, const struct weft_actor_event *events, size_t n,
                     weft_out *out)
{
    (void)self;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_MESSAGE) {
            CHECK_STR(events[i].topic, "hello");
            CHECK_EQ(events[i].tag, 42);
            CHECK(!weft_pid_is_none(events[i].from));
            atomic_fetch_add(&got, 1);
        }
        weft_out_done(out, NULL);
    }
    return 0;
}

static const struct weft_actor_kind hearer = {.name = "hearer", .step = hear_step};

TEST(send_command_completes_with_result)
{
    static const struct weft_actor_kind kind = {
        .name = "sender", .state_bytes = sizeof(int), .step = send_step};
    begin(1);
    CHECK_EQ(weft_actor_spawn(host, &gone, &hearer, NULL, NULL), 0);
    CHECK_EQ(weft_actor_kill(gone), 0);
    weft_actor_join(gone, NULL, WEFT_FOREVER);
    CHECK_EQ(weft_actor_spawn(host, &partner, &hearer, NULL, NULL), 0);
    run(&kind);
    join(partner);
    CHECK_EQ(atomic_load(&got), 1);
    end();
}

/* --- spawn ------------------------------------------------------------------------------------ */

static int child_init(weft_actor *self, const char *method, const weft_buf *input)
{
    (void)self;
    CHECK_STR(method, "work");
    CHECK_EQ(input->data[0], 'i');
    return 0;
}

static const char *const methods[] = {"work", NULL};
static const struct weft_actor_kind child = {
    .name = "child", .methods = methods, .init = child_init, .step = hear_step};

static int spawn_step(weft_actor *self, const struct weft_actor_event *events, size_t n,
                      weft_out *out)
{
    int *seen = weft_actor_state(self);
    if (!n) {
        CHECK_EQ(weft_out_spawn(out, 1, host, &child, "work", weft_buf_copy("i", 1)), 0);
        CHECK_EQ(weft_out_spawn(out, 2, host, &child, "play", weft_buf_copy("i", 1)), 0);
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        CHECK_EQ(events[i].error, events[i].tag == 1 ? 0 : -ENOENT);
        if (events[i].tag == 1) {
            weft_pid pid;
            CHECK_EQ(events[i].buf->len, sizeof pid);
            memcpy(&pid, events[i].buf->data, sizeof pid);
            CHECK_EQ(weft_actor_send(pid, "hello", 42, NULL, WEFT_BY_POLICY), 0);
        }
        ++*seen;
    }
    if (*seen == 2) {
        weft_out_done(out, NULL);
    }
    return 0;
}

TEST(spawn_command_completes_with_pid)
{
    static const struct weft_actor_kind kind = {
        .name = "parent", .state_bytes = sizeof(int), .step = spawn_step};
    begin(1);
    atomic_store(&got, 0);
    run(&kind);
    while (atomic_load(&got) < 1) {
        weft_sleep(weft_after(50000));
    }
    end();
}

/* --- monitor ---------------------------------------------------------------------------------- */

static weft_pid watched, failing;
static bool stay; /* the targets are not asked to end */

static int watch_step(weft_actor *self, const struct weft_actor_event *events, size_t n,
                      weft_out *out)
{
    int *seen = weft_actor_state(self);
    if (!n) {
        CHECK_EQ(weft_out_monitor(out, 1, watched), 0);
        CHECK_EQ(weft_out_monitor(out, 2, gone), 0);
        CHECK_EQ(weft_out_monitor(out, 3, weft_actor_pid(self)), 0);
        CHECK_EQ(weft_out_monitor(out, 4, failing), 0);
        CHECK_EQ(weft_out_monitor(out, 5, watched), 0);
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        static const int errors[] = {0, 0, -ESRCH, -EINVAL, -ECHILD, 0};
        CHECK_EQ(events[i].kind, WEFT_EVENT_COMPLETE);
        CHECK_EQ(events[i].error, errors[events[i].tag]);
        if (events[i].tag == 4) {
            CHECK_STR((const char *)events[i].buf->data, "tired");
        } else {
            CHECK(!events[i].buf);
        }
        CHECK(!events[i].topic);
        if (++*seen == 2 && !stay) { /* both immediate notifications have arrived */
            CHECK_EQ(weft_actor_send(watched, "hello", 42, NULL, WEFT_BY_POLICY), 0);
            CHECK_EQ(weft_actor_exit(failing, -ECHILD, weft_buf_copy("tired", 6)), 0);
        }
    }
    if (*seen == 5) {
        weft_out_done(out, NULL);
    } else {
        weft_out_wait(out);
    }
    return 0;
}

TEST(monitor_command_completes_when_target_exits)
{
    static const struct weft_actor_kind kind = {
        .name = "watcher", .state_bytes = sizeof(int), .step = watch_step};
    begin(2);
    CHECK_EQ(weft_actor_spawn(host, &gone, &hearer, NULL, NULL), 0);
    CHECK_EQ(weft_actor_kill(gone), 0);
    weft_actor_join(gone, NULL, WEFT_FOREVER);
    CHECK_EQ(weft_actor_spawn(host, &watched, &hearer, NULL, NULL), 0);
    CHECK_EQ(weft_actor_spawn(host, &failing, &hearer, NULL, NULL), 0);
    run(&kind);
    /* Also a monitoring actor that ends before its targets. */
    weft_pid pid;
    stay = true;
    CHECK_EQ(weft_actor_spawn(host, &watched, &hearer, NULL, NULL), 0);
    CHECK_EQ(weft_actor_spawn(host, &failing, &hearer, NULL, NULL), 0);
    CHECK_EQ(weft_actor_spawn(host, &pid, &kind, NULL, NULL), 0);
    CHECK_EQ(weft_actor_kill(pid), 0);
    weft_actor_join(pid, NULL, WEFT_FOREVER);
    end();
}

/* --- blocking functions ----------------------------------------------------------------------- */

static int double_it(const weft_buf *input, weft_buf **output, void *arg)
{
    int n;
    CHECK(arg == &got);
    CHECK_EQ(weft_worker_self(), -1); /* a separate thread */
    memcpy(&n, input->data, sizeof n);
    if (n < 0) {
        return -EDOM;
    }
    n *= 2;
    *output = weft_buf_copy(&n, sizeof n);
    return 0;
}

static int block_step(weft_actor *self, const struct weft_actor_event *events, size_t n,
                      weft_out *out)
{
    int *seen = weft_actor_state(self);
    if (!n) {
        for (int i = 0; i < 20; i++) {
            int value = i == 7 ? -1 : i;
            CHECK_EQ(weft_out_blocking(out, (uint64_t)i, NULL, double_it, &got,
                                       weft_buf_copy(&value, sizeof value)),
                     0);
        }
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        CHECK_EQ(events[i].error, events[i].tag == 7 ? -EDOM : 0);
        if (!events[i].error) {
            int value;
            memcpy(&value, events[i].buf->data, sizeof value);
            CHECK_EQ(value, (int)events[i].tag * 2);
        }
        ++*seen;
    }
    if (*seen == 20) {
        weft_out_done(out, NULL);
    } else {
        weft_out_wait(out);
    }
    return 0;
}

TEST(blocking_command_runs_on_thread)
{
    static const struct weft_actor_kind kind = {
        .name = "blocker", .state_bytes = sizeof(int), .step = block_step};
    begin(1);
    run(&kind);
    end();
}

/* The actor ends while its function runs: the host does not wait for the memory, nor the memory for
 * the host. */
static weft_event running, may_end;

static int hang(const weft_buf *input, weft_buf **output, void *arg)
{
    (void)arg;
    weft_event_set(&running);
    weft_event_wait(&may_end, WEFT_FOREVER);
    *output = weft_buf_share(input);
    atomic_fetch_add(&got, 1);
    return 0;
}

static int hang_step(weft_actor *self, const struct weft_actor_event *events, size_t n,
                     weft_out *out)
{
    (void)self, (void)events;
    if (!n) {
        CHECK_EQ(weft_out_blocking(out, 1, NULL, hang, NULL, weft_buf_copy("x", 1)), 0);
    }
    return 0;
}

TEST(actor_exit_abandons_running_blocking_function)
{
    static const struct weft_actor_kind kind = {.name = "hanger", .step = hang_step};
    weft_pid pid;
    weft_event_init(&running, NULL);
    weft_event_init(&may_end, NULL);
    begin(1);
    atomic_store(&got, 0);
    CHECK_EQ(weft_actor_spawn(host, &pid, &kind, NULL, NULL), 0);
    CHECK_EQ(weft_event_wait(&running, WEFT_FOREVER), 0);
    CHECK_EQ(weft_actor_kill(pid), 0);
    weft_actor_join(pid, NULL, WEFT_FOREVER);
    end();
    weft_event_set(&may_end);
    while (atomic_load(&got) < 1) {
        weft_sleep(weft_after(50000));
    }
    struct weft_blocking_stats stats;
    do {
        weft_blocking_stats(NULL, &stats);
        weft_sleep(weft_after(50000));
    } while (stats.idle < stats.threads);
    weft_event_deinit(&running);
    weft_event_deinit(&may_end);
}

/* --- during a stop ---------------------------------------------------------------------------- */

static int flush_step(weft_actor *self, const struct weft_actor_event *events, size_t n,
                      weft_out *out)
{
    int *phase = weft_actor_state(self);
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) { /* cleans up through commands before it ends */
            int value = 3;
            CHECK_EQ(weft_out_blocking(out, 1, NULL, double_it, &got,
                                       weft_buf_copy(&value, sizeof value)),
                     0);
            CHECK_EQ(weft_out_at(out, 2, weft_after(2 * MS)), 0);
        } else if (events[i].kind == WEFT_EVENT_COMPLETE) {
            CHECK_EQ(events[i].error, 0);
            if (++*phase == 2) {
                atomic_fetch_add(&got, 1);
                weft_out_done(out, NULL);
            }
        }
    }
    return 0;
}

TEST(commands_complete_during_host_stop)
{
    static const struct weft_actor_kind kind = {
        .name = "flusher", .state_bytes = sizeof(int), .step = flush_step};
    begin(2);
    atomic_store(&got, 0);
    for (int i = 0; i < 10; i++) {
        CHECK_EQ(weft_actor_spawn(host, NULL, &kind, NULL, NULL), 0);
    }
    end();
    CHECK_EQ(atomic_load(&got), 10);
}

/* --- out of memory ---------------------------------------------------------------------------- */

static atomic_int failures;

static int poor_step(weft_actor *self, const struct weft_actor_event *events, size_t n,
                     weft_out *out)
{
    (void)self, (void)events, (void)n;
    for (long k = 1; k <= 3; k++) {
        weft_buf *buf[3] = {weft_buf_copy("i", 1), weft_buf_copy("i", 1), weft_buf_copy("i", 1)};
        weft__alloc_fail_after(k, true);
        int err = weft_out_send(out, 1, partner, "hello", 1, buf[0], WEFT_BY_POLICY);
        atomic_fetch_add(&failures, err == -ENOMEM);
        err = weft_out_spawn(out, 1, host, &child, "work", buf[1]);
        atomic_fetch_add(&failures, err == -ENOMEM);
        err = weft_out_call(out, 1, partner, "hello", buf[2], WEFT_FOREVER);
        atomic_fetch_add(&failures, err == -ENOMEM);
        weft__alloc_fail_after(0, false);
    }
    return -ECHILD; /* the requests are dropped, with everything they own */
}

TEST(command_without_memory_is_refused_without_leak)
{
    static const struct weft_actor_kind kind = {.name = "poor", .step = poor_step};
    weft_pid pid;
    begin(1);
    CHECK_EQ(weft_actor_spawn(host, &pid, &kind, NULL, NULL), 0);
    weft_actor_join(pid, NULL, WEFT_FOREVER);
    CHECK(atomic_load(&failures) > 0);
    end();
}

/* Issues its requests with memory for only a given number of further allocations. Envelopes that
 * the worker has cached do not count. */
static struct {
    bool spawn;
    long requests;
} want;
static struct weft__envelope *hoard[4096];
static int completed_by;

static void take_messages(void)
{
    size_t n = 0;
    weft__alloc_fail_after(1, true);
    while ((hoard[n] = weft__envelope_new(WEFT_EVENT_MESSAGE, 0, NULL))) {
        n++;
        CHECK(n < sizeof hoard / sizeof *hoard);
    }
    weft__alloc_fail_after(want.requests, true);
}

static void give_letters_back(void)
{
    weft__alloc_fail_after(0, false);
    for (size_t n = 0; hoard[n]; n++) {
        weft__envelope_free(hoard[n]);
    }
    hoard[0] = NULL;
}

static int want_step(weft_actor *self, const struct weft_actor_event *events, size_t n,
                     weft_out *out)
{
    (void)self;
    if (n) {
        completed_by = events[0].error;
        weft_out_done(out, NULL);
        return 0;
    }
    CHECK_EQ(want.spawn ? weft_out_spawn(out, 1, host, &child, "work", weft_buf_copy("i", 1))
                        : weft_out_send(out, 1, partner, "hello", 1, NULL, WEFT_BY_POLICY),
             0);
    take_messages();
    return 0;
}

static void want_close(weft_actor *self)
{
    (void)self;
    give_letters_back();
}

/* Handles no message except the last one. */
static int keep_all(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    (void)self, (void)result;
    return weft_actor_receive_topic(&event, "end", WEFT_FOREVER);
}

static uint64_t done_so_far(void)
{
    struct weft_host_stats stats;
    struct weft_actor_info info;
    weft_host_stats(host, &stats);
    CHECK_EQ(weft_actor_info(partner, &info), 0);
    return want.spawn ? stats.spawned : info.mailbox;
}

static void ask_in_want(bool spawn, long requests)
{
    static const struct weft_actor_kind kind = {
        .name = "wanting", .step = want_step, .close = want_close};
    want.spawn = spawn;
    want.requests = requests;
    completed_by = -ENOMEM; /* the actor ends with this if the completion cannot be delivered */
    uint64_t before = done_so_far() + spawn;
    int err = weft_actor_exec(host, NULL, &kind, NULL, NULL, WEFT_FOREVER);
    CHECK(err == 0 || err == -ENOMEM);
    CHECK_EQ(done_so_far() - before, completed_by == 0);
}

TEST(completion_is_delivered_despite_allocation_failures)
{
    static const struct weft_actor_kind keeper = {.name = "keeper", .run = keep_all};
    begin(1);
    CHECK_EQ(weft_actor_spawn(host, &partner, &keeper, NULL, NULL), 0);
    for (long requests = 1; requests <= 12; requests++) {
        ask_in_want(false, requests);
        ask_in_want(true, requests);
    }
    CHECK_EQ(completed_by, 0); /* the last round had enough memory */
    CHECK_EQ(weft_actor_send(partner, "end", 0, NULL, WEFT_BY_POLICY), 0);
    end();
}
