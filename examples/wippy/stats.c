/* Wippy: stats of the scheduler (executed, stolen, queue lengths) and of each process (pid, parent,
 * state, steps, start). Weft has the same in weft_host_stats, weft_actor_info and weft_actor_each,
 * as a page by weft_actor_dump, and at /debug/actors of `weft serve`. It also traces one message
 * across all actors. */
#include <stdatomic.h>
#include <stdio.h>
#include <weft/weft.h>

static atomic_int done;
static weft_pid next[2];

static int step(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    int *place = weft_actor_state(self);
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        } else if (*place < 2) {
            weft_actor_send(next[*place], "step", 0, NULL, WEFT_BY_POLICY);
        } else {
            atomic_store(&done, 1);
        }
    }
    return 0;
}

static int init(weft_actor *self, const char *method, const weft_buf *input)
{
    (void)method;
    *(int *)weft_actor_state(self) = *(int *)(void *)input->data;
    return 0;
}

static _Atomic(uint32_t) chain;
static atomic_int hops;

static void on_passage(const struct weft_actor_trace_event *passage, void *arg)
{
    (void)arg;
    uint32_t none = 0;
    if (passage->kind == WEFT_ACTOR_TRACE_HANDLED) {
        atomic_compare_exchange_strong(&chain, &none, passage->trace);
        atomic_fetch_add(&hops, passage->trace == atomic_load(&chain));
    }
}

int main(void)
{
    static const struct weft_actor_kind kind = {
        .name = "stage", .state_bytes = sizeof(int), .init = init, .step = step};
    weft_host *host;
    weft_pid pids[3];
    if (weft_host_create(&host, &(struct weft_host_opts){.name = "stages", .workers = 2})) {
        return 1;
    }
    for (int i = 0; i < 3; i++) {
        weft_buf *place = weft_buf_copy(&i, sizeof i);
        if (weft_actor_spawn(host, &pids[i], &kind, NULL, place)) {
            return 1;
        }
        weft_buf_free(place);
    }
    next[0] = pids[1];
    next[1] = pids[2];
    weft_actor_trace(on_passage, NULL);
    weft_actor_send(pids[0], "step", 0, NULL, WEFT_BY_POLICY);
    while (!atomic_load(&done)) {
        weft_yield();
    }
    weft_actor_trace(NULL, NULL);
    weft_actor_dump(host, stdout, WEFT_DUMP_TEXT, 0);
    weft_host_stop(host, NULL, WEFT_FOREVER);
    weft_host_destroy(host);
    printf("the message went through %d actors\n", atomic_load(&hops));
    return atomic_load(&hops) == 3 ? 0 : 1;
}
