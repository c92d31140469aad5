/* labels: valgrind */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include <weft/weft.h>

#include "check.h"

/* The trace events, in order. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct weft_actor_trace_event passages[256];
static int told;

static void note(const struct weft_actor_trace_event *passage, void *arg)
{
    CHECK(arg == passages);
    pthread_mutex_lock(&lock);
    CHECK(told < 256);
    passages[told++] = *passage;
    pthread_mutex_unlock(&lock);
}

static weft_host *make_host(void)
{
    weft_host *host;
    told = 0;
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 2}), 0);
    return host;
}

/* --- three actors ----------------------------------------------------------------------------- */

static weft_pid pids[3];
static _Atomic(uint64_t) ended;

/* Forwards a message, and issues a command as well. */
static int pass(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    CHECK(n <= 1); /* one at a time */
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
            return 0;
        }
        CHECK(events[i].trace != 0);
        if (events[i].kind == WEFT_EVENT_COMPLETE) { /* the trace continues with the completion */
            CHECK_EQ(weft_actor_send(pids[2], "end", events[i].tag, NULL, WEFT_BY_POLICY), 0);
        } else if (weft_pid_equal(weft_actor_pid(self), pids[0])) {
            CHECK_EQ(weft_actor_send(pids[1], "middle", events[i].tag, NULL, WEFT_BY_POLICY), 0);
        } else {
            CHECK_EQ(weft_out_command(out, WEFT_COMMAND_USER, events[i].tag, NULL), 0);
        }
    }
    return 0;
}

static int at_once(const struct weft_command *command, void *arg)
{
    (void)arg;
    return weft_command_complete(command->actor, command->tag, 0, NULL);
}

/* The last actor is a fiber. */
static int last(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    (void)self, (void)result;
    while (weft_actor_receive(&event, WEFT_FOREVER) == 0 && event->kind != WEFT_EVENT_CANCEL) {
        CHECK_EQ(event->tag, event->trace - passages[0].trace);
        atomic_fetch_add(&ended, 1);
    }
    return 0;
}

static const struct weft_actor_kind passer = {.name = "passer", .step = pass};
static const struct weft_actor_kind ender = {.name = "ender", .run = last};

static int steps_of(uint32_t trace, char *way)
{
    int n = 0;
    for (int i = 0; i < told; i++) {
        if (passages[i].trace == trace) {
            const char *topic = passages[i].topic ? passages[i].topic : "=";
            way[n++] = passages[i].kind == WEFT_ACTOR_TRACE_SENT ? topic[0] : (char)(topic[0] - 32);
        }
    }
    way[n] = 0;
    return n;
}

TEST(trace_follows_message_across_three_actors)
{
    enum { MESSAGES = 10 };
    weft_host *host = make_host();
    char way[64];
    CHECK_EQ(weft_host_handle(host, WEFT_COMMAND_USER, at_once, NULL), 0);
    CHECK_EQ(weft_actor_trace(note, passages), 0);
    CHECK_EQ(weft_actor_trace(note, NULL), -EBUSY);
    CHECK_EQ(weft_actor_spawn(host, &pids[0], &passer, NULL, NULL), 0);
    CHECK_EQ(weft_actor_spawn(host, &pids[1], &passer, NULL, NULL), 0);
    CHECK_EQ(weft_actor_spawn(host, &pids[2], &ender, NULL, NULL), 0);
    for (uint64_t i = 0; i < MESSAGES; i++) { /* each message begins a trace of its own */
        CHECK_EQ(weft_actor_send(pids[0], "begin", i, NULL, WEFT_BY_POLICY), 0);
    }
    while (atomic_load(&ended) < MESSAGES) {
        sched_yield();
    }
    CHECK_EQ(weft_actor_trace(NULL, NULL), 0);
    CHECK_EQ(weft_actor_trace(NULL, NULL), 0);
    CHECK_EQ(told, 8 * MESSAGES);
    for (uint32_t i = 0; i < MESSAGES; i++) {
        steps_of(passages[0].trace + i, way);
        CHECK_STR(way, "bBmM=\035eE"); /* sent, handled; '=' is the completion */
    }
    for (int i = 0; i < told; i++) {
        const struct weft_actor_trace_event *p = &passages[i];
        CHECK(p->at_ns > 0);
        bool outside = p->topic && strcmp(p->topic, "begin") == 0;
        CHECK_EQ(weft_pid_is_none(p->from), outside || p->event == WEFT_EVENT_COMPLETE);
        CHECK_EQ(p->event, p->topic ? WEFT_EVENT_MESSAGE : WEFT_EVENT_COMPLETE);
    }
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(told, 8 * MESSAGES); /* tracing is off */
    weft_host_destroy(host);
}

static int end_by_it(weft_actor *self, const struct weft_actor_event *events, size_t n,
                     weft_out *out)
{
    (void)self, (void)events;
    weft_out_idle(out);
    if (n > 0) {
        weft_out_done(out, NULL);
    }
    return 0;
}

TEST(trace_records_first_message_of_spawn)
{
    static const struct weft_actor_kind brief = {.name = "brief", .step = end_by_it};
    weft_host *host = make_host();
    weft_pid pid;
    struct weft_actor_spawn_opts opts = {.name = "brief", .topic = "first", .tag = 7};
    CHECK_EQ(weft_actor_trace(note, passages), 0);
    CHECK_EQ(weft_actor_spawn_with(host, &pid, &brief, &opts), 0);
    weft_actor_join(pid, NULL, WEFT_FOREVER);
    CHECK_EQ(weft_actor_trace(NULL, NULL), 0);
    CHECK_EQ(told, 2);
    CHECK_EQ(passages[0].kind, WEFT_ACTOR_TRACE_SENT);
    CHECK_EQ(passages[1].kind, WEFT_ACTOR_TRACE_HANDLED);
    for (int i = 0; i < 2; i++) {
        CHECK(weft_pid_equal(passages[i].to, pid));
        CHECK_EQ(passages[i].trace, passages[0].trace);
        CHECK_EQ(passages[i].tag, 7);
        CHECK_STR(passages[i].topic, "first");
    }
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
}

/* --- off -------------------------------------------------------------------------------------- */

static atomic_int plain;

static int hear(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        CHECK_EQ(events[i].trace, 0);
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        } else {
            atomic_fetch_add(&plain, 1);
        }
    }
    return 0;
}

TEST(untraced_messages_have_no_trace_id)
{
    static const struct weft_actor_kind hearer = {.name = "hearer", .step = hear};
    weft_host *host = make_host();
    weft_pid pid;
    CHECK_EQ(weft_actor_spawn(host, &pid, &hearer, NULL, NULL), 0);
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(weft_actor_send(pid, "x", 0, NULL, WEFT_BY_POLICY), 0);
    }
    while (atomic_load(&plain) < 100) {
        sched_yield();
    }
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
    CHECK_EQ(told, 0);
}

/* --- switched on and off under load ----------------------------------------------------------- */

static atomic_int on;

static void only_while_on(const struct weft_actor_trace_event *passage, void *arg)
{
    (void)passage, (void)arg;
    CHECK(atomic_load(&on));
}

static int bounce(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
            return 0;
        }
        int err = weft_actor_send(weft_actor_pid(self), "ball", 0, NULL, WEFT_BY_POLICY);
        CHECK(err == 0 || err == -ESRCH);
    }
    return 0;
}

TEST(trace_callback_is_not_called_after_disable)
{
    static const struct weft_actor_kind bouncer = {.name = "bouncer", .step = bounce};
    weft_host *host = make_host();
    weft_pid pid;
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(weft_actor_spawn(host, &pid, &bouncer, NULL, NULL), 0);
        CHECK_EQ(weft_actor_send(pid, "ball", 0, NULL, WEFT_BY_POLICY), 0);
    }
    for (int i = 0; i < 40; i++) {
        atomic_store(&on, 1);
        CHECK_EQ(weft_actor_trace(only_while_on, NULL), 0);
        sched_yield();
        CHECK_EQ(weft_actor_trace(NULL, NULL), 0);
        atomic_store(&on, 0);
    }
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
}
