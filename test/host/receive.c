/* labels: valgrind */
/* Fiber actors: mailbox capacity, calls, and delayed messages. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>

#include <weft/weft.h>

#include "check.h"

static weft_host *host;

static void begin(unsigned workers)
{
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = workers}), 0);
}

static void end(void)
{
    CHECK_EQ(weft_host_stop(host, "enough", WEFT_FOREVER), 0);
    weft_host_destroy(host);
}

static weft_pid spawn(const struct weft_actor_kind *kind)
{
    weft_pid pid;
    CHECK_EQ(weft_actor_spawn(host, &pid, kind, NULL, NULL), 0);
    return pid;
}

static uint64_t dead(void)
{
    struct weft_host_stats stats;
    weft_host_stats(host, &stats);
    return stats.dead_letters;
}

static unsigned mailbox_of(weft_pid pid)
{
    struct weft_actor_info info;
    CHECK_EQ(weft_actor_info(pid, &info), 0);
    return info.mailbox;
}

/* --- capacity ------------------------------------------------------------------------------- */

static uint64_t got[64];
static int got_count;
static weft_event over;

/* Waits for "go", then handles the remaining messages. */
static int wait_for_go(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    (void)self, (void)result;
    int err = weft_actor_receive_topic(&event, "go", WEFT_FOREVER);
    while (!err && (err = weft_actor_receive(&event, 0)) == 0) {
        CHECK_EQ(event->kind, WEFT_EVENT_MESSAGE);
        got[got_count++] = event->tag;
    }
    weft_event_set(&over);
    return 0;
}

TEST(skipped_messages_count_against_mailbox_capacity)
{
    static const struct weft_actor_kind kind = {.name = "picky", .run = wait_for_go, .mailbox = 4};
    begin(1);
    weft_pid pid = spawn(&kind);
    for (uint64_t i = 0; i < 4; i++) {
        CHECK_EQ(weft_actor_send(pid, "x", i, NULL, WEFT_BY_POLICY), 0);
    }
    CHECK_EQ(weft_actor_send(pid, "go", 0, NULL, WEFT_BY_POLICY), -ENOBUFS);
    CHECK_EQ(weft_actor_call(pid, NULL, "go", NULL, weft_after(1000000)), -ETIMEDOUT);
    CHECK_EQ(mailbox_of(pid), 4);
    CHECK_EQ(weft_actor_kill(pid), 0);
    while (dead() < 4) {
        weft_sleep(weft_after(100000));
    }
    end();
}

TEST(full_mailbox_drops_oldest_skipped_message)
{
    static const struct weft_actor_kind kind = {
        .name = "picky", .run = wait_for_go, .mailbox = 3, .policy = WEFT_MAILBOX_DROP_OLDEST};
    begin(1);
    got_count = 0;
    weft_event_init(&over, NULL);
    weft_pid pid = spawn(&kind);
    for (uint64_t i = 1; i <= 5; i++) {
        CHECK_EQ(weft_actor_send(pid, "x", i, NULL, WEFT_BY_POLICY), 0);
        while (dead() < (i > 3 ? i - 3 : 0)) {
            weft_sleep(weft_after(100000));
        }
    }
    CHECK_EQ(mailbox_of(pid), 3);
    CHECK_EQ(weft_actor_send(pid, "go", 0, NULL, WEFT_BY_POLICY),
             0); /* drops 3, unless it is received before */
    CHECK_EQ(weft_event_wait(&over, WEFT_FOREVER), 0);
    CHECK(got_count == 2 || got_count == 3);
    for (int i = 0; i < got_count; i++) {
        CHECK_EQ(got[i], 6 - got_count + i);
    }
    CHECK_EQ(dead() + (uint64_t)got_count, 5);
    end();
    weft_event_deinit(&over); /* the actor that armed it is gone */
}

/* --- many senders ----------------------------------------------------------------------------- */

enum { SENDERS = 3 };
static int each;
static weft_pid flooded;
static atomic_int received;

static bool is_even(const struct weft_actor_event *event, void *arg)
{
    (void)arg;
    return event->kind != WEFT_EVENT_MESSAGE || event->tag % 2 == 0;
}

/* First the even numbers that are queued, then everything else. Both keep the order of each
 * sender. */
static int choose(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    uint64_t last[2][SENDERS] = {{0}};
    bool cancelled = false;
    (void)self, (void)result;
    for (;;) {
        int err = weft_actor_receive_if(&event, is_even, NULL, 0);
        if (err == -ETIMEDOUT) {
            err = weft_actor_receive(&event, cancelled ? 0 : WEFT_FOREVER);
        }
        if (err) {
            CHECK_EQ(err, -ETIMEDOUT);
            return 0;
        }
        if (event->kind != WEFT_EVENT_MESSAGE) {
            cancelled = true;
            continue;
        }
        uint64_t *before = &last[event->tag % 2][event->tag >> 32];
        CHECK((uint32_t)event->tag > *before);
        *before = (uint32_t)event->tag;
        atomic_fetch_add(&received, 1);
    }
}

static void *flood(void *arg)
{
    uint64_t who = (uint64_t)(uintptr_t)arg << 32;
    for (int i = 1; i <= each; i++) {
        CHECK_EQ(weft_actor_send(flooded, "x", who | (uint64_t)i, NULL, WEFT_FOREVER), 0);
    }
    return NULL;
}

static void flood_one(const struct weft_actor_kind *kind, bool loses)
{
    pthread_t threads[SENDERS];
    begin(2);
    each = check_scale(3000);
    atomic_store(&received, 0);
    flooded = spawn(kind);
    for (uintptr_t i = 0; i < SENDERS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, flood, (void *)i), 0);
    }
    for (int i = 0; i < SENDERS; i++) {
        pthread_join(threads[i], NULL);
    }
    weft_host_stop(host, NULL, WEFT_FOREVER);
    CHECK_EQ((uint64_t)atomic_load(&received) + dead(), SENDERS * each);
    CHECK(loses || dead() == 0);
    weft_host_destroy(host);
}

TEST(threads_flood_dropping_selective_receiver)
{
    static const struct weft_actor_kind kind = {
        .name = "chooser", .run = choose, .mailbox = 5, .policy = WEFT_MAILBOX_DROP_OLDEST};
    flood_one(&kind, true);
}

TEST(threads_wait_for_capacity_of_selective_receiver)
{
    static const struct weft_actor_kind kind = {
        .name = "chooser", .run = choose, .mailbox = 5, .policy = WEFT_MAILBOX_WAIT};
    flood_one(&kind, false);
}

/* --- calls ------------------------------------------------------------------------------------ */

static int serve(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    (void)self, (void)result;
    while (weft_actor_receive_topic(&event, "ask", WEFT_FOREVER) == 0) {
        if (event->kind == WEFT_EVENT_CALL) {
            weft_buf *buf = weft_actor_take_buf(event);
            CHECK_EQ(weft_actor_reply(event->tag, buf ? 0 : -EDOM, buf), 0);
        } else {
            return 0;
        }
    }
    return 0;
}

static const struct weft_actor_kind server = {.name = "server", .run = serve, .mailbox = 4};

TEST(call_is_received_by_topic_and_replied)
{
    begin(1);
    weft_pid pid = spawn(&server);
    weft_buf *reply;
    CHECK_EQ(weft_actor_send(pid, "other", 0, NULL, WEFT_BY_POLICY), 0);
    CHECK_EQ(weft_actor_call(pid, &reply, "ask", weft_buf_copy("hello", 6), WEFT_FOREVER), 0);
    CHECK_STR((const char *)reply->data, "hello");
    weft_buf_free(reply);
    CHECK_EQ(weft_actor_call(pid, NULL, "ask", NULL, WEFT_FOREVER), -EDOM);
    CHECK_EQ(weft_actor_send(pid, "ask", 0, NULL, WEFT_BY_POLICY), 0); /* the end */
    int err = weft_actor_call(pid, NULL, "never", NULL, WEFT_FOREVER);
    CHECK(err == -EOWNERDEAD || err == -ESRCH); /* skipped, or the actor had ended */
    end();
}

static weft_pid asked;

/* Waits for a reply while messages arrive: they stay in the mailbox. */
static int ask(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    weft_buf *reply;
    (void)self;
    CHECK_EQ(weft_actor_receive_topic(&event, "begin", WEFT_FOREVER), 0);
    CHECK_EQ(weft_actor_call(asked, &reply, "ask", weft_buf_copy("x", 2), WEFT_FOREVER), 0);
    weft_buf_free(reply);
    uint64_t sum = 0;
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(weft_actor_receive_topic(&event, "add", WEFT_FOREVER), 0);
        sum = sum * 10 + event->tag;
    }
    *result = weft_buf_copy(&sum, sizeof sum);
    return 0;
}

static int pass_result(weft_pid pid, uint64_t *out)
{
    weft_buf *result;
    int err = weft_actor_join(pid, &result, WEFT_FOREVER);
    if (!err) {
        memcpy(out, result->data, sizeof *out);
        weft_buf_free(result);
    }
    return err;
}

TEST(fiber_actor_keeps_messages_during_call)
{
    static const struct weft_actor_kind kind = {.name = "caller", .run = ask};
    begin(1);
    asked = spawn(&server);
    weft_pid pid = spawn(&kind);
    uint64_t sum;
    for (uint64_t i = 1; i <= 2; i++) {
        CHECK_EQ(weft_actor_send(pid, "add", i, NULL, WEFT_BY_POLICY), 0);
    }
    CHECK_EQ(weft_actor_send(pid, "begin", 0, NULL, WEFT_BY_POLICY), 0);
    CHECK_EQ(weft_actor_send_at(pid, NULL, "add", 3, NULL, weft_after(1000000)), 0);
    int err = pass_result(pid, &sum);
    if (!err) {
        CHECK_EQ(sum, 123);
    } else {
        CHECK_EQ(err, -ESRCH); /* it ended before the join */
    }
    CHECK_EQ(weft_actor_send(asked, "ask", 0, NULL, WEFT_BY_POLICY), 0);
    end();
}

TEST(call_or_delayed_send_to_remote_pid_returns_eremote)
{
    begin(1);
    weft_pid pid = spawn(&server), remote = pid;
    remote.node = 9;
    uint64_t ref;
    char buf[8];
    CHECK_EQ(weft_actor_call(remote, NULL, "ask", weft_buf_copy("x", 2), WEFT_FOREVER), -EREMOTE);
    CHECK_EQ(weft_actor_send_at(remote, &ref, "ask", 0, weft_buf_copy("x", 2), weft_after(0)),
             -EREMOTE);
    CHECK_EQ(weft_actor_stats(remote, buf, sizeof buf, WEFT_FOREVER), -EREMOTE);
    CHECK_EQ(mailbox_of(pid), 0);
    CHECK_EQ(weft_actor_send(pid, "ask", 0, NULL, WEFT_BY_POLICY), 0);
    end();
}
