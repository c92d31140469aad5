/* labels: valgrind */
/* Steps that wait for mailbox capacity: weft_out_send, weft_out_send. */
#include <errno.h>
#include <stdatomic.h>

#include "host/puppet.h"

#define MS ((int64_t)1000000)

/* --- the receiver: blocked until the completion of its one command releases it ---------------- */

enum { HOLD = 256, SENDERS = 60, EACH = 150, MOST = SENDERS * EACH };

static weft_host *host;
static weft_event held;
static weft_pid target;
static atomic_int noted;
static uint64_t notes[MOST];
static weft_pid victim;  /* killed by the receiver's first step that has messages */
static bool holds_again; /* blocks again after each step with messages */

static int hold(const struct weft_command *command, void *arg)
{
    (void)command, (void)arg;
    weft_event_set(&held);
    return 0;
}

static void note_one(const struct weft_actor_event *event)
{
    int at = atomic_load(&noted);
    CHECK(at < MOST);
    notes[at] = event->tag;
    atomic_store(&noted, at + 1);
}

static int note(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    bool *begun = weft_actor_state(self), again = false;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_MESSAGE) {
            note_one(&events[i]);
            again = holds_again;
        } else if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
            return 0;
        }
    }
    if (!weft_pid_is_none(victim) && atomic_load(&noted)) {
        CHECK_EQ(weft_actor_kill(victim), 0);
        victim = (weft_pid){0};
    }
    if (!*begun || again) {
        *begun = true;
        weft_out_wait(out);
        return weft_out_command(out, HOLD, 0, NULL);
    }
    return 0;
}

static int become(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out);

static const struct weft_actor_kind waiting = {.name = "waiting",
                                               .state_bytes = sizeof(bool),
                                               .step = note,
                                               .mailbox = 4,
                                               .policy = WEFT_MAILBOX_WAIT},
                                    refusing = {.name = "refusing",
                                                .state_bytes = sizeof(bool),
                                                .step = note,
                                                .mailbox = 4},
                                    narrow = {.name = "narrow",
                                              .state_bytes = sizeof(bool),
                                              .step = note,
                                              .mailbox = 1,
                                              .policy = WEFT_MAILBOX_WAIT},
                                    slow = {.name = "slow",
                                            .state_bytes = sizeof(bool),
                                            .step = note,
                                            .mailbox = 4,
                                            .batch = 1,
                                            .policy = WEFT_MAILBOX_WAIT},
                                    halting = {.name = "halting",
                                               .state_bytes = sizeof(bool),
                                               .step = note,
                                               .mailbox = 4,
                                               .batch = 2,
                                               .policy = WEFT_MAILBOX_WAIT},
                                    changing = {.name = "changing",
                                                .state_bytes = sizeof(bool),
                                                .step = become,
                                                .mailbox = 4,
                                                .policy = WEFT_MAILBOX_WAIT};
static struct weft_actor_kind changed = {
    .name = "changed", .state_bytes = sizeof(bool), .step = note};

static int become(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    bool *begun = weft_actor_state(self);
    (void)events, (void)n;
    if (!*begun) {
        *begun = true;
        return weft_out_command(out, HOLD, 0, NULL);
    }
    return weft_out_upgrade(out, &changed, NULL);
}

static void await_hold(void)
{
    struct weft_actor_info info;
    CHECK_EQ(weft_event_wait(&held, WEFT_FOREVER), 0);
    do {
        CHECK_EQ(weft_actor_info(target, &info), 0);
    } while (info.state != WEFT_ACTOR_BLOCKED);
}

/* Spawns a blocked receiver with this mailbox capacity. */
static void begin(const struct weft_actor_kind *kind, unsigned workers, uint64_t fill)
{
    weft_event_init(&held, NULL);
    atomic_store(&noted, 0);
    victim = (weft_pid){0};
    holds_again = false;
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = workers}), 0);
    CHECK_EQ(weft_host_handle(host, HOLD, hold, NULL), 0);
    CHECK_EQ(weft_actor_spawn(host, &target, kind, NULL, NULL), 0);
    await_hold();
    for (uint64_t i = 0; i < fill; i++) {
        CHECK_EQ(weft_actor_send(target, "n", i, NULL, WEFT_BY_POLICY), 0);
    }
}

static void let_go(void)
{
    CHECK_EQ(weft_command_complete(target, 0, 0, NULL), 0);
}

static void await_notes(int n)
{
    while (atomic_load(&noted) < n) {
        weft_sleep(weft_after(100000));
    }
    CHECK_EQ(atomic_load(&noted), n);
}

static uint64_t dead_letters(void)
{
    struct weft_host_stats stats;
    weft_host_stats(host, &stats);
    return stats.dead_letters;
}

static unsigned waiting_messages(void)
{
    struct weft_actor_info info;
    CHECK_EQ(weft_actor_info(target, &info), 0);
    return info.mailbox;
}

static void end(void)
{
    CHECK(forced_stop(host, NULL, 0) >= 0); /* puppets do not end by themselves */
    weft_host_destroy(host);
    weft_event_deinit(&held);
}

/* --- the senders ------------------------------------------------------------------------------ */

static int puppet_send(weft_actor *self, weft_out *out, void *arg)
{
    uint64_t tag = *(uint64_t *)arg;
    (void)self;
    return weft_out_send(out, tag, target, "n", tag, weft_buf_copy(&tag, sizeof tag),
                         WEFT_BY_POLICY);
}

static int puppet_send_soon(weft_actor *self, weft_out *out, void *arg)
{
    uint64_t tag = *(uint64_t *)arg;
    (void)self;
    return weft_out_send(out, tag, target, "n", tag, weft_buf_copy(&tag, sizeof tag),
                         weft_after(2 * MS));
}

static int puppet_send_patiently(weft_actor *self, weft_out *out, void *arg)
{
    uint64_t tag = *(uint64_t *)arg;
    (void)self;
    return weft_out_send(out, tag, target, "n", tag, NULL, weft_after(3600000 * MS));
}

static int puppet_send_now(weft_actor *self, weft_out *out, void *arg)
{
    (void)self, (void)out;
    return weft_actor_send(target, "n", *(uint64_t *)arg, NULL, WEFT_BY_POLICY);
}

static int puppet_send_and_end(weft_actor *self, weft_out *out, void *arg)
{
    int err = puppet_send(self, out, arg);
    weft_out_done(out, NULL);
    return err;
}

static void send_by(struct puppet *p, puppet_fn fn, uint64_t tag)
{
    CHECK_EQ(puppet_do(p, fn, &tag), 0);
    puppet_settle(p); /* the step has returned */
}

static void check_complete(struct puppet *p, int at, uint64_t tag, int error)
{
    struct seen seen = puppet_await(p, at);
    CHECK_EQ(seen.kind, WEFT_EVENT_COMPLETE);
    CHECK_EQ(seen.tag, tag);
    CHECK_EQ(seen.error, error);
}

TEST(waiting_send_completes_when_capacity_frees)
{
    struct puppet a;
    begin(&waiting, 1, 4);
    puppet_start(host, &a);
    send_by(&a, puppet_send, 4);
    CHECK_EQ(puppet_count(&a), 0); /* and it keeps running meanwhile */
    CHECK_EQ(waiting_messages(), 4);
    let_go();
    check_complete(&a, 1, 4, 0);
    CHECK(weft_pid_equal(puppet_await(&a, 1).from, target));
    await_notes(5);
    for (uint64_t i = 0; i < 5; i++) {
        CHECK_EQ(notes[i], i);
    }
    send_by(&a, puppet_send, 5); /* there is capacity */
    check_complete(&a, 2, 5, 0);
    CHECK(weft_pid_equal(puppet_await(&a, 2).from, target));
    await_notes(6);
    CHECK_EQ(dead_letters(), 0);
    end();
}

TEST(later_send_does_not_overtake_waiting_send)
{
    struct puppet a;
    uint64_t tag = 99;
    begin(&waiting, 1, 4);
    puppet_start(host, &a);
    for (uint64_t i = 4; i < 20; i++) {
        send_by(&a, puppet_send, i);
    }
    CHECK_EQ(puppet_do(&a, puppet_send_now, &tag), -ENOBUFS);
    let_go();
    for (int i = 0; i < 16; i++) {
        check_complete(&a, i + 1, (uint64_t)i + 4, 0);
    }
    await_notes(20);
    for (uint64_t i = 0; i < 20; i++) {
        CHECK_EQ(notes[i], i);
    }
    end();
}

static void *send_one(void *arg)
{
    *(int *)arg = weft_actor_send(target, "n", 5, NULL, WEFT_BY_POLICY);
    return NULL;
}

TEST(oldest_waiter_step_or_fiber_is_admitted_first)
{
    struct puppet a, b;
    weft_pool *pool;
    weft_fiber fiber;
    enum weft_fiber_state state;
    int answer = 1;
    begin(&waiting, 1, 4);
    puppet_start(host, &a);
    puppet_start(host, &b);
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 1}), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    send_by(&a, puppet_send, 4);
    CHECK_EQ(weft_pool_spawn(pool, &fiber, send_one, &answer, NULL), 0);
    do {
        CHECK_EQ(weft_fiber_state(fiber, &state), 0);
    } while (state != WEFT_FIBER_WAITING);
    send_by(&b, puppet_send, 6);
    CHECK_EQ(weft_actor_send(target, "n", 7, NULL, WEFT_BY_POLICY), -ENOBUFS);
    let_go();
    CHECK_EQ(weft_join(fiber, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(answer, 0);
    check_complete(&a, 1, 4, 0);
    check_complete(&b, 1, 6, 0);
    await_notes(7);
    CHECK_EQ(notes[4], 4);
    CHECK_EQ(notes[5] + notes[6], 11); /* the fiber is admitted before b, and sends when it runs */
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
    end();
}

TEST(waiting_send_fails_with_esrch_when_target_exits)
{
    struct puppet a;
    begin(&waiting, 1, 4);
    puppet_start(host, &a);
    send_by(&a, puppet_send, 4);
    send_by(&a, puppet_send_patiently, 5);
    CHECK_EQ(weft_actor_kill(target), 0);
    check_complete(&a, 1, 4, -ESRCH);
    check_complete(&a, 2, 5, -ESRCH);
    puppet_await_end(target);
    CHECK_EQ(dead_letters(), 6); /* with the four messages that were already queued */
    send_by(&a, puppet_send, 6);
    check_complete(&a, 3, 6, -ESRCH);
    CHECK_EQ(dead_letters(), 7);
    end();
}

TEST(sender_exit_drops_its_waiting_sends)
{
    struct puppet a, b, c;
    uint64_t tag = 5;
    begin(&waiting, 1, 4);
    puppet_start(host, &a);
    puppet_start(host, &b);
    puppet_start(host, &c);
    send_by(&a, puppet_send, 4);
    send_by(&a, puppet_send_patiently, 4);
    CHECK_EQ(puppet_do(&b, puppet_send_and_end, &tag), 0);
    puppet_await_end(b.pid);
    send_by(&c, puppet_send, 6);
    CHECK_EQ(weft_actor_kill(a.pid), 0);
    puppet_await_end(a.pid);
    CHECK_EQ(dead_letters(), 3);
    let_go();
    check_complete(&c, 1, 6, 0);
    await_notes(5);
    CHECK_EQ(notes[4], 6);
    CHECK_EQ(puppet_do(&c, puppet_send_now, &tag), 0); /* no sender waits any more */
    await_notes(6);
    end();
}

TEST(waiting_send_with_deadline_returns_etimedout)
{
    struct puppet a;
    begin(&refusing, 1, 4);
    puppet_start(host, &a);
    send_by(&a, puppet_send, 3);
    check_complete(&a, 1, 3, -ENOBUFS); /* its log says so */
    send_by(&a, puppet_send_soon, 4);
    check_complete(&a, 2, 4, -ETIMEDOUT);
    send_by(&a, puppet_send_patiently, 5);
    send_by(&a, puppet_send_soon, 6);
    check_complete(&a, 3, 6, -ETIMEDOUT);
    let_go();
    check_complete(&a, 4, 5, 0);
    await_notes(5);
    CHECK_EQ(notes[4], 5);
    CHECK_EQ(dead_letters(), 0);
    send_by(&a, puppet_send_soon, 7);
    check_complete(&a, 5, 7, 0);
    await_notes(6);
    end();
}

/* The mailbox is never half empty: the receiver handles one message, and blocks again. */
TEST(blocked_actor_grants_available_capacity)
{
    struct puppet a, b;
    begin(&slow, 1, 4);
    puppet_start(host, &a);
    puppet_start(host, &b);
    send_by(&a, puppet_send, 4);
    send_by(&b, puppet_send, 5);
    holds_again = true;
    weft_event_reset(&held);
    let_go();
    check_complete(&a, 1, 4, 0);
    await_hold();
    CHECK_EQ(waiting_messages(), 4);
    CHECK_EQ(puppet_count(&b), 0);
    holds_again = false;
    let_go();
    check_complete(&b, 1, 5, 0);
    await_notes(6);
    end();
}

/* The receiver handles two and blocks. The second sender is admitted after the first has used its
 * credit, or before. */
TEST(admitted_sender_passes_remaining_capacity_to_next)
{
    struct puppet p[3];
    begin(&halting, 1, 4);
    for (int i = 0; i < 3; i++) {
        puppet_start(host, &p[i]);
        send_by(&p[i], puppet_send, 4 + (uint64_t)i);
    }
    holds_again = true;
    let_go();
    check_complete(&p[0], 1, 4, 0);
    check_complete(&p[1], 1, 5, 0);
    CHECK_EQ(waiting_messages(), 4);
    CHECK_EQ(puppet_count(&p[2]), 0);
    end();
}

TEST(upgrade_with_larger_mailbox_admits_waiting_sends)
{
    struct puppet a;
    begin(&changing, 1, 4);
    puppet_start(host, &a);
    for (uint64_t i = 4; i < 10; i++) {
        send_by(&a, puppet_send, i);
    }
    changed.mailbox = 100;
    changed.policy = WEFT_MAILBOX_REFUSE;
    let_go();
    for (int i = 0; i < 6; i++) {
        check_complete(&a, i + 1, (uint64_t)i + 4, 0);
    }
    await_notes(10);
    CHECK_EQ(dead_letters(), 0);
    end();
}

TEST(upgrade_to_dropping_mailbox_admits_all_waiting_sends)
{
    struct puppet a;
    begin(&changing, 1, 4);
    puppet_start(host, &a);
    for (uint64_t i = 4; i < 10; i++) {
        send_by(&a, puppet_send, i);
    }
    changed.mailbox = 4;
    changed.policy = WEFT_MAILBOX_DROP_OLDEST;
    let_go();
    for (int i = 0; i < 6; i++) {
        check_complete(&a, i + 1, (uint64_t)i + 4, 0);
    }
    await_notes(4);
    CHECK_EQ(dead_letters(), 6);
    for (uint64_t i = 0; i < 4; i++) {
        CHECK_EQ(notes[i], 6 + i);
    }
    end();
}

static struct weft_actor_kind new_puppet;

static int puppet_upgrade(weft_actor *self, weft_out *out, void *arg)
{
    (void)self, (void)arg;
    new_puppet = puppet_kind;
    new_puppet.name = "new";
    return weft_out_upgrade(out, &new_puppet, NULL);
}

TEST(upgraded_sender_gets_completion_of_waiting_send)
{
    struct puppet a;
    begin(&waiting, 1, 4);
    puppet_start(host, &a);
    send_by(&a, puppet_send, 4);
    CHECK_EQ(puppet_do(&a, puppet_upgrade, NULL), 0);
    CHECK_EQ(puppet_await(&a, 1).kind, WEFT_EVENT_UPGRADE);
    let_go();
    check_complete(&a, 2, 4, 0);
    await_notes(5);
    end();
}

/* A sender is admitted, and killed before it learns of it: the next sender gets the capacity. */
TEST(killed_sender_with_credit_passes_capacity_on)
{
    struct puppet a, b;
    begin(&narrow, 1, 1);
    puppet_start(host, &a);
    puppet_start(host, &b);
    send_by(&a, puppet_send, 4);
    send_by(&b, puppet_send, 5);
    victim = a.pid;
    let_go();
    check_complete(&b, 1, 5, 0);
    await_notes(3);
    puppet_await_end(a.pid);
    CHECK_EQ(puppet_count(&a), 0);
    end();
}

TEST(host_stops_while_its_actors_wait_on_other_host)
{
    struct puppet a;
    weft_host *other;
    begin(&waiting, 1, 4);
    CHECK_EQ(weft_host_create(&other, &(struct weft_host_opts){.workers = 1, .name = "other"}), 0);
    puppet_start(other, &a);
    send_by(&a, puppet_send, 4);
    send_by(&a, puppet_send_patiently, 5);
    CHECK_EQ(forced_stop(other, NULL, 0), 1);
    weft_host_destroy(other);
    CHECK_EQ(dead_letters(), 2);
    let_go();
    await_notes(4);
    CHECK_EQ(weft_actor_send(target, "n", 6, NULL, WEFT_BY_POLICY), 0);
    await_notes(5);
    end();
}

/* --- send credits ----------------------------------------------------------------------------- */

/* Waits for its first message, then sends two more, even if others wait. */
static int answers[8][2];
static atomic_int born;

static int burst(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    int *me = weft_actor_state(self);
    if (!n) {
        *me = atomic_fetch_add(&born, 1);
        return weft_out_send(out, 0, target, "n", (uint64_t)*me * 10, NULL, WEFT_BY_POLICY);
    }
    CHECK_EQ(events[0].kind, WEFT_EVENT_COMPLETE);
    CHECK_EQ(events[0].error, 0);
    for (int i = 0; i < 2; i++) {
        answers[*me][i] = weft_actor_send(target, "n", (uint64_t)*me * 10 + 1 + (uint64_t)i, NULL,
                                          WEFT_BY_POLICY);
    }
    atomic_fetch_add(&born, 1);
    weft_out_done(out, NULL);
    return 0;
}

TEST(sender_with_credit_sends_again_while_others_wait)
{
    static const struct weft_actor_kind burster = {
        .name = "burster", .state_bytes = sizeof(int), .step = burst};
    struct puppet a;
    struct weft_actor_info info;
    weft_pid pid;
    begin(&waiting, 1, 4);
    puppet_start(host, &a);
    atomic_store(&born, 0);
    for (int i = 0; i < 8; i++) {
        CHECK_EQ(weft_actor_spawn(host, &pid, &burster, NULL, NULL), 0);
        do {
            CHECK_EQ(weft_actor_info(pid, &info), 0);
        } while (info.state != WEFT_ACTOR_BLOCKED);
    }
    let_go();
    while (atomic_load(&born) < 16) {
        weft_sleep(weft_after(100000));
    }
    CHECK_EQ(answers[0][0], 0); /* seven senders waited, and there was capacity */
    CHECK_EQ(answers[0][1], 0);
    puppet_settle(&a);
    int sent = 12;
    for (int i = 0; i < 16; i++) {
        CHECK(answers[i / 2][i % 2] == 0 || answers[i / 2][i % 2] == -ENOBUFS);
        sent += answers[i / 2][i % 2] == 0;
    }
    await_notes(sent);
    end();
}

/* --- many ------------------------------------------------------------------------------------- */

/* Sends directly where it can, otherwise with a command; sometimes several at once. */
static int pour(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    uint64_t *state = weft_actor_state(self);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_COMPLETE) { /* otherwise all have arrived */
            CHECK_EQ(events[i].error, 0);
            state[2]--;
        }
    }
    if (!state[1]) {
        state[0] = (uint64_t)atomic_fetch_add(&born, 1) << 32;
    }
    while (state[1] < EACH &&
           weft_actor_send(target, "n", state[0] | (state[1] + 1), NULL, WEFT_BY_POLICY) == 0) {
        state[1]++;
    }
    for (int i = 0; i < 1 + (int)(state[0] >> 32) % 3 && state[1] < EACH; i++) {
        state[1]++, state[2]++;
        CHECK_EQ(weft_out_send(out, 0, target, "n", state[0] | state[1], NULL, WEFT_BY_POLICY), 0);
    }
    if (state[1] == EACH && !state[2]) {
        weft_out_done(out, NULL);
    } else {
        weft_out_wait(out);
    }
    return 0;
}

static int receive_all(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    (void)self, (void)result;
    for (int i = 0; i < SENDERS * EACH; i++) {
        CHECK_EQ(weft_actor_receive(&event, WEFT_FOREVER), 0);
        note_one(event);
    }
    return 0;
}

static void pour_into(const struct weft_actor_kind *kind, unsigned workers)
{
    static const struct weft_actor_kind pourer = {
        .name = "pourer", .state_bytes = 3 * sizeof(uint64_t), .step = pour};
    uint32_t last[SENDERS] = {0};
    atomic_store(&noted, 0);
    atomic_store(&born, 0);
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = workers}), 0);
    CHECK_EQ(weft_host_handle(host, HOLD, hold, NULL), 0);
    CHECK_EQ(weft_actor_spawn(host, &target, kind, NULL, NULL), 0);
    for (int i = 0; i < SENDERS; i++) {
        CHECK_EQ(weft_actor_spawn(host, NULL, &pourer, NULL, NULL), 0);
    }
    await_notes(SENDERS * EACH);
    for (int i = 0; i < SENDERS * EACH; i++) {
        CHECK_EQ((uint32_t)notes[i], last[notes[i] >> 32] + 1);
        last[notes[i] >> 32]++;
    }
    CHECK_EQ(dead_letters(), 0);
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
}

static int note_all(weft_actor *self, const struct weft_actor_event *events, size_t n,
                    weft_out *out)
{
    (void)self;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_MESSAGE) {
            note_one(&events[i]);
        } else {
            weft_out_done(out, NULL);
        }
    }
    return 0;
}

TEST(many_waiting_senders_to_step_actor_keep_order)
{
    static const unsigned rooms[] = {1, 7, 64, 1000};
    for (unsigned i = 0; i < 8; i++) {
        const struct weft_actor_kind kind = {.name = "reader",
                                             .step = note_all,
                                             .mailbox = rooms[i / 2],
                                             .policy = WEFT_MAILBOX_WAIT};
        pour_into(&kind, 1 + i % 2);
    }
}

TEST(many_waiting_senders_to_fiber_actor_keep_order)
{
    for (unsigned i = 0; i < 4; i++) {
        const struct weft_actor_kind kind = {.name = "reader",
                                             .run = receive_all,
                                             .mailbox = i / 2 ? 16 : 1,
                                             .policy = WEFT_MAILBOX_WAIT};
        pour_into(&kind, 1 + i % 2);
    }
}
