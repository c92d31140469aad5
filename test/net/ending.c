/* The end of an operation against the waits of its fiber, where tickets begin anew. Races are the
 * explorer's (test/model). */
/* labels: valgrind */
#include "net/ending.h"
#include "base/link.h"
#include "check.h"
#include "sched/task.h"

#define LAST ((UINT64_C(1) << (64 - WEFT__TICKET_SHIFT)) - 1)

/* A task that runs, after a wait with this ticket. */
static void run_after(struct weft__task *task, uint64_t ticket)
{
    atomic_store(&task->state, ticket << WEFT__TICKET_SHIFT | WEFT__TASK_RUNNING);
}

static uint64_t begin_wait(struct weft__task *task)
{
    return weft__task_arm(task, WEFT__WAIT_OBJECT | WEFT__WAIT_OUTSIDE);
}

static void check_told(struct weft__task *task, struct weft__ending *ending)
{
    struct weft__chain ready;
    weft__chain_init(&ready);
    weft__ending_tell(ending, task, &ready);
    CHECK_EQ(weft__task_state(task), WEFT__TASK_READY);
    CHECK_EQ(ready.count, 1);
}

TEST(the_first_wait_is_ended_whatever_its_ticket)
{
    const uint64_t before[] = {0, 1, LAST - 1, LAST};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        struct weft__task task = {0};
        struct weft__ending ending;
        run_after(&task, before[i]);
        uint64_t ticket = begin_wait(&task);
        CHECK_EQ(ticket, before[i] == LAST ? 0 : before[i] + 1);
        weft__ending_init(&ending, ticket);
        CHECK(weft__task_settle(&task) != 0);
        check_told(&task, &ending);
    }
}

TEST(the_wait_after_a_deadline_is_ended_whatever_its_ticket)
{
    const uint64_t before[] = {0, LAST - 2, LAST - 1, LAST};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        struct weft__task task = {0};
        struct weft__ending ending;
        run_after(&task, before[i]);
        uint64_t first = begin_wait(&task);
        weft__ending_init(&ending, first);
        CHECK_EQ(weft__task_disarm(&task), WEFT__REASON_NONE);
        weft__ending_leave(&ending, first);
        CHECK(weft__ending_wait(&ending, begin_wait(&task)));
        CHECK(weft__task_settle(&task) != 0);
        check_told(&task, &ending);
    }
}

TEST(an_end_that_comes_between_two_waits_is_found)
{
    const uint64_t before[] = {0, LAST - 1, LAST};
    for (size_t i = 0; i < sizeof before / sizeof *before; i++) {
        struct weft__task task = {0};
        struct weft__ending ending;
        struct weft__chain ready;
        weft__chain_init(&ready);
        run_after(&task, before[i]);
        uint64_t first = begin_wait(&task);
        weft__ending_init(&ending, first);
        CHECK_EQ(weft__task_disarm(&task), WEFT__REASON_NONE);
        weft__ending_leave(&ending, first);
        weft__ending_tell(&ending, &task, &ready);
        CHECK_EQ(ready.count, 0);
        CHECK(!weft__ending_wait(&ending, begin_wait(&task)));
    }
}
