/* Dispatchers in a forked child: docs/fork.md. */
/* not under: qemu asan tsan */
#include "dispatch/fixture.h"
#include "pool/forks.h"

static void *sleeps_and_adds(void *arg)
{
    CHECK_EQ(weft_sleep(weft_after(MS)), 0);
    ++*(int *)arg;
    return NULL;
}

static void *never_ends(void *arg)
{
    weft_sleep(WEFT_FOREVER);
    return arg;
}

struct forked {
    weft_dispatcher *d;
    weft_group *group;
};

static void does_nothing(void *arg)
{
    (void)arg;
}

static void posts_in_the_child(void *arg)
{
    weft_group_post(((struct forked *)arg)->group, does_nothing, NULL);
}

static void creates_in_the_child(void *arg)
{
    weft_group *group;
    weft_group_create(((struct forked *)arg)->d, &group, NULL);
}

static void spawns_in_the_child(void *arg)
{
    weft_group_spawn(((struct forked *)arg)->group, NULL, never_ends, NULL, NULL);
}

static void stops_in_the_child(void *arg)
{
    weft_group_stop(((struct forked *)arg)->group);
}

static void makes_another_in_the_child(void *arg)
{
    int sum = 0;
    (void)arg;
    weft_dispatcher *d = start_dispatcher(NULL);
    CHECK_EQ(weft_group_spawn(make_group(d, "g"), NULL, sleeps_and_adds, &sum, NULL), 0);
    stop_dispatcher(d);
    CHECK_EQ(sum, 1);
}

TEST(forked_child_can_use_own_dispatchers_but_not_inherited_ones)
{
    static void (*const bad[])(void *) = {posts_in_the_child, creates_in_the_child,
                                          spawns_in_the_child, stops_in_the_child};
    char err[4096];
    struct forked f = {.d = start_dispatcher(NULL)};
    f.group = make_group(f.d, "g");
    for (int i = 0; i < 4; i++) {
        CHECK(check_child(bad[i], &f, err, sizeof err) != 0);
        CHECK(strstr(err, "was created before fork()"));
    }
    CHECK_EQ(check_child(makes_another_in_the_child, NULL, err, sizeof err), 0);
    stop_dispatcher(f.d);
}
