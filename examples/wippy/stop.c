/* Wippy: on shutdown the scheduler sends a cancel event to every process and waits for them, or for
 * the deadline. Weft does the same, but its workers keep running until the end, so that an actor
 * may clean up by a command and wait for its completion. An actor that does not exit is killed at
 * the deadline. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <weft/weft.h>

static atomic_int flushed, closed;

static int flush(const struct weft_command *command, void *arg)
{
    (void)arg;
    atomic_fetch_add(&flushed, 1);
    return weft_command_complete(command->actor, command->tag, 0, NULL);
}

static int polite(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            printf("asked to end: %s\n", (char *)events[i].buf->data);
            weft_out_command(out, WEFT_COMMAND_USER, 0, NULL);
            weft_out_wait(out);
        } else {
            weft_out_done(out, NULL); /* flushed */
        }
    }
    return 0;
}

static int stubborn(weft_actor *self, const struct weft_actor_event *events, size_t n,
                    weft_out *out)
{
    (void)self, (void)events, (void)n;
    weft_out_idle(out);
    return 0;
}

static void on_close(weft_actor *self)
{
    (void)self;
    atomic_fetch_add(&closed, 1);
}

int main(void)
{
    static const struct weft_actor_kind good = {
        .name = "polite", .step = polite, .close = on_close};
    static const struct weft_actor_kind bad = {
        .name = "stubborn", .step = stubborn, .close = on_close};
    weft_host *host;
    if (weft_host_create(&host, &(struct weft_host_opts){.workers = 2}) ||
        weft_host_handle(host, WEFT_COMMAND_USER, flush, NULL) ||
        weft_actor_spawn(host, NULL, &good, NULL, NULL) ||
        weft_actor_spawn(host, NULL, &bad, NULL, NULL)) {
        return 1;
    }
    int forced = weft_host_stop(host, "shutdown", weft_after(WEFT_SECONDS(1)));
    while (forced == -EBUSY) { /* busy machine: some have not ended within a second */
        forced = weft_host_stop(host, NULL, WEFT_FOREVER);
    }
    weft_host_destroy(host);
    printf("%d flushed, %d closed, %d by force\n", atomic_load(&flushed), atomic_load(&closed),
           forced);
    /* If other programs use the CPU for a second, the well-behaved actor may be forced, too. */
    return atomic_load(&flushed) + forced >= 2 && forced >= 1 && atomic_load(&closed) == 2 ? 0 : 1;
}
