/* One dispatcher, one group, on the calling thread. */
#ifndef WEFT_TEST_DISPATCH_FIXTURE_H
#define WEFT_TEST_DISPATCH_FIXTURE_H

#include <errno.h>

#include <weft/weft.h>

#include "check.h"

#define MS INT64_C(1000000)

/* Runs fn(arg) as the first fiber of a group, until that has finished. */
__attribute__((unused)) static void run_in_group(weft_fn fn, void *arg)
{
    weft_dispatcher *d;
    weft_group *group;
    CHECK_EQ(weft_dispatcher_create(&d, &(struct weft_dispatcher_opts){.caller = true}), 0);
    CHECK_EQ(weft_group_create(d, &group, NULL), 0);
    CHECK_EQ(weft_group_spawn(group, NULL, fn, arg, NULL), 0);
    weft_group_stop(group);
    CHECK_EQ(weft_dispatcher_run(d), 0);
    CHECK(weft_future_is_done(weft_group_finished(group)));
    CHECK_EQ(weft_dispatcher_stop(d, WEFT_FOREVER, NULL, 0), 0);
    weft_dispatcher_destroy(d);
}

#endif
