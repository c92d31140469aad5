/* labels: valgrind */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "base/alloc.h"
#include "check.h"
#include "command/waiting_fiber.h"

#define MS ((int64_t)1000000)

/* Replies with the square at once. Topics: "later" keeps the reference until the next message,
 * "never" forgets it; "fail"; "twice"; "exit". */
struct server {
    uint64_t kept[64];
    int count;
};

static weft_buf *number(int n)
{
    return weft_buf_copy(&n, sizeof n);
}

static int read_number(const weft_buf *buf)
{
    int n;
    memcpy(&n, buf->data, sizeof n);
    return n;
}

static atomic_int late_answers;

static void serve_call(struct server *s, const struct weft_actor_event *e)
{
    if (strcmp(e->topic, "square") == 0) {
        int n = read_number(e->buf);
        CHECK_EQ(weft_actor_reply(e->tag, 0, number(n * n)), 0);
    } else if (strcmp(e->topic, "later") == 0) {
        s->kept[s->count++] = e->tag;
    } else if (strcmp(e->topic, "fail") == 0) {
        CHECK_EQ(weft_actor_reply(e->tag, -EDOM, NULL), 0);
    } else if (strcmp(e->topic, "twice") == 0) {
        CHECK_EQ(weft_actor_reply(e->tag, 0, NULL), 0);
        CHECK_EQ(weft_actor_reply(e->tag, 0, number(1)), -ESRCH);
    }
}

static int serve(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    struct server *s = weft_actor_state(self);
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        switch (events[i].kind) {
        case WEFT_EVENT_CALL:
            if (strcmp(events[i].topic, "exit") == 0) {
                return -ECHILD;
            }
            serve_call(s, &events[i]);
            break;
        case WEFT_EVENT_MESSAGE: /* immediately */
            while (s->count > 0) {
                if (weft_actor_reply(s->kept[--s->count], 0, number(1)) == -ESRCH) {
                    atomic_fetch_add(&late_answers, 1);
                }
            }
            break;
        default:
            weft_out_done(out, NULL);
        }
    }
    return 0;
}

static const struct weft_actor_kind server = {
    .name = "server", .state_bytes = sizeof(struct server), .step = serve};

static weft_host *host;
static weft_pid pid;

static void begin(unsigned workers)
{
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = workers}), 0);
    CHECK_EQ(weft_actor_spawn(host, &pid, &server, NULL, NULL), 0);
}

static void end(void)
{
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
}

static uint64_t late(void)
{
    struct weft_actor_call_stats stats;
    weft_actor_call_stats(&stats);
    return stats.late;
}

TEST(call_from_thread_returns_reply_or_error)
{
    weft_buf *reply = NULL;
    begin(1);
    CHECK_EQ(weft_actor_call(pid, &reply, "square", number(7), WEFT_FOREVER), 0);
    CHECK_EQ(read_number(reply), 49);
    weft_buf_free(reply);
    CHECK_EQ(weft_actor_call(pid, NULL, "square", number(7), WEFT_FOREVER), 0);
    reply = NULL;
    CHECK_EQ(weft_actor_call(pid, &reply, "fail", number(7), WEFT_FOREVER), -EDOM);
    CHECK(!reply);
    uint64_t before = late();
    CHECK_EQ(weft_actor_call(pid, &reply, "twice", NULL, WEFT_FOREVER), 0);
    CHECK(!reply);
    CHECK_EQ(weft_actor_call(pid, &reply, "never", NULL, 0), -ETIMEDOUT);
    CHECK_EQ(weft_actor_call(pid, &reply, "never", NULL, weft_after(MS)), -ETIMEDOUT);
    CHECK_EQ(weft_actor_reply(0, 0, number(1)), -ESRCH);
    CHECK_EQ(weft_actor_reply(UINT64_MAX, 0, NULL), -ESRCH);
    CHECK_EQ(weft_actor_call(pid, NULL, "square", number(7), WEFT_FOREVER),
             0); /* after its second reply */
    CHECK_EQ(late(), before + 3);
    end();
    CHECK_EQ(weft_actor_call(pid, &reply, "square", number(7), WEFT_FOREVER), -ESRCH);
}

TEST(late_reply_is_discarded_and_counted)
{
    weft_buf *reply = NULL;
    begin(1);
    uint64_t before = late();
    atomic_store(&late_answers, 0);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(weft_actor_call(pid, &reply, "later", number(i), 0), -ETIMEDOUT);
    }
    /* The slots of these calls have been reused by now. */
    CHECK_EQ(weft_actor_send(pid, "now", 0, NULL, WEFT_BY_POLICY), 0);
    CHECK_EQ(weft_actor_call(pid, &reply, "square", number(3), WEFT_FOREVER), 0);
    CHECK_EQ(read_number(reply), 9);
    weft_buf_free(reply);
    CHECK_EQ(atomic_load(&late_answers), 20);
    CHECK_EQ(late(), before + 20);
    end();
}

TEST(call_to_actor_that_exits_returns_eownerdead)
{
    begin(1);
    CHECK_EQ(weft_actor_call(pid, NULL, "exit", NULL, WEFT_FOREVER), -EOWNERDEAD);
    weft_actor_join(pid, NULL, WEFT_FOREVER);
    CHECK_EQ(weft_actor_call(pid, NULL, "square", number(1), WEFT_FOREVER), -ESRCH);
    end();
}

/* A blocked actor with calls in its mailbox is killed. */
static int block(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self, (void)events, (void)n;
    CHECK_EQ(weft_out_at(out, 1, WEFT_FOREVER), 0);
    weft_out_wait(out);
    return 0;
}

static void *call_blocked(void *arg)
{
    *(int *)arg = weft_actor_call(pid, NULL, "square", number(1), WEFT_FOREVER);
    return NULL;
}

/* The actor would have seen calls that arrived before its first step. */
static void spawn_blocked(const struct weft_actor_kind *kind)
{
    struct weft_actor_info info;
    CHECK_EQ(weft_actor_spawn(host, &pid, kind, NULL, NULL), 0);
    do {
        CHECK_EQ(weft_actor_info(pid, &info), 0);
        weft_sleep(weft_after(50000));
    } while (info.state != WEFT_ACTOR_BLOCKED);
}

static void await_mailbox(unsigned n)
{
    struct weft_actor_info info;
    do {
        CHECK_EQ(weft_actor_info(pid, &info), 0);
        weft_sleep(weft_after(50000));
    } while (info.mailbox < n);
}

TEST(queued_calls_of_killed_actor_return_eownerdead)
{
    static const struct weft_actor_kind blocked = {.name = "blocked", .step = block};
    pthread_t threads[3];
    int answers[3];
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 1}), 0);
    spawn_blocked(&blocked);
    for (int i = 0; i < 3; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, call_blocked, &answers[i]), 0);
    }
    await_mailbox(3);
    CHECK_EQ(weft_actor_kill(pid), 0);
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
        CHECK_EQ(answers[i], -EOWNERDEAD);
    }
    end();
}

TEST(call_dropped_from_full_mailbox_returns_enobufs)
{
    static const struct weft_actor_kind blocked = {
        .name = "blocked", .step = block, .mailbox = 1, .policy = WEFT_MAILBOX_DROP_OLDEST};
    weft_fiber fiber;
    int answer = 1;
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 1}), 0);
    spawn_blocked(&blocked);
    weft_pool *pool = start_waiting(&fiber, call_blocked, &answer);
    CHECK_EQ(weft_actor_send(pid, "push", 0, NULL, WEFT_BY_POLICY), 0);
    join_waiting(pool, fiber);
    CHECK_EQ(answer, -ENOBUFS);
    CHECK_EQ(weft_actor_kill(pid), 0);
    end();
}

/* --- fibers ---------------------------------------------------------------------------------- */

static void *call_often(void *arg)
{
    for (int i = 0; i < 200; i++) {
        weft_buf *reply = NULL;
        int n = (int)(uintptr_t)arg + i;
        CHECK_EQ(weft_actor_call(pid, &reply, "square", number(n), WEFT_FOREVER), 0);
        CHECK_EQ(read_number(reply), n * n);
        weft_buf_free(reply);
    }
    return NULL;
}

TEST(many_fibers_call_concurrently_get_own_replies)
{
    weft_pool *pool;
    begin(2);
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 2}), 0);
    for (uintptr_t i = 0; i < 20; i++) {
        CHECK_EQ(weft_pool_submit(pool, call_often, (void *)i), 0);
    }
    CHECK_EQ(weft_pool_start(pool), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
    end();
}

static void *call_later(void *arg)
{
    *(int *)arg = weft_actor_call(pid, NULL, "later", NULL, WEFT_FOREVER);
    return NULL;
}

TEST(cancelled_fiber_leaves_call_and_reply_is_late)
{
    weft_pool *pool;
    weft_fiber fiber;
    int answer = 1;
    begin(1);
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1}), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    CHECK_EQ(weft_pool_spawn(pool, &fiber, call_later, &answer, NULL), 0);
    enum weft_fiber_state state;
    do {
        CHECK_EQ(weft_fiber_state(fiber, &state), 0);
    } while (state != WEFT_FIBER_WAITING);
    CHECK_EQ(weft_cancel(fiber), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(answer, -ECANCELED);
    uint64_t before = late();
    CHECK_EQ(weft_actor_send(pid, "now", 0, NULL, WEFT_BY_POLICY), 0);
    CHECK_EQ(weft_actor_call(pid, NULL, "square", number(1), WEFT_FOREVER), 0);
    CHECK_EQ(late(), before + 1);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
    end();
}

/* Replies race with deadlines: each call gets exactly one of the two, and nothing leaks. */
static void *call_in_time(void *arg)
{
    unsigned seed = (unsigned)(uintptr_t)arg;
    for (int i = 0; i < 300; i++) {
        weft_buf *reply = NULL;
        int err =
            weft_actor_call(pid, &reply, "square", number(2), weft_after(rand_r(&seed) % 100000));
        CHECK(err == 0 || err == -ETIMEDOUT);
        CHECK((reply != NULL) == (err == 0));
        weft_buf_free(reply);
    }
    return NULL;
}

static int serve_slowly(weft_actor *self, const struct weft_actor_event *events, size_t n,
                        weft_out *out)
{
    (void)self;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CALL) {
            weft_actor_reply(events[i].tag, 0, weft_actor_take_buf(&events[i]));
        } else {
            weft_out_done(out, NULL);
        }
    }
    return 0;
}

static const struct weft_actor_kind slow = {.name = "slow", .step = serve_slowly};

TEST(reply_racing_deadline_is_reply_or_timeout)
{
    pthread_t threads[3];
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 2}), 0);
    CHECK_EQ(weft_actor_spawn(host, &pid, &slow, NULL, NULL), 0);
    for (uintptr_t i = 0; i < 3; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, call_in_time, (void *)(i + 1)), 0);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    end();
}

/* --- actors ----------------------------------------------------------------------------------- */

static weft_pid nobody;
static char seen[128];

static int ask(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    int *left = weft_actor_state(self);
    if (!*left) {
        *left = 5;
        CHECK_EQ(weft_out_call(out, 1, pid, "square", number(12), WEFT_FOREVER), 0);
        CHECK_EQ(weft_out_call(out, 2, pid, "fail", NULL, weft_after(3600000 * MS)), 0);
        CHECK_EQ(weft_out_call(out, 3, pid, "later", number(12), weft_after(2 * MS)), 0);
        CHECK_EQ(weft_out_call(out, 4, nobody, "square", number(12), WEFT_FOREVER), 0);
        CHECK_EQ(weft_out_call(out, 5, pid, "square", number(13), weft_after(3600000 * MS)), 0);
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        const struct weft_actor_event *e = &events[i];
        CHECK_EQ(e->kind, WEFT_EVENT_COMPLETE);
        static const int errors[] = {0, 0, -EDOM, -ETIMEDOUT, -ESRCH, 0};
        CHECK_EQ(e->error, errors[e->tag]);
        if (!e->error) {
            CHECK_EQ(read_number(e->buf), e->tag == 1 ? 144 : 169);
        }
        seen[strlen(seen)] = (char)('0' + e->tag);
        --*left;
    }
    if (*left) {
        weft_out_wait(out);
    } else {
        weft_out_done(out, NULL);
    }
    return 0;
}

static const struct weft_actor_kind asker = {
    .name = "asker", .state_bytes = sizeof(int), .step = ask};

static void join(weft_pid which)
{
    int err = weft_actor_join(which, NULL, WEFT_FOREVER);
    CHECK(err == 0 || err == -ESRCH);
}

TEST(actor_call_command_completes_with_reply_or_error)
{
    weft_pid one;
    begin(2);
    CHECK_EQ(weft_actor_spawn(host, &nobody, &server, NULL, NULL), 0);
    CHECK_EQ(weft_actor_kill(nobody), 0);
    weft_actor_join(nobody, NULL, WEFT_FOREVER);
    memset(seen, 0, sizeof seen);
    CHECK_EQ(weft_actor_spawn(host, &one, &asker, NULL, NULL), 0);
    join(one);
    CHECK_EQ(strlen(seen), 5);
    for (int tag = 1; tag <= 5; tag++) {
        CHECK(strchr(seen, '0' + tag)); /* in any order */
    }
    uint64_t before = late();
    CHECK_EQ(weft_actor_send(pid, "now", 0, NULL, WEFT_BY_POLICY), 0);
    CHECK_EQ(weft_actor_call(pid, NULL, "square", number(1), WEFT_FOREVER), 0);
    CHECK_EQ(late(), before + 1); /* the reply to the call that had timed out */
    end();
}

/* The caller ends while its calls are in flight, repeatedly, in the same slots. */
static int ask_and_go(weft_actor *self, const struct weft_actor_event *events, size_t n,
                      weft_out *out)
{
    (void)events, (void)n, (void)self;
    CHECK_EQ(weft_out_call(out, 1, pid, "later", NULL, weft_after(3600000 * MS)), 0);
    CHECK_EQ(weft_out_call(out, 2, pid, "later", NULL, WEFT_FOREVER), 0);
    weft_out_done(out, NULL);
    return 0;
}

TEST(reply_after_caller_exit_is_late)
{
    static const struct weft_actor_kind hasty = {.name = "hasty", .step = ask_and_go};
    begin(1);
    atomic_store(&late_answers, 0);
    for (int i = 0; i < 20; i++) {
        weft_pid one;
        CHECK_EQ(weft_actor_spawn(host, &one, &hasty, NULL, NULL), 0);
        join(one);
    }
    CHECK_EQ(weft_actor_send(pid, "now", 0, NULL, WEFT_BY_POLICY), 0);
    CHECK_EQ(weft_actor_call(pid, NULL, "square", number(1), WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&late_answers), 40);
    end();
}

TEST(call_without_memory_returns_enomem)
{
    int failures = 0;
    begin(1);
    CHECK_EQ(weft_actor_call(pid, NULL, "square", number(1), WEFT_FOREVER), 0);
    weft_buf *request = number(2);
    weft__alloc_fail_after(1, true);
    int err = weft_actor_call(pid, NULL, "never", request, 0);
    weft__alloc_fail_after(0, false);
    CHECK(err == -ENOMEM || err == -ETIMEDOUT);
    failures += err == -ENOMEM;
    CHECK(failures == 1);
    end();
}
