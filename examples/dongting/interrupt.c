/* Dongting: fiber.interrupt(), FiberInterruptException. An interrupt ends one wait, the current or
 * the next one; a frame gets -EINTR in `handle`. A shield protects a wait from interrupts. */
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

struct sleeper {
    weft_frame frame;
    bool slept_on;
};

static enum weft_step slept_on(weft_frame *f, struct weft_got got)
{
    ((struct sleeper *)f)->slept_on = got.status == 0;
    return weft_frame_return(f, NULL);
}

static enum weft_step overslept(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_return(f, NULL);
}

static enum weft_step start(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_sleep(f, WEFT_FOREVER, WEFT_THEN(overslept));
}

static enum weft_step handle(weft_frame *f, const weft_error *error)
{
    if (weft_error_code(error) != -EINTR) {
        return weft_frame_rethrow(f);
    }
    weft_error_dump(error, stdout); /* where the fiber was, not the interrupter */
    return weft_frame_sleep(f, weft_after(WEFT_MS(1)),
                            WEFT_THEN(slept_on)); /* it ended only one wait */
}

static const struct weft_frame_kind sleeping = {
    .name = "sleeper", .start = start, .handle = handle};

static void *interrupt(void *fiber)
{
    weft_fiber_interrupt(*(weft_fiber *)fiber); /* the fiber sleeps */
    return NULL;
}

int main(void)
{
    weft_dispatcher *dispatcher;
    weft_group *group;
    weft_fiber fibers[2];
    static struct sleeper sleepers[2];
    if (weft_dispatcher_create(&dispatcher, &(struct weft_dispatcher_opts){.caller = true}) ||
        weft_group_create(dispatcher, &group, NULL)) {
        return 1;
    }
    for (int i = 0; i < 2; i++) {
        weft_frame_init(&sleepers[i].frame, &sleeping);
        if (weft_group_spawn_frame(group, &fibers[i], &sleepers[i].frame, NULL)) {
            return 1;
        }
    }
    weft_fiber_interrupt(fibers[1]); /* not started yet: kept for its first wait */
    if (weft_group_spawn(group, NULL, interrupt, &fibers[0], NULL)) {
        return 1;
    }
    weft_group_stop(group);
    int err = weft_dispatcher_run(dispatcher);
    weft_dispatcher_stop(dispatcher, NULL, 0, WEFT_FOREVER);
    weft_dispatcher_destroy(dispatcher);
    return err || !sleepers[0].slept_on || !sleepers[1].slept_on;
}
