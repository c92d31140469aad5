/* labels: valgrind */
/* Results of actors that ended before anybody joined them: a later join gets each result once. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "check.h"

static weft_host *host;

/* Ends in its first step, in the way its argument says: "result" with its own number, "error",
 * "nothing". */
static int init(weft_actor *self, const char *method, const weft_buf *input)
{
    const char **state = weft_actor_state(self);
    (void)input;
    *state = method;
    return 0;
}

static int step(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    const char *method = *(const char **)weft_actor_state(self);
    (void)events, (void)n;
    if (strcmp(method, "error") == 0) {
        return -EDOM;
    }
    uint64_t id = weft_actor_pid(self).id;
    weft_out_done(out, strcmp(method, "result") == 0 ? weft_buf_copy(&id, sizeof id) : NULL);
    return 0;
}

static const struct weft_actor_kind kind = {
    .name = "short", .state_bytes = sizeof(char *), .init = init, .step = step};

static void begin(unsigned results)
{
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 1, .results = results}),
             0);
}

static void finish(void)
{
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
}

/* When this returns, the actor has ended. */
static weft_pid run(const char *method)
{
    struct weft_host_stats before, now;
    weft_pid pid;
    weft_host_stats(host, &before);
    CHECK_EQ(weft_actor_spawn(host, &pid, &kind, method, NULL), 0);
    do {
        sched_yield();
        weft_host_stats(host, &now);
    } while (now.ended == before.ended);
    return pid;
}

static void check_result(weft_pid pid)
{
    weft_buf *result = NULL;
    uint64_t id;
    CHECK_EQ(weft_actor_join(pid, &result, 0), 0);
    CHECK(result);
    memcpy(&id, result->data, sizeof id);
    CHECK_EQ(id, pid.id);
    weft_buf_free(result);
}

static void check_gone(weft_pid pid)
{
    weft_buf *result = NULL;
    CHECK_EQ(weft_actor_join(pid, &result, WEFT_FOREVER), -ESRCH);
    CHECK(!result);
}

TEST(result_is_joined_once_after_exit)
{
    begin(0);
    weft_pid pid = run("result");
    check_result(pid);
    check_gone(pid);
    pid = run("result");
    CHECK_EQ(weft_actor_join(pid, NULL, WEFT_FOREVER), 0); /* the record is dropped */
    check_gone(pid);
    finish();
}

TEST(error_is_joined_once_after_exit)
{
    begin(0);
    weft_pid pid = run("error");
    CHECK_EQ(weft_actor_join(pid, NULL, WEFT_FOREVER), -EDOM);
    check_gone(pid);
    finish();
}

TEST(exit_without_result_is_not_recorded)
{
    begin(1);
    weft_pid kept = run("result");
    weft_pid pid = run("nothing");
    check_gone(pid);
    check_result(kept);
    finish();
}

TEST(exit_record_is_kept_per_slot_incarnation)
{
    weft_pid pids[20];
    begin(0);
    for (int i = 0; i < 20; i++) {
        pids[i] = run("result");
    }
    for (int i = 19; i >= 0; i--) {
        check_result(pids[i]);
    }
    finish();
}

TEST(exit_records_keep_most_recent_up_to_limit)
{
    weft_pid pids[10];
    begin(4);
    for (int i = 0; i < 10; i++) {
        pids[i] = run("result");
        if (i == 7) { /* a record is delivered only once */
            check_result(pids[i]);
        }
    }
    for (int i = 0; i < 10; i++) {
        if (i < 6 || i == 7) {
            check_gone(pids[i]);
        } else {
            check_result(pids[i]);
        }
    }
    finish();
}

TEST(exit_records_are_freed_with_host)
{
    begin(0);
    weft_pid pid = run("result");
    run("result");
    finish();
    check_gone(pid);
    begin(0); /* possibly in the same slot */
    check_gone(pid);
    finish();
}

TEST(exit_record_limit_above_maximum_is_einval)
{
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.results = (1u << 20) + 1}), -EINVAL);
}

static _Atomic(uint64_t) ids[400];
static atomic_int joined;

static void *join_all(void *arg)
{
    uint32_t number = *(uint32_t *)arg;
    for (int i = 0; i < 400; i++) {
        weft_buf *result = NULL;
        uint64_t id;
        while (!(id = atomic_load(&ids[i]))) {
            sched_yield();
        }
        CHECK_EQ(weft_actor_join((weft_pid){.host = number, .id = id}, &result, WEFT_FOREVER), 0);
        CHECK(result);
        weft_buf_free(result);
        atomic_fetch_add(&joined, 1);
    }
    return NULL;
}

/* The join gets the result, however the join and the end interleave. */
TEST(join_racing_exit_always_gets_result)
{
    pthread_t thread;
    weft_pid pid;
    uint32_t number;
    begin(0);
    for (int i = 0; i < 400; i++) {
        CHECK_EQ(weft_actor_spawn(host, &pid, &kind, "result", NULL), 0);
        atomic_store(&ids[i], pid.id);
        if (i == 0) {
            number = pid.host;
            CHECK_EQ(pthread_create(&thread, NULL, join_all, &number), 0);
        }
    }
    CHECK_EQ(pthread_join(thread, NULL), 0);
    CHECK_EQ(atomic_load(&joined), 400);
    finish();
}
