/* labels: valgrind */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "base/alloc.h"
#include "check.h"

#define MS ((int64_t)1000000)

/* Records the arrival time of each message. */
static atomic_int noted;
enum { ROOM = 4096 };
static uint64_t tags[ROOM];
static int64_t times[ROOM];

static int note(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
            continue;
        }
        CHECK_EQ(events[i].kind, WEFT_EVENT_MESSAGE);
        CHECK_STR(events[i].topic, "tick");
        CHECK(weft_pid_is_none(events[i].from));
        if (events[i].buf) {
            CHECK_EQ(events[i].buf->data[0], 'x');
        }
        int at = atomic_load(&noted);
        if (at < ROOM) {
            tags[at] = events[i].tag;
            times[at] = weft_now();
            atomic_store(&noted, at + 1);
        }
    }
    return 0;
}

static const struct weft_actor_kind noter = {.name = "noter", .step = note};

static weft_host *host;

static weft_pid begin(unsigned workers)
{
    weft_pid pid;
    atomic_store(&noted, 0);
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = workers}), 0);
    CHECK_EQ(weft_actor_spawn(host, &pid, &noter, NULL, NULL), 0);
    return pid;
}

static void end(void)
{
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
}

static void await_notes(int n)
{
    while (atomic_load(&noted) < n) {
        weft_sleep(weft_after(100000));
    }
}

TEST(delayed_message_arrives_at_its_time_not_earlier)
{
    weft_pid pid = begin(2);
    int64_t now = weft_now();
    uint64_t a, b;
    CHECK_EQ(weft_actor_send_at(pid, &a, "tick", 3, weft_buf_copy("x", 1), weft_after(20 * MS)), 0);
    CHECK_EQ(weft_actor_send_at(pid, &b, "tick", 2, NULL, now + 10 * MS), 0);
    CHECK_EQ(weft_actor_send_at(pid, NULL, "tick", 1, NULL, weft_after(0)), 0);
    CHECK(a != b && a != 0 && b != 0);
    await_notes(3);
    CHECK_EQ(1 << tags[0] | 1 << tags[1] | 1 << tags[2], 1 << 1 | 1 << 2 | 1 << 3);
    for (int i = 0; i < 3; i++) { /* may arrive in either order on a slow machine */
        CHECK(times[i] >= now + (int64_t)(tags[i] - 1) * 10 * MS);
    }
    CHECK_EQ(weft_actor_send_cancel(a), -ENOENT);
    CHECK_EQ(weft_actor_send_cancel(b), -ENOENT);
    end();
    CHECK_EQ(weft_actor_send_at(pid, NULL, "tick", 1, weft_buf_copy("x", 1), weft_after(0)),
             -ESRCH);
    pid = (weft_pid){0};
    CHECK_EQ(weft_actor_send_at(pid, NULL, "tick", 1, weft_buf_copy("x", 1), weft_after(0)),
             -ESRCH);
}

TEST(send_cancel_returns_0_once_then_enoent)
{
    weft_pid pid = begin(1);
    uint64_t ref;
    CHECK_EQ(
        weft_actor_send_at(pid, &ref, "tick", 1, weft_buf_copy("x", 1), weft_after(3600000 * MS)),
        0);
    CHECK_EQ(weft_actor_send_cancel(ref), 0);
    CHECK_EQ(weft_actor_send_cancel(ref), -ENOENT);
    CHECK_EQ(weft_actor_send_cancel(0), -ENOENT);
    CHECK_EQ(weft_actor_send_cancel(UINT64_MAX), -ENOENT);
    CHECK_EQ(weft_actor_send_at(pid, &ref, "tick", 1, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(weft_actor_send_cancel(ref), 0);
    CHECK_EQ(atomic_load(&noted), 0);
    end();
}

TEST(periodic_send_keeps_rate_until_cancelled)
{
    weft_pid pid = begin(1);
    uint64_t ref;
    int64_t first = weft_after(5 * MS);
    CHECK_EQ(weft_actor_send_every(pid, &ref, "tick", 1, weft_buf_copy("x", 1), first, 0), -EINVAL);
    CHECK_EQ(weft_actor_send_every(pid, &ref, "tick", 7, weft_buf_copy("x", 1), first, 2 * MS), 0);
    await_notes(5);
    CHECK_EQ(weft_actor_send_cancel(ref), 0);
    CHECK_EQ(weft_actor_send_cancel(ref), -ENOENT);
    int seen = atomic_load(&noted);
    CHECK_EQ(weft_actor_send_at(pid, NULL, "tick", 9, NULL, weft_after(20 * MS)), 0);
    for (int i = seen;; i++) {
        await_notes(i + 1);
        if (tags[i] == 9) {
            break;
        }
    }
    CHECK(atomic_load(&noted) <= seen + 2); /* one may have been in flight */
    for (int i = 0; i < 5; i++) {
        CHECK(times[i] >= first + i * 2 * MS);
    }
    end();
}

TEST(delayed_sends_are_cancelled_when_actor_exits)
{
    weft_pid pid = begin(1);
    uint64_t refs[100];
    for (int i = 0; i < 100; i++) {
        int err = i % 2 ? weft_actor_send_at(pid, &refs[i], "tick", 1, weft_buf_copy("x", 1),
                                             weft_after(3600000 * MS))
                        : weft_actor_send_every(pid, &refs[i], "tick", 1, weft_buf_copy("x", 1),
                                                weft_after(3600000 * MS), MS);
        CHECK_EQ(err, 0);
    }
    CHECK_EQ(weft_actor_kill(pid), 0);
    int err = weft_actor_join(pid, NULL, WEFT_FOREVER);
    CHECK(err == -ECANCELED || err == -ESRCH);
    for (int i = 0; i < 100; i++) {
        CHECK_EQ(weft_actor_send_cancel(refs[i]), -ENOENT);
    }
    end(); /* a pool with pending timers could not be destroyed */
}

static int never_done(const struct weft_command *command, void *arg)
{
    (void)command, (void)arg;
    return 0;
}

/* Blocks at first, so that messages stay in the mailbox. */
static int note_later(weft_actor *self, const struct weft_actor_event *events, size_t n,
                      weft_out *out)
{
    bool *begun = weft_actor_state(self);
    if (!*begun) {
        *begun = true;
        return weft_out_command(out, WEFT_COMMAND_USER, 0, NULL);
    }
    bool completed = n && events[0].kind == WEFT_EVENT_COMPLETE;
    return note(self, events + completed, n - completed, out);
}

TEST(delayed_message_to_full_mailbox_is_dead_letter)
{
    static const struct weft_actor_kind small = {
        .name = "small", .state_bytes = sizeof(bool), .step = note_later, .mailbox = 1};
    struct weft_host_stats stats;
    struct weft_actor_info info;
    weft_pid pid;
    atomic_store(&noted, 0);
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 1}), 0);
    CHECK_EQ(weft_host_handle(host, WEFT_COMMAND_USER, never_done, NULL), 0);
    CHECK_EQ(weft_actor_spawn(host, &pid, &small, NULL, NULL), 0);
    do {
        weft_sleep(weft_after(100000));
        CHECK_EQ(weft_actor_info(pid, &info), 0);
    } while (info.state != WEFT_ACTOR_BLOCKED);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(
            weft_actor_send_at(pid, NULL, "tick", 1, weft_buf_copy("x", 1), weft_after(2 * MS)), 0);
    }
    do {
        weft_sleep(weft_after(100000));
        weft_host_stats(host, &stats);
    } while (stats.dead_letters < 19);
    CHECK_EQ(weft_command_complete(pid, 0, 0, NULL), 0);
    await_notes(1);
    end();
    CHECK_EQ(atomic_load(&noted), 1);
}

/* Threads set and cancel timers while the wheel turns: each message either arrived or was
 * cancelled. */
enum { THREADS = 3, EACH = 2000 };
static weft_pid target;
static atomic_int cancelled, arrived;

static void *set_and_cancel(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    for (int i = 0; i < EACH; i++) {
        uint64_t ref;
        int64_t delay = rand_r(&seed) % (200 * 1000);
        CHECK_EQ(
            weft_actor_send_at(target, &ref, "tick", 1, weft_buf_copy("x", 1), weft_after(delay)),
            0);
        if (rand_r(&seed) % 4) {
            weft_sleep(weft_after(rand_r(&seed) % 50000));
        }
        int err = weft_actor_send_cancel(ref);
        CHECK(err == 0 || err == -ENOENT);
        atomic_fetch_add(&cancelled, err == 0);
    }
    return NULL;
}

static int count(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        } else {
            atomic_fetch_add(&arrived, 1);
        }
    }
    return 0;
}

TEST(every_delayed_send_is_cancelled_or_delivered)
{
    static const struct weft_actor_kind counter = {.name = "counter", .step = count};
    pthread_t threads[THREADS];
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 2}), 0);
    CHECK_EQ(weft_actor_spawn(host, &target, &counter, NULL, NULL), 0);
    for (uintptr_t i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, set_and_cancel, (void *)(i + 1)), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    while (atomic_load(&arrived) + atomic_load(&cancelled) < THREADS * EACH) {
        weft_sleep(weft_after(100000));
    }
    CHECK_EQ(atomic_load(&arrived) + atomic_load(&cancelled), THREADS * EACH);
    end();
}

/* Actors end while periodic messages for them fire. */
TEST(actors_exit_while_periodic_sends_fire)
{
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 2}), 0);
    for (int i = 0; i < 300; i++) {
        weft_pid pid;
        uint64_t refs[4];
        CHECK_EQ(weft_actor_spawn(host, &pid, &noter, NULL, NULL), 0);
        for (int k = 0; k < 4; k++) {
            CHECK_EQ(
                weft_actor_send_every(pid, &refs[k], "tick", 1, weft_buf_copy("x", 1), 0, 70000),
                0);
        }
        weft_sleep(weft_after(i % 4 * 40000));
        CHECK(weft_actor_send_cancel(refs[0]) == 0);
        CHECK_EQ(weft_actor_kill(pid), 0);
        int err = weft_actor_join(pid, NULL, WEFT_FOREVER);
        CHECK(err == -ECANCELED || err == -ESRCH);
        CHECK_EQ(weft_actor_send_cancel(refs[1]), -ENOENT);
    }
    end();
}

TEST(delayed_send_without_memory_fails_without_leak)
{
    weft_pid pid = begin(1);
    int failures = 0;
    for (long k = 1; k < 10; k++) {
        uint64_t ref = 0;
        weft_buf *buf = weft_buf_copy("x", 1);
        weft__alloc_fail_after(k, true);
        int err = weft_actor_send_at(pid, &ref, "tick", 1, buf, weft_after(3600000 * MS));
        weft__alloc_fail_after(0, false);
        CHECK(err == 0 || err == -ENOMEM);
        failures += err != 0;
        CHECK_EQ(weft_actor_send_cancel(ref), err ? -ENOENT : 0);
    }
    CHECK(failures > 0);
    end();
}
