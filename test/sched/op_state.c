/* The completion of an operation against the waits of its task, where tickets wrap around. The
 * races are explored in test/model. */
/* labels: valgrind */
#include "sched/op_state.h"
#include "base/link.h"
#include "check.h"
#include "task/task.h"

#define LAST ((UINT64_C(1) << (64 - WEFT__TICKET_SHIFT)) - 1)

/* A running task whose last wait had this ticket. */
static void run_after(struct weft__task *task, uint64_t ticket)
{
    atomic_store(&task->state, ticket << WEFT__TICKET_SHIFT | WEFT__TASK_RUNNING);
}

static uint64_t begin_wait(struct weft__task *task)
{
    return weft__task_arm(task, WEFT__WAIT_OBJECT | WEFT__WAIT_EXTERNAL);
}

static void check_told(struct weft__task *task, struct weft__io_wait *ending)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    CHECK(!weft__op_state_finish(ending, &ready));
    CHECK_EQ(weft__task_state(task), WEFT__TASK_READY);
    CHECK_EQ(ready.count, 1);
}

TEST(op_completion_wakes_first_wait_for_any_ticket)
{
    const uint64_t before[] = {0, 1, LAST - 1, LAST};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        struct weft__task task = {0};
        struct weft__io_wait ending;
        run_after(&task, before[i]);
        uint64_t ticket = begin_wait(&task);
        CHECK_EQ(ticket, before[i] == LAST ? 0 : before[i] + 1);
        weft__op_state_init(&ending, weft__io_waiter_of(&task), ticket);
        CHECK(weft__task_settle(&task) != 0);
        check_told(&task, &ending);
    }
}

TEST(op_completion_wakes_wait_after_deadline_for_any_ticket)
{
    const uint64_t before[] = {0, LAST - 2, LAST - 1, LAST};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        struct weft__task task = {0};
        struct weft__io_wait ending;
        run_after(&task, before[i]);
        uint64_t first = begin_wait(&task);
        weft__op_state_init(&ending, weft__io_waiter_of(&task), first);
        CHECK_EQ(weft__task_disarm(&task), WEFT__REASON_NONE);
        weft__op_state_stop_waiting(&ending, first);
        CHECK(weft__op_state_wait(&ending, begin_wait(&task)));
        CHECK(weft__task_settle(&task) != 0);
        check_told(&task, &ending);
    }
}

TEST(op_completion_between_two_waits_is_seen)
{
    const uint64_t before[] = {0, LAST - 1, LAST};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        struct weft__task task = {0};
        struct weft__io_wait ending;
        struct weft__chain ready;
        weft__chain_init(&ready);
        run_after(&task, before[i]);
        uint64_t first = begin_wait(&task);
        weft__op_state_init(&ending, weft__io_waiter_of(&task), first);
        CHECK_EQ(weft__task_disarm(&task), WEFT__REASON_NONE);
        weft__op_state_stop_waiting(&ending, first);
        CHECK(!weft__op_state_is_finished(&ending));
        CHECK(!weft__op_state_finish(&ending, &ready));
        CHECK(weft__op_state_is_finished(&ending));
        CHECK(!weft__op_state_abandon(&ending));
        CHECK_EQ(ready.count, 0);
        CHECK(!weft__op_state_wait(&ending, begin_wait(&task)));
    }
}

TEST(abandoned_op_is_freed_by_its_completion)
{
    struct weft__task task = {0};
    struct weft__io_wait ending;
    struct weft__chain ready;
    weft__chain_init(&ready);
    run_after(&task, 0);
    uint64_t first = begin_wait(&task);
    weft__op_state_init(&ending, weft__io_waiter_of(&task), first);
    CHECK_EQ(weft__task_disarm(&task), WEFT__REASON_NONE);
    weft__op_state_stop_waiting(&ending, first);
    CHECK(weft__op_state_abandon(&ending));
    CHECK(weft__op_state_finish(&ending, &ready));
    CHECK_EQ(ready.count, 0);
}
