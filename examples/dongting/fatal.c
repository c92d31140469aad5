/* Dongting: checkReentry, fatalError, "request shutdown of the group". A step that does two things
 * is a fatal error: every frame of the fiber handles it, the group is asked to stop, and the
 * group's future fails with the error. Other groups continue. */
#include <errno.h>
#include <stdio.h>
#include <weft/weft.h>

static int handled, cleaned, went_on;

struct caller {
    weft_frame frame, sub;
};

/* A step that suspends twice. */
static enum weft_step sloppy(weft_frame *f, struct weft_got got)
{
    (void)got;
    (void)weft_frame_sleep(f, weft_after(WEFT_MS(1)), WEFT_THEN(sloppy)); /* missing `return` */
    return weft_frame_sleep(f, weft_after(WEFT_MS(1)), WEFT_THEN(sloppy));
}

static enum weft_step clean_up(weft_frame *f)
{
    cleaned++;
    return weft_frame_done(f);
}

static const struct weft_frame_kind sloppy_kind = {
    .name = "sloppy", .start = sloppy, .finally = clean_up};

static enum weft_step call(weft_frame *f, struct weft_got got)
{
    struct caller *self = (struct caller *)f;
    (void)got;
    weft_frame_init(&self->sub, &sloppy_kind);
    return weft_frame_call(f, &self->sub, WEFT_THEN(call));
}

static enum weft_step handle(weft_frame *f, const weft_error *error)
{
    handled += weft_error_code(error) == -ENOTRECOVERABLE;
    return weft_frame_rethrow(f);
}

static const struct weft_frame_kind calling = {
    .name = "calling", .start = call, .handle = handle, .finally = clean_up};

/* Prints to stdout instead of stderr. */
static void on_error(weft_fiber fiber, const char *name, const weft_error *error)
{
    (void)fiber;
    printf("%s: ", name);
    weft_error_dump(error, stdout);
}

/* A fiber of the same group sees the stop; a fiber of another group does not. */
static void *wait_for_stop(void *arg)
{
    *(int *)arg += weft_group_sleep(WEFT_FOREVER) == 0;
    return NULL;
}

static void *go_on(void *group)
{
    int err = weft_future_wait(weft_group_finished(group), WEFT_FOREVER);
    went_on = err == 0 && weft_future_result(weft_group_finished(group), NULL) == -ENOTRECOVERABLE;
    return NULL;
}

int main(void)
{
    weft_dispatcher *dispatcher;
    weft_group *broken, *other;
    static struct caller caller;
    int told = 0;
    weft_frame_init(&caller.frame, &calling);
    weft_frame_on_error(on_error);
    if (weft_dispatcher_create(&dispatcher, &(struct weft_dispatcher_opts){.caller = true}) ||
        weft_group_create(dispatcher, &broken, &(struct weft_group_opts){.name = "broken"}) ||
        weft_group_create(dispatcher, &other, &(struct weft_group_opts){.name = "other"}) ||
        weft_group_spawn(broken, NULL, wait_for_stop, &told, NULL) ||
        weft_group_spawn_frame(broken, NULL, &caller.frame,
                               &(struct weft_member_opts){.name = "careless"}) ||
        weft_group_spawn(other, NULL, go_on, broken, NULL)) {
        return 1;
    }
    weft_group_stop(other);
    int err = weft_dispatcher_run(dispatcher);
    weft_dispatcher_stop(dispatcher, NULL, 0, WEFT_FOREVER);
    weft_dispatcher_destroy(dispatcher);
    weft_frame_on_error(NULL);
    printf("handled %d time, cleaned %d times, told %d\n", handled, cleaned, told);
    return err || handled != 1 || cleaned != 2 || told != 1 || !went_on;
}
