/* Leases: a service lends one resource to one client at a time, for a limited time that the client
 * has to renew. All time is messages: the client gets a reminder periodically, and the service gets
 * "expired" at the end of the lease unless a renewal cancels it first. While the resource is lent,
 * the service receives only what concerns this lease; the requests of other clients stay queued. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

enum { CLIENTS = 2, REMINDERS = 3 };

/* --- the service ---------------------------------------------------------------------------- */

struct lease {
    weft_pid holder;
    uint64_t timer;   /* the pending "expired" message */
    uint64_t version; /* its tag: an older one that is already in the mailbox does not count */
};

static bool concerns(const struct weft_actor_event *event, void *arg)
{
    const struct lease *lease = arg;
    if (event->kind != WEFT_EVENT_MESSAGE) {
        return event->kind == WEFT_EVENT_CANCEL;
    }
    return (strcmp(event->topic, "renew") == 0 && weft_pid_equal(event->from, lease->holder)) ||
           (strcmp(event->topic, "expired") == 0 && event->tag == lease->version);
}

static int extend(weft_actor *self, struct lease *lease, int64_t ns)
{
    weft_actor_send_cancel(lease->timer);
    return weft_actor_send_at(weft_actor_pid(self), &lease->timer, "expired", ++lease->version,
                              NULL, weft_after(ns));
}

/* Lends the resource until the lease expires. Returns the number of renewals, or an error. */
static long lend(weft_actor *self, weft_pid holder)
{
    const struct weft_actor_event *event;
    struct lease lease = {.holder = holder};
    long renewals = 0;
    int err = extend(self, &lease, WEFT_MINUTES(5));
    err = err ? err : weft_actor_send(holder, "granted", 0, NULL, WEFT_BY_POLICY);
    while (!err) {
        err = weft_actor_receive_if(&event, concerns, &lease, WEFT_FOREVER);
        if (!err && event->kind == WEFT_EVENT_CANCEL) {
            err = -ECANCELED;
        } else if (!err && strcmp(event->topic, "expired") == 0) {
            return renewals;
        } else if (!err) {
            err = extend(self, &lease, WEFT_MS((int64_t)event->tag)); /* the tag: for how long */
            renewals++;
        }
    }
    return err;
}

static int serve(weft_actor *self, weft_buf **result)
{
    const struct weft_actor_event *event;
    long sum = 0;
    for (int i = 0; i < CLIENTS; i++) {
        int err = weft_actor_receive_topic(&event, "request", WEFT_FOREVER);
        long renewals = err ? err : lend(self, event->from);
        if (renewals < 0) {
            return (int)renewals;
        }
        printf("lease %d expired after %ld renewals\n", i + 1, renewals);
        sum += renewals;
    }
    *result = weft_buf_copy(&sum, sizeof sum);
    return *result ? 0 : -ENOMEM;
}

static const struct weft_actor_kind service_kind = {.name = "service", .run = serve};

/* --- a client ------------------------------------------------------------------------------- */

static int remember(weft_actor *self, const char *method, const weft_buf *input)
{
    (void)method;
    memcpy(weft_actor_state(self), input->data, sizeof(weft_pid));
    return 0;
}

/* Renews at each reminder, then lets the lease expire. */
static int use(weft_actor *self, weft_buf **result)
{
    weft_pid service = *(weft_pid *)weft_actor_state(self);
    const struct weft_actor_event *event;
    uint64_t reminder;
    (void)result;
    int err = weft_actor_send(service, "request", 0, NULL, WEFT_BY_POLICY);
    err = err ? err : weft_actor_receive_topic(&event, "granted", WEFT_FOREVER);
    err = err ? err
              : weft_actor_send_every(weft_actor_pid(self), &reminder, "remind", 0, NULL,
                                      weft_after(WEFT_MS(1)), WEFT_MS(1));
    for (int i = 0; i < REMINDERS && !err; i++) {
        err = weft_actor_receive_topic(&event, "remind", WEFT_FOREVER);
        err = err ? err : weft_actor_send(service, "renew", 60 * 1000, NULL, WEFT_BY_POLICY);
    }
    err = err ? err : weft_actor_send_cancel(reminder); /* it was pending: no more reminders */
    return err ? err : weft_actor_send(service, "renew", 1, NULL, WEFT_BY_POLICY);
}

static const struct weft_actor_kind client_kind = {
    .name = "client", .state_bytes = sizeof(weft_pid), .init = remember, .run = use};

int main(void)
{
    weft_host *host;
    weft_pid service;
    weft_buf *result = NULL;
    long sum = 0;
    int err = weft_host_create(&host, &(struct weft_host_opts){.workers = 2});
    if (err) {
        fprintf(stderr, "lease: %s\n", weft_strerror(err));
        return 1;
    }
    err = weft_actor_spawn(host, &service, &service_kind, NULL, NULL);
    weft_buf *where = weft_buf_copy(&service, sizeof service);
    for (int i = 0; i < CLIENTS && !err; i++) {
        err = where ? weft_actor_spawn(host, NULL, &client_kind, NULL, where) : -ENOMEM;
    }
    weft_buf_free(where);
    err = err ? err : weft_actor_join(service, &result, WEFT_FOREVER);
    if (!err) {
        memcpy(&sum, result->data, sizeof sum);
    }
    weft_buf_free(result);
    int forced = weft_host_stop(host, NULL, weft_after(WEFT_MINUTES(1)));
    weft_host_destroy(host);
    if (err || forced || sum != CLIENTS * (REMINDERS + 1)) {
        fprintf(stderr, "lease: %s, %ld renewals\n", weft_strerror(err), sum);
        return 1;
    }
    return 0;
}
