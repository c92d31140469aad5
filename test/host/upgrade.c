/* labels: valgrind */
#include "host/puppet.h"

#include <stdatomic.h>

#include "base/alloc.h"
#include "mailbox/mailbox.h"

static struct puppet a, b;
static int old_closed, new_closed;

/* The new code: a larger state, which contains the puppet and counts its steps. */
struct newer {
    struct puppet *puppet;
    char *owned; /* a resource that must be freed exactly once */
    int steps;
};

static int new_step(weft_actor *self, const struct weft_actor_event *events, size_t n,
                    weft_out *out)
{
    struct newer *state = weft_actor_state(self);
    state->steps++;
    CHECK_STR(state->owned, "moved");
    return puppet_step(self, events, n, out);
}

static void new_close(weft_actor *self)
{
    struct newer *state = weft_actor_state(self);
    free(state->owned);
    new_closed++;
    puppet_close(self);
}

static const struct weft_actor_kind new_kind = {.name = "newer",
                                                .state_bytes = sizeof(struct newer),
                                                .step = new_step,
                                                .close = new_close,
                                                .mailbox = 3};

static void old_close(weft_actor *self)
{
    CHECK(weft_actor_state(self) != NULL);
    old_closed++;
}

static const struct weft_actor_kind old_kind = {.name = "older",
                                                .state_bytes = sizeof(struct puppet *),
                                                .init = puppet_begin,
                                                .step = puppet_step,
                                                .close = old_close};

static int convert(weft_actor *self, void *old_state, void *new_state)
{
    struct newer *state = new_state;
    CHECK(weft_actor_state(self) == old_state);
    CHECK_EQ(state->steps, 0); /* zeroed */
    memcpy(&state->puppet, old_state, sizeof state->puppet);
    state->owned = strdup("moved");
    return 0;
}

static int convert_fails(weft_actor *self, void *old_state, void *new_state)
{
    (void)self, (void)old_state, (void)new_state;
    return -EILSEQ;
}

static int upgrades(weft_actor *self, weft_out *out, void *arg)
{
    (void)self;
    return weft_out_upgrade(out, &new_kind, arg ? convert_fails : convert);
}

static void start_old(weft_host *host, struct puppet *p)
{
    puppet_init(p);
    old_closed = new_closed = 0;
    weft_buf *input = puppet_input(p);
    CHECK_EQ(weft_actor_spawn(host, &p->pid, &old_kind, NULL, input), 0);
    weft_buf_free(input);
}

static const char *kind_of(weft_pid pid)
{
    struct weft_actor_info info;
    CHECK_EQ(weft_actor_info(pid, &info), 0);
    return info.kind;
}

TEST(upgrade_keeps_pid_mailbox_relations_and_names)
{
    weft_host *host = puppet_host();
    weft_pid found;
    start_old(host, &a);
    puppet_start(host, &b);
    puppet_trap(&b);
    struct watch watch = {.pid = a.pid};
    CHECK_EQ(puppet_do(&b, monitors, &watch), 0);
    CHECK_EQ(puppet_do(&b, links, &a.pid), 0);
    CHECK_EQ(weft_actor_register(host, "a", a.pid), 0);
    CHECK_EQ(weft_actor_group_join(host, "g", a.pid), 0);
    CHECK_STR(kind_of(a.pid), "older");
    CHECK_EQ(puppet_do(&a, upgrades, NULL), 0);
    struct seen s = puppet_await(&a, 1);
    CHECK_EQ(s.kind, WEFT_EVENT_UPGRADE);
    CHECK_EQ(s.error, 0);
    CHECK_STR(kind_of(a.pid), "newer");
    CHECK_EQ(old_closed, 1);
    puppet_settle(&a); /* the same mailbox */
    CHECK_EQ(weft_actor_whereis(host, &found, "a"), 0);
    CHECK(weft_pid_equal(found, a.pid));
    CHECK_EQ(weft_actor_group_members(host, &found, 1, "g"), 1);
    puppet_do(&a, fails, NULL);
    puppet_await(&b, 2);
    CHECK_EQ(b.seen[0].error, -EDOM);
    CHECK_EQ(b.seen[1].error, -EDOM);
    puppet_host_end(host);
    CHECK_EQ(old_closed, 1);
    CHECK_EQ(new_closed, 1);
}

TEST(failed_upgrade_keeps_old_code_running)
{
    weft_host *host = puppet_host();
    start_old(host, &a);
    for (int i = 1; i <= 3; i++) {
        CHECK_EQ(puppet_do(&a, upgrades, &a), 0);
        struct seen s = puppet_await(&a, i);
        CHECK_EQ(s.kind, WEFT_EVENT_UPGRADE);
        CHECK_EQ(s.error, -EILSEQ);
        CHECK_STR(kind_of(a.pid), "older");
    }
    puppet_settle(&a);
    CHECK_EQ(old_closed, 0);
    puppet_do(&a, finishes, NULL);
    puppet_host_end(host);
    CHECK_EQ(old_closed, 1);
    CHECK_EQ(new_closed, 0);
}

static int upgrades_to(weft_actor *self, weft_out *out, void *arg)
{
    (void)self;
    return weft_out_upgrade(out, arg, NULL);
}

static int never_run(weft_actor *self, weft_buf **result)
{
    (void)self, (void)result;
    return 0;
}

TEST(upgrade_to_invalid_kind_returns_einval)
{
    struct weft_actor_kind bad[] = {old_kind, old_kind, old_kind, old_kind};
    bad[0].batch = 65;
    bad[1].policy = (enum weft_mailbox_policy)(WEFT_MAILBOX_WAIT + 1);
    bad[2].run = never_run;
    bad[3].step = NULL;
    weft_host *host = puppet_host();
    start_old(host, &a);
    for (int i = 0; i < 4; i++) {
        CHECK_EQ(puppet_do(&a, upgrades_to, &bad[i]), 0);
        CHECK_EQ(puppet_await(&a, i + 1).error, -EINVAL);
    }
    puppet_do(&a, finishes, NULL);
    puppet_host_end(host);
}

/* Messages that it sends to itself arrive after this step. */
static int floods_itself(weft_actor *self, weft_out *out, void *arg)
{
    int *answers = arg;
    (void)out;
    for (int i = 0; i < 3; i++) {
        answers[i] =
            weft_actor_send(weft_actor_pid(self), "own", (uint64_t)i, NULL, WEFT_BY_POLICY);
    }
    return 0;
}

TEST(upgrade_applies_mailbox_of_new_kind)
{
    struct weft_actor_kind drops = old_kind, refuses = old_kind;
    int answers[3];
    drops.mailbox = refuses.mailbox = 2;
    drops.policy = WEFT_MAILBOX_DROP_OLDEST;
    weft_host *host = puppet_host();
    start_old(host, &a);
    CHECK_EQ(puppet_do(&a, upgrades_to, &drops), 0);
    puppet_await(&a, 1);
    CHECK_EQ(puppet_do(&a, floods_itself, answers), 0);
    puppet_await(&a, 3);
    CHECK(answers[0] == 0 && answers[1] == 0 && answers[2] == 0);
    CHECK(a.seen[1].tag == 1 && a.seen[2].tag == 2);
    CHECK_EQ(puppet_do(&a, upgrades_to, &refuses), 0);
    puppet_await(&a, 4);
    CHECK_EQ(puppet_do(&a, floods_itself, answers), 0);
    puppet_await(&a, 6);
    CHECK(answers[0] == 0 && answers[1] == 0 && answers[2] == -ENOBUFS);
    CHECK(a.seen[4].tag == 0 && a.seen[5].tag == 1);
    puppet_do(&a, finishes, NULL);
    puppet_host_end(host);
}

/* Sends itself the upgrade and then a message. A message for an earlier actor of its slot arrives
 * between them. */
static int finds_a_stray(weft_actor *self, weft_out *out, void *arg)
{
    weft_pid me = weft_actor_pid(self), other = me;
    struct weft__envelope *stray = weft__envelope_new(WEFT_EVENT_MESSAGE, 17, NULL);
    (void)out;
    other.id += (uint64_t)1 << 32;
    CHECK_EQ(weft_actor_send(me, "job", 0, weft_buf_copy(arg, sizeof(struct puppet_job)),
                             WEFT_BY_POLICY),
             0);
    weft__actor_push(self, other, stray);
    return weft_actor_send(me, "own", 5, NULL, WEFT_BY_POLICY);
}

TEST(upgrade_to_dropping_mailbox_skips_messages_of_other_pid)
{
    struct weft_actor_kind drops = old_kind, slow = old_kind;
    struct weft_host_stats stats;
    struct weft_actor_info info;
    int result;
    struct puppet_job job = {.fn = upgrades_to, .arg = &drops, .result = &result};
    slow.batch = 1; /* so that it keeps the events that it has not seen yet */
    drops.policy = WEFT_MAILBOX_DROP_OLDEST;
    weft_host *host = puppet_host();
    start_old(host, &a);
    CHECK_EQ(puppet_do(&a, upgrades_to, &slow), 0);
    puppet_await(&a, 1);
    CHECK_EQ(puppet_do(&a, finds_a_stray, &job), 0);
    struct seen s = puppet_await(&a, 3);
    CHECK_EQ(s.kind, WEFT_EVENT_MESSAGE);
    CHECK_EQ(s.tag, 5);
    weft_host_stats(host, &stats);
    CHECK_EQ(stats.dead_letters, 1);
    CHECK_EQ(weft_actor_info(a.pid, &info), 0);
    CHECK_EQ(info.mailbox, 0);
    puppet_do(&a, finishes, NULL);
    puppet_host_end(host);
}

/* --- while others send ------------------------------------------------------------------------ */

static const struct weft_actor_kind sieve, tub;
static atomic_int taken_in, seen_by_it;

/* Switches to the other kind with every message. */
static int alternate(weft_actor *self, const struct weft_actor_event *events, size_t n,
                     weft_out *out)
{
    int *turns = weft_actor_state(self);
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_MESSAGE) {
            atomic_fetch_add(&seen_by_it, 1);
            CHECK_EQ(weft_out_upgrade(out, (*turns)++ % 2 ? &tub : &sieve, NULL), 0);
        } else if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        }
    }
    return 0;
}
static const struct weft_actor_kind tub = {
    .name = "tub", .state_bytes = sizeof(int), .step = alternate, .mailbox = 2, .batch = 1};
static const struct weft_actor_kind sieve = {.name = "sieve",
                                             .state_bytes = sizeof(int),
                                             .step = alternate,
                                             .mailbox = 2,
                                             .batch = 1,
                                             .policy = WEFT_MAILBOX_DROP_OLDEST};

static void *pours(void *arg)
{
    for (int i = 0; i < 5000; i++) {
        int err = weft_actor_send(*(weft_pid *)arg, "n", 0, NULL, WEFT_BY_POLICY);
        CHECK(err == 0 || err == -ENOBUFS);
        atomic_fetch_add(&taken_in, err == 0);
    }
    return NULL;
}

TEST(messages_dropped_by_senders_are_counted_during_upgrades)
{
    weft_host *host = puppet_host();
    weft_pid pid;
    pthread_t threads[3];
    struct weft_host_stats stats;
    CHECK_EQ(weft_actor_spawn(host, &pid, &tub, NULL, NULL), 0);
    for (int i = 0; i < 3; i++) {
        pthread_create(&threads[i], NULL, pours, &pid);
    }
    for (int i = 0; i < 3; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_stats(host, &stats);
    CHECK_EQ(atomic_load(&taken_in), atomic_load(&seen_by_it) + (int)stats.dead_letters);
    weft_host_destroy(host);
}

/* --- out of memory ---------------------------------------------------------------------------- */

static int upgrades_in_want(weft_actor *self, weft_out *out, void *arg)
{
    (void)self, (void)arg;
    weft__alloc_fail_after(2, true); /* its state */
    int err = weft_out_upgrade(out, &new_kind, convert);
    return err;
}

TEST(upgrade_without_memory_falls_back_to_old_code)
{
    weft_host *host = puppet_host();
    start_old(host, &a);
    int err = puppet_do(&a, upgrades_in_want, NULL);
    if (err == 0) { /* otherwise the envelope could not be allocated */
        CHECK_EQ(puppet_await(&a, 1).error, -ENOMEM);
    }
    weft__alloc_fail_after(0, false);
    CHECK_STR(kind_of(a.pid), "older");
    puppet_settle(&a);
    puppet_host_end(host);
    CHECK_EQ(old_closed, 1);
}

/* --- keeping the state ------------------------------------------------------------------------ */

static const struct weft_actor_kind same_state = {.name = "same",
                                                  .state_bytes = sizeof(struct puppet *),
                                                  .step = puppet_step,
                                                  .close = puppet_close,
                                                  .trap = true};

static int upgrades_plainly(weft_actor *self, weft_out *out, void *arg)
{
    (void)self;
    return weft_out_upgrade(out, arg ? &new_kind : &same_state, NULL);
}

TEST(upgrade_may_keep_state_of_same_size)
{
    weft_host *host = puppet_host();
    start_old(host, &a);
    puppet_do(&a, upgrades_plainly, &a); /* another size */
    CHECK_EQ(puppet_await(&a, 1).error, -EINVAL);
    puppet_do(&a, upgrades_plainly, NULL);
    CHECK_EQ(puppet_await(&a, 2).error, 0);
    CHECK_STR(kind_of(a.pid), "same");
    CHECK_EQ(weft_actor_exit(a.pid, -EIO, NULL), 0); /* the new kind traps */
    CHECK_EQ(puppet_await(&a, 3).kind, WEFT_EVENT_EXIT);
    puppet_host_end(host);
    CHECK_EQ(old_closed, 0); /* one state, closed by its last kind */
    CHECK_EQ(a.closed, 1);
}

/* --- with commands, with other statuses ------------------------------------------------------- */

enum { LATER = WEFT_COMMAND_USER };
static weft_pid later_pid;

static int later(const struct weft_command *command, void *arg)
{
    (void)arg;
    later_pid = command->actor;
    return 0;
}

static int asks_and_upgrades(weft_actor *self, weft_out *out, void *arg)
{
    (void)self, (void)arg;
    CHECK_EQ(weft_out_command(out, LATER, 5, NULL), 0);
    return weft_out_upgrade(out, &new_kind, convert);
}

static int changes_its_mind(weft_actor *self, weft_out *out, void *arg)
{
    (void)self;
    CHECK_EQ(weft_out_upgrade(out, &new_kind, convert), 0);
    CHECK_EQ(weft_out_upgrade(out, &new_kind, convert), 0);
    CHECK_EQ(weft_out_exit(out, -EIO, weft_buf_copy("x", 1)), 0);
    weft_out_done(out, weft_buf_copy("r", 1));
    if (arg) {
        weft_out_idle(out);
    }
    return 0;
}

TEST(completion_after_upgrade_reaches_new_code)
{
    weft_host *host = puppet_host();
    CHECK_EQ(weft_host_handle(host, LATER, later, NULL), 0);
    start_old(host, &a);
    puppet_do(&a, asks_and_upgrades, NULL);
    CHECK_EQ(puppet_await(&a, 1).kind, WEFT_EVENT_UPGRADE);
    CHECK_EQ(weft_command_complete(a.pid, 5, 0, NULL), 0);
    struct seen s = puppet_await(&a, 2);
    CHECK_EQ(s.kind, WEFT_EVENT_COMPLETE);
    CHECK_EQ(s.tag, 5);
    puppet_host_end(host);
    CHECK_EQ(new_closed, 1);
}

TEST(last_status_set_in_step_wins)
{
    weft_host *host = puppet_host();
    start_old(host, &a);
    puppet_do(&a, changes_its_mind, &a);
    puppet_settle(&a); /* it stays idle */
    CHECK_STR(kind_of(a.pid), "older");
    CHECK_EQ(puppet_count(&a), 0);
    puppet_do(&a, changes_its_mind, NULL);
    puppet_host_end(host);
    CHECK_EQ(old_closed, 1);
    CHECK_EQ(new_closed, 0);
}

/* --- many upgrades on one worker, with messages arriving -------------------------------------- */

struct counter {
    uint64_t total, expected;
    int upgrades;
};
static const struct weft_actor_kind even, odd;

static int carry(weft_actor *self, void *old_state, void *new_state)
{
    (void)self;
    memcpy(new_state, old_state, sizeof(struct counter));
    return 0;
}

static int count(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    struct counter *c = weft_actor_state(self);
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_UPGRADE) {
            CHECK_EQ(events[i].error, 0);
            c->upgrades++;
        } else if (events[i].kind == WEFT_EVENT_MESSAGE) {
            CHECK_EQ(events[i].tag, c->total); /* in order */
            c->total++;
            CHECK_EQ(weft_out_upgrade(out, c->upgrades % 2 ? &even : &odd, carry), 0);
        }
    }
    if (c->total == 300 && n > 0 && events[0].kind == WEFT_EVENT_UPGRADE) {
        weft_out_done(out, weft_buf_copy(c, sizeof *c));
    }
    return 0;
}
static const struct weft_actor_kind even = {
    .name = "even", .state_bytes = sizeof(struct counter), .step = count};
static const struct weft_actor_kind odd = {
    .name = "odd", .state_bytes = sizeof(struct counter), .step = count};

static void *sends(void *arg)
{
    for (uint64_t i = 0; i < 300; i++) {
        CHECK_EQ(weft_actor_send(*(weft_pid *)arg, "n", i, NULL, WEFT_BY_POLICY), 0);
        sched_yield();
    }
    return NULL;
}

TEST(messages_during_300_upgrades_are_not_lost)
{
    weft_host *host;
    weft_pid pid;
    weft_buf *result;
    pthread_t thread;
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 1, .batch = 1}), 0);
    CHECK_EQ(weft_actor_spawn(host, &pid, &even, NULL, NULL), 0);
    pthread_create(&thread, NULL, sends, &pid);
    int err = weft_actor_join(pid, &result, WEFT_FOREVER);
    CHECK(err == 0 || err == -ESRCH);
    pthread_join(thread, NULL);
    if (err == 0) {
        CHECK_EQ(((struct counter *)(void *)result->data)->total, 300);
        CHECK_EQ(((struct counter *)(void *)result->data)->upgrades, 300);
        weft_buf_free(result);
    }
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
}
