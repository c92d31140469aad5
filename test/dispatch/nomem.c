/* Every allocation fails once: each call returns an error or succeeds, nothing is half-made or
 * leaked, and everything works again afterwards. */
#include "base/alloc.h"

#include <weft/dispatcher.h>

#include "context/sanitizer.h"
#include "dispatch/fixture.h"

#if WEFT__ASAN
#include <sanitizer/lsan_interface.h>
#endif

struct run {
    int errors;        /* calls that failed */
    int expected, ran; /* functions */
};

static bool refused(struct run *run, int err)
{
    CHECK(err == 0 || err == -ENOMEM || err == -EAGAIN);
    run->errors += err != 0;
    run->expected += err == 0;
    return err != 0;
}

static void count_post(void *arg)
{
    ((struct run *)arg)->ran++;
}

static int count_work(void *arg, void **value)
{
    *value = arg;
    ((struct run *)arg)->ran++;
    return 0;
}

static void *count_fiber(void *arg)
{
    ((struct run *)arg)->ran++;
    return NULL;
}

/* On one thread, from outside the group: everything goes through the intake. Returns how many calls
 * failed. */
static int use_everything(void)
{
    struct run run = {0};
    struct weft_dispatcher_opts opts = {.caller = true}, hashing = {.order_hash = true};
    struct weft_member_opts named = {.name = "named"};
    weft_dispatcher *d;
    weft_group *group = NULL;
    weft_future *future = NULL;
    weft_schedule *schedule = NULL;
    if (!refused(&run, weft_dispatcher_create(&d, &hashing))) {
        weft_dispatcher_destroy(d);
    }
    if (refused(&run, weft_dispatcher_create(&d, &opts))) {
        return run.errors;
    }
    bool grouped = !refused(&run, weft_group_create(d, &group, NULL));
    run.expected = 0;
    if (grouped) {
        refused(&run, weft_group_spawn(group, NULL, count_fiber, &run, &named));
        refused(&run, weft_group_post(group, count_post, &run));
        if (refused(&run, weft_group_call(group, &future, count_work, &run))) {
            CHECK(!future);
        }
        refused(&run, weft_group_call(group, NULL, count_work, &run));
        if (refused(&run, weft_group_schedule(group, &schedule, count_work, &run, NULL))) {
            CHECK(!schedule);
        }
        weft_group_stop(group);
    }
    CHECK_EQ(weft_dispatcher_run(d), 0);
    if (future) {
        CHECK_EQ(weft_future_result(future, NULL), 0);
        weft_future_unref(future);
    }
    if (schedule) {
        CHECK_EQ(weft_future_result(weft_schedule_finished(schedule), NULL), 0);
        weft_schedule_unref(schedule);
    }
    CHECK_EQ(run.ran, run.expected);
    CHECK_EQ(weft_dispatcher_stop(d, NULL, 0, WEFT_FOREVER), 0);
    weft_dispatcher_destroy(d);
    return run.errors;
}

enum { UNTOUCHED = 10, SURVIVED = 11, REFUSED = 12 };

/* A separate process for each failure: stacks and control blocks are reserved for the life of the
 * process. */
static void fail_in_child(void *arg)
{
    long k = *(long *)arg;
    weft__alloc_fail_after(k, false);
    int errors = use_everything();
    bool reached = weft__alloc_requests() >= k;
    weft__alloc_fail_after(0, false);
    CHECK(reached || errors == 0);
    CHECK_EQ(use_everything(), 0);
#if WEFT__ASAN
    CHECK_EQ(__lsan_do_recoverable_leak_check(), 0);
#endif
    _exit(!reached ? UNTOUCHED : errors ? REFUSED : SURVIVED);
}

TEST(dispatcher_survives_failure_of_any_single_allocation)
{
    long refusals = 0, k = 1;
    for (;; k++) {
        char err[CHECK_ERR];
        int status = check_child(fail_in_child, &k, err, sizeof err);
        if (!WIFEXITED(status) || WEXITSTATUS(status) < UNTOUCHED) {
            printf("request %ld:\n%s\n", k, err);
            fflush(stdout);
            CHECK(!"the child failed");
        }
        if (WEXITSTATUS(status) == UNTOUCHED) {
            break;
        }
        refusals += WEXITSTATUS(status) == REFUSED;
        CHECK(k < 1000);
    }
    printf("%ld requests, %ld of them lead to an error\n", k - 1, refusals);
    CHECK(refusals >= 10);
}

static void *rename_without_memory(void *arg)
{
    char name[16];
    CHECK_EQ(weft_fiber_set_name("first"), 0);
    weft__alloc_fail_after(1, false);
    CHECK_EQ(weft_fiber_set_name("second"), -ENOMEM);
    weft__alloc_fail_after(0, false);
    CHECK_EQ(weft_fiber_name(weft_self(), name, sizeof name), 0);
    CHECK_STR(name, "first");
    return arg;
}

TEST(rename_of_dispatcher_fiber_without_memory_fails_and_keeps_name)
{
    run_in_group(rename_without_memory, NULL);
}
