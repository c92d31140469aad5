/* Dongting: new Fiber("process-request", group, frame), fiber.start(), join, sleep, daemon. A frame
 * is a user-defined struct; its steps are functions. A join returns the fiber's result or its
 * error. */
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

/* public FrameCallResult execute(Void input) { return Fiber.sleep(1, this::answer); } */
struct request {
    weft_frame frame;
    int number;
};

static enum weft_step answer(weft_frame *f, struct weft_got got)
{
    struct request *self = (struct request *)f;
    (void)got;
    printf("request %d is answered\n", self->number);
    return weft_frame_return(f, &self->number); /* setResult(...); return Fiber.frameReturn(); */
}

static enum weft_step execute(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_sleep(f, weft_after(WEFT_MS(1)), WEFT_THEN(answer));
}

static const struct weft_frame_kind process_request = {.name = "process-request", .start = execute};

/* The same in a fiber with a stack: blocking-looking code. One group can have both kinds, and they
 * join one another. */
static void *process_with_stack(void *arg)
{
    weft_sleep(weft_after(WEFT_MS(1)));
    return arg;
}

struct parent {
    weft_frame frame;
    struct weft_wait wait;
    struct request request;
    weft_fiber fiber;
    bool ok;
};

static enum weft_step both_ended(weft_frame *f, struct weft_got got)
{
    struct parent *self = (struct parent *)f;
    self->ok &= got.status == 0 && got.value == self;
    return weft_frame_return(f, NULL);
}

static enum weft_step one_ended(weft_frame *f, struct weft_got got)
{
    struct parent *self = (struct parent *)f;
    self->ok = got.status == 0 && got.value == &self->request.number;
    if (weft_group_spawn(weft_group_self(), &self->fiber, process_with_stack, self, NULL)) {
        return weft_frame_throw(f, -EAGAIN, "no fiber");
    }
    return weft_frame_await_join(f, &self->wait, self->fiber, WEFT_FOREVER, WEFT_THEN(both_ended));
}

static enum weft_step start(weft_frame *f, struct weft_got got)
{
    struct parent *self = (struct parent *)f;
    (void)got;
    self->request.number = 7;
    weft_frame_init(&self->request.frame, &process_request);
    if (weft_group_spawn_frame(weft_group_self(), &self->fiber, &self->request.frame, NULL)) {
        return weft_frame_throw(f, -EAGAIN, "no fiber");
    }
    return weft_frame_await_join(f, &self->wait, self->fiber, WEFT_FOREVER, WEFT_THEN(one_ended));
}

static const struct weft_frame_kind parent_kind = {.name = "parent", .start = start};

int main(void)
{
    weft_dispatcher *dispatcher;
    weft_group *group;
    struct parent parent = {.ok = false};
    weft_frame_init(&parent.frame, &parent_kind);
    if (weft_dispatcher_create(&dispatcher, &(struct weft_dispatcher_opts){.caller = true}) ||
        weft_group_create(dispatcher, &group, NULL) ||
        weft_group_spawn_frame(group, NULL, &parent.frame, NULL)) {
        return 1;
    }
    weft_group_stop(group); /* finishes when its fibers have ended */
    int err = weft_dispatcher_run(dispatcher);
    weft_dispatcher_stop(dispatcher, NULL, 0, WEFT_FOREVER);
    weft_dispatcher_destroy(dispatcher);
    return err || !parent.ok;
}
