/* Dongting: Fiber.call(subFrame, resumePoint), handle(ex), doFinally(), setResult, throw;
 * HandlerFrame. A frame calls another frame and continues in a step with the result. An error that
 * the called frame throws goes to `handle`, once; `finally` runs on every exit path. */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

/* --- the called frame: a / b, or an error --------------------------------------------------- */

struct divide {
    weft_frame frame;
    intptr_t a, b;
};

static enum weft_step divide(weft_frame *f, struct weft_got got)
{
    struct divide *self = (struct divide *)f;
    (void)got;
    if (self->b == 0) {
        return weft_frame_throw(f, -EDOM, "%d / 0", (int)self->a);
    }
    return weft_frame_return(f, (void *)(self->a / self->b));
}

static const struct weft_frame_kind dividing = {.name = "divide", .start = divide};

static struct divide *divide_new(intptr_t a, intptr_t b)
{
    struct divide *sub = (struct divide *)weft_frame_create(&dividing, sizeof *sub);
    if (sub) {
        sub->a = a;
        sub->b = b;
    }
    return sub;
}

/* --- the calling frame ------------------------------------------------------------------------ */

struct ratio {
    weft_frame frame;
    intptr_t a, b;
    int *open; /* a resource */
};

static enum weft_step divided(weft_frame *f, struct weft_got got)
{
    return weft_frame_return(f, got.value);
}

static enum weft_step ratio(weft_frame *f, struct weft_got got)
{
    struct ratio *self = (struct ratio *)f;
    (void)got;
    ++*self->open;
    struct divide *sub = divide_new(self->a, self->b);
    return sub ? weft_frame_call(f, &sub->frame, WEFT_THEN(divided))
               : weft_frame_throw(f, -ENOMEM, "no frame");
}

/* protected FrameCallResult handle(Throwable ex): may return a result, wait, call, or throw. */
static enum weft_step ratio_handle(weft_frame *f, const weft_error *error)
{
    printf("caught: %s\n", weft_error_message(error));
    return weft_error_code(error) == -EDOM ? weft_frame_return(f, (void *)(intptr_t)-1)
                                           : weft_frame_rethrow(f);
}

/* protected FrameCallResult doFinally() */
static enum weft_step ratio_finally(weft_frame *f)
{
    struct ratio *self = (struct ratio *)f;
    --*self->open;
    return weft_frame_done(f);
}

static const struct weft_frame_kind ratio_kind = {
    .name = "ratio", .start = ratio, .handle = ratio_handle, .finally = ratio_finally};

/* --- HandlerFrame: returns the result or the error of a frame; does not throw ----------------- */

static enum weft_step tried(weft_frame *f, struct weft_got got)
{
    const weft_error *error = weft_frame_caught(f);
    bool right = got.status == -EDOM && error && strcmp(weft_error_message(error), "8 / 0") == 0;
    return weft_frame_return(f, (void *)(intptr_t)right);
}

static enum weft_step try_it(weft_frame *f, struct weft_got got)
{
    (void)got;
    struct divide *sub = divide_new(8, 0);
    return sub ? weft_frame_try(f, &sub->frame, WEFT_THEN(tried))
               : weft_frame_throw(f, -ENOMEM, "no frame");
}

static const struct weft_frame_kind trying = {.name = "try", .start = try_it};

int main(void)
{
    int open = 0;
    struct ratio good = {.a = 84, .b = 2, .open = &open}, bad = {.a = 1, .open = &open};
    weft_frame attempt, *frames[] = {&good.frame, &bad.frame, &attempt};
    weft_fiber fibers[3];
    void *results[3];
    weft_dispatcher *dispatcher;
    weft_group *group;
    weft_frame_init(&good.frame, &ratio_kind);
    weft_frame_init(&bad.frame, &ratio_kind);
    weft_frame_init(&attempt, &trying);
    if (weft_dispatcher_create(&dispatcher, NULL) || weft_dispatcher_start(dispatcher) ||
        weft_group_create(dispatcher, &group, NULL)) {
        return 1;
    }
    for (int i = 0; i < 3; i++) {
        if (weft_group_spawn_frame(group, &fibers[i], frames[i], NULL) ||
            weft_join(fibers[i], &results[i], WEFT_FOREVER)) {
            return 1;
        }
    }
    weft_dispatcher_stop(dispatcher, NULL, 0, WEFT_FOREVER);
    weft_dispatcher_destroy(dispatcher);
    printf("84 / 2 = %d, 1 / 0 = %d\n", (int)(intptr_t)results[0], (int)(intptr_t)results[1]);
    return results[0] != (void *)42 || results[1] != (void *)-1 || !results[2] || open != 0;
}
