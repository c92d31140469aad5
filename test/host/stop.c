/* labels: valgrind */
#include "host/puppet.h"

#include <stdatomic.h>

static atomic_int closed, cancelled, cleaned;

/* Reacts to a cancel with a command that another thread completes later, and then ends. */
enum { FLUSH = WEFT_COMMAND_USER };

struct pending {
    weft_pid actor[64];
    int count;
};
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t more = PTHREAD_COND_INITIALIZER;
static struct pending pending;

static int flush(const struct weft_command *command, void *arg)
{
    (void)arg;
    pthread_mutex_lock(&lock);
    pending.actor[pending.count++] = command->actor;
    pthread_cond_signal(&more);
    pthread_mutex_unlock(&lock);
    return 0;
}

static void *flusher(void *arg)
{
    int want = *(int *)arg;
    for (int done = 0; done < want; done++) {
        pthread_mutex_lock(&lock);
        while (pending.count <= done) {
            pthread_cond_wait(&more, &lock);
        }
        weft_pid pid = pending.actor[done];
        pthread_mutex_unlock(&lock);
        CHECK_EQ(weft_command_complete(pid, 1, 0, NULL), 0);
    }
    return NULL;
}

static int tidy_step(weft_actor *self, const struct weft_actor_event *events, size_t n,
                     weft_out *out)
{
    (void)self;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            CHECK_STR((const char *)events[i].buf->data, "good night");
            atomic_fetch_add(&cancelled, 1);
            CHECK_EQ(weft_out_command(out, FLUSH, 1, NULL), 0);
            weft_out_wait(out);
        } else if (events[i].kind == WEFT_EVENT_COMPLETE) {
            atomic_fetch_add(&cleaned, 1);
            weft_out_done(out, NULL);
        }
    }
    return 0;
}

static void counts_close(weft_actor *self)
{
    (void)self;
    atomic_fetch_add(&closed, 1);
}

static const struct weft_actor_kind tidy = {
    .name = "tidy", .step = tidy_step, .close = counts_close};

static void reset(void)
{
    atomic_store(&closed, 0);
    atomic_store(&cancelled, 0);
    atomic_store(&cleaned, 0);
    pending.count = 0;
}

TEST(host_stop_waits_for_pending_commands)
{
    enum { ACTORS = 50 };
    weft_host *host = puppet_host();
    pthread_t thread;
    int want = ACTORS;
    reset();
    CHECK_EQ(weft_host_handle(host, FLUSH, flush, NULL), 0);
    for (int i = 0; i < ACTORS; i++) {
        CHECK_EQ(weft_actor_spawn(host, NULL, &tidy, NULL, NULL), 0);
    }
    pthread_create(&thread, NULL, flusher, &want);
    CHECK_EQ(forced_stop(host, "good night", WEFT_FOREVER), 0);
    pthread_join(thread, NULL);
    CHECK_EQ(atomic_load(&cancelled), ACTORS);
    CHECK_EQ(atomic_load(&cleaned), ACTORS);
    CHECK_EQ(atomic_load(&closed), ACTORS);
    weft_host_destroy(host);
}

/* --- actors that ignore the cancel ------------------------------------------------------------ */

static int deaf_step(weft_actor *self, const struct weft_actor_event *events, size_t n,
                     weft_out *out)
{
    int *how = weft_actor_state(self);
    (void)events, (void)n;
    if (*how == 0) {
        weft_out_idle(out);
    } else if (*how == 1) {
        weft_out_continue(out);
    } else if (*how == 2) { /* waits for a command that never completes */
        *how = 3;
        CHECK_EQ(weft_out_command(out, FLUSH, 1, NULL), 0);
    } else {
        weft_out_wait(out);
    }
    return 0;
}

static int deaf_init(weft_actor *self, const char *method, const weft_buf *input)
{
    (void)method;
    memcpy(weft_actor_state(self), input->data, sizeof(int));
    return 0;
}

static const struct weft_actor_kind deaf = {.name = "deaf",
                                            .state_bytes = sizeof(int),
                                            .init = deaf_init,
                                            .step = deaf_step,
                                            .close = counts_close};

TEST(host_stop_ends_remaining_actors_at_deadline)
{
    weft_host *host = puppet_host();
    weft_pid pids[9];
    reset();
    CHECK_EQ(weft_host_handle(host, FLUSH, flush, NULL), 0);
    for (int i = 0; i < 9; i++) {
        int how = i % 3;
        weft_buf *input = weft_buf_copy(&how, sizeof how);
        CHECK_EQ(weft_actor_spawn(host, &pids[i], &deaf, NULL, input), 0);
        weft_buf_free(input);
        CHECK_EQ(weft_actor_send(pids[i], "x", 0, weft_buf_copy("x", 1), WEFT_BY_POLICY), 0);
    }
    CHECK_EQ(forced_stop(host, "good night", weft_after(20 * 1000000)), 9);
    CHECK_EQ(atomic_load(&closed), 9);
    struct weft_host_stats stats;
    weft_host_stats(host, &stats);
    CHECK_EQ(stats.live, 0);
    weft_host_destroy(host);
    for (int i = 0; i < pending.count; i++) { /* a completion that comes too late */
        CHECK_EQ(weft_command_complete(pending.actor[i], 1, 0, weft_buf_copy("x", 1)), -ESRCH);
    }
}

/* --- spawns and sends during a stop ----------------------------------------------------------- */

static weft_host *the_host;
static atomic_bool over;
static atomic_long made;

static int obeys_step(weft_actor *self, const struct weft_actor_event *events, size_t n,
                      weft_out *out)
{
    (void)self;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        }
    }
    return 0;
}

static const struct weft_actor_kind obedient = {
    .name = "obedient", .step = obeys_step, .close = counts_close};

static void *spawner(void *arg)
{
    weft_pid pid;
    (void)arg;
    while (!atomic_load(&over)) {
        int err = weft_actor_spawn(the_host, &pid, &obedient, NULL, NULL);
        CHECK(err == 0 || err == -ESHUTDOWN);
        if (err) {
            break;
        }
        atomic_fetch_add(&made, 1);
        weft_actor_send(pid, "x", 0, weft_buf_copy("x", 1), WEFT_BY_POLICY);
    }
    return NULL;
}

TEST(actor_spawned_during_stop_is_cancelled)
{
    for (int round = 0; round < 20; round++) {
        pthread_t threads[2];
        reset();
        atomic_store(&made, 0);
        atomic_store(&over, false);
        the_host = puppet_host();
        for (int t = 0; t < 2; t++) {
            pthread_create(&threads[t], NULL, spawner, NULL);
        }
        while (atomic_load(&made) < 20) {
            sched_yield();
        }
        CHECK_EQ(weft_host_stop(the_host, NULL, WEFT_FOREVER), 0);
        atomic_store(&over, true);
        for (int t = 0; t < 2; t++) {
            pthread_join(threads[t], NULL);
        }
        CHECK_EQ(atomic_load(&closed), atomic_load(&made));
        weft_host_destroy(the_host);
    }
}

/* --- from inside, twice, reused --------------------------------------------------------------- */

static int stops(weft_actor *self, weft_out *out, void *arg)
{
    (void)self, (void)out;
    return weft_host_stop(arg, "inside", WEFT_FOREVER);
}

TEST(host_stop_started_in_step_is_finished_by_thread)
{
    struct puppet a, b;
    weft_host *host = puppet_host();
    puppet_start(host, &a);
    puppet_start(host, &b);
    CHECK_EQ(puppet_do(&a, stops, host), -EINPROGRESS);
    CHECK_STR(puppet_await(&a, 1).text, "inside");
    CHECK_EQ(puppet_await(&b, 1).kind, WEFT_EVENT_CANCEL);
    CHECK_EQ(weft_actor_spawn(host, NULL, &obedient, NULL, NULL), -ESHUTDOWN);
    puppet_settle(&a); /* everything else works */
    CHECK_EQ(forced_stop(host, "again", 0), 2);
    CHECK_EQ(forced_stop(host, "again", 0), 2);
    CHECK_EQ(a.count, 1); /* the first reason counts */
    CHECK_EQ(a.closed + b.closed, 2);
    weft_host_destroy(host);
}

TEST(recreated_host_keeps_no_state_of_previous_host)
{
    for (int i = 0; i < 10; i++) {
        weft_host *host = puppet_host();
        struct puppet a;
        struct weft_host_stats stats;
        weft_host_stats(host, &stats);
        CHECK_EQ(stats.spawned + stats.ended + stats.dead_letters, 0);
        puppet_start(host, &a);
        weft_pid found;
        CHECK_EQ(weft_actor_whereis(host, &found, "a"), -ENOENT);
        CHECK_EQ(weft_actor_register(host, "a", a.pid), 0);
        puppet_host_end(host);
        CHECK_EQ(weft_actor_send(a.pid, "x", 0, weft_buf_copy("x", 1), WEFT_BY_POLICY), -ESRCH);
    }
}

/* --- kills of an earlier incarnation ---------------------------------------------------------- */

TEST(operations_on_exited_pid_spare_slot_reuser)
{
    struct puppet a, b;
    weft_host *host = puppet_host();
    puppet_start(host, &a);
    puppet_do(&a, finishes, NULL);
    puppet_await_end(a.pid);
    for (int i = 0; i < 100; i++) {
        puppet_start(host, &b);
        CHECK_EQ(weft_command_complete(a.pid, 1, 0, weft_buf_copy("x", 1)), -ESRCH);
        CHECK_EQ(weft_actor_kill(a.pid), -ESRCH);
        CHECK_EQ(weft_actor_cancel(a.pid, NULL), -ESRCH);
        puppet_settle(&b);
        CHECK_EQ(puppet_count(&b), 0);
        puppet_do(&b, finishes, NULL);
        puppet_await_end(b.pid);
    }
    puppet_host_end(host);
}

static int asks_and_idles(weft_actor *self, weft_out *out, void *arg)
{
    (void)self, (void)arg;
    CHECK_EQ(weft_out_command(out, FLUSH, 1, NULL), 0);
    weft_out_idle(out);
    return 0;
}

TEST(completion_wakes_idle_actor)
{
    struct puppet a;
    weft_host *host = puppet_host();
    reset();
    CHECK_EQ(weft_host_handle(host, FLUSH, flush, NULL), 0);
    puppet_start(host, &a);
    puppet_do(&a, asks_and_idles, NULL);
    struct weft_actor_info info;
    do {
        CHECK_EQ(weft_actor_info(a.pid, &info), 0);
    } while (info.state != WEFT_ACTOR_IDLE);
    CHECK_EQ(weft_command_complete(a.pid, 1, -EIO, NULL), 0);
    struct seen s = puppet_await(&a, 1);
    CHECK_EQ(s.kind, WEFT_EVENT_COMPLETE);
    CHECK_EQ(s.error, -EIO);
    puppet_host_end(host);
}

static void destroys_running_host(void *arg)
{
    weft_host *host;
    (void)arg;
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.name = "shop", .workers = 1}), 0);
    weft_host_destroy(host);
}

TEST(destroy_of_running_host_aborts_naming_host)
{
    char err[CHECK_ERR];
    CHECK(WIFSIGNALED(check_child(destroys_running_host, NULL, err, sizeof err)));
    CHECK(strstr(err, "weft_host_destroy: host shop still runs: call weft_host_stop first"));
}
