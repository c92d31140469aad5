/* Many actors at once: how they share workers, how they end, and how many there may be. */
#include <stdatomic.h>

#include "host/puppet.h"

static weft_host *host_of(unsigned workers, uint64_t max_actors)
{
    weft_host *host;
    CHECK_EQ(weft_host_create(
                 &host, &(struct weft_host_opts){.workers = workers, .max_actors = max_actors}),
             0);
    return host;
}

static weft_pid spawn(weft_host *host, const struct weft_actor_kind *kind)
{
    weft_pid pid;
    CHECK_EQ(weft_actor_spawn(host, &pid, kind, NULL, NULL), 0);
    return pid;
}

/* --- workers --------------------------------------------------------------------------------- */

static atomic_int inside, met;

/* Returns only when four such actors are in their steps. */
static int meet(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self, (void)events, (void)n;
    atomic_fetch_add(&inside, 1);
    while (atomic_load(&inside) < 4) {
        sched_yield();
    }
    weft_out_done(out, NULL);
    return 0;
}

TEST(four_actors_run_on_four_workers_at_once)
{
    static const struct weft_actor_kind kind = {.name = "meets", .step = meet};
    weft_host *host = host_of(4, 0);
    atomic_store(&inside, 0);
    for (int i = 0; i < 4; i++) {
        spawn(host, &kind);
    }
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&inside), 4);
    struct weft_host_stats stats;
    weft_host_stats(host, &stats);
    CHECK_EQ(stats.workers, 4);
    CHECK(stats.executed >= 4);
    weft_host_destroy(host);
}

static int come(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self, (void)events;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) { /* a message, or the cancel of the stop */
        atomic_fetch_add(&met, events[i].kind == WEFT_EVENT_MESSAGE);
        weft_out_done(out, NULL);
    }
    return 0;
}

enum { BEHIND = 20 };
static const struct weft_actor_kind comes = {.name = "comes", .step = come};
static weft_pid idle_ones[BEHIND];

/* Spawns some actors, wakes others, and occupies its worker until all have run. */
static int hold(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)events, (void)n;
    for (int i = 0; i < BEHIND; i++) {
        weft_pid pid = spawn(weft_actor_host(self), &comes);
        CHECK_EQ(weft_actor_send(pid, "come", 0, NULL, WEFT_BY_POLICY), 0);
        CHECK_EQ(weft_actor_send(idle_ones[i], "come", 0, NULL, WEFT_BY_POLICY), 0);
    }
    while (atomic_load(&met) < 2 * BEHIND) {
        sched_yield();
    }
    weft_out_done(out, NULL);
    return 0;
}

TEST(actors_queued_after_long_step_run_on_other_worker)
{
    static const struct weft_actor_kind kind = {.name = "holds", .step = hold};
    weft_host *host = host_of(2, 0);
    atomic_store(&met, 0);
    for (int i = 0; i < BEHIND; i++) {
        struct weft_actor_info info;
        idle_ones[i] = spawn(host, &comes);
        do { /* by now the actor is bound to a worker, if it ever is */
            CHECK_EQ(weft_actor_info(idle_ones[i], &info), 0);
        } while (info.state != WEFT_ACTOR_IDLE);
    }
    weft_pid pid = spawn(host, &kind);
    int err = weft_actor_join(pid, NULL, WEFT_FOREVER);
    CHECK(err == 0 || err == -ESRCH);
    CHECK_EQ(atomic_load(&met), 2 * BEHIND);
    puppet_host_end(host);
}

/* --- commands --------------------------------------------------------------------------------- */

enum { AT_ONCE = 300, BUSY = 301 };

static int at_once(const struct weft_command *command, void *arg)
{
    (void)arg;
    return weft_command_complete(command->actor, command->tag, 0, NULL);
}

static int busy(const struct weft_command *command, void *arg)
{
    volatile unsigned sum = 0;
    for (unsigned i = 0; i < 100; i++) {
        sum = sum + i;
    }
    return at_once(command, arg);
}

static atomic_long done_steps;

static int take_five(weft_actor *self, const struct weft_actor_event *events, size_t n,
                     weft_out *out)
{
    unsigned *step = weft_actor_state(self);
    if (*step) {
        CHECK_EQ(n, 1);
        CHECK_EQ(events[0].kind, WEFT_EVENT_COMPLETE);
        CHECK_EQ(events[0].tag, *step);
    }
    if (++*step > 5) {
        atomic_fetch_add(&done_steps, 5);
        weft_out_done(out, NULL);
        return 0;
    }
    CHECK_EQ(weft_out_command(out, *step % 2 ? AT_ONCE : BUSY, *step, NULL), 0);
    return 0;
}

static void ten_thousand_on(unsigned workers)
{
    static const struct weft_actor_kind kind = {
        .name = "five", .state_bytes = sizeof(unsigned), .step = take_five};
    weft_host *host = host_of(workers, 0);
    atomic_store(&done_steps, 0);
    CHECK_EQ(weft_host_handle(host, AT_ONCE, at_once, NULL), 0);
    CHECK_EQ(weft_host_handle(host, BUSY, busy, NULL), 0);
    long many = check_scale(10000);
    for (long i = 0; i < many; i++) {
        spawn(host, &kind);
    }
    while (atomic_load(&done_steps) < 5 * many) {
        sched_yield();
    }
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    struct weft_host_stats stats;
    weft_host_stats(host, &stats);
    CHECK_EQ(stats.ended, many);
    weft_host_destroy(host);
}

TEST(ten_thousand_actors_step_on_4_and_32_workers)
{
    ten_thousand_on(4);
    ten_thousand_on(32);
}

static int sleep_once(weft_actor *self, const struct weft_actor_event *events, size_t n,
                      weft_out *out)
{
    bool *asleep = weft_actor_state(self);
    (void)events;
    if (*asleep) {
        CHECK_EQ(n, 1);
        CHECK_EQ(events[0].error, 0);
        weft_out_done(out, NULL);
        return 0;
    }
    *asleep = true;
    return weft_out_at(out, 1, weft_after(1000000));
}

TEST(thousand_actors_sleep_concurrently)
{
    static const struct weft_actor_kind kind = {
        .name = "sleeps", .state_bytes = sizeof(bool), .step = sleep_once};
    weft_host *host = host_of(1, 0);
    for (int i = 0; i < 1000; i++) {
        spawn(host, &kind);
    }
    struct weft_host_stats stats;
    do {
        sched_yield();
        weft_host_stats(host, &stats);
    } while (stats.ended < 1000);
    puppet_host_end(host);
}

/* --- limits ----------------------------------------------------------------------------------- */

enum { LIMIT = 1000, TRIES = 5000 };
static atomic_int accepted, refused;
static weft_host *limited;

static void *try_many(void *arg)
{
    for (int i = 0; i < TRIES; i++) {
        weft_pid pid;
        int err = arg ? weft_actor_spawn(limited, &pid, &comes, NULL, NULL)
                      : weft_actor_spawn_with(limited, &pid, &comes, NULL);
        CHECK(err == 0 || err == -EAGAIN);
        atomic_fetch_add(err ? &refused : &accepted, 1);
    }
    return NULL;
}

TEST(concurrent_spawns_respect_exact_actor_limit)
{
    pthread_t threads[2];
    limited = host_of(2, LIMIT);
    atomic_store(&accepted, 0);
    atomic_store(&refused, 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, try_many, i ? limited : NULL), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQ(atomic_load(&accepted), LIMIT);
    CHECK_EQ(atomic_load(&refused), 2 * TRIES - LIMIT);
    puppet_host_end(limited);
}

/* --- messages to an actor that becomes idle --------------------------------------------------- */

static atomic_long counted;

static int tally(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        } else {
            atomic_fetch_add(&counted, 1);
        }
    }
    return 0;
}

static void *send_one_by_one(void *arg)
{
    for (int i = 0; i < 500; i++) {
        long before = atomic_load(&counted);
        CHECK_EQ(weft_actor_send(*(weft_pid *)arg, "n", 0, NULL, WEFT_BY_POLICY), 0);
        while (atomic_load(&counted) == before) { /* the next comes as it becomes idle */
            sched_yield();
        }
    }
    return NULL;
}

TEST(message_to_actor_going_idle_is_not_lost)
{
    static const struct weft_actor_kind kind = {.name = "tally", .step = tally};
    pthread_t threads[2];
    weft_host *host = host_of(2, 0);
    weft_pid pid = spawn(host, &kind);
    atomic_store(&counted, 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, send_one_by_one, &pid), 0);
    }
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    while (atomic_load(&counted) < 1000) {
        sched_yield();
    }
    puppet_host_end(host);
}

/* --- ends ------------------------------------------------------------------------------------- */

enum how { NEVER_INIT, VETO, DONE, FAIL, EXIT, KILLED, TOLD, UPGRADED, FELL_BACK, LEFT, HOWS };
enum { EACH = 100 };
static atomic_int opened[HOWS], closed[HOWS], stepped_after;

struct life {
    enum how how;
    bool was_closed;
    int upgrades;
};

static int live_init(weft_actor *self, const char *method, const weft_buf *input)
{
    struct life *life = weft_actor_state(self);
    (void)method;
    memcpy(&life->how, input->data, sizeof life->how);
    if (life->how == NEVER_INIT) {
        return -EIO;
    }
    atomic_fetch_add(&opened[life->how], 1);
    return 0;
}

static int live_convert(weft_actor *self, void *old_state, void *new_state)
{
    struct life *from = old_state;
    (void)self;
    from->upgrades++;
    if (from->how == FELL_BACK) {
        return -ENOTSUP;
    }
    memcpy(new_state, from, sizeof *from);
    atomic_fetch_add(&opened[from->how], 1);
    return 0;
}

static const struct weft_actor_kind life_kind, next_kind;

static int live(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    struct life *life = weft_actor_state(self);
    (void)events;
    atomic_fetch_add(&stepped_after, life->was_closed);
    weft_out_idle(out);
    if (n == 0) {
        return 0;
    }
    switch (life->how) {
    case DONE:
        weft_out_done(out, weft_buf_copy("x", 1));
        return 0;
    case FAIL:
        return -EDOM;
    case EXIT:
        return weft_out_exit(out, -EPIPE, NULL);
    case UPGRADED:
    case FELL_BACK:
        if (!life->upgrades) {
            return weft_out_upgrade(out, &next_kind, live_convert);
        }
        weft_out_done(out, NULL);
        return 0;
    default:
        return 0;
    }
}

static void live_close(weft_actor *self)
{
    struct life *life = weft_actor_state(self);
    CHECK(!life->was_closed);
    life->was_closed = true;
    atomic_fetch_add(&closed[life->how], 1);
}

static const struct weft_actor_kind life_kind = {.name = "life",
                                                 .state_bytes = sizeof(struct life),
                                                 .init = live_init,
                                                 .step = live,
                                                 .close = live_close};
static const struct weft_actor_kind next_kind = {
    .name = "next", .state_bytes = sizeof(struct life), .step = live, .close = live_close};

static enum how next_how;

static int veto(weft_host *host, weft_pid pid, const struct weft_actor_kind *kind, void *arg)
{
    (void)host, (void)pid, (void)kind, (void)arg;
    return next_how == VETO ? -EPERM : 0;
}

static void live_and_end(weft_host *host, enum how how)
{
    weft_pid pid;
    weft_buf *input = weft_buf_copy(&how, sizeof how);
    next_how = how;
    int err = weft_actor_spawn(host, &pid, &life_kind, NULL, input);
    weft_buf_free(input);
    CHECK_EQ(err, how == NEVER_INIT ? -EIO : how == VETO ? -EPERM : 0);
    if (err) {
        return;
    }
    CHECK_EQ(weft_actor_send(pid, "go", 0, weft_buf_copy("x", 1), WEFT_BY_POLICY), 0);
    if (how == KILLED) {
        CHECK_EQ(weft_actor_kill(pid), 0);
    } else if (how == TOLD) {
        CHECK_EQ(weft_actor_exit(pid, -EXDEV, NULL), 0);
    }
}

TEST(state_is_closed_once_on_every_exit_path)
{
    weft_host *host = host_of(2, 0);
    CHECK_EQ(weft_host_add_hook(host, &(struct weft_host_hook){.name = "veto", .on_start = veto}),
             0);
    for (int i = 0; i < EACH * HOWS; i++) {
        live_and_end(host, (enum how)(i % HOWS));
    }
    struct weft_host_stats stats;
    do {
        sched_yield();
        weft_host_stats(host, &stats);
    } while (stats.live > EACH); /* actors that the stop ends */
    CHECK_EQ(forced_stop(host, NULL, 0), EACH);
    for (int how = 0; how < HOWS; how++) {
        CHECK_EQ(atomic_load(&closed[how]), atomic_load(&opened[how]));
        CHECK_EQ(atomic_load(&opened[how]), how == NEVER_INIT ? 0
                                            : how == UPGRADED ? 2 * EACH
                                                              : EACH);
    }
    CHECK_EQ(atomic_load(&stepped_after), 0);
    weft_host_stats(host, &stats);
    CHECK_EQ(stats.live, 0);
    weft_host_destroy(host);
}

/* --- kills ------------------------------------------------------------------------------------ */

static atomic_int in_step, may_go, steps;

static int linger(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self, (void)events, (void)n;
    atomic_fetch_add(&steps, 1);
    while (!atomic_load(&may_go)) {
        sched_yield();
    }
    weft_out_continue(out);
    return 0;
}

static int idle(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self, (void)events, (void)n;
    weft_out_idle(out);
    return 0;
}

static int wait_long(weft_actor *self, const struct weft_actor_event *events, size_t n,
                     weft_out *out)
{
    (void)self, (void)events, (void)n;
    return weft_out_at(out, 1, weft_after(INT64_C(10000000000)));
}

static void kill_one(int (*step)(weft_actor *, const struct weft_actor_event *, size_t, weft_out *),
                     enum weft_actor_state state)
{
    const struct weft_actor_kind kind = {.name = "victim", .step = step};
    weft_host *host = host_of(1, 0);
    weft_pid pid = spawn(host, &kind);
    struct weft_actor_info info;
    do {
        CHECK_EQ(weft_actor_info(pid, &info), 0);
    } while (info.state != state || (step == linger && !atomic_load(&steps)));
    CHECK_EQ(weft_actor_kill(pid), 0);
    atomic_store(&may_go, 1);
    int err = weft_actor_join(pid, NULL, WEFT_FOREVER);
    CHECK(err == -ECANCELED || err == -ESRCH);
    CHECK_EQ(weft_actor_kill(pid), -ESRCH);
    CHECK_EQ(weft_actor_send(pid, "x", 0, weft_buf_copy("x", 1), WEFT_BY_POLICY), -ESRCH);
    puppet_host_end(host);
}

TEST(kill_ends_running_idle_or_blocked_actor)
{
    atomic_store(&may_go, 0);
    atomic_store(&steps, 0);
    kill_one(linger, WEFT_ACTOR_RUNNING);
    CHECK_EQ(atomic_load(&steps), 1); /* it was not interrupted, and there was no other actor */
    kill_one(idle, WEFT_ACTOR_IDLE);
    kill_one(wait_long, WEFT_ACTOR_BLOCKED);
    CHECK_EQ(weft_actor_kill((weft_pid){.id = 0}), -ESRCH);
}

static int go_on(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self, (void)events, (void)n;
    atomic_fetch_add(&in_step, 1);
    atomic_fetch_add(&steps, 1);
    sched_yield();
    weft_out_continue(out);
    atomic_fetch_sub(&in_step, 1);
    return 0;
}

TEST(no_step_runs_after_host_stop)
{
    static const struct weft_actor_kind kind = {.name = "goes on", .step = go_on};
    for (int round = 0; round < 20; round++) {
        weft_host *host = host_of(3, 0);
        atomic_store(&steps, 0);
        for (int i = 0; i < 6; i++) {
            spawn(host, &kind);
        }
        while (atomic_load(&steps) < 20) {
            sched_yield();
        }
        CHECK_EQ(forced_stop(host, NULL, 0), 6);
        CHECK_EQ(atomic_load(&in_step), 0);
        int before = atomic_load(&steps);
        weft_host_destroy(host);
        CHECK_EQ(atomic_load(&steps), before);
    }
}
