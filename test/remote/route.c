/* labels: valgrind */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include <weft/weft.h>

#include "check.h"
#include "command/waiting_fiber.h"

static weft_host *make_host(const char *name, uint64_t max)
{
    weft_host *host;
    CHECK_EQ(weft_host_create(
                 &host, &(struct weft_host_opts){.name = name, .workers = 1, .max_actors = max}),
             0);
    return host;
}

static void end_host(weft_host *host)
{
    CHECK_EQ(weft_host_stop(host, "enough", WEFT_FOREVER), 0);
    weft_host_destroy(host);
}

static weft_buf *text(const char *s)
{
    return weft_buf_copy(s, strlen(s) + 1);
}

static struct weft_node_stats node_stats(void)
{
    struct weft_node_stats stats;
    weft_node_stats(&stats);
    return stats;
}

/* --- a fake transport --------------------------------------------------------------------- */

/* Records the messages that it is given. */
struct double_ {
    struct weft_receiver receiver;
    int answer;
    char topics[64];
    struct weft_remote_message last;
    atomic_int calls;
    atomic_bool held, inside;
};

static int note(struct weft_receiver *self, const struct weft_remote_message *message)
{
    struct double_ *d = (struct double_ *)(void *)self;
    d->last = *message;
    if (message->topic) {
        strcat(d->topics, message->topic);
    }
    weft_buf_free(message->buf);
    atomic_store(&d->inside, true);
    while (atomic_load(&d->held)) {
    }
    atomic_fetch_add(&d->calls, 1);
    return d->answer;
}

TEST(send_to_unknown_node_returns_ehostunreach)
{
    weft_pid far = {.node = 7, .host = 1, .id = 1};
    struct weft_actor_info info;
    uint64_t before = node_stats().unreachable;
    CHECK_EQ(weft_actor_send(far, "hello", 1, text("lost"), WEFT_BY_POLICY), -EHOSTUNREACH);
    CHECK_EQ(weft_actor_cancel(far, "lost"), -EHOSTUNREACH);
    CHECK_EQ(weft_command_complete(far, 1, 0, text("lost")), -EHOSTUNREACH);
    CHECK_EQ(node_stats().unreachable, before + 3);
    CHECK_EQ(weft_actor_kill(far), -EREMOTE);
    CHECK_EQ(weft_actor_join(far, NULL, WEFT_FOREVER), -EREMOTE);
    CHECK_EQ(weft_actor_info(far, &info), -EREMOTE);
}

static weft_pid sender_pid;

static int send_far(weft_actor *self, const struct weft_actor_event *events, size_t n,
                    weft_out *out)
{
    (void)events, (void)n;
    weft_pid far = {.node = 7, .host = 3, .id = (uint64_t)5 << 32 | 9};
    sender_pid = weft_actor_pid(self);
    CHECK_EQ(weft_actor_send(far, "moved", 17, text("cargo"), WEFT_BY_POLICY), 0);
    weft_out_done(out, NULL);
    return 0;
}

TEST(remote_message_is_handed_to_node_receiver)
{
    static const struct weft_actor_kind sender = {.name = "sender", .step = send_far};
    struct double_ d = {.receiver.deliver = note}, other = {.receiver.deliver = note};
    struct weft_node_stats before = node_stats();
    weft_host *host = make_host("far", 0);
    weft_pid far = {.node = 7, .host = 1, .id = 1}, pid;
    CHECK_EQ(weft_node_set_id(3), -EBUSY); /* the message carries PIDs */
    CHECK_EQ(weft_node_id(), 0);
    CHECK_EQ(weft_route_add(0, &d.receiver), -EINVAL);
    CHECK_EQ(weft_route_remove(7), -ENOENT);
    CHECK_EQ(weft_route_add(7, &d.receiver), 0);
    CHECK_EQ(weft_route_add(7, &other.receiver), -EEXIST);
    CHECK_EQ(weft_route_add(8, &other.receiver), 0);
    CHECK_EQ(weft_actor_spawn(host, &pid, &sender, NULL, NULL), 0);
    int err = weft_actor_join(pid, NULL, WEFT_FOREVER);
    CHECK(err == 0 || err == -ESRCH);
    CHECK_STR(d.topics, "moved");
    CHECK_EQ(d.last.kind, WEFT_EVENT_MESSAGE);
    CHECK_EQ(d.last.tag, 17);
    CHECK_EQ(d.last.to.host, 3);
    CHECK(weft_pid_equal(d.last.from, sender_pid));
    CHECK_EQ(weft_actor_cancel(far, "why"), 0);
    CHECK_EQ(d.last.kind, WEFT_EVENT_CANCEL);
    CHECK_EQ(weft_command_complete(far, 4, -EIO, NULL), 0);
    CHECK_EQ(d.last.kind, WEFT_EVENT_COMPLETE);
    CHECK_EQ(d.last.error, -EIO);
    d.answer = -EAGAIN; /* the sender gets the error */
    CHECK_EQ(weft_actor_send(far, "x", 0, text("y"), WEFT_BY_POLICY), -EAGAIN);
    CHECK_EQ(node_stats().sent, before.sent + 3);
    CHECK_EQ(node_stats().refused, before.refused + 1);
    CHECK_EQ(atomic_load(&other.calls), 0);
    CHECK_EQ(weft_route_remove(7), 0);
    CHECK_EQ(weft_route_remove(8), 0);
    CHECK_EQ(weft_actor_send(far, "x", 0, NULL, WEFT_BY_POLICY), -EHOSTUNREACH);
    end_host(host);
}

static void *send_one(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_actor_send((weft_pid){.node = 7, .id = 1}, "slow", 0, NULL, WEFT_BY_POLICY), 0);
    return NULL;
}

static void *unroute(void *arg)
{
    const struct double_ *d = arg;
    CHECK_EQ(weft_route_remove(7), 0);
    CHECK_EQ(atomic_load(&d->calls), 1);
    return NULL;
}

TEST(unroute_waits_for_deliveries_in_progress)
{
    struct double_ d = {.receiver.deliver = note}, other = {.receiver.deliver = note};
    pthread_t sender, remover;
    atomic_store(&d.held, true);
    CHECK_EQ(weft_route_add(7, &d.receiver), 0);
    CHECK_EQ(pthread_create(&sender, NULL, send_one, NULL), 0);
    while (!atomic_load(&d.inside)) {
        sched_yield();
    }
    CHECK_EQ(pthread_create(&remover, NULL, unroute, &d), 0);
    while (weft_route_add(7, &other.receiver) == -EEXIST) { /* until it has been sent */
        sched_yield();
    }
    atomic_store(&d.held, false);
    pthread_join(sender, NULL);
    pthread_join(remover, NULL);
    CHECK_EQ(weft_route_remove(7), 0);
}

/* --- messages from the network ---------------------------------------------------------------- */

static atomic_int heard;
static weft_pid expected;

static int hear(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
            continue;
        }
        CHECK_EQ(events[i].kind, WEFT_EVENT_MESSAGE);
        CHECK(weft_pid_equal(events[i].from, expected));
        CHECK_STR(events[i].topic, "came");
        CHECK_EQ(events[i].trace, 99);
        CHECK_STR((char *)events[i].buf->data, "cargo");
        atomic_fetch_add(&heard, 1);
    }
    return 0;
}

TEST(incoming_remote_message_is_delivered)
{
    static const struct weft_actor_kind hearer = {.name = "hearer", .step = hear};
    struct double_ d = {.receiver.deliver = note};
    struct weft_node_stats before = node_stats();
    weft_host *host = make_host("near", 0);
    weft_pid pid;
    char topic[] = "came";
    CHECK_EQ(weft_actor_spawn(host, &pid, &hearer, NULL, NULL), 0);
    expected = (weft_pid){.node = 9, .host = 2, .id = 77};
    struct weft_remote_message message = {
        .kind = WEFT_EVENT_MESSAGE, .from = expected, .to = pid, .topic = topic, .trace = 99};
    message.buf = text("cargo");
    CHECK_EQ(weft_remote_message_deliver(&message), 0);
    memset(topic, 'x', 4); /* the buffer was copied */
    CHECK_EQ(weft_route_add(7, &d.receiver), 0);
    message.to.node = 7; /* forwarded */
    message.buf = text("cargo");
    CHECK_EQ(weft_remote_message_deliver(&message), 0);
    CHECK_STR(d.topics, "xxxx");
    CHECK(weft_pid_equal(d.last.from, expected));
    message.to.node = 8;
    message.buf = text("cargo");
    CHECK_EQ(weft_remote_message_deliver(&message), -EHOSTUNREACH);
    message.kind = WEFT_EVENT_CANCEL;
    message.to = pid;
    message.topic = NULL;
    message.buf = NULL;
    CHECK_EQ(weft_remote_message_deliver(&message), 0);
    int err = weft_actor_join(pid, NULL, WEFT_FOREVER);
    CHECK(err == 0 || err == -ESRCH);
    message.kind = (enum weft_actor_event_kind)99;
    message.buf = text("cargo");
    CHECK_EQ(weft_remote_message_deliver(&message), -EINVAL);
    message.kind = WEFT_EVENT_MESSAGE; /* the receiver has ended */
    message.buf = text("cargo");
    CHECK_EQ(weft_remote_message_deliver(&message), -ESRCH);
    CHECK_EQ(node_stats().dead, before.dead + 1);
    CHECK_EQ(node_stats().received, before.received + 2);
    CHECK_EQ(atomic_load(&heard), 1);
    CHECK_EQ(weft_route_remove(7), 0);
    end_host(host);
}

TEST(topic_table_interns_once_and_is_bounded)
{
    char name[32];
    snprintf(name, sizeof name, "topic");
    const char *one = weft_topic_intern(name);
    CHECK_STR(one, "topic");
    CHECK(one != name);
    CHECK(weft_topic_intern("topic") == one);
    int more = 0;
    do {
        snprintf(name, sizeof name, "%d", more++);
    } while (more <= 65536 && weft_topic_intern(name));
    CHECK(more > 65000 && more <= 65536);
    CHECK(weft_topic_intern("topic") == one);
    CHECK(weft_topic_intern("none so far") == NULL);
    struct weft_remote_message message = {
        .kind = WEFT_EVENT_MESSAGE, .to.id = 1, .topic = "none so far", .buf = text("x")};
    CHECK_EQ(weft_remote_message_deliver(&message), -ENOMEM);
}

/* --- proxies ---------------------------------------------------------------------------------- */

TEST(receiver_handles_messages_as_actor)
{
    struct double_ d = {.receiver.deliver = note};
    weft_host *host = make_host("stand-in", 1);
    struct weft_host_stats stats;
    weft_pid pid;
    CHECK_EQ(weft_receiver_spawn(host, &pid, &d.receiver), 0);
    CHECK_EQ(weft_receiver_spawn(host, NULL, &d.receiver), -EAGAIN);
    static const char *const topics[] = {"a", "b", "c", "d", "e", "f"};
    for (int i = 0; i < 6; i++) {
        CHECK_EQ(weft_actor_send(pid, topics[i], 0, text("x"), WEFT_BY_POLICY), 0);
    }
    while (atomic_load(&d.calls) < 6) {
        sched_yield();
    }
    CHECK_STR(d.topics, "abcdef");
    CHECK(weft_pid_equal(d.last.to, pid));
    d.answer = -EIO;
    CHECK_EQ(weft_actor_send(pid, "g", 0, text("x"), WEFT_BY_POLICY), 0);
    while (atomic_load(&d.calls) < 7) {
        sched_yield();
    }
    CHECK_EQ(weft_actor_cancel(pid, "go"), 0);
    int err = weft_actor_join(pid, NULL, WEFT_FOREVER);
    CHECK(err == 0 || err == -ESRCH);
    weft_host_stats(host, &stats);
    CHECK_EQ(stats.dead_letters, 1);
    end_host(host);
}

/* Replies at once, or refuses. */
static int answer(struct weft_receiver *self, const struct weft_remote_message *message)
{
    struct double_ *d = (struct double_ *)(void *)self;
    CHECK_EQ(message->kind, WEFT_EVENT_CALL);
    CHECK_STR(message->topic, "ask");
    if (d->answer) {
        weft_buf_free(message->buf);
    } else {
        CHECK_EQ(weft_actor_reply(message->tag, 0, message->buf), 0);
    }
    return d->answer;
}

TEST(receiver_replies_to_calls)
{
    struct double_ d = {.receiver.deliver = answer};
    weft_host *host = make_host("stand-in", 1);
    weft_pid pid;
    weft_buf *reply;
    CHECK_EQ(weft_receiver_spawn(host, &pid, &d.receiver), 0);
    CHECK_EQ(weft_actor_call(pid, &reply, "ask", text("x"), WEFT_FOREVER), 0);
    CHECK_STR((const char *)reply->data, "x");
    weft_buf_free(reply);
    d.answer = -EHOSTDOWN;
    CHECK_EQ(weft_actor_call(pid, &reply, "ask", text("x"), WEFT_FOREVER), -EHOSTDOWN);
    struct weft_remote_message forged = {.kind = WEFT_EVENT_CALL, .to = pid, .topic = "ask"};
    CHECK_EQ(weft_remote_message_deliver(&forged), -EINVAL); /* references are local to a process */
    end_host(host);
}

static void *ask_it(void *arg)
{
    static int answered;
    answered = weft_actor_call(*(weft_pid *)arg, NULL, "ask", NULL, weft_after(20000000000));
    return &answered;
}

static void note_dead(weft_host *host, const struct weft_dead_letter *letter, void *arg)
{
    (void)host;
    CHECK(!letter->buf); /* the receiver owned it */
    strcat(arg, letter->topic);
}

TEST(receiver_gets_messages_queued_with_cancel_and_calls_fail)
{
    struct double_ d = {.receiver.deliver = note, .answer = -EHOSTDOWN};
    weft_host *host = make_host("stand-in", 0);
    char dead[64] = "";
    weft_pid pid;
    weft_fiber caller;
    CHECK_EQ(weft_host_on_dead_letter(host, note_dead, dead), 0);
    atomic_store(&d.held, true);
    CHECK_EQ(weft_receiver_spawn(host, &pid, &d.receiver), 0);
    CHECK_EQ(weft_actor_send(pid, "first ", 0, text("x"), WEFT_BY_POLICY), 0);
    while (!atomic_load(&d.inside)) {
        sched_yield();
    }
    weft_pool *pool = start_waiting(&caller, ask_it, &pid);
    CHECK_EQ(weft_actor_send(pid, " last", 0, text("x"), WEFT_BY_POLICY), 0);
    CHECK_EQ(weft_actor_cancel(pid, NULL), 0);
    atomic_store(&d.held, false);
    CHECK_EQ(*(int *)join_waiting(pool, caller), -EHOSTDOWN);
    end_host(host);
    CHECK_STR(d.topics, "first ask last");
    CHECK_STR(dead, "first ask last");
}

/* --- several hosts ---------------------------------------------------------------------------- */

struct place {
    char name[16];
    weft_pid next;
};

/* Forwards each message to the next actor, and checks on which host it runs. */
static int pass(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    struct place *p = weft_actor_state(self);
    weft_out_idle(out);
    CHECK_STR(weft_host_name(weft_actor_host(self)), p->name);
    CHECK_STR(weft_pool_name(weft_pool_self()), p->name);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        } else if (events[i].buf) {
            memcpy(&p->next, events[i].buf->data, sizeof p->next);
        } else if (events[i].tag) {
            CHECK_EQ(weft_actor_send(p->next, "ball", events[i].tag - 1, NULL, WEFT_BY_POLICY), 0);
        } else {
            atomic_fetch_add(&heard, 1);
        }
    }
    return 0;
}

static int know_place(weft_actor *self, const char *method, const weft_buf *input)
{
    struct place *p = weft_actor_state(self);
    (void)method;
    memcpy(p->name, input->data, input->len);
    return 0;
}

TEST(hosts_have_separate_pools_and_limits)
{
    static const struct weft_actor_kind passer = {
        .name = "passer", .state_bytes = sizeof(struct place), .init = know_place, .step = pass};
    weft_host *a = make_host("a", 1), *b = make_host("b", 2);
    struct weft_host_stats stats;
    weft_pid in_a, in_b;
    weft_buf *name_a = text("a"), *name_b = text("b");
    atomic_store(&heard, 0);
    CHECK_EQ(weft_actor_spawn(a, &in_a, &passer, NULL, name_a), 0);
    CHECK_EQ(weft_actor_spawn(b, &in_b, &passer, NULL, name_b), 0);
    CHECK(in_a.host != in_b.host);
    CHECK_EQ(weft_actor_spawn(a, NULL, &passer, NULL, name_a), -EAGAIN);
    CHECK_EQ(weft_actor_spawn(b, NULL, &passer, NULL, name_b), 0);
    CHECK_EQ(weft_actor_send(in_a, "next", 0, weft_buf_copy(&in_b, sizeof in_b), WEFT_BY_POLICY),
             0);
    CHECK_EQ(weft_actor_send(in_b, "next", 0, weft_buf_copy(&in_a, sizeof in_a), WEFT_BY_POLICY),
             0);
    CHECK_EQ(weft_actor_send(in_a, "ball", 1000, NULL, WEFT_BY_POLICY), 0);
    while (!atomic_load(&heard)) {
        sched_yield();
    }
    weft_host_stats(a, &stats);
    CHECK_EQ(stats.live, 1);
    CHECK_EQ(stats.workers, 1);
    CHECK(stats.executed >= 1);
    weft_host_stats(b, &stats);
    CHECK_EQ(stats.spawned, 2);
    end_host(a); /* the other host keeps running */
    CHECK_EQ(weft_actor_send(in_a, "ball", 1, NULL, WEFT_BY_POLICY), -ESRCH);
    CHECK_EQ(weft_actor_send(in_b, "ball", 0, NULL, WEFT_BY_POLICY), 0);
    while (atomic_load(&heard) < 2) {
        sched_yield();
    }
    end_host(b);
    weft_buf_free(name_a);
    weft_buf_free(name_b);
}
