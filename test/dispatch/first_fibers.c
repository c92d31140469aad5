/* The first fibers of a process: no fiber ran before, so they have the first control blocks. */
#include "dispatch/fixture.h"

static void *waits(void *arg)
{
    ++*(int *)arg;
    CHECK_EQ(weft_sleep(WEFT_FOREVER), -ECANCELED);
    ++*(int *)arg;
    return NULL;
}

/* The search for the daemons of a group visits all control blocks, including the first and the
 * last: as many daemons as the slab hands out at first are all cancelled. */
TEST(daemons_in_first_control_blocks_are_cancelled_with_group)
{
    enum { DAEMONS = 200 };
    weft_dispatcher *d;
    int steps = 0;
    CHECK_EQ(weft_dispatcher_create(&d, &(struct weft_dispatcher_opts){.caller = true}), 0);
    weft_group *group = make_group(d, "g");
    for (int i = 0; i < DAEMONS; i++) {
        CHECK_EQ(weft_group_spawn(group, NULL, waits, &steps,
                                  &(struct weft_member_opts){.daemon = true}),
                 0);
    }
    CHECK(weft_dispatcher_poll(d) >= DAEMONS);
    CHECK_EQ(steps, DAEMONS);
    weft_group_stop(group);
    CHECK_EQ(weft_dispatcher_run(d), 0);
    CHECK_EQ(steps, 2 * DAEMONS);
    stop_dispatcher(d);
}
