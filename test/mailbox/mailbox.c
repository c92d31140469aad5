/* labels: valgrind */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "check.h"

/* Blocks until the completion of its one command releases it, then records every message. */
enum { HOLD = 256 };

static weft_event held;
static weft_pid held_actor;
static atomic_int noted;
static uint64_t notes[4096];
static size_t biggest;

static int hold(const struct weft_command *command, void *arg)
{
    (void)arg;
    held_actor = command->actor;
    weft_event_set(&held);
    return 0;
}

static int note(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    int *begun = weft_actor_state(self);
    if (!*begun) {
        *begun = 1;
        CHECK_EQ(weft_out_command(out, HOLD, 0, NULL), 0);
        return 0;
    }
    biggest = n > biggest ? n : biggest;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_MESSAGE) {
            int at = atomic_load(&noted);
            notes[at] = events[i].tag;
            atomic_store(&noted, at + 1);
        } else if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        }
    }
    return 0;
}

static const struct weft_actor_kind refusing = {
    .name = "refusing", .state_bytes = sizeof(int), .step = note, .mailbox = 4};
static const struct weft_actor_kind dropping = {.name = "dropping",
                                                .state_bytes = sizeof(int),
                                                .step = note,
                                                .mailbox = 4,
                                                .policy = WEFT_MAILBOX_DROP_OLDEST};
static const struct weft_actor_kind waiting = {.name = "waiting",
                                               .state_bytes = sizeof(int),
                                               .step = note,
                                               .mailbox = 4,
                                               .policy = WEFT_MAILBOX_WAIT};

static weft_host *host;

/* Spawns such an actor; returns when it has issued HOLD. */
static weft_pid begin_in(enum weft_actor_state state, const struct weft_actor_kind *kind,
                         const struct weft_host_opts *opts)
{
    weft_pid pid;
    struct weft_actor_info info;
    weft_event_init(&held, NULL);
    atomic_store(&noted, 0);
    biggest = 0;
    CHECK_EQ(weft_host_create(&host, opts), 0);
    CHECK_EQ(weft_host_handle(host, HOLD, hold, NULL), 0);
    CHECK_EQ(weft_actor_spawn(host, &pid, kind, NULL, NULL), 0);
    CHECK_EQ(weft_event_wait(&held, WEFT_FOREVER), 0);
    do {
        CHECK_EQ(weft_actor_info(pid, &info), 0);
    } while (info.state != state);
    return pid;
}

static weft_pid begin(const struct weft_actor_kind *kind, const struct weft_host_opts *opts)
{
    return begin_in(WEFT_ACTOR_BLOCKED, kind, opts);
}

static void let_go(weft_pid pid)
{
    CHECK_EQ(weft_command_complete(pid, 0, 0, NULL), 0);
}

static void await_notes(int n)
{
    while (atomic_load(&noted) < n) {
        weft_sleep(weft_after(100000));
    }
    CHECK_EQ(atomic_load(&noted), n);
}

static void end(void)
{
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
    weft_event_deinit(&held);
}

static uint64_t dead_letters(void)
{
    struct weft_host_stats stats;
    weft_host_stats(host, &stats);
    return stats.dead_letters;
}

static unsigned waiting_messages(weft_pid pid)
{
    struct weft_actor_info info;
    CHECK_EQ(weft_actor_info(pid, &info), 0);
    return info.mailbox;
}

TEST(full_refusing_mailbox_returns_enobufs_until_drained)
{
    weft_pid pid = begin(&refusing, &(struct weft_host_opts){.workers = 1});
    for (uint64_t i = 0; i < 4; i++) {
        CHECK_EQ(weft_actor_send(pid, "n", i, NULL, WEFT_BY_POLICY), 0);
    }
    CHECK_EQ(weft_actor_send(pid, "n", 9, weft_buf_copy("x", 1), WEFT_BY_POLICY), -ENOBUFS);
    CHECK_EQ(waiting_messages(pid), 4);
    let_go(pid);
    await_notes(4);
    CHECK_EQ(weft_actor_send(pid, "n", 4, NULL, WEFT_BY_POLICY), 0);
    await_notes(5);
    for (uint64_t i = 0; i < 5; i++) {
        CHECK_EQ(notes[i], i);
    }
    CHECK_EQ(dead_letters(), 0);
    end();
}

TEST(full_dropping_mailbox_drops_oldest)
{
    weft_pid pid = begin(&dropping, &(struct weft_host_opts){.workers = 1});
    for (uint64_t i = 0; i < 100; i++) {
        CHECK_EQ(weft_actor_send(pid, "n", i, weft_buf_copy(&i, sizeof i), WEFT_BY_POLICY), 0);
        CHECK(waiting_messages(pid) <= 4);
    }
    CHECK_EQ(dead_letters(), 96);
    let_go(pid);
    await_notes(4);
    for (uint64_t i = 0; i < 4; i++) {
        CHECK_EQ(notes[i], 96 + i);
    }
    end();
}

enum { THREADS = 4, EACH = 20000 };
static weft_pid target;
static atomic_int refused;

static void *flood(void *arg)
{
    uint64_t base = (uint64_t)(uintptr_t)arg << 32;
    for (uint64_t i = 1; i <= EACH; i++) {
        int err = weft_actor_send(target, "n", base | i, NULL, WEFT_BY_POLICY);
        CHECK(err == 0 || err == -ENOBUFS);
        if (err) {
            atomic_fetch_add(&refused, 1);
        }
    }
    return NULL;
}

/* Checks the order of messages from each sender, and counts them. */
static atomic_uint_fast64_t taken;

static int take(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    uint32_t *last = weft_actor_state(self);
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
            continue;
        }
        CHECK((uint32_t)events[i].tag > last[events[i].tag >> 32]);
        last[events[i].tag >> 32] = (uint32_t)events[i].tag;
        atomic_fetch_add(&taken, 1);
    }
    return 0;
}

static void flood_all(enum weft_mailbox_policy policy)
{
    const struct weft_actor_kind kind = {.name = "taker",
                                         .state_bytes = (THREADS + 1) * sizeof(uint32_t),
                                         .step = take,
                                         .mailbox = 3,
                                         .policy = policy};
    pthread_t threads[THREADS];
    atomic_store(&taken, 0);
    atomic_store(&refused, 0);
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 2}), 0);
    CHECK_EQ(weft_actor_spawn(host, &target, &kind, NULL, NULL), 0);
    for (uintptr_t i = 0; i < THREADS; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, flood, (void *)(i + 1)), 0);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&taken) + dead_letters() + (uint64_t)atomic_load(&refused),
             THREADS * EACH);
    weft_host_destroy(host);
}

TEST(threads_flooding_dropping_mailbox_are_never_refused)
{
    flood_all(WEFT_MAILBOX_DROP_OLDEST);
    CHECK_EQ(atomic_load(&refused), 0);
}

TEST(threads_flooding_refusing_mailbox_lose_nothing_accepted)
{
    flood_all(WEFT_MAILBOX_REFUSE);
}

TEST(thread_send_to_full_mailbox_fails_or_waits_for_deadline)
{
    weft_pid pid = begin(&waiting, &(struct weft_host_opts){.workers = 1});
    for (uint64_t i = 0; i < 4; i++) {
        CHECK_EQ(weft_actor_send(pid, "n", i, NULL, WEFT_BY_POLICY), 0);
    }
    CHECK_EQ(weft_actor_send(pid, "n", 4, NULL, WEFT_BY_POLICY), -ENOBUFS);
    CHECK_EQ(weft_actor_send(pid, "n", 4, weft_buf_copy("x", 1), 0), -ETIMEDOUT);
    CHECK_EQ(weft_actor_call(pid, NULL, "n", NULL, INT64_MIN), -ETIMEDOUT); /* as any ended actor */
    CHECK_EQ(weft_actor_send(pid, "n", 4, NULL, weft_after(2000000)), -ETIMEDOUT);
    let_go(pid);
    CHECK_EQ(weft_actor_send(pid, "n", 4, NULL, WEFT_FOREVER), 0);
    await_notes(5);
    CHECK_EQ(notes[4], 4);
    CHECK_EQ(weft_actor_send(pid, "n", 5, NULL, WEFT_BY_POLICY), 0);
    await_notes(6);
    end();
}

/* Fibers that send more than the mailbox has capacity for. */
static weft_waitgroup senders;
static atomic_int begun;

static void *send_some(void *arg)
{
    uint64_t base = (uint64_t)(uintptr_t)arg << 32;
    atomic_fetch_add(&begun, 1);
    for (uint64_t i = 1; i <= 50; i++) {
        CHECK_EQ(weft_actor_send(target, "n", base | i, NULL, WEFT_BY_POLICY), 0);
    }
    weft_waitgroup_done(&senders);
    return NULL;
}

TEST(fibers_waiting_for_capacity_keep_order)
{
    weft_pool *pool;
    target = begin(&waiting, &(struct weft_host_opts){.workers = 2});
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 2}), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    weft_waitgroup_init(&senders, NULL);
    weft_waitgroup_add(&senders, 8);
    atomic_store(&begun, 0);
    for (uintptr_t i = 0; i < 8; i++) {
        CHECK_EQ(weft_pool_submit(pool, send_some, (void *)i), 0);
    }
    while (atomic_load(&begun) < 8 || waiting_messages(target) < 4) {
        weft_sleep(weft_after(100000));
    }
    CHECK_EQ(weft_waitgroup_wait(&senders, 0), -ETIMEDOUT);
    let_go(target);
    CHECK_EQ(weft_waitgroup_wait(&senders, WEFT_FOREVER), 0);
    await_notes(8 * 50);
    uint32_t last[8] = {0};
    for (int i = 0; i < 8 * 50; i++) {
        CHECK_EQ((uint32_t)notes[i], last[notes[i] >> 32] + 1);
        last[notes[i] >> 32]++;
    }
    CHECK_EQ(dead_letters(), 0);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
    weft_waitgroup_deinit(&senders);
    end();
}

static void *send_one(void *arg)
{
    *(int *)arg = weft_actor_send(target, "n", 7, weft_buf_copy("x", 1), WEFT_BY_POLICY);
    return NULL;
}

TEST(capacity_wait_ends_on_cancel_and_on_actor_exit)
{
    weft_pool *pool;
    weft_fiber fiber;
    int answer = 1;
    target = begin(&waiting, &(struct weft_host_opts){.workers = 1});
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1}), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    for (uint64_t i = 0; i < 4; i++) {
        CHECK_EQ(weft_actor_send(target, "n", i, NULL, WEFT_BY_POLICY), 0);
    }
    CHECK_EQ(weft_pool_spawn(pool, &fiber, send_one, &answer, NULL), 0);
    weft_cancel(fiber);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(answer, -ECANCELED);
    CHECK_EQ(weft_pool_spawn(pool, &fiber, send_one, &answer, NULL), 0);
    enum weft_fiber_state state;
    do {
        CHECK_EQ(weft_fiber_state(fiber, &state), 0);
    } while (state != WEFT_FIBER_WAITING);
    CHECK_EQ(weft_actor_kill(target), 0);
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(answer, -ESRCH);
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
    end();
    CHECK_EQ(weft_actor_send(target, "n", 0, NULL, WEFT_FOREVER), -ESRCH);
}

static int answer_in_step;

static int try_step(weft_actor *self, const struct weft_actor_event *events, size_t n,
                    weft_out *out)
{
    (void)self, (void)events, (void)n;
    answer_in_step = weft_actor_send(target, "n", 8, NULL, WEFT_BY_POLICY);
    CHECK_EQ(weft_actor_send(target, "n", 8, NULL, WEFT_FOREVER), -ENOBUFS);
    weft_out_done(out, NULL);
    return 0;
}

static const struct weft_actor_kind trier = {.name = "trier", .step = try_step};

TEST(send_in_step_to_full_mailbox_returns_enobufs)
{
    weft_pid pid;
    target = begin(&waiting, &(struct weft_host_opts){.workers = 1});
    for (uint64_t i = 0; i < 4; i++) {
        CHECK_EQ(weft_actor_send(target, "n", i, NULL, WEFT_BY_POLICY), 0);
    }
    answer_in_step = 1;
    CHECK_EQ(weft_actor_spawn(host, &pid, &trier, NULL, NULL), 0);
    int err = weft_actor_join(pid, NULL, WEFT_FOREVER);
    CHECK(err == 0 || err == -ESRCH);
    CHECK_EQ(answer_in_step, -ENOBUFS);
    end();
}

TEST(step_gets_at_most_batch_events)
{
    static const struct weft_actor_kind three = {
        .name = "three", .state_bytes = sizeof(int), .step = note, .batch = 3};
    static const struct weft_actor_kind hosts = {
        .name = "hosts", .state_bytes = sizeof(int), .step = note};
    static const struct weft_actor_kind wrong = {.name = "wrong", .step = note, .batch = 65};
    for (int k = 0; k < 2; k++) {
        weft_pid pid =
            begin(k ? &hosts : &three, &(struct weft_host_opts){.workers = 1, .batch = 5});
        for (uint64_t i = 0; i < 100; i++) {
            CHECK_EQ(weft_actor_send(pid, "n", i, NULL, WEFT_BY_POLICY), 0);
        }
        let_go(pid);
        await_notes(100);
        CHECK_EQ(biggest, k ? 5 : 3);
        CHECK_EQ(weft_actor_spawn(host, NULL, &wrong, NULL, NULL), -EINVAL);
        end();
    }
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.batch = 65}), -EINVAL);
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.turn_ns = -1}), -EINVAL);
}

/* Keeps the only worker busy in its step. */
static atomic_int keeps, release_worker;

static int keep_worker(weft_actor *self, const struct weft_actor_event *events, size_t n,
                       weft_out *out)
{
    (void)self, (void)events, (void)n;
    atomic_store(&keeps, 1);
    while (!atomic_load(&release_worker)) {
    }
    weft_out_done(out, NULL);
    return 0;
}

static const struct weft_actor_kind keeper = {.name = "keeper", .step = keep_worker};

static void occupy(void)
{
    atomic_store(&keeps, 0);
    atomic_store(&release_worker, 0);
    CHECK_EQ(weft_actor_spawn(host, NULL, &keeper, NULL, NULL), 0);
    while (!atomic_load(&keeps)) {
        weft_sleep(weft_after(100000));
    }
}

static int cancel_first(weft_actor *self, const struct weft_actor_event *events, size_t n,
                        weft_out *out)
{
    int *begun_here = weft_actor_state(self);
    if (!*begun_here) {
        *begun_here = 1;
        CHECK_EQ(weft_out_command(out, HOLD, 0, NULL), 0);
        weft_out_idle(out);
        return 0;
    }
    CHECK_EQ(n, 4);
    CHECK_EQ(events[0].kind, WEFT_EVENT_COMPLETE);
    CHECK_EQ(events[1].kind, WEFT_EVENT_CANCEL);
    CHECK_EQ(events[2].tag, 0);
    CHECK_EQ(events[3].tag, 1);
    atomic_fetch_add(&noted, 1);
    weft_out_done(out, NULL);
    return 0;
}

TEST(system_events_precede_messages_and_ignore_capacity)
{
    static const struct weft_actor_kind kind = {
        .name = "orderly", .state_bytes = sizeof(int), .step = cancel_first, .mailbox = 2};
    weft_pid pid = begin_in(WEFT_ACTOR_IDLE, &kind, &(struct weft_host_opts){.workers = 1});
    occupy();
    CHECK_EQ(weft_actor_send(pid, "n", 0, NULL, WEFT_BY_POLICY), 0);
    CHECK_EQ(weft_actor_send(pid, "n", 1, NULL, WEFT_BY_POLICY), 0);
    CHECK_EQ(weft_actor_send(pid, "n", 2, NULL, WEFT_BY_POLICY), -ENOBUFS);
    let_go(pid);
    CHECK_EQ(weft_actor_cancel(pid, NULL), 0);
    atomic_store(&release_worker, 1);
    await_notes(1);
    end();
}

/* --- time slices -------------------------------------------------------------------------- */

static atomic_uint_fast64_t steps_of_busy;

/* Runs for ever without input. */
static int go_on(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self;
    atomic_fetch_add(&steps_of_busy, 1);
    weft_out_continue(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        }
    }
    return 0;
}

/* Sends itself two messages for each one while its mailbox accepts them, so it always has some. */
static int feed_itself(weft_actor *self, const struct weft_actor_event *events, size_t n,
                       weft_out *out)
{
    weft_pid me = weft_actor_pid(self);
    atomic_fetch_add(&steps_of_busy, 1);
    weft_out_idle(out);
    weft_actor_send(me, "more", 0, NULL, WEFT_BY_POLICY);
    for (size_t i = 0; i < n; i++) {
        weft_actor_send(me, "more", 0, NULL, WEFT_BY_POLICY);
        weft_actor_send(me, "more", 0, NULL, WEFT_BY_POLICY);
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        }
    }
    return 0;
}

static int give_up_soon(weft_actor *self, const struct weft_actor_event *events, size_t n,
                        weft_out *out)
{
    int *left = weft_actor_state(self);
    (void)events, (void)n;
    if (++*left < 20) {
        weft_out_continue(out);
    } else {
        weft_out_done(out, NULL);
    }
    return 0;
}

static void beside_busy(int (*step)(weft_actor *, const struct weft_actor_event *, size_t,
                                    weft_out *),
                        const struct weft_host_opts *opts)
{
    const struct weft_actor_kind busy = {.name = "busy", .step = step, .mailbox = 1000};
    static const struct weft_actor_kind modest = {
        .name = "modest", .state_bytes = sizeof(int), .step = give_up_soon};
    weft_pid pid;
    CHECK_EQ(weft_host_create(&host, opts), 0);
    CHECK_EQ(weft_actor_spawn(host, &pid, &busy, NULL, NULL), 0);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(weft_actor_spawn(host, &pid, &modest, NULL, NULL), 0);
        int err = weft_actor_join(pid, NULL, WEFT_FOREVER);
        CHECK(err == 0 || err == -ESRCH);
    }
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
}

TEST(endlessly_continuing_actor_starves_no_other)
{
    beside_busy(go_on, &(struct weft_host_opts){.workers = 1});
}

TEST(self_sending_actor_starves_no_other)
{
    beside_busy(feed_itself, &(struct weft_host_opts){.workers = 1});
    /* Limited by events alone, and by time alone. */
    beside_busy(feed_itself,
                &(struct weft_host_opts){.workers = 1, .turn_events = 10, .turn_ns = WEFT_FOREVER});
    beside_busy(feed_itself, &(struct weft_host_opts){
                                 .workers = 1, .turn_events = UINT32_MAX, .turn_ns = 50000});
}

/* A slice is a number of steps: the other actor counts them. */
static uint64_t steps_before, most_between;

static int watch_busy(weft_actor *self, const struct weft_actor_event *events, size_t n,
                      weft_out *out)
{
    uint64_t now = atomic_load(&steps_of_busy);
    (void)self;
    if (steps_before && now - steps_before > most_between) {
        most_between = now - steps_before;
    }
    steps_before = now;
    weft_out_continue(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        }
    }
    atomic_fetch_add(&noted, 1);
    return 0;
}

TEST(actor_turn_ends_at_event_limit)
{
    static const struct weft_actor_kind busy = {
        .name = "busy", .step = feed_itself, .mailbox = 1000};
    static const struct weft_actor_kind watcher = {.name = "watcher", .step = watch_busy};
    steps_before = most_between = 0;
    atomic_store(&noted, 0);
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 1,
                                                              .batch = 2,
                                                              .turn_events = 8,
                                                              .turn_ns = WEFT_FOREVER}),
             0);
    CHECK_EQ(weft_actor_spawn(host, NULL, &busy, NULL, NULL), 0);
    CHECK_EQ(weft_actor_spawn(host, NULL, &watcher, NULL, NULL), 0);
    while (atomic_load(&noted) < 100) {
        weft_sleep(weft_after(100000));
    }
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    /* 4 steps of 2 events; because of ticks one may be skipped. */
    CHECK(most_between >= 4);
    CHECK(most_between <= 3 * 4 + 4);
    weft_host_destroy(host);
}
