/* Every status of a step, with and without commands; completions in every order and at every
 * moment. labels: valgrind */
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>

#include <weft/weft.h>

#include "base/alloc.h"
#include "check.h"

enum { AT_ONCE = 256, LATER, NO_SUCH, FAILS };
enum { MOST = 1024 };

static weft_host *host;
static weft_pid pid;

/* --- handlers ------------------------------------------------------------------------------ */

static int at_once(const struct weft_command *command, void *arg)
{
    (void)arg;
    weft_buf_free(command->arg);
    return weft_command_complete(command->actor, command->tag, 0, NULL);
}

/* Issued commands that have not completed. */
static struct weft_command asked[MOST];
static atomic_int asked_count;

static int later(const struct weft_command *command, void *arg)
{
    (void)arg;
    weft_buf_free(command->arg);
    asked[atomic_load(&asked_count)] = *command;
    atomic_fetch_add(&asked_count, 1);
    return 0;
}

static int fails(const struct weft_command *command, void *arg)
{
    (void)arg;
    weft_buf_free(command->arg);
    return -EDOM;
}

/* --- one actor, scripted by the test ---------------------------------------------------------- */

enum status { SAY_NOTHING, CONTINUE, IDLE, WAIT, DONE, FAIL };

struct script {
    enum status status; /* for the first step */
    int commands;
    unsigned id;
    enum status then; /* for the other steps */
};
static struct script script;

/* What its steps have seen: 's', then 'm' for a message, 'c' for a completion, 'x' for a cancel. */
static char seen[MOST * 4];
static atomic_int seen_count;
static uint64_t seen_tags[MOST];
static int seen_errors[MOST];
static atomic_int completions, closed;

static void see(char what)
{
    int at = atomic_load(&seen_count);
    seen[at] = what;
    atomic_store(&seen_count, at + 1);
}

static int say(weft_out *out, enum status status)
{
    switch (status) {
    case CONTINUE:
        weft_out_continue(out);
        break;
    case IDLE:
        weft_out_idle(out);
        break;
    case WAIT:
        weft_out_wait(out);
        break;
    case DONE:
        weft_out_done(out, weft_buf_copy("done", 4));
        break;
    case FAIL:
        return -ECHILD;
    case SAY_NOTHING:
        break;
    }
    return 0;
}

static int act(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    int *steps = weft_actor_state(self);
    see('s');
    if (!(*steps)++) {
        CHECK_EQ(n, 0);
        for (int i = 0; i < script.commands; i++) {
            CHECK_EQ(weft_out_command(out, script.id, (uint64_t)i, weft_buf_copy("arg", 3)), 0);
        }
        return say(out, script.status);
    }
    enum status status = script.then;
    for (size_t i = 0; i < n; i++) {
        switch (events[i].kind) {
        case WEFT_EVENT_MESSAGE:
            see('m');
            break;
        case WEFT_EVENT_COMPLETE: {
            int at = atomic_load(&completions);
            seen_tags[at] = events[i].tag;
            seen_errors[at] = events[i].error;
            atomic_store(&completions, at + 1);
            see('c');
            break;
        }
        default:
            see('x');
            status = DONE;
        }
    }
    if (n == 0 && script.status == CONTINUE) {
        status = IDLE; /* the actor has continued */
    }
    return say(out, status);
}

static void on_close(weft_actor *self)
{
    (void)self;
    atomic_fetch_add(&closed, 1);
}

static const struct weft_actor_kind actor = {
    .name = "actor", .state_bytes = sizeof(int), .step = act, .close = on_close};

static void begin(struct script what)
{
    script = what;
    memset(seen, 0, sizeof seen);
    atomic_store(&seen_count, 0);
    atomic_store(&asked_count, 0);
    atomic_store(&completions, 0);
    atomic_store(&closed, 0);
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 1}), 0);
    CHECK_EQ(weft_host_handle(host, AT_ONCE, at_once, NULL), 0);
    CHECK_EQ(weft_host_handle(host, LATER, later, NULL), 0);
    CHECK_EQ(weft_host_handle(host, FAILS, fails, NULL), 0);
    CHECK_EQ(weft_actor_spawn(host, &pid, &actor, NULL, NULL), 0);
}

static void end(void)
{
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    CHECK_EQ(atomic_load(&closed), 1);
    weft_host_destroy(host);
}

static void await_state(enum weft_actor_state state)
{
    struct weft_actor_info info;
    do {
        CHECK_EQ(weft_actor_info(pid, &info), 0);
        weft_sleep(weft_after(20000));
    } while (info.state != state);
}

static void await_seen(const char *what)
{
    char now[sizeof seen];
    int n;
    while ((n = atomic_load(&seen_count)) < (int)strlen(what)) {
        weft_sleep(weft_after(20000));
    }
    memcpy(now, seen, (size_t)n);
    now[n] = 0;
    CHECK_STR(now, what);
}

static void send_one(void)
{
    CHECK_EQ(weft_actor_send(pid, "m", 0, NULL, WEFT_BY_POLICY), 0);
}

/* --- all statuses, without commands ----------------------------------------------------------- */

TEST(step_without_status_or_commands_idles)
{
    begin((struct script){.status = SAY_NOTHING, .then = SAY_NOTHING});
    await_state(WEFT_ACTOR_IDLE);
    send_one();
    await_seen("ssm");
    await_state(WEFT_ACTOR_IDLE);
    end();
}

TEST(continue_without_commands_steps_again)
{
    begin((struct script){.status = CONTINUE, .then = IDLE});
    await_seen("ss");
    await_state(WEFT_ACTOR_IDLE);
    end();
}

TEST(idle_without_commands_waits_for_message_or_event)
{
    begin((struct script){.status = IDLE, .then = IDLE});
    await_state(WEFT_ACTOR_IDLE);
    send_one();
    await_seen("ssm");
    CHECK_EQ(weft_actor_cancel(pid, NULL), 0);
    await_seen("ssmsx");
    end();
}

TEST(wait_without_commands_idles)
{
    begin((struct script){.status = WAIT, .then = WAIT});
    await_state(WEFT_ACTOR_IDLE);
    send_one();
    await_seen("ssm");
    await_state(WEFT_ACTOR_IDLE);
    end();
}

static void join(int expected, bool result)
{
    weft_buf *buf = NULL;
    int err = weft_actor_join(pid, &buf, WEFT_FOREVER);
    CHECK(err == expected || err == -ESRCH);
    CHECK(!buf || result);
    weft_buf_free(buf);
}

TEST(done_without_commands_ends)
{
    begin((struct script){.status = DONE});
    join(0, true);
    end();
    CHECK_STR(seen, "s");
}

TEST(step_error_ends_actor)
{
    begin((struct script){.status = FAIL});
    join(-ECHILD, false);
    end();
    CHECK_STR(seen, "s");
}

/* --- all statuses, with commands -------------------------------------------------------------- */

static void await_asked(int n)
{
    while (atomic_load(&asked_count) < n) {
        weft_sleep(weft_after(20000));
    }
}

static void complete(int which)
{
    CHECK_EQ(weft_command_complete(asked[which].actor, asked[which].tag, 0, NULL), 0);
}

TEST(step_without_status_with_commands_waits_keeping_messages)
{
    begin((struct script){.status = SAY_NOTHING, .commands = 2, .id = LATER, .then = WAIT});
    await_asked(2);
    await_state(WEFT_ACTOR_BLOCKED);
    send_one();
    await_state(WEFT_ACTOR_BLOCKED);
    complete(1);
    await_seen("ssc");
    await_state(WEFT_ACTOR_BLOCKED); /* one is left */
    complete(0);
    await_seen("sscscsm");
    CHECK_EQ(seen_tags[0], 1);
    CHECK_EQ(seen_tags[1], 0);
    end();
}

TEST(step_without_status_waits_for_one_completion_then_idles)
{
    begin((struct script){.status = SAY_NOTHING, .commands = 2, .id = LATER, .then = SAY_NOTHING});
    await_asked(2);
    await_state(WEFT_ACTOR_BLOCKED);
    send_one();
    complete(0);
    await_seen("sscsm"); /* the second step issued nothing: the actor is idle */
    await_state(WEFT_ACTOR_IDLE);
    complete(1);
    await_seen("sscsmsc");
    end();
}

TEST(continue_with_commands_gets_completions_as_they_arrive)
{
    begin((struct script){.status = CONTINUE, .commands = 1, .id = LATER, .then = IDLE});
    await_seen("ss");
    await_state(WEFT_ACTOR_IDLE);
    complete(0);
    await_seen("sssc");
    end();
}

TEST(idle_with_commands_wakes_on_message_and_completion)
{
    begin((struct script){.status = IDLE, .commands = 2, .id = LATER, .then = IDLE});
    await_asked(2);
    await_state(WEFT_ACTOR_IDLE);
    send_one();
    await_seen("ssm");
    await_state(WEFT_ACTOR_IDLE);
    complete(1);
    await_seen("ssmsc");
    await_state(WEFT_ACTOR_IDLE);
    complete(0);
    await_seen("ssmscsc");
    end();
}

TEST(wait_with_commands_wakes_on_cancel)
{
    begin((struct script){.status = WAIT, .commands = 1, .id = LATER, .then = WAIT});
    await_asked(1);
    await_state(WEFT_ACTOR_BLOCKED);
    send_one();
    CHECK_EQ(weft_actor_cancel(pid, NULL), 0);
    await_seen("ssx"); /* and the message is a dead letter */
    struct weft_host_stats stats;
    do {
        weft_host_stats(host, &stats);
    } while (stats.dead_letters < 1);
    end();
}

TEST(done_with_commands_issues_commands_and_ends)
{
    begin((struct script){.status = DONE, .commands = 3, .id = LATER});
    join(0, true);
    CHECK_EQ(atomic_load(&asked_count), 3);
    CHECK_EQ(weft_command_complete(asked[0].actor, asked[0].tag, 0, weft_buf_copy("x", 1)), -ESRCH);
    end();
}

TEST(step_error_with_commands_drops_commands)
{
    begin((struct script){.status = FAIL, .commands = 7, .id = LATER});
    join(-ECHILD, false);
    CHECK_EQ(atomic_load(&asked_count), 0);
    end();
}

/* --- completions ------------------------------------------------------------------------------ */

TEST(completion_before_step_returns_is_delivered)
{
    static const enum status all[] = {SAY_NOTHING, CONTINUE, IDLE, WAIT};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        begin((struct script){.status = all[i], .commands = 3, .id = AT_ONCE, .then = IDLE});
        while (atomic_load(&completions) < 3) {
            weft_sleep(weft_after(20000));
        }
        for (uint64_t t = 0; t < 3; t++) {
            CHECK_EQ(seen_tags[t], t);
        }
        end();
    }
}

TEST(unknown_command_and_handler_error_become_completions)
{
    begin((struct script){.status = WAIT, .commands = 2, .id = NO_SUCH, .then = IDLE});
    await_seen("sscc");
    CHECK_EQ(seen_errors[0], -ENOSYS);
    CHECK_EQ(seen_errors[1], -ENOSYS);
    end();
    begin((struct script){.status = WAIT, .commands = 2, .id = FAILS, .then = IDLE});
    await_seen("sscc");
    CHECK_EQ(seen_errors[0], -EDOM);
    end();
}

TEST(thousand_commands_complete_in_any_order_from_threads)
{
    begin((struct script){.status = WAIT, .commands = 1000, .id = LATER, .then = WAIT});
    await_asked(1000);
    for (int i = 0; i < 1000; i++) {
        complete((i * 7919 + 13) % 1000);
    }
    while (atomic_load(&completions) < 1000) {
        weft_sleep(weft_after(20000));
    }
    static bool had[1000];
    memset(had, 0, sizeof had);
    for (int i = 0; i < 1000; i++) {
        CHECK_EQ(seen_tags[i], (i * 7919 + 13) % 1000);
        CHECK(!had[seen_tags[i]]);
        had[seen_tags[i]] = true;
    }
    send_one();
    while (seen[atomic_load(&seen_count) - 1] != 'm') {
        weft_sleep(weft_after(20000));
    }
    end();
}

/* Two threads complete commands while the actor runs, blocks or is idle. */
static atomic_int next_one;

static void *complete_some(void *arg)
{
    int i;
    (void)arg;
    while ((i = atomic_fetch_add(&next_one, 1)) < 1000) {
        complete(i);
    }
    return NULL;
}

TEST(completion_in_any_actor_state_is_not_lost)
{
    static const enum status all[] = {CONTINUE, IDLE, WAIT, SAY_NOTHING};
    for (size_t k = 0; k < sizeof all / sizeof *all; k++) {
        pthread_t threads[2];
        enum status then = all[k] == CONTINUE ? IDLE : all[k];
        begin((struct script){.status = all[k], .commands = 1000, .id = LATER, .then = then});
        await_asked(1000);
        atomic_store(&next_one, 0);
        for (int i = 0; i < 2; i++) {
            CHECK_EQ(pthread_create(&threads[i], NULL, complete_some, NULL), 0);
        }
        for (int i = 0; i < 2; i++) {
            pthread_join(threads[i], NULL);
        }
        while (atomic_load(&completions) < 1000) {
            weft_sleep(weft_after(20000));
        }
        end();
    }
}

/* --- the same tag twice ----------------------------------------------------------------------- */

static atomic_int twins;

static int ask_twins(weft_actor *self, const struct weft_actor_event *events, size_t n,
                     weft_out *out)
{
    int *begun = weft_actor_state(self);
    if (!(*begun)++) {
        CHECK_EQ(weft_out_command(out, LATER, 5, NULL), 0);
        CHECK_EQ(weft_out_command(out, AT_ONCE, 5, NULL), 0);
        CHECK_EQ(weft_out_command(out, LATER, 5, NULL), 0);
        return 0;
    }
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_MESSAGE) {
            CHECK_EQ(atomic_load(&twins), 3);
            weft_out_done(out, NULL);
            return 0;
        }
        CHECK_EQ(events[i].tag, 5);
        atomic_fetch_add(&twins, 1);
    }
    weft_out_wait(out);
    return 0;
}

/* --- no unnecessary steps --------------------------------------------------------------------- */

static atomic_int empty_steps, messages;

/* A normal exit, which the actor does not trap, follows each message: it must not cause a step. */
static int provoke(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    atomic_fetch_add(&empty_steps, n == 0);
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        } else if (events[i].kind == WEFT_EVENT_MESSAGE) {
            CHECK_EQ(weft_actor_exit(weft_actor_pid(self), 0, NULL), 0);
            if (events[i].tag) {
                CHECK_EQ(weft_out_command(out, AT_ONCE, 0, NULL), 0);
                weft_out_wait(out);
            }
            atomic_fetch_add(&messages, 1);
        }
    }
    return 0;
}

TEST(internal_events_cause_no_empty_step)
{
    static const struct weft_actor_kind kind = {.name = "provoker", .step = provoke};
    char text[8];
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 1}), 0);
    CHECK_EQ(weft_host_handle(host, AT_ONCE, at_once, NULL), 0);
    CHECK_EQ(weft_actor_spawn(host, &pid, &kind, NULL, NULL), 0);
    for (int i = 0; i < 20; i++) {
        CHECK_EQ(weft_actor_send(pid, "m", (uint64_t)i % 2, NULL, WEFT_BY_POLICY), 0);
        while (atomic_load(&messages) <= i) {
            CHECK_EQ(weft_actor_stats(pid, text, sizeof text, WEFT_FOREVER), -ENOTSUP);
        }
    }
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    CHECK(atomic_load(&empty_steps) <= 1); /* the very first one */
    weft_host_destroy(host);
}

TEST(commands_with_same_tag_complete_separately)
{
    static const struct weft_actor_kind twin = {
        .name = "twin", .state_bytes = sizeof(int), .step = ask_twins, .close = on_close};
    weft_pid one;
    begin((struct script){.status = DONE});
    join(0, true);
    atomic_store(&closed, 0);
    atomic_store(&asked_count, 0);
    atomic_store(&twins, 0);
    CHECK_EQ(weft_actor_spawn(host, &one, &twin, NULL, NULL), 0);
    await_asked(2);
    CHECK_EQ(weft_actor_send(one, "m", 0, NULL, WEFT_BY_POLICY), 0);
    complete(0);
    complete(1);
    int err = weft_actor_join(one, NULL, WEFT_FOREVER);
    CHECK(err == 0 || err == -ESRCH);
    end();
}

/* --- earlier incarnations --------------------------------------------------------------------- */

TEST(completion_for_previous_slot_owner_is_dropped)
{
    struct weft_host_stats stats;
    begin((struct script){.status = DONE, .commands = 1, .id = LATER});
    join(0, true);
    weft_pid old = pid;
    int again = 0;
    for (int i = 0; i < 1000 && !again; i++) { /* until the slot is reused */
        script = (struct script){.status = IDLE, .then = IDLE};
        CHECK_EQ(weft_actor_spawn(host, &pid, &actor, NULL, NULL), 0);
        again = (uint32_t)pid.id == (uint32_t)old.id;
        if (!again) {
            CHECK_EQ(weft_actor_kill(pid), 0);
            join(-ECANCELED, false);
        }
    }
    CHECK(again);
    CHECK(!weft_pid_equal(pid, old));
    await_state(WEFT_ACTOR_IDLE);
    int before = atomic_load(&seen_count);
    CHECK_EQ(weft_command_complete(old, 0, 0, weft_buf_copy("x", 1)), -ESRCH);
    CHECK_EQ(weft_actor_send(old, "m", 0, weft_buf_copy("x", 1), WEFT_BY_POLICY), -ESRCH);
    CHECK_EQ(weft_actor_kill(old), -ESRCH);
    send_one();
    while (seen[atomic_load(&seen_count) - 1] != 'm') {
        weft_sleep(weft_after(20000));
    }
    CHECK_EQ(atomic_load(&seen_count), before + 2);
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_stats(host, &stats);
    CHECK_EQ(stats.live, 0);
    weft_host_destroy(host);
}

/* Threads complete commands for, and send to, a slot's earlier actors while actors come and go in
 * it. */
static _Atomic(uint64_t) current;
static atomic_bool over;
static _Atomic(uint32_t) current_host;

/* Some for each actor: before its first step, while it runs, and after it has ended. */
static void *pester(void *arg)
{
    uint64_t last = 0;
    int left = 0;
    (void)arg;
    while (!atomic_load(&over)) {
        weft_pid to = {.host = atomic_load(&current_host), .id = atomic_load(&current)};
        uint64_t generation = to.id >> 32;
        left = to.id != last ? 20 : left - 1;
        last = to.id;
        if (left > 0) {
            weft_command_complete(to, generation, 0, weft_buf_copy(&generation, sizeof generation));
            weft_actor_send(to, "m", generation, NULL, WEFT_BY_POLICY);
        } else {
            sched_yield();
        }
    }
    return NULL;
}

/* Everything that an actor sees must be addressed to it. */
static int check_step(weft_actor *self, const struct weft_actor_event *events, size_t n,
                      weft_out *out)
{
    uint64_t generation = weft_actor_pid(self).id >> 32;
    int *steps = weft_actor_state(self);
    for (size_t i = 0; i < n; i++) {
        CHECK_EQ(events[i].tag, generation);
    }
    ++*steps;
    if (n > 0 || *steps > 3) {
        weft_out_done(out, NULL);
    } else {
        weft_out_continue(out);
    }
    return 0;
}

TEST(completion_never_reaches_slot_reuser_under_race)
{
    static const struct weft_actor_kind checker = {
        .name = "checker", .state_bytes = sizeof(int), .step = check_step};
    pthread_t threads[2];
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 1}), 0);
    atomic_store(&over, false);
    atomic_store(&current, 0);
    for (int i = 0; i < 2; i++) {
        CHECK_EQ(pthread_create(&threads[i], NULL, pester, NULL), 0);
    }
    for (int i = 0; i < 3000; i++) {
        weft_pid one;
        CHECK_EQ(weft_actor_spawn(host, &one, &checker, NULL, NULL), 0);
        atomic_store(&current_host, one.host);
        atomic_store(&current, one.id);
        weft_actor_join(one, NULL, WEFT_FOREVER);
    }
    atomic_store(&over, true);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
    }
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
}

/* --- out of memory ---------------------------------------------------------------------------- */

static int starve(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    int *begun = weft_actor_state(self);
    (void)events, (void)n;
    if (*begun) {
        weft_out_done(out, NULL);
        return 0;
    }
    *begun = 1;
    int err = 0;
    weft__alloc_fail_after(1, true);
    for (int i = 0; i < 100 && !err; i++) {
        err = weft_out_command(out, NO_SUCH, 0, NULL);
    }
    CHECK_EQ(err, -ENOMEM); /* more than its mailbox has capacity for */
    weft_out_wait(out);
    return 0; /* and no completion event can be allocated for the issued commands */
}

TEST(actor_without_memory_for_completion_ends)
{
    static const struct weft_actor_kind hungry = {
        .name = "hungry", .state_bytes = sizeof(int), .step = starve};
    weft_pid one;
    CHECK_EQ(weft_host_create(&host, &(struct weft_host_opts){.workers = 1}), 0);
    CHECK_EQ(weft_actor_spawn(host, &one, &hungry, NULL, NULL), 0);
    int err = weft_actor_join(one, NULL, WEFT_FOREVER);
    weft__alloc_fail_after(0, false);
    CHECK(err == -ENOMEM || err == -ESRCH);
    CHECK_EQ(weft_host_stop(host, NULL, WEFT_FOREVER), 0);
    weft_host_destroy(host);
}
