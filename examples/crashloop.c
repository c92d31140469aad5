/* A worker that crashes at each start until its backend is available, and a supervisor that
 * restarts it with growing back-off. No job is lost: the client retries until the worker runs. */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

enum { BAD_STARTS = 4 };

static atomic_int starts;
static weft_event well = WEFT_EVENT_INIT;

/* The backend responds at the fifth attempt. */
static int connect_backend(weft_actor *self, const char *method, const weft_buf *input)
{
    (void)self, (void)method, (void)input;
    int attempt = atomic_fetch_add(&starts, 1);
    return attempt == 0 || attempt > BAD_STARTS ? 0 : -ECONNREFUSED;
}

static int work(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    (void)self;
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        } else if (strcmp(events[i].topic, "lose") == 0) {
            return -ECONNRESET; /* the step fails and the actor ends; the program continues */
        } else if (strcmp(events[i].topic, "job") == 0) {
            weft_event_set(&well);
        }
    }
    return 0;
}

static const struct weft_actor_kind worker = {
    .name = "worker", .init = connect_backend, .step = work};

static const struct weft_child_spec children[] = {
    {.name = "worker", .kind = &worker, .named = true, .stop_ns = WEFT_SECONDS(1)},
};

static const struct weft_supervisor_opts supervisor = {
    .name = "example",
    .children = children,
    .count = 1,
    .restarts = 10, /* in 5 s; after more, the supervisor gives up */
    .backoff_ns = WEFT_MS(1),
    .backoff_max_ns = WEFT_MS(100),
};

static void print_tree(weft_pid pid)
{
    char text[512];
    if (weft_supervisor_format(pid, text, sizeof text) > 0) {
        fputs(text, stdout);
    }
}

/* Looks the worker up by name. */
static int send_job(weft_host *host, const char *topic)
{
    weft_pid pid;
    int err = weft_actor_whereis(host, &pid, "worker");
    return err ? err : weft_actor_send(pid, topic, 0, NULL, WEFT_BY_POLICY);
}

static int run(weft_host *host)
{
    weft_pid pid;
    int err = weft_supervisor_start(host, &pid, &supervisor);
    if (err) {
        return err;
    }
    print_tree(pid);
    int64_t from = weft_now();
    err = send_job(host, "lose");
    /* While the worker is down the name is unknown or the message is lost: retry. */
    while (!err && weft_event_wait(&well, weft_after(WEFT_MS(2))) == -ETIMEDOUT) {
        send_job(host, "job");
    }
    printf("well again after %d failed starts\n", atomic_load(&starts) - 2);
    print_tree(pid);
    /* 1 + 2 + 4 + 8 + 16 ms, each up to a fifth shorter */
    return err ? err : weft_now() - from >= 31000000 * 4 / 5 ? 0 : -EDOM;
}

int main(void)
{
    weft_host *host;
    int err = weft_host_create(&host, &(struct weft_host_opts){.workers = 2});
    if (err) {
        fprintf(stderr, "crashloop: %s\n", weft_strerror(err));
        return 1;
    }
    err = run(host);
    if (err) {
        fprintf(stderr, "crashloop: %s\n", weft_strerror(err));
    }
    int left = weft_host_stop(host, "the example is over", WEFT_FOREVER);
    weft_host_destroy(host);
    return err || left;
}
