/* The first fibers of a process: nothing ran before, so they have the first control blocks. */
#include "dispatch/fixture.h"

static void *waits(void *arg)
{
    ++*(int *)arg;
    CHECK_EQ(weft_sleep_until(WEFT_FOREVER), -ECANCELED);
    ++*(int *)arg;
    return NULL;
}

/* Whoever looks for the daemons of a group looks at all control blocks, the first and the last
 * included: as many daemons as the slab gives out at first are cancelled, every one. */
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
