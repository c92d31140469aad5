/* labels: valgrind */
/* In which order fibers run: docs of <weft/dispatcher.h>, sched/rounds.h. */
#include <weft/cond.h>
#include <weft/event.h>

#include "dispatch/fixture.h"

/* --- what ran, as text ------------------------------------------------------------------ */

static char ran[4096];
static size_t ran_used;
#define NAME(text) ((void *)(uintptr_t)(text))

static void note(const char *what)
{
    ran_used += (size_t)snprintf(ran + ran_used, sizeof ran - ran_used, "%s", what);
    CHECK(ran_used < sizeof ran);
}

static void *notes_its_name(void *arg)
{
    note(arg);
    return NULL;
}

static void *yields_twice(void *arg)
{
    for (int i = 0; i < 3; i++) {
        note(arg);
        weft_yield();
    }
    return NULL;
}

static void *starts_three(void *arg)
{
    (void)arg;
    CHECK_EQ(weft_spawn(NULL, yields_twice, NAME("a"), NULL), 0);
    CHECK_EQ(weft_spawn(NULL, yields_twice, NAME("b"), NULL), 0);
    CHECK_EQ(weft_spawn(NULL, notes_its_name, NAME("c"), NULL), 0);
    note("0");
    return NULL;
}

TEST(fibers_start_in_order_and_yields_go_behind)
{
    ran_used = 0;
    run_in_group(starts_three, NULL);
    CHECK_STR(ran, "0abcabab");
}
