/* Dongting: requestShutdown, sleepUntilShouldStop, isShouldStop, daemon fibers,
 * dispatcher.stop(timeout). Daemons are cancelled and run their cleanups; at the deadline the
 * remaining fibers are dumped and, by option, cancelled too, and stop returns the late groups. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

static int flushed, cleaned;

/* A loop that works periodically until the group stops. */
static void *flush_now_and_then(void *arg)
{
    while (weft_group_sleep(weft_after(WEFT_MS(1))) == -ETIMEDOUT) { /* sleepUntilShouldStop(1) */
        flushed++;
    }
    flushed++; /* the last flush */
    return arg;
}

/* The same as a frame fiber, without a stack. */
struct ticker {
    weft_frame frame;
    struct weft_wait wait;
    int ticks;
};

static enum weft_step ticked(weft_frame *f, struct weft_got got);

static enum weft_step tick(weft_frame *f, struct weft_got got)
{
    struct ticker *self = (struct ticker *)f;
    (void)got;
    return weft_frame_await_stop(f, &self->wait, weft_after(WEFT_MS(1)), WEFT_THEN(ticked));
}

static enum weft_step ticked(weft_frame *f, struct weft_got got)
{
    ((struct ticker *)f)->ticks++;
    return got.status == 0 ? weft_frame_return(f, NULL)
                           : weft_frame_continue(f, NULL, WEFT_THEN(tick));
}

static const struct weft_frame_kind ticking = {.name = "ticker", .start = tick};

/* A daemon: it does not hold the group open, and ends like any other fiber. */
struct monitor {
    weft_frame frame;
};

static enum weft_step watch(weft_frame *f, struct weft_got got)
{
    (void)got;
    return weft_frame_sleep(f, weft_after(WEFT_MS(1)), WEFT_THEN(watch));
}

static enum weft_step clean_up(weft_frame *f)
{
    cleaned++;
    return weft_frame_done(f);
}

static const struct weft_frame_kind monitoring = {
    .name = "monitor", .start = watch, .finally = clean_up};

/* A fiber that ignores the stop. */
static void *wait_for_ever(void *arg)
{
    return weft_fiber_park(WEFT_FOREVER) == -ECANCELED ? arg : NULL;
}

int main(void)
{
    weft_dispatcher *dispatcher;
    weft_group *good, *bad;
    weft_fiber daemon, stuck;
    static struct monitor monitor;
    static struct ticker ticker;
    const char *late[2] = {"", ""};
    void *cancelled = NULL;
    weft_frame_init(&monitor.frame, &monitoring);
    weft_frame_init(&ticker.frame, &ticking);
    struct weft_dispatcher_opts opts = {.on_overdue = WEFT_OVERDUE_CANCEL};
    if (weft_dispatcher_create(&dispatcher, &opts) || weft_dispatcher_start(dispatcher) ||
        weft_group_create(dispatcher, &good, &(struct weft_group_opts){.name = "good"}) ||
        weft_group_create(dispatcher, &bad, &(struct weft_group_opts){.name = "bad"}) ||
        weft_group_spawn(good, NULL, flush_now_and_then, NULL, NULL) ||
        weft_group_spawn_frame(good, NULL, &ticker.frame, NULL) ||
        weft_group_spawn_frame(good, &daemon, &monitor.frame,
                               &(struct weft_member_opts){.daemon = true}) ||
        weft_group_spawn(bad, &stuck, wait_for_ever, &stuck, NULL)) {
        return 1;
    }
    weft_group_stop(good); /* requestShutdown() and its future */
    weft_future_wait(weft_group_finished(good), WEFT_FOREVER);
    int overdue = weft_dispatcher_stop(dispatcher, late, 2, weft_after(WEFT_MS(20)));
    if (overdue == -EBUSY) { /* busy machine: not ended within a second after the cancel */
        weft_dispatcher_stop(dispatcher, NULL, 0, WEFT_FOREVER);
        overdue = 1;
    }
    int refused = weft_group_create(dispatcher, &bad, NULL); /* startGroup after stop */
    int joined = weft_join(daemon, NULL, WEFT_FOREVER);      /* its joiners are woken */
    weft_join(stuck, &cancelled, WEFT_FOREVER);
    printf("%d group late: %s; flushed %d times\n", overdue, late[0], flushed);
    bool ok = overdue == 1 && strcmp(late[0], "bad") == 0 && refused == -ESHUTDOWN &&
              joined == -ECANCELED && cleaned == 1 && cancelled && flushed >= 1 &&
              ticker.ticks >= 1;
    weft_dispatcher_destroy(dispatcher);
    return ok ? 0 : 1;
}
