#include "visit_counter.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define NS_PER_S INT64_C(1000000000)

/* --- the actor -------------------------------------------------------------------------------- */

static int reply(uint64_t call, uint64_t count)
{
    weft_buf *reply_buf = weft_buf_copy(&count, sizeof count);
    return weft_actor_reply(call, reply_buf ? 0 : -ENOMEM, reply_buf);
}

static int step(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    uint64_t *count = weft_actor_state(self);
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        } else if (events[i].kind == WEFT_EVENT_CALL) {
            reply(events[i].tag, ++*count);
        } else {
            return -EIO; /* counts as a crash for the supervisor */
        }
    }
    return 0;
}

static const struct weft_actor_kind counter = {
    .name = "counter", .state_bytes = sizeof(uint64_t), .step = step};
static const struct weft_child_spec child = {.name = "visits", .kind = &counter, .named = true};
static const struct weft_supervisor_opts supervisor = {
    .name = "site",
    .children = &child,
    .count = 1,
    .restarts = WEFT_RESTARTS_UNLIMITED,
    .backoff_ns = NS_PER_S / 10,
    .backoff_max_ns = NS_PER_S,
};

int visit_counter_open(struct visits *visits, enum weft_driver driver)
{
    int err = weft_host_create(
        &visits->host, &(struct weft_host_opts){.name = "site", .workers = 1, .driver = driver});
    err = err ? err : weft_supervisor_start(visits->host, NULL, &supervisor);
    if (err) {
        visit_counter_close(visits);
    }
    return err;
}

void visit_counter_close(struct visits *visits)
{
    if (visits->host) {
        weft_host_stop(visits->host, "the server stops", weft_after(NS_PER_S));
        weft_host_destroy(visits->host);
        visits->host = NULL;
    }
}

/* --- its HTTP handlers ------------------------------------------------------------------------ */

static int respond_text(weft_http *req, unsigned status, const char *text)
{
    return weft_http_respond(req, status, "text/plain", text, strlen(text));
}

static int show_visits(weft_http *req, void *arg)
{
    const struct visits *visits = arg;
    weft_pid pid;
    weft_buf *count = NULL;
    char text[64];
    int err = weft_actor_whereis(visits->host, &pid, "visits");
    err = err ? err : weft_actor_call(pid, &count, "visit", NULL, weft_after(NS_PER_S));
    if (err == -ECANCELED || err == -EINTR) {
        return err;
    }
    if (err) {
        return respond_text(req, 503, "the counter is restarting; try again\n");
    }
    uint64_t number;
    memcpy(&number, count->data, sizeof number);
    weft_buf_free(count);
    snprintf(text, sizeof text, "visit %" PRIu64 "\n", number);
    return respond_text(req, 200, text);
}

static int crash(weft_http *req, void *arg)
{
    const struct visits *visits = arg;
    weft_pid pid;
    int err = weft_actor_whereis(visits->host, &pid, "visits");
    err = err ? err : weft_actor_send(pid, "crash", 0, NULL, WEFT_BY_POLICY);
    return err ? respond_text(req, 503, "the counter is restarting; try again\n")
               : respond_text(req, 202, "the counter crashes; its supervisor restarts it\n");
}

int visit_counter_routes(weft_http_server *server, struct visits *visits)
{
    int err = weft_http_server_route(server, "GET", "/visits", show_visits, visits, NULL);
    return err ? err : weft_http_server_route(server, "POST", "/visits/crash", crash, visits, NULL);
}
