/* labels: valgrind */
/* An actor's statistics, and its on_abort callback, which runs before the actor is ended by
 * others. */
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include <weft/weft.h>

#include "check.h"
#include "host/forced_stop.h"

static atomic_int stepped, aborted, closed;

static int say(weft_actor *self, char *buf, size_t size)
{
    const int *seen = weft_actor_state(self);
    return snprintf(buf, size, "seen=%d", *seen);
}

static int say_much(weft_actor *self, char *buf, size_t size)
{
    (void)self;
    return snprintf(buf, size, "%1000d", 17);
}

static int say_no(weft_actor *self, char *buf, size_t size)
{
    (void)self, (void)buf, (void)size;
    return -EACCES;
}

static void on_abort(weft_actor *self)
{
    (void)self;
    CHECK_EQ(atomic_load(&closed), 0);
    atomic_fetch_add(&aborted, 1);
}

static void on_close(weft_actor *self)
{
    (void)self;
    atomic_fetch_add(&closed, 1);
}

static int keep_command(const struct weft_command *command, void *arg)
{
    (void)command, (void)arg;
    return 0;
}

static int step(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    int *seen = weft_actor_state(self);
    atomic_fetch_add(&stepped, 1);
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        ++*seen;
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        } else if (strcmp(events[i].topic, "block") == 0) {
            CHECK_EQ(weft_out_command(out, WEFT_COMMAND_USER, 0, NULL), 0);
            weft_out_wait(out);
        }
    }
    return 0;
}

static int receive(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    int *seen = weft_actor_state(self), err;
    (void)result;
    while ((err = weft_actor_receive(&event, WEFT_FOREVER)) == 0 &&
           event->kind == WEFT_EVENT_MESSAGE) {
        ++*seen;
    }
    return err;
}

static weft_host *host;

static void begin(void)
{
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 1}), 0);
    CHECK_EQ(weft_host_handle(host, WEFT_COMMAND_USER, keep_command, NULL), 0);
    atomic_store(&stepped, 0);
    atomic_store(&aborted, 0);
    atomic_store(&closed, 0);
}

static weft_pid spawn(const struct weft_actor_kind *kind)
{
    weft_pid pid;
    CHECK_EQ(weft_actor_spawn(host, &pid, kind, NULL, NULL), 0);
    return pid;
}

static const struct weft_actor_kind teller = {.name = "teller",
                                              .state_bytes = sizeof(int),
                                              .step = step,
                                              .stats = say,
                                              .abort = on_abort,
                                              .close = on_close};
static const struct weft_actor_kind fiber_teller = {.name = "teller",
                                                    .state_bytes = sizeof(int),
                                                    .run = receive,
                                                    .stats = say,
                                                    .abort = on_abort,
                                                    .close = on_close};

static void until(weft_pid pid, enum weft_actor_state state)
{
    struct weft_actor_info info;
    do {
        weft_yield();
        CHECK_EQ(weft_actor_info(pid, &info), 0);
    } while (info.state != state || (state == WEFT_ACTOR_IDLE && info.mailbox));
}

TEST(actor_stats_callback_runs_without_step)
{
    char text[16];
    begin();
    weft_pid pid = spawn(&teller);
    until(pid, WEFT_ACTOR_IDLE);
    CHECK_EQ(atomic_load(&stepped), 1);
    CHECK_EQ(weft_actor_stats(pid, text, sizeof text, WEFT_FOREVER), 6);
    CHECK_STR(text, "seen=0");
    CHECK_EQ(atomic_load(&stepped), 1);
    CHECK_EQ(weft_actor_send(pid, "block", 0, NULL, WEFT_BY_POLICY), 0);
    until(pid, WEFT_ACTOR_BLOCKED);
    CHECK_EQ(weft_actor_send(pid, "later", 0, NULL, WEFT_BY_POLICY), 0);
    CHECK_EQ(weft_actor_stats(pid, text, sizeof text, WEFT_FOREVER), 6); /* in this case too */
    CHECK_STR(text, "seen=1");
    CHECK_EQ(weft_actor_stats(pid, text, 3, WEFT_FOREVER), 6);
    CHECK_STR(text, "se");
    CHECK_EQ(atomic_load(&stepped), 2);
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_actor_stats(pid, text, sizeof text, WEFT_FOREVER), -ESRCH);
    weft_host_destroy(host);
}

TEST(actor_stats_may_be_truncated_absent_or_refused)
{
    static const struct weft_actor_kind much = {
        .name = "much", .state_bytes = sizeof(int), .step = step, .stats = say_much};
    static const struct weft_actor_kind none = {
        .name = "none", .state_bytes = sizeof(int), .step = step};
    static const struct weft_actor_kind no = {
        .name = "no", .state_bytes = sizeof(int), .step = step, .stats = say_no};
    char text[1001];
    begin();
    CHECK_EQ(weft_actor_stats(spawn(&much), text, sizeof text, WEFT_FOREVER), 1000);
    CHECK_STR(text + 998, "17");
    CHECK_EQ(weft_actor_stats(spawn(&none), text, sizeof text, WEFT_FOREVER), -ENOTSUP);
    CHECK_EQ(weft_actor_stats(spawn(&no), text, sizeof text, WEFT_FOREVER), -EACCES);
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
}

TEST(fiber_actor_stats_are_served_in_receive)
{
    char text[16];
    begin();
    weft_pid pid = spawn(&fiber_teller);
    CHECK_EQ(weft_actor_send(pid, "x", 0, NULL, WEFT_BY_POLICY), 0);
    until(pid, WEFT_ACTOR_IDLE);
    CHECK_EQ(weft_actor_stats(pid, text, sizeof text, WEFT_FOREVER), 6);
    CHECK_STR(text, "seen=1");
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
}

static void ends_by(const struct weft_actor_kind *kind, int how)
{
    begin();
    weft_pid pid = spawn(kind);
    until(pid, WEFT_ACTOR_IDLE);
    if (how == 0) {
        CHECK_EQ(weft_actor_cancel(pid, "please"), 0); /* ends by itself */
    } else if (how == 1) {
        CHECK_EQ(weft_actor_kill(pid), 0);
    } else {
        CHECK_EQ(weft_actor_exit(pid, -EIO, NULL), 0);
    }
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&aborted), how != 0);
    CHECK_EQ(atomic_load(&closed), 1);
    weft_host_destroy(host);
}

TEST(abort_callback_runs_before_close_when_ended_externally)
{
    for (int how = 0; how < 3; how++) {
        ends_by(&teller, how);
        ends_by(&fiber_teller, how);
    }
}

static int stay(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self, (void)events, (void)n;
    weft_out_idle(out);
    return 0;
}

TEST(abort_callback_runs_on_forced_stop)
{
    static const struct weft_actor_kind stubborn = {
        .name = "stubborn", .step = stay, .abort = on_abort, .close = on_close};
    begin();
    spawn(&stubborn);
    CHECK_EQ(forced_stop(host, NULL, weft_after(20000000)), 1);
    CHECK_EQ(atomic_load(&aborted), 1);
    CHECK_EQ(atomic_load(&closed), 1);
    weft_host_destroy(host);
}
