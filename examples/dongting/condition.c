/* Dongting: group.newCondition(), await, signal, signalAll, await on two conditions. The condition
 * belongs to the group: no lock, no atomic operation; use from outside the group stops the program
 * with a message that names the owner and the user. A wait returns the reason for its end. */
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

static weft_cond full, closed;
static int boxes, taken;

/* Waits for either condition; got.value is the signalled one. */
struct taker {
    weft_frame frame;
    struct weft_wait waits[2];
    int timeouts;
};

static enum weft_step woken(weft_frame *f, struct weft_got got);

static enum weft_step wait_for_either(weft_frame *f, struct weft_got got)
{
    struct taker *self = (struct taker *)f;
    weft_cond *const conds[] = {&full, &closed};
    (void)got;
    return weft_frame_await_conds(f, self->waits, conds, 2, weft_after(WEFT_SECONDS(1)),
                                  WEFT_THEN(woken));
}

static enum weft_step woken(weft_frame *f, struct weft_got got)
{
    if (got.value == &closed) {
        return weft_frame_return(f, NULL);
    }
    if (got.status == 0) {
        taken += boxes;
        boxes = 0;
    }
    return weft_frame_continue(f, NULL, WEFT_THEN(wait_for_either)); /* Fiber.resume: a loop */
}

static enum weft_step too_late(weft_frame *f, struct weft_got got)
{
    struct taker *self = (struct taker *)f;
    self->timeouts += got.status == -ETIMEDOUT;
    return weft_frame_continue(f, NULL, WEFT_THEN(wait_for_either));
}

/* First a wait that is never signalled. A deadline in the past only tries; WEFT_FOREVER waits
 * forever. */
static enum weft_step start(weft_frame *f, struct weft_got got)
{
    struct taker *self = (struct taker *)f;
    (void)got;
    return weft_frame_await_cond(f, &self->waits[0], &full, weft_after(WEFT_MS(1)),
                                 WEFT_THEN(too_late));
}

static const struct weft_frame_kind taking = {.name = "taker", .start = start};

/* In a fiber with a stack the wait is a call; the mutex is NULL, because no other fiber runs
 * meanwhile. */
static weft_cond ready;
static bool is_ready;

static void *bring(void *arg)
{
    while (!is_ready) {
        weft_cond_wait(&ready, NULL, WEFT_FOREVER);
    }
    for (int i = 0; i < 5; i++) {
        boxes++;
        weft_cond_signal(&full);
        weft_yield();
    }
    weft_cond_broadcast(&closed); /* signalAll */
    return arg;
}

static void *open_up(void *arg)
{
    weft_sleep(weft_after(WEFT_MS(3))); /* the taker has timed out once */
    is_ready = true;
    weft_cond_signal(&ready);
    return arg;
}

int main(void)
{
    weft_dispatcher *dispatcher;
    weft_group *group;
    static struct taker taker;
    weft_frame_init(&taker.frame, &taking);
    if (weft_dispatcher_create(&dispatcher, &(struct weft_dispatcher_opts){.caller = true}) ||
        weft_group_create(dispatcher, &group, NULL)) {
        return 1;
    }
    weft_cond_init(&full, &(struct weft_sync_opts){.name = "full", .group = group});
    weft_cond_init(&closed, &(struct weft_sync_opts){.name = "closed", .group = group});
    weft_cond_init(&ready, &(struct weft_sync_opts){.name = "ready", .group = group});
    if (weft_group_spawn_frame(group, NULL, &taker.frame, NULL) ||
        weft_group_spawn(group, NULL, bring, NULL, NULL) ||
        weft_group_spawn(group, NULL, open_up, NULL, NULL)) {
        return 1;
    }
    weft_group_stop(group);
    int err = weft_dispatcher_run(dispatcher);
    weft_dispatcher_stop(dispatcher, NULL, 0, WEFT_FOREVER);
    weft_dispatcher_destroy(dispatcher);
    printf("%d boxes taken, %d wait timed out\n", taken, taker.timeouts);
    return err || taken != 5 || taker.timeouts != 1;
}
