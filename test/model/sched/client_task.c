/* Clients of task/task.h: the state word.
 *
 * The task is one plain variable, its frame, that only the thread that runs the task may touch; so
 * a task that runs twice, or on a stack that is still in use, or without seeing what it waited for,
 * is a race. T0 is the worker on which the task arms; the thread that makes the task READY runs it
 * at once, as if from a queue. */
#include "model/explore.h"
#include "task/ident.h"
#include "task/task.h"

enum { RESUMED, WON, SUBMITTED }; /* counters */

static struct weft__task task;
static int frame, message[2];
static enum weft__reason reason;
static _Atomic(uint64_t) handed; /* the ticket + 1, for firers that need it */

static void setup_with(enum weft__task_state state, uint64_t sequence)
{
    task = (struct weft__task){.pin = -1};
    atomic_init(&task.state, sequence << WEFT__TICKET_SHIFT | state);
    atomic_init(&task.ident, (uint64_t)1 << 32 | WEFT__IDENT_LIVE);
    atomic_init(&handed, 0);
    frame = 0;
    reason = WEFT__REASON_NONE;
    message[0] = message[1] = 0;
    x_name(&task, sizeof task, "task");
    x_name(&frame, sizeof frame, "frame");
    x_name(message, sizeof message, "message");
    x_name(&handed, sizeof handed, "handed");
}

static void setup(void)
{
    setup_with(WEFT__TASK_RUNNING, 0);
}

/* The next ticket wraps to 0. */
static void setup_wrap(void)
{
    setup_with(WEFT__TASK_RUNNING, UINT64_MAX >> WEFT__TICKET_SHIFT);
}

/* ---- the parts ---- */

static uint64_t arm_and_hand_over(unsigned kind)
{
    uint64_t ticket = weft__task_arm(&task, kind);
    atomic_store_explicit(&handed, ticket + 1, memory_order_release);
    return ticket;
}

/* False: the task has not armed yet. */
static bool handed_ticket(uint64_t *ticket)
{
    uint64_t word = atomic_load_explicit(&handed, memory_order_acquire);
    *ticket = word - 1;
    return word != 0;
}

/* The task resumes, on whatever thread this is. */
static void resume(void)
{
    X_ASSERT(!weft__task_run(&task));
    X_ASSERT(weft__task_state(&task) == WEFT__TASK_RUNNING);
    frame++;
    reason = weft__task_reason(&task);
    X_ASSERT(reason != WEFT__REASON_NONE);
    if (reason == WEFT__REASON_DONE) {
        X_ASSERT(message[0] == 1);
    }
    x_count(RESUMED);
}

/* What the worker does after it has switched away from the task. */
static void switch_away(void)
{
    frame = 10; /* the last part of the frame is saved */
    if (!weft__task_settle(&task)) {
        resume();
    }
}

static enum weft__fire fire(uint64_t ticket, enum weft__reason why)
{
    if (why == WEFT__REASON_DONE) {
        message[0] = 1;
    }
    enum weft__fire outcome = weft__task_fire(&task, ticket, why);
    if (outcome != WEFT__FIRE_LOST) {
        x_count(WON);
    }
    if (outcome == WEFT__FIRE_ENQUEUE) {
        resume();
    }
    return outcome;
}

/* The same in one step if possible; the result of the wait is then written after the win. */
static void fire_at_once(uint64_t ticket, enum weft__reason why)
{
    if (!weft__task_fire_waiting(&task, ticket, why)) {
        fire(ticket, why);
        return;
    }
    x_count(WON);
    message[0] = why == WEFT__REASON_DONE ? 1 : message[0];
    resume();
}

/* The task still waits, or the one winner resumed it once. */
static void resumed_if_won(void)
{
    X_ASSERT(x_counted(RESUMED) == x_counted(WON));
    X_ASSERT(weft__task_state(&task) == (x_counted(WON) ? WEFT__TASK_RUNNING : WEFT__TASK_WAITING));
}

/* ---- wake against suspend ---- */

static void wake_against_suspend(int i)
{
    uint64_t ticket;
    if (i == 0) {
        arm_and_hand_over(WEFT__WAIT_OBJECT);
        switch_away();
    } else if (handed_ticket(&ticket)) {
        X_ASSERT(fire(ticket, WEFT__REASON_DONE) != WEFT__FIRE_LOST);
    }
}

/* The source, a deadline and a cancel: one wins, the others have no effect. */
static void firers(int i)
{
    static const enum weft__reason why[] = {WEFT__REASON_NONE, WEFT__REASON_DONE,
                                            WEFT__REASON_TIMEOUT, WEFT__REASON_CANCEL};
    uint64_t ticket;
    if (i == 0) {
        arm_and_hand_over(WEFT__WAIT_OBJECT);
        switch_away();
    } else if (handed_ticket(&ticket)) {
        fire(ticket, why[i]);
    }
}

/* The same, with the source in one step. */
static void firers_at_once(int i)
{
    static const enum weft__reason why[] = {WEFT__REASON_NONE, WEFT__REASON_DONE,
                                            WEFT__REASON_TIMEOUT};
    uint64_t ticket;
    if (i == 0) {
        arm_and_hand_over(WEFT__WAIT_OBJECT);
        switch_away();
    } else if (handed_ticket(&ticket)) {
        if (i == 1) {
            fire_at_once(ticket, why[i]);
        } else {
            fire(ticket, why[i]);
        }
    }
}

/* ---- disarm ---- */

static void disarm_against_wake(int i)
{
    uint64_t ticket;
    if (i == 0) {
        frame = 1;
        arm_and_hand_over(WEFT__WAIT_OBJECT);
        reason = weft__task_disarm(&task);
        X_ASSERT(weft__task_state(&task) == WEFT__TASK_RUNNING);
        X_ASSERT(reason == WEFT__REASON_NONE || message[0] == 1);
        frame++;
        if (reason != WEFT__REASON_NONE) {
            x_count(RESUMED);
        }
    } else if (handed_ticket(&ticket)) {
        X_ASSERT(fire(ticket, WEFT__REASON_DONE) != WEFT__FIRE_ENQUEUE);
    }
}

static void fired_as_seen(void)
{
    X_ASSERT(x_counted(RESUMED) == x_counted(WON));
    X_ASSERT(weft__task_state(&task) == WEFT__TASK_RUNNING);
}

/* ---- tickets ---- */

/* A firer that is late for the first wait does not end the second. */
static void late_for_the_first(int i)
{
    uint64_t ticket;
    if (i == 0) {
        arm_and_hand_over(WEFT__WAIT_OBJECT);
        reason = weft__task_disarm(&task);
        if (reason != WEFT__REASON_NONE) {
            x_count(RESUMED);
        }
        weft__task_arm(&task, WEFT__WAIT_OBJECT);
        frame = 10;
        X_ASSERT(weft__task_settle(&task)); /* no thread has the second ticket */
    } else if (handed_ticket(&ticket)) {
        fire(ticket, WEFT__REASON_TIMEOUT);
    }
}

static void late_at_once(int i)
{
    uint64_t ticket;
    if (i == 0) {
        late_for_the_first(0);
    } else if (handed_ticket(&ticket)) {
        fire_at_once(ticket, WEFT__REASON_TIMEOUT);
    }
}

static void waits_for_the_second(void)
{
    X_ASSERT(x_counted(RESUMED) == x_counted(WON));
    X_ASSERT(weft__task_state(&task) == WEFT__TASK_WAITING);
}

/* One waker fires the first wait, then the second: each is ended once. */
static void two_waits(int i)
{
    uint64_t ticket;
    if (i == 0) {
        ticket = arm_and_hand_over(WEFT__WAIT_OBJECT);
        switch_away();
    } else if (handed_ticket(&ticket) && fire(ticket, WEFT__REASON_DONE) == WEFT__FIRE_ENQUEUE) {
        /* The task runs here now, and waits again. */
        uint64_t second = weft__task_arm(&task, WEFT__WAIT_OBJECT);
        X_ASSERT(second == ((ticket + 1) & (UINT64_MAX >> WEFT__TICKET_SHIFT)));
        X_ASSERT(weft__task_fire(&task, ticket, WEFT__REASON_CANCEL) == WEFT__FIRE_LOST);
        frame = 10;
        X_ASSERT(weft__task_settle(&task));
        X_ASSERT(weft__task_fire(&task, second, WEFT__REASON_DONE) == WEFT__FIRE_ENQUEUE);
        X_ASSERT(weft__task_fire(&task, second, WEFT__REASON_DONE) == WEFT__FIRE_LOST);
        weft__task_run(&task);
    }
}

static void running_or_waiting(void)
{
    X_ASSERT(x_counted(RESUMED) == x_counted(WON));
    enum weft__task_state state = weft__task_state(&task);
    X_ASSERT(state == WEFT__TASK_RUNNING || state == WEFT__TASK_WAITING);
}

/* ---- a wake by handle: set a flag, then check; arm, then check ---- */

static void flag_against_arm(int i)
{
    uint64_t ticket, ident;
    unsigned kind;
    if (i == 0) {
        weft__task_arm(&task, WEFT__WAIT_PARK);
        if (weft__ident_flags(&task) & WEFT__IDENT_CANCEL) {
            /* The thread that set the flag may fire as well: one of the two wins. */
            (void)!weft__task_fire(&task, 1, WEFT__REASON_CANCEL);
        }
        switch_away();
    } else {
        X_ASSERT(weft__ident_lock(&task, 1, WEFT__IDENT_CANCEL, &ident));
        if (weft__task_ticket(&task, &ticket, &kind)) {
            X_ASSERT(ticket == 1 && kind == WEFT__WAIT_PARK);
            if (weft__task_fire(&task, ticket, WEFT__REASON_CANCEL) == WEFT__FIRE_ENQUEUE) {
                resume();
            }
        }
        weft__ident_unlock(&task, ident);
    }
}

/* At least one of the two sees the flag. */
static void cancelled(void)
{
    X_ASSERT(x_counted(RESUMED) == 1 && reason == WEFT__REASON_CANCEL);
}

/* ---- a read from outside ---- */

static void setup_fresh(void)
{
    setup_with(WEFT__TASK_FRESH, 0);
}

/* A thread that sees the task running sees the stack that the task was given. */
static void viewer(int i)
{
    if (i == 0) {
        task.stack = (struct weft__stack *)(void *)&frame;
        X_ASSERT(weft__task_run(&task));
    } else if (weft__task_state(&task) == WEFT__TASK_RUNNING) {
        X_ASSERT(task.stack == (struct weft__stack *)(void *)&frame);
    }
}

/* ---- held by a viewer ---- */

/* Reads the frame of a waiting task while the hold keeps it from resuming. */
static void hold_and_look(void)
{
    if (weft__task_hold(&task)) {
        X_ASSERT(frame == 10);
        X_ASSERT(!weft__task_hold(&task)); /* one at a time */
        if (weft__task_unhold(&task)) {
            resume();
        }
    }
}

static void hold_against_wake(int i)
{
    uint64_t ticket;
    if (i == 0) {
        arm_and_hand_over(WEFT__WAIT_OBJECT);
        switch_away();
    } else if (i == 1) {
        if (handed_ticket(&ticket)) {
            X_ASSERT(fire(ticket, WEFT__REASON_DONE) != WEFT__FIRE_LOST);
        }
    } else {
        hold_and_look();
    }
}

/* The task waits already: only the viewers, the source and a cancel by handle. */
static void setup_waiting(void)
{
    setup();
    handed = weft__task_arm(&task, WEFT__WAIT_OBJECT) + 1;
    frame = 10;
    X_ASSERT(weft__task_settle(&task));
}

static void two_viewers_and_a_wake(int i)
{
    uint64_t ticket;
    unsigned kind;
    if (i == 0) {
        X_ASSERT(handed_ticket(&ticket));
        X_ASSERT(fire(ticket, WEFT__REASON_DONE) != WEFT__FIRE_LOST);
    } else if (i == 1) {
        hold_and_look();
        if (weft__task_ticket(&task, &ticket, &kind)) { /* held or not, the task waits */
            X_ASSERT(kind == WEFT__WAIT_OBJECT);
        }
    } else {
        hold_and_look();
    }
}

/* ---- arm and settle in one step, before the step has returned ---- */

static _Atomic(uint32_t) sent; /* to the only thread that runs the task, T0 */

static void setup_body(void)
{
    setup();
    task.flags = WEFT__TASK_STACKLESS | WEFT__TASK_GROUPED;
    atomic_init(&sent, 0);
    x_name(&sent, sizeof sent, "sent");
}

static void rest(void)
{
    frame = 10;
    weft__task_arm_settled(&task, weft__task_settled_word(&task));
}

/* T0 finds the task in its inbox, unless the task has resumed without it. */
static void resume_when_sent(void)
{
    while (atomic_load_explicit(&sent, memory_order_acquire) == 0) {
        x_spin();
    }
    atomic_store_explicit(&sent, 0, memory_order_relaxed);
    resume();
}

/* The other threads: a cancel, and a viewer. */
static void disturb(int i)
{
    uint64_t ticket, ident;
    unsigned kind;
    if (i == 2) {
        if (weft__task_hold(&task)) {
            X_ASSERT(frame == 10);
            X_ASSERT(!weft__task_unhold(&task)); /* the winner waits */
        }
        return;
    }
    X_ASSERT(weft__ident_lock(&task, 1, WEFT__IDENT_CANCEL, &ident));
    if (weft__task_ticket(&task, &ticket, &kind) &&
        weft__task_fire(&task, ticket, WEFT__REASON_CANCEL) == WEFT__FIRE_ENQUEUE) {
        atomic_store_explicit(&sent, 1, memory_order_release);
    }
    weft__ident_unlock(&task, ident);
}

/* The step takes its wait back: the wait ends at once, for the reason in `why`, or moves the
 * task. */
static void go_on_at_once(enum weft__reason why)
{
    if (!weft__task_unsettle(&task)) {
        resume_when_sent();
        return;
    }
    if (why != WEFT__REASON_NONE) {
        (void)!weft__task_fire(&task, 1, why);
    }
    reason = weft__task_disarm(&task);
    frame++;
    x_count(RESUMED);
}

static void rest_against_cancel(int i)
{
    if (i > 0) {
        disturb(i);
        return;
    }
    rest();
    if (weft__ident_flags(&task) & WEFT__IDENT_CANCEL) {
        go_on_at_once(WEFT__REASON_CANCEL);
    } else {
        resume_when_sent();
    }
}

/* The step turns out to be invalid after it has settled. */
static void rest_taken_back(int i)
{
    if (i > 0) {
        disturb(i);
        return;
    }
    rest();
    go_on_at_once(WEFT__REASON_NONE);
}

/* Another step of T0 signals the event that is waited for, and then that of an earlier wait. */
static void rest_against_signal(int i)
{
    if (i > 0) {
        disturb(i);
        return;
    }
    rest();
    X_ASSERT(!weft__task_fire_plain(&task, 0, WEFT__REASON_DONE));
    if (weft__task_fire_plain(&task, 1, WEFT__REASON_DONE)) {
        message[0] = 1;
        resume();
    } else if (fire(1, WEFT__REASON_DONE) == WEFT__FIRE_LOST) {
        resume_when_sent();
    }
}

static void resumed_once(void)
{
    X_ASSERT(x_counted(RESUMED) == 1 && sent == 0);
    X_ASSERT(weft__task_state(&task) == WEFT__TASK_RUNNING);
}

static void cancelled_once(void)
{
    resumed_once();
    cancelled();
}

/* ---- submit, and the end ---- */

static void setup_created(void)
{
    setup_with(WEFT__TASK_FREE, 5);
    weft__task_create(&task);
}

static void submit_twice(int i)
{
    (void)i;
    if (weft__task_submit(&task)) {
        x_count(SUBMITTED);
        X_ASSERT(weft__task_is_fresh(&task));
        frame = 1;
        X_ASSERT(weft__task_run(&task));
        frame++;
    }
}

static void submitted_once(void)
{
    X_ASSERT(x_counted(SUBMITTED) == 1);
    X_ASSERT(weft__task_state(&task) == WEFT__TASK_RUNNING);
}

/* Through all states, alone. */
static void life(int i)
{
    (void)i;
    X_ASSERT(weft__task_submit(&task) && !weft__task_submit(&task));
    weft__task_unsubmit(&task);
    X_ASSERT(weft__task_submit(&task));
    X_ASSERT(weft__task_run(&task));
    weft__task_requeue(&task);
    X_ASSERT(!weft__task_run(&task));
    uint64_t ticket = weft__task_arm(&task, WEFT__WAIT_OBJECT);
    X_ASSERT(ticket == 6 && !weft__task_is_fired(&task));
    X_ASSERT(weft__task_fire(&task, ticket, WEFT__REASON_TIMEOUT) == WEFT__FIRE_WON);
    X_ASSERT(weft__task_is_fired(&task));
    X_ASSERT(weft__task_disarm(&task) == WEFT__REASON_TIMEOUT);
    weft__task_finish(&task);
    X_ASSERT(weft__task_fire(&task, ticket, WEFT__REASON_DONE) == WEFT__FIRE_LOST);
    weft__task_free(&task);
    weft__task_create_fresh(&task);
    X_ASSERT(weft__task_is_fresh(&task));
}

static const struct x_client clients[] = {
    X_CLIENT("wake_against_suspend", 2, setup, wake_against_suspend, resumed_if_won, .spurious = 1),
    X_CLIENT("wake_against_suspend_wrap", 2, setup_wrap, wake_against_suspend, resumed_if_won),
    X_CLIENT("two_firers", 3, setup, firers, resumed_if_won, .spurious = 1),
    X_CLIENT("three_firers", 4, setup, firers, resumed_if_won),
    X_CLIENT("firers_at_once", 3, setup, firers_at_once, resumed_if_won),
    X_CLIENT("disarm_against_wake", 2, setup, disarm_against_wake, fired_as_seen, .spurious = 1),
    X_CLIENT("late_for_the_first", 2, setup, late_for_the_first, waits_for_the_second),
    X_CLIENT("late_for_the_first_wrap", 2, setup_wrap, late_for_the_first, waits_for_the_second),
    X_CLIENT("late_at_once", 2, setup, late_at_once, waits_for_the_second),
    X_CLIENT("two_waits", 2, setup, two_waits, running_or_waiting),
    X_CLIENT("flag_against_arm", 2, setup, flag_against_arm, cancelled, .spurious = 1),
    X_CLIENT("viewer", 2, setup_fresh, viewer, NULL),
    X_CLIENT("hold_against_wake", 3, setup, hold_against_wake, resumed_if_won, .spurious = 1),
    X_CLIENT("two_viewers_and_a_wake", 3, setup_waiting, two_viewers_and_a_wake, resumed_if_won),
    X_CLIENT("rest_against_cancel", 3, setup_body, rest_against_cancel, cancelled_once),
    X_CLIENT("rest_taken_back", 3, setup_body, rest_taken_back, resumed_once, .spurious = 1),
    X_CLIENT("rest_against_signal", 3, setup_body, rest_against_signal, resumed_once),
    X_CLIENT("submit_twice", 2, setup_created, submit_twice, submitted_once),
    X_CLIENT("life", 1, setup_created, life, NULL),
};

X_MAIN(clients)
