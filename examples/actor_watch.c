/* A keeper actor and its worker actor. The worker divides; a division by zero ends it. The keeper
 * monitors the worker, receives the exit reason, and starts a new worker under the same name, so
 * that callers that look up the name find the current worker. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <weft/weft.h>

/* --- the worker ----------------------------------------------------------------------------- */

static int divide(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        } else if (events[i].kind == WEFT_EVENT_MESSAGE && events[i].tag == 0) {
            static const char why[] = "asked to divide by nothing";
            weft_out_exit(out, -EDOM, weft_buf_copy(why, sizeof why));
        }
    }
    return 0;
}

static const struct weft_actor_kind divider = {.name = "divider", .step = divide};

/* --- the keeper ------------------------------------------------------------------------------- */

struct keeper {
    weft_host *host;
    weft_event *ready; /* set while there is a worker */
    uint64_t ref;
    int started;
};

static int start_worker(weft_actor *self, struct keeper *keeper)
{
    struct weft_actor_spawn_opts opts = {.self = self, .monitor = &keeper->ref, .name = "divider"};
    int err = weft_actor_spawn_with(keeper->host, NULL, &divider, &opts);
    keeper->started += err == 0;
    weft_event_set(keeper->ready);
    return err == -ESHUTDOWN ? 0 : err; /* the host is stopping: no new worker */
}

static int keep(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    struct keeper *keeper = weft_actor_state(self);
    int err = keeper->started ? 0 : start_worker(self, keeper);
    weft_out_idle(out);
    for (size_t i = 0; i < n && !err; i++) {
        if (events[i].kind == WEFT_EVENT_DOWN && events[i].error) {
            printf("the worker has ended: %s (%s)\n", weft_strerror(events[i].error),
                   events[i].reason ? (const char *)events[i].reason->data : "no more was said");
            err = start_worker(self, keeper);
        } else if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        }
    }
    return err;
}

static int init_keeper(weft_actor *self, const char *method, const weft_buf *input)
{
    (void)method;
    memcpy(weft_actor_state(self), input->data, input->len);
    return 0;
}

static const struct weft_actor_kind keeper_kind = {
    .name = "keeper", .state_bytes = sizeof(struct keeper), .init = init_keeper, .step = keep};

/* --- a client --------------------------------------------------------------------------------- */

int main(void)
{
    weft_host *host;
    weft_event ready;
    weft_pid worker;
    if (weft_host_create(&host, NULL) != 0) {
        return EXIT_FAILURE;
    }
    weft_event_init(&ready, NULL);
    struct keeper keeper = {.host = host, .ready = &ready};
    weft_buf *input = weft_buf_copy(&keeper, sizeof keeper);
    int err = weft_actor_spawn(host, NULL, &keeper_kind, NULL, input);
    weft_buf_free(input);
    for (int i = 0; i < 3 && !err; i++) {
        err = weft_event_wait(&ready, WEFT_FOREVER);
        weft_event_reset(&ready);
        err = err ? err : weft_actor_whereis(host, &worker, "divider");
        err = err ? err : weft_actor_send(worker, "divide by", 0, NULL, WEFT_BY_POLICY);
    }
    err = err ? err : weft_event_wait(&ready, WEFT_FOREVER); /* the fourth worker is running */
    int forced = weft_host_stop(host, "that was all", weft_after(WEFT_MINUTES(5)));
    weft_host_destroy(host);
    return err || forced ? EXIT_FAILURE : EXIT_SUCCESS;
}
