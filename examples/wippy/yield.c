/* Wippy: a step writes yields (commands with tags) to its output and gets EventYieldComplete{Tag,
 * Data, Error} for each, in any order. Weft has the same: weft_out_command, WEFT_EVENT_COMPLETE.
 * The command's number selects a handler in the host's registry; the handler may complete at once
 * or later from any thread. An unknown number results in an error event, and the actor
 * continues. */
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <weft/weft.h>

enum { TWICE = 300, LATER = 301, UNKNOWN = 999 };

static int twice(const struct weft_command *command, void *arg)
{
    (void)arg;
    int n = *(int *)(void *)command->arg->data * 2;
    weft_buf_free(command->arg);
    return weft_command_complete(command->actor, command->tag, 0,
                                 weft_buf_copy(&n, sizeof n)); /* at once */
}

static struct weft_command kept;
static weft_event asked;

static int later(const struct weft_command *command, void *arg)
{
    (void)arg;
    kept = *command;
    weft_event_set(&asked);
    return 0;
}

static void *elsewhere(void *arg)
{
    weft_event_wait(&asked, WEFT_FOREVER);
    weft_command_complete(kept.actor, kept.tag, 0, NULL); /* from another thread */
    return arg;
}

static atomic_int good;

static int step(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    int *pending = weft_actor_state(self), number = 21;
    if (*pending == 0) { /* the first step: three yields */
        weft_out_command(out, LATER, 1, NULL);
        weft_out_command(out, TWICE, 2, weft_buf_copy(&number, sizeof number));
        weft_out_command(out, UNKNOWN, 3, NULL);
        *pending = 3;
    }
    for (size_t i = 0; i < n; i++) {
        printf("tag %d: error %d\n", (int)events[i].tag, events[i].error);
        bool as_expected = events[i].tag == 2   ? *(int *)(void *)events[i].buf->data == 42
                           : events[i].tag == 3 ? events[i].error == -ENOSYS
                                                : events[i].error == 0;
        atomic_fetch_add(&good, as_expected);
        --*pending;
    }
    if (*pending > 0) {
        weft_out_wait(out); /* Blocked until a completion */
    } else {
        weft_out_done(out, NULL);
    }
    return 0;
}

int main(void)
{
    static const struct weft_actor_kind kind = {
        .name = "asker", .state_bytes = sizeof(int), .step = step};
    weft_host *host;
    pthread_t thread;
    weft_pid pid;
    weft_event_init(&asked, NULL);
    if (weft_host_create(&host, &(struct weft_host_opts){.workers = 1}) ||
        weft_host_handle(host, TWICE, twice, NULL) || weft_host_handle(host, LATER, later, NULL) ||
        pthread_create(&thread, NULL, elsewhere, NULL) ||
        weft_actor_spawn(host, &pid, &kind, NULL, NULL)) {
        return 1;
    }
    int late = weft_host_handle(host, 302, later, NULL); /* the first actor froze the registry */
    pthread_join(thread, NULL);
    weft_actor_join(pid, NULL, WEFT_FOREVER);
    weft_host_stop(host, NULL, WEFT_FOREVER);
    weft_host_destroy(host);
    return atomic_load(&good) == 3 && late == -EBUSY ? 0 : 1;
}
