/* labels: valgrind */
/* Frames: call, return, continue, yield, sleep, in a group and in a pool. */
#include "dispatch/fixture.h"

struct count {
    weft_frame frame;
    int left;
    int *sum;
};

static enum weft_step count_down(weft_frame *f, struct weft_got got)
{
    struct count *self = (struct count *)f;
    (void)got;
    if (self->left == 0) {
        return weft_frame_return(f, self->sum);
    }
    *self->sum += self->left--;
    if (self->left % 3 == 0) {
        return weft_frame_sleep(f, weft_after(100), WEFT_THEN(count_down));
    }
    return self->left % 2 ? weft_frame_yield(f, WEFT_THEN(count_down))
                          : weft_frame_continue(f, NULL, WEFT_THEN(count_down));
}

static const struct weft_frame_kind counting = {.name = "counting", .start = count_down};

struct outer {
    weft_frame frame;
    int sum;
};

static enum weft_step has_counted(weft_frame *f, struct weft_got got)
{
    struct outer *self = (struct outer *)f;
    CHECK_EQ(got.status, 0);
    CHECK(got.value == &self->sum);
    return weft_frame_return(f, got.value);
}

static enum weft_step calls(weft_frame *f, struct weft_got got)
{
    struct outer *self = (struct outer *)f;
    struct count *sub = (struct count *)weft_frame_create(&counting, sizeof *sub);
    (void)got;
    CHECK(sub);
    sub->left = 100;
    sub->sum = &self->sum;
    return weft_frame_call(f, &sub->frame, WEFT_THEN(has_counted));
}

static const struct weft_frame_kind calling = {.name = "calling", .start = calls};

TEST(frame_calls_frame_in_group)
{
    weft_dispatcher *d;
    weft_group *group;
    weft_fiber fiber;
    struct outer outer = {.sum = 0};
    void *result;
    weft_frame_init(&outer.frame, &calling);
    CHECK_EQ(weft_dispatcher_create(&d, &(struct weft_dispatcher_opts){.caller = true}), 0);
    CHECK_EQ(weft_group_create(d, &group, NULL), 0);
    CHECK_EQ(weft_group_spawn_frame(group, &fiber, &outer.frame, NULL), 0);
    weft_group_stop(group);
    CHECK_EQ(weft_dispatcher_run(d), 0);
    CHECK_EQ(weft_join(fiber, &result, WEFT_FOREVER), 0);
    CHECK(result == &outer.sum);
    CHECK_EQ(outer.sum, 5050);
    CHECK_EQ(weft_dispatcher_stop(d, NULL, 0, WEFT_FOREVER), 0);
    weft_dispatcher_destroy(d);
}

TEST(frame_calls_frame_in_pool)
{
    enum { FIBERS = 100 };
    static struct outer outers[FIBERS];
    weft_fiber fibers[FIBERS];
    weft_pool *pool;
    CHECK_EQ(weft_pool_create(&pool, &(struct weft_pool_opts){.workers = 2}), 0);
    CHECK_EQ(weft_pool_start(pool), 0);
    for (int i = 0; i < FIBERS; i++) {
        outers[i].sum = 0;
        weft_frame_init(&outers[i].frame, &calling);
        CHECK_EQ(weft_pool_spawn_frame(pool, &fibers[i], &outers[i].frame, NULL), 0);
    }
    for (int i = 0; i < FIBERS; i++) {
        CHECK_EQ(weft_join(fibers[i], NULL, WEFT_FOREVER), 0);
        CHECK_EQ(outers[i].sum, 5050);
    }
    CHECK_EQ(weft_pool_stop(pool, WEFT_STOP_DRAIN, WEFT_FOREVER), 0);
    weft_pool_destroy(pool);
}
