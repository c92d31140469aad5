/* The task's state word, one step at a time: every transition of the table in task/task.h, every
 * step that is not in it, and stale tickets. The explorer (test/model) covers the races. */
/* labels: valgrind */
#include <setjmp.h>

#include "check.h"
#include "task/task.h"

/* A panic jumps back here instead of aborting the program, so that forbidden steps can be
 * counted. */
static jmp_buf panicked;
static volatile bool expecting;

void weft__panic(const char *file, int line, const char *format, ...)
{
    if (!expecting) {
        check_fail(file, line, "unexpected panic: %s", format);
    }
    longjmp(panicked, 1);
}

static uint64_t word_of(uint64_t ticket, enum weft__reason reason, enum weft__task_state state)
{
    return ticket << WEFT__TICKET_SHIFT | (uint64_t)reason << WEFT__STATE_BITS | state;
}

static void put(struct weft__task *task, uint64_t ticket, enum weft__task_state state)
{
    atomic_store(&task->state, word_of(ticket, WEFT__REASON_NONE, state));
}

static uint64_t ticket_of(const struct weft__task *task)
{
    return atomic_load(&task->state) >> WEFT__TICKET_SHIFT;
}

#define STATES 9

TEST(created_task_can_be_submitted_once)
{
    struct weft__task task = {0};
    weft__task_create(&task);
    CHECK_EQ(weft__task_state(&task), WEFT__TASK_CREATED);
    CHECK(weft__task_submit(&task));
    CHECK_EQ(weft__task_state(&task), WEFT__TASK_FRESH);
    CHECK(!weft__task_submit(&task));
    CHECK_EQ(weft__task_state(&task), WEFT__TASK_FRESH);
}

TEST(undone_submit_can_be_repeated)
{
    struct weft__task task = {0};
    weft__task_create(&task);
    CHECK(weft__task_submit(&task));
    weft__task_unsubmit(&task);
    CHECK_EQ(weft__task_state(&task), WEFT__TASK_CREATED);
    CHECK(weft__task_submit(&task));
}

TEST(submit_rejects_every_state_but_created)
{
    for (int state = 0; state < STATES; state++) {
        struct weft__task task = {0};
        put(&task, 7, (enum weft__task_state)state);
        CHECK_EQ(weft__task_submit(&task), state == WEFT__TASK_CREATED);
        CHECK_EQ(weft__task_state(&task), state == WEFT__TASK_CREATED ? WEFT__TASK_FRESH : state);
        CHECK_EQ(ticket_of(&task), 7);
    }
}

TEST(first_run_of_task_is_distinguished)
{
    struct weft__task task = {0};
    weft__task_create_fresh(&task);
    CHECK(weft__task_is_fresh(&task));
    CHECK(weft__task_run(&task));
    CHECK_EQ(weft__task_state(&task), WEFT__TASK_RUNNING);
    weft__task_requeue(&task);
    CHECK_EQ(weft__task_state(&task), WEFT__TASK_READY);
    CHECK(!weft__task_is_fresh(&task));
    CHECK(!weft__task_run(&task));
    CHECK_EQ(weft__task_state(&task), WEFT__TASK_RUNNING);
}

TEST(every_wait_gets_new_ticket)
{
    struct weft__task task = {0};
    weft__task_create_fresh(&task);
    weft__task_run(&task);
    uint64_t last = 0;
    for (int i = 0; i < 100; i++) {
        uint64_t ticket = weft__task_arm(&task, WEFT__WAIT_OBJECT);
        CHECK_EQ(ticket, last + 1);
        CHECK_EQ(weft__task_state(&task), WEFT__TASK_ARMED);
        CHECK_EQ(weft__task_disarm(&task), WEFT__REASON_NONE);
        CHECK_EQ(weft__task_state(&task), WEFT__TASK_RUNNING);
        last = ticket;
    }
}

TEST(fire_of_settled_wait_makes_task_ready)
{
    struct weft__task task = {0};
    put(&task, 4, WEFT__TASK_RUNNING);
    uint64_t ticket = weft__task_arm(&task, WEFT__WAIT_PARK);
    CHECK(weft__task_settle(&task));
    CHECK_EQ(weft__task_state(&task), WEFT__TASK_WAITING);
    CHECK_EQ(weft__task_fire(&task, ticket, WEFT__REASON_TIMEOUT), WEFT__FIRE_ENQUEUE);
    CHECK_EQ(weft__task_state(&task), WEFT__TASK_READY);
    CHECK(!weft__task_run(&task));
    CHECK_EQ(weft__task_reason(&task), WEFT__REASON_TIMEOUT);
    CHECK_EQ(ticket_of(&task), ticket);
}

TEST(fire_before_switch_completes_leaves_enqueue_to_settle)
{
    struct weft__task task = {0};
    put(&task, 4, WEFT__TASK_RUNNING);
    uint64_t ticket = weft__task_arm(&task, WEFT__WAIT_OBJECT);
    CHECK(!weft__task_is_fired(&task));
    CHECK_EQ(weft__task_fire(&task, ticket, WEFT__REASON_DONE), WEFT__FIRE_WON);
    CHECK_EQ(weft__task_state(&task), WEFT__TASK_FIRED);
    CHECK(weft__task_is_fired(&task));
    CHECK(!weft__task_settle(&task));
    CHECK_EQ(weft__task_state(&task), WEFT__TASK_READY);
    weft__task_run(&task);
    CHECK_EQ(weft__task_reason(&task), WEFT__REASON_DONE);
}

TEST(fire_before_park_is_found_by_disarm)
{
    static const enum weft__reason reasons[] = {WEFT__REASON_DONE, WEFT__REASON_TIMEOUT,
                                                WEFT__REASON_CANCEL};
    for (unsigned i = 0; i < 3; i++) {
        struct weft__task task = {0};
        put(&task, 4, WEFT__TASK_RUNNING);
        uint64_t ticket = weft__task_arm(&task, WEFT__WAIT_PARK);
        CHECK_EQ(weft__task_fire(&task, ticket, reasons[i]), WEFT__FIRE_WON);
        CHECK_EQ(weft__task_disarm(&task), reasons[i]);
        CHECK_EQ(weft__task_state(&task), WEFT__TASK_RUNNING);
    }
}

TEST(first_fire_wins_and_keeps_its_reason)
{
    struct weft__task task = {0};
    put(&task, 4, WEFT__TASK_RUNNING);
    uint64_t ticket = weft__task_arm(&task, WEFT__WAIT_OBJECT);
    CHECK_EQ(weft__task_fire(&task, ticket, WEFT__REASON_CANCEL), WEFT__FIRE_WON);
    CHECK_EQ(weft__task_fire(&task, ticket, WEFT__REASON_DONE), WEFT__FIRE_LOST);
    CHECK_EQ(weft__task_fire(&task, ticket, WEFT__REASON_TIMEOUT), WEFT__FIRE_LOST);
    CHECK(!weft__task_settle(&task));
    CHECK_EQ(weft__task_fire(&task, ticket, WEFT__REASON_DONE), WEFT__FIRE_LOST);
    weft__task_run(&task);
    CHECK_EQ(weft__task_fire(&task, ticket, WEFT__REASON_DONE), WEFT__FIRE_LOST);
    CHECK_EQ(weft__task_reason(&task), WEFT__REASON_CANCEL);
}

TEST(only_armed_and_waiting_tasks_can_be_fired)
{
    for (int state = 0; state < STATES; state++) {
        struct weft__task task = {0};
        put(&task, 9, (enum weft__task_state)state);
        uint64_t before = atomic_load(&task.state);
        enum weft__fire expected = state == WEFT__TASK_ARMED     ? WEFT__FIRE_WON
                                   : state == WEFT__TASK_WAITING ? WEFT__FIRE_ENQUEUE
                                                                 : WEFT__FIRE_LOST;
        CHECK_EQ(weft__task_fire(&task, 9, WEFT__REASON_DONE), expected);
        if (expected == WEFT__FIRE_LOST) {
            CHECK_EQ(atomic_load(&task.state), before);
        }
    }
}

TEST(stale_ticket_is_rejected_in_every_state)
{
    for (int state = 0; state < STATES; state++) {
        for (uint64_t stale = 0; stale < 20; stale++) {
            struct weft__task task = {0};
            put(&task, 9, (enum weft__task_state)state);
            uint64_t before = atomic_load(&task.state);
            if (stale != 9) {
                CHECK_EQ(weft__task_fire(&task, stale, WEFT__REASON_DONE), WEFT__FIRE_LOST);
                CHECK_EQ(atomic_load(&task.state), before);
            }
        }
    }
}

TEST(ticket_of_abandoned_wait_cannot_fire_next_wait)
{
    struct weft__task task = {0};
    put(&task, 0, WEFT__TASK_RUNNING);
    uint64_t old = weft__task_arm(&task, WEFT__WAIT_OBJECT);
    CHECK_EQ(weft__task_disarm(&task), WEFT__REASON_NONE);
    CHECK_EQ(weft__task_fire(&task, old, WEFT__REASON_DONE), WEFT__FIRE_LOST);
    uint64_t ticket = weft__task_arm(&task, WEFT__WAIT_OBJECT);
    CHECK_EQ(weft__task_fire(&task, old, WEFT__REASON_DONE), WEFT__FIRE_LOST);
    CHECK(weft__task_settle(&task));
    CHECK_EQ(weft__task_fire(&task, old, WEFT__REASON_DONE), WEFT__FIRE_LOST);
    CHECK_EQ(weft__task_fire(&task, ticket, WEFT__REASON_DONE), WEFT__FIRE_ENQUEUE);
}

TEST(task_free_releases_slot_and_keeps_sequence)
{
    static const enum weft__task_state from[] = {WEFT__TASK_DONE, WEFT__TASK_CREATED,
                                                 WEFT__TASK_FRESH};
    for (unsigned i = 0; i < 3; i++) {
        struct weft__task task = {0};
        put(&task, 6, from[i]);
        weft__task_free(&task);
        CHECK_EQ(weft__task_state(&task), WEFT__TASK_FREE);
        CHECK_EQ(ticket_of(&task), 6);
    }
}

TEST(ticket_does_not_outlive_its_fiber)
{
    struct weft__task task = {0};
    weft__task_create_fresh(&task);
    weft__task_run(&task);
    uint64_t old = weft__task_arm(&task, WEFT__WAIT_OBJECT);
    CHECK_EQ(weft__task_disarm(&task), WEFT__REASON_NONE);
    weft__task_finish(&task);
    CHECK_EQ(weft__task_state(&task), WEFT__TASK_DONE);
    CHECK_EQ(weft__task_fire(&task, old, WEFT__REASON_TIMEOUT), WEFT__FIRE_LOST);
    weft__task_free(&task);
    CHECK_EQ(weft__task_state(&task), WEFT__TASK_FREE);

    weft__task_create_fresh(&task);
    weft__task_run(&task);
    CHECK_EQ(weft__task_arm(&task, WEFT__WAIT_OBJECT), old + 1);
    CHECK_EQ(weft__task_fire(&task, old, WEFT__REASON_TIMEOUT), WEFT__FIRE_LOST);
    CHECK_EQ(weft__task_state(&task), WEFT__TASK_ARMED);
}

TEST(task_snapshot_returns_ticket_and_kind_of_wait)
{
    struct weft__task task = {0};
    uint64_t seen;
    unsigned kind;
    put(&task, 4, WEFT__TASK_RUNNING);
    CHECK(!weft__task_ticket(&task, &seen, &kind));
    for (int i = 0; i < 2; i++) {
        unsigned made = i == 0 ? WEFT__WAIT_OBJECT : WEFT__WAIT_PARK;
        uint64_t ticket = weft__task_arm(&task, made);
        CHECK(weft__task_ticket(&task, &seen, &kind));
        CHECK(seen == ticket && kind == made);
        CHECK(weft__task_settle(&task));
        CHECK(weft__task_ticket(&task, &seen, &kind));
        CHECK(seen == ticket && kind == made);
        CHECK_EQ(weft__task_fire(&task, seen, WEFT__REASON_DONE), WEFT__FIRE_ENQUEUE);
        CHECK(!weft__task_ticket(&task, &seen, &kind));
        weft__task_run(&task);
        CHECK(!weft__task_ticket(&task, &seen, &kind));
    }
    weft__task_arm(&task, WEFT__WAIT_PARK);
    CHECK(weft__task_ticket(&task, &seen, &kind));
    CHECK_EQ(weft__task_fire(&task, seen, WEFT__REASON_DONE), WEFT__FIRE_WON);
    CHECK(!weft__task_ticket(&task, &seen, &kind));
}

TEST(ticket_sequence_wraps_cleanly)
{
    uint64_t last = UINT64_MAX >> WEFT__TICKET_SHIFT;
    struct weft__task task = {0};
    put(&task, last - 1, WEFT__TASK_RUNNING);
    for (int i = 0; i < 4; i++) {
        uint64_t ticket = weft__task_arm(&task, WEFT__WAIT_PARK);
        CHECK_EQ(ticket, (last + (uint64_t)i) & last);
        CHECK_EQ(weft__task_fire(&task, (ticket - 1) & last, WEFT__REASON_DONE), WEFT__FIRE_LOST);
        CHECK(weft__task_settle(&task));
        CHECK_EQ(weft__task_fire(&task, ticket, WEFT__REASON_CANCEL), WEFT__FIRE_ENQUEUE);
        weft__task_run(&task);
        CHECK_EQ(weft__task_reason(&task), WEFT__REASON_CANCEL);
    }
}

/* The steps of a task's owner. They are plain stores, so only the assertions of a debug build catch
 * a wrong one. */
static void step_create(struct weft__task *task)
{
    weft__task_create(task);
}

static void step_create_fresh(struct weft__task *task)
{
    weft__task_create_fresh(task);
}

static void step_unsubmit(struct weft__task *task)
{
    weft__task_unsubmit(task);
}

static void step_run(struct weft__task *task)
{
    weft__task_run(task);
}

static void step_requeue(struct weft__task *task)
{
    weft__task_requeue(task);
}

static void step_arm(struct weft__task *task)
{
    weft__task_arm(task, WEFT__WAIT_OBJECT);
}

static void step_settle(struct weft__task *task)
{
    (void)!weft__task_settle(task);
}

static void step_disarm(struct weft__task *task)
{
    (void)!weft__task_disarm(task);
}

static void step_finish(struct weft__task *task)
{
    weft__task_finish(task);
}

#define FROM(state) (1u << WEFT__TASK_##state)

static const struct {
    void (*step)(struct weft__task *task);
    unsigned from;
    enum weft__task_state to[2]; /* from the lower allowed state, from the higher */
} steps[] = {
    {step_create, FROM(FREE), {WEFT__TASK_CREATED}},
    {step_create_fresh, FROM(FREE), {WEFT__TASK_FRESH}},
    {step_unsubmit, FROM(FRESH), {WEFT__TASK_CREATED}},
    {step_run, FROM(FRESH) | FROM(READY), {WEFT__TASK_RUNNING, WEFT__TASK_RUNNING}},
    {step_requeue, FROM(RUNNING), {WEFT__TASK_READY}},
    {step_arm, FROM(RUNNING), {WEFT__TASK_ARMED}},
    {step_settle, FROM(ARMED) | FROM(FIRED), {WEFT__TASK_WAITING, WEFT__TASK_READY}},
    {step_disarm, FROM(ARMED) | FROM(FIRED), {WEFT__TASK_RUNNING, WEFT__TASK_RUNNING}},
    {step_finish, FROM(RUNNING), {WEFT__TASK_DONE}},
};

#define STEPS (sizeof steps / sizeof *steps)

/* Returns true if the step was taken. */
static bool take(unsigned step, struct weft__task *task)
{
    expecting = true;
    if (setjmp(panicked) != 0) {
        expecting = false;
        return false;
    }
    steps[step].step(task);
    expecting = false;
    return true;
}

TEST(owner_transitions_match_state_table_exactly)
{
    static struct weft__task task;
    for (unsigned step = 0; step < STEPS; step++) {
        int allowed = 0;
        for (unsigned state = 0; state < STATES; state++) {
            put(&task, 5, (enum weft__task_state)state);
            if (steps[step].from & 1u << state) {
                CHECK(take(step, &task));
                CHECK_EQ(weft__task_state(&task), steps[step].to[allowed++]);
            } else if (WEFT_DEBUG) {
                CHECK(!take(step, &task));
                CHECK_EQ(weft__task_state(&task), state);
            }
        }
    }
}
