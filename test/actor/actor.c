/* labels: valgrind */
#include <errno.h>
#include <stdatomic.h>

#include <weft/actor.h>
#include <weft/weft.h>

#include "check.h"
#include "host/forced_stop.h"

static int count(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    uint64_t *total = weft_actor_state(self);
    for (size_t i = 0; i < n; i++) {
        CHECK_EQ(events[i].kind, WEFT_EVENT_MESSAGE);
        *total += events[i].tag;
    }
    if (*total < 5050) {
        weft_out_idle(out);
    } else {
        weft_out_done(out, weft_buf_copy(total, sizeof *total));
    }
    return 0;
}

static const struct weft_actor_kind counter = {
    .name = "counter", .state_bytes = sizeof(uint64_t), .step = count};

TEST(counter_actor_sums_messages_and_returns_result)
{
    weft_host *host;
    weft_pid pid;
    weft_buf *result;
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 2}), 0);
    CHECK_EQ(weft_actor_spawn(host, &pid, &counter, NULL, NULL), 0);
    for (uint64_t i = 1; i < 100; i++) {
        CHECK_EQ(weft_actor_send(pid, "add", i, NULL, WEFT_BY_POLICY), 0);
    }
    struct weft_actor_info info;
    CHECK_EQ(weft_actor_info(pid, &info), 0);
    CHECK_STR(info.kind, "counter");
    CHECK_EQ(weft_actor_join(pid, &result, 0), -ETIMEDOUT);
    CHECK_EQ(weft_actor_send(pid, "add", 100, NULL, WEFT_BY_POLICY), 0);
    int err = weft_actor_join(pid, &result, WEFT_FOREVER);
    if (err == 0) {
        CHECK_EQ(*(uint64_t *)(void *)result->data, 5050);
        weft_buf_free(result);
    } else {
        CHECK_EQ(err, -ESRCH); /* it ended before the join */
    }
    CHECK_EQ(weft_actor_send(pid, "add", 1, NULL, WEFT_BY_POLICY), -ESRCH);
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
}

TEST(pid_formats_and_parses_back_bad_text_is_einval)
{
    char text[64];
    weft_pid pid = {.host = 3, .id = (uint64_t)7 << 32 | 17}, again;
    weft_pid_format(pid, text, sizeof text);
    CHECK_STR(text, "<0.3.17.7>");
    CHECK_EQ(weft_pid_parse(&again, text), 0);
    CHECK(weft_pid_equal(pid, again));
    static const char *const wrong[] = {
        "",          "<", "<1.2.3>", "<1.2.3.4", "<1.2.3.4>x", "<1.2.0.4>", "<1.2.3.4294967296>",
        "<-1.2.3.4>"};
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        CHECK_EQ(weft_pid_parse(&again, wrong[i]), -EINVAL);
    }
}

/* Text may come from anywhere. A slot's last generation is never given to an actor. */
TEST(forged_pid_matches_no_actor)
{
    weft_host *host;
    weft_pid live, gone, pid;
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 1}), 0);
    CHECK_EQ(weft_actor_spawn(host, &live, &counter, NULL, NULL), 0);
    CHECK_EQ(weft_actor_spawn(host, &gone, &counter, NULL, NULL), 0);
    CHECK_EQ(weft_actor_kill(gone), 0);
    int err = weft_actor_join(gone, NULL, WEFT_FOREVER);
    CHECK(err < 0);
    const uint32_t slots[] = {(uint32_t)live.id, (uint32_t)gone.id, 1, 16384, 16385,
                              INT32_MAX,         UINT32_MAX};
    for (size_t i = 0; i < 2 * sizeof slots / sizeof *slots; i++) {
        char text[64];
        struct weft_actor_info info;
        weft_buf *buf = NULL;
        uint64_t ref;
        snprintf(text, sizeof text, "<0.%u.%u.%u>", live.host, slots[i / 2],
                 i % 2 ? UINT32_MAX : UINT32_MAX - 1);
        CHECK_EQ(weft_pid_parse(&pid, text), 0);
        CHECK_EQ(weft_actor_send(pid, "add", 1, NULL, WEFT_BY_POLICY), -ESRCH);
        CHECK_EQ(weft_actor_send(pid, "add", 1, NULL, 0), -ESRCH);
        CHECK_EQ(weft_actor_call(pid, &buf, "add", NULL, WEFT_FOREVER), -ESRCH);
        CHECK_EQ(weft_actor_join(pid, &buf, WEFT_FOREVER), -ESRCH);
        CHECK_EQ(weft_actor_kill(pid), -ESRCH);
        CHECK_EQ(weft_actor_cancel(pid, NULL), -ESRCH);
        CHECK_EQ(weft_actor_info(pid, &info), -ESRCH);
        CHECK_EQ(weft_actor_register(host, "nobody", pid), -ESRCH);
        CHECK_EQ(weft_actor_group_join(host, "nobodies", pid), -ESRCH);
        CHECK_EQ(weft_actor_send_at(pid, &ref, "add", 1, NULL, weft_after(WEFT_FOREVER)), -ESRCH);
    }
    CHECK_EQ(weft_actor_kill(live), 0);
    err = weft_actor_join(live, NULL, WEFT_FOREVER);
    CHECK(err < 0);
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
}

/* --- ping-pong ------------------------------------------------------------------------------ */

struct player {
    weft_pid other;
    int left;
};

static int start_player(weft_actor *self, const char *method, const weft_buf *input)
{
    struct player *p = weft_actor_state(self);
    CHECK_STR(method, "play");
    p->left = *(const int *)(const void *)input->data;
    return p->left < 0 ? -EDOM : 0;
}

static int play(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    struct player *p = weft_actor_state(self);
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            CHECK_STR((const char *)events[i].buf->data, "enough");
            weft_out_done(out, NULL);
            continue;
        }
        weft_pid to = weft_pid_is_none(events[i].from) ? p->other : events[i].from;
        if (weft_pid_is_none(to)) { /* the first message names the partner */
            memcpy(&p->other, events[i].buf->data, sizeof p->other);
            to = p->other;
        }
        int err = weft_actor_send(to, "ball", events[i].tag + 1, NULL, WEFT_BY_POLICY);
        CHECK(err == 0 || err == -ESRCH);
        if (--p->left <= 0) {
            weft_out_done(out, NULL);
        }
    }
    return 0;
}

static const char *const methods[] = {"play", NULL};
static const struct weft_actor_kind player = {.name = "player",
                                              .state_bytes = sizeof(struct player),
                                              .methods = methods,
                                              .init = start_player,
                                              .step = play};

static weft_buf *number(int n)
{
    return weft_buf_copy(&n, sizeof n);
}

TEST(two_actors_exchange_messages_until_done)
{
    weft_host *host;
    weft_pid a, b;
    weft_buf *rounds = number(1000), *negative = number(-1);
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 2, .max_actors = 2}), 0);
    CHECK_EQ(weft_actor_spawn(host, &a, &player, "sing", rounds), -ENOENT);
    CHECK_EQ(weft_actor_spawn(host, &a, &player, "play", negative), -EDOM);
    CHECK_EQ(weft_actor_spawn(host, &a, &player, "play", rounds), 0);
    CHECK_EQ(weft_actor_spawn(host, &b, &player, "play", rounds), 0);
    CHECK_EQ(weft_actor_spawn(host, NULL, &player, "play", rounds), -EAGAIN);
    CHECK_EQ(weft_actor_send(a, "serve", 0, weft_buf_copy(&b, sizeof b), WEFT_BY_POLICY), 0);
    int err = weft_actor_join(b, NULL, WEFT_FOREVER);
    CHECK(err == 0 || err == -ESRCH);
    err = weft_actor_join(a, NULL, WEFT_FOREVER);
    CHECK(err == 0 || err == -ESRCH);
    weft_buf_free(rounds);
    weft_buf_free(negative);
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
}

TEST(host_stop_cancels_every_actor)
{
    enum { ACTORS = 100 };
    weft_host *host;
    weft_pid pids[ACTORS];
    weft_buf *rounds = number(1000);
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 2}), 0);
    for (int i = 0; i < ACTORS; i++) {
        CHECK_EQ(weft_actor_spawn(host, &pids[i], &player, "play", rounds), 0);
    }
    CHECK_EQ(weft_actor_kill(pids[0]), 0);
    int err = weft_actor_join(pids[0], NULL, WEFT_FOREVER);
    CHECK(err == -ECANCELED || err == -ESRCH);
    weft_buf_free(rounds);
    CHECK_EQ(weft_host_stop(host, "enough", WEFT_FOREVER), 0);
    struct weft_host_stats stats;
    weft_host_stats(host, &stats);
    CHECK_EQ(stats.spawned, ACTORS);
    CHECK_EQ(stats.live, 0);
    weft_host_destroy(host);
}

static int stubborn_step(weft_actor *self, const struct weft_actor_event *events, size_t n,
                         weft_out *out)
{
    (void)self, (void)events, (void)n;
    weft_out_idle(out);
    return 0;
}

static atomic_int closed;

static void stubborn_close(weft_actor *self)
{
    (void)self;
    atomic_fetch_add(&closed, 1);
}

static const struct weft_actor_kind stubborn = {
    .name = "stubborn", .step = stubborn_step, .close = stubborn_close, .mailbox = 2};

TEST(actor_ignoring_stop_is_ended_at_deadline)
{
    weft_host *host;
    weft_pid pid;
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 1}), 0);
    CHECK_EQ(weft_actor_spawn(host, &pid, &stubborn, NULL, NULL), 0);
    CHECK_EQ(forced_stop(host, "please", 0), 1);
    CHECK_EQ(atomic_load(&closed), 1);
    weft_host_destroy(host);
}

/* --- commands --------------------------------------------------------------------------------- */

enum { SQUARE = 300, LATER = 256, UNKNOWN = 999, FAILS = 65535 };

static int square(const struct weft_command *command, void *arg)
{
    (void)arg;
    int n = *(int *)(void *)command->arg->data;
    weft_buf_free(command->arg);
    return weft_command_complete(command->actor, command->tag, 0, number(n * n));
}

static weft_pid later_actor;
static uint64_t later_tag;

static int later(const struct weft_command *command, void *arg)
{
    later_actor = command->actor;
    later_tag = command->tag;
    weft_event_set(arg);
    return 0;
}

static int fails(const struct weft_command *command, void *arg)
{
    (void)command, (void)arg;
    return -EDOM;
}

/* The events it has seen, in order. */
static char seen[64];

static int ask(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    int *asked = weft_actor_state(self);
    if (!*asked) {
        *asked = 1;
        for (int i = 1; i <= 6; i++) {
            CHECK_EQ(weft_out_command(out, SQUARE, (uint64_t)i, number(i)), 0);
        }
        CHECK_EQ(weft_out_command(out, UNKNOWN, 10, number(1)), 0);
        CHECK_EQ(weft_out_command(out, FAILS, 11, NULL), 0);
        CHECK_EQ(weft_out_command(out, LATER, 12, NULL), 0);
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        const struct weft_actor_event *e = &events[i];
        if (e->kind == WEFT_EVENT_MESSAGE) {
            strcat(seen, "m");
            weft_out_done(out, NULL);
            return 0;
        }
        CHECK_EQ(e->kind, WEFT_EVENT_COMPLETE);
        if (e->tag <= 6) {
            CHECK_EQ(*(int *)(void *)e->buf->data, (int)(e->tag * e->tag));
        }
        CHECK_EQ(e->error, e->tag == 10 ? -ENOSYS : e->tag == 11 ? -EDOM : 0);
        strcat(seen, e->tag <= 6 ? "s" : e->tag == 10 ? "u" : e->tag == 11 ? "f" : "l");
    }
    weft_out_wait(out);
    return 0;
}

static const struct weft_actor_kind asker = {
    .name = "asker", .state_bytes = sizeof(int), .step = ask};

TEST(messages_wait_for_immediate_and_late_completions)
{
    weft_host *host;
    weft_pid pid;
    weft_event asked;
    weft_event_init(&asked, NULL);
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 1}), 0);
    CHECK_EQ(weft_host_handle(host, SQUARE, square, NULL), 0);
    CHECK_EQ(weft_host_handle(host, LATER, later, &asked), 0);
    CHECK_EQ(weft_host_handle(host, FAILS, fails, NULL), 0);
    CHECK_EQ(weft_host_handle(host, FAILS, square, NULL), -EEXIST);
    CHECK_EQ(weft_host_handle(host, SQUARE, fails, NULL), -EEXIST);
    CHECK_EQ(weft_host_handle(host, 0, fails, NULL), -EINVAL);
    CHECK_EQ(weft_host_handle(host, 65536, fails, NULL), -EINVAL);
    CHECK_EQ(weft_actor_spawn(host, &pid, &asker, NULL, NULL), 0);
    CHECK_EQ(weft_host_handle(host, 301, fails, NULL), -EBUSY);
    CHECK_EQ(weft_event_wait(&asked, WEFT_FOREVER), 0);
    struct weft_actor_info info;
    do { /* before that, the step with the other completions would also get the message */
        CHECK_EQ(weft_actor_info(pid, &info), 0);
    } while (info.state != WEFT_ACTOR_BLOCKED);
    CHECK_EQ(weft_actor_send(pid, "last", 0, NULL, WEFT_BY_POLICY), 0);
    CHECK_EQ(weft_actor_info(pid, &info), 0);
    CHECK_EQ(info.state, WEFT_ACTOR_BLOCKED);
    CHECK_EQ(info.mailbox, 1);
    CHECK_EQ(weft_command_complete(later_actor, later_tag, 0, NULL), 0);
    int err = weft_actor_join(pid, NULL, WEFT_FOREVER);
    CHECK(err == 0 || err == -ESRCH);
    CHECK_STR(seen, "ssssssuflm");
    CHECK_EQ(weft_command_complete(later_actor, later_tag, 0, NULL), -ESRCH);
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
}
