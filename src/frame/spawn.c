/* Spawning fibers whose bottom is a frame. */
#include <errno.h>

#include "base/nonnull.h"
#include "dispatch/dispatcher.h"
#include "frame/frame.h"
#include "sched/pool.h"
#include "task/fork.h"

/* Mark the frame as used by a fiber; the fiber is not known yet. */
static void claim(weft_frame *frame)
{
    WEFT__REQUIRE(frame->fiber == 0, "frame %s is used by two fibers", frame->kind->name);
    frame->fiber = UINT32_MAX;
    frame->caller = NULL;
    frame->next = NULL;
    frame->phase = WEFT__FRAME_BODY;
    frame->act = WEFT__ACT_NONE;
}

int weft__frame_spawn(weft_pool *pool, weft_fiber *out, const struct weft__stackless_kind *kind,
                      weft_frame *frame, const struct weft__stackless_opts *opts)
{
    claim(frame);
    int err = weft__stackless_spawn(pool, out, kind, frame, opts);
    if (err) {
        frame->fiber = 0;
    }
    return err;
}

int weft_pool_spawn_frame(weft_pool *pool, weft_fiber *out, weft_frame *frame,
                          const struct weft_fiber_opts *options)
{
    WEFT__NONNULL(pool);
    static const struct weft_fiber_opts defaults;
    const struct weft_fiber_opts *opts = options ? options : &defaults;
    if (pool->group_sched) {
        return -EINVAL; /* a fiber of a dispatcher needs a group */
    }
    return weft__frame_spawn(
        pool, out, &weft__frame_stackless, frame,
        &(struct weft__stackless_opts){.name = opts->name, .detached = opts->detached});
}

int weft_spawn_frame(weft_fiber *out, weft_frame *frame, const struct weft_fiber_opts *options)
{
    static const struct weft_fiber_opts defaults;
    const struct weft_fiber_opts *opts = options ? options : &defaults;
    struct weft__worker *w = weft__worker_self();
    if (!w || !(weft__running(w) || (w->group_sched && w->group_sched->running))) {
        weft__fork_check_fiber("weft_spawn_frame");
        return -ENXIO;
    }
    return weft__frame_spawn(w->pool, out, &weft__frame_stackless, frame,
                             &(struct weft__stackless_opts){.name = opts->name,
                                                            .detached = opts->detached,
                                                            .inherit_group = true});
}

__attribute__((noinline)) int weft_group_spawn_frame(weft_group *group, weft_fiber *out,
                                                     weft_frame *frame,
                                                     const struct weft_member_opts *options)
{
    WEFT__NONNULL(group);
    static const struct weft_member_opts defaults;
    const struct weft_member_opts *opts = options ? options : &defaults;
    struct weft__stackless_opts stackless = {.name = opts->name, .detached = opts->detached};
    int err = weft__group_admit(group, weft__worker_self_inline(), opts, &stackless.member);
    if (err) {
        return err;
    }
    return weft__frame_spawn(group->dispatcher->pool, out, &weft__frame_stackless, frame,
                             &stackless);
}
