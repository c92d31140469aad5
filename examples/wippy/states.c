/* Wippy: Ready -> Running -> Blocked | Idle | Complete. Weft has the same five states with the same
 * names. A message does not wake a blocked actor: it is kept until the completion has come (Wippy's
 * page says Send wakes Idle only, later versions wake both). Both messages and completions wake an
 * idle actor, so no actor sleeps with work to do. */
#include <stdio.h>
#include <weft/weft.h>

static struct weft_command kept;

static int keep(const struct weft_command *command, void *arg)
{
    (void)arg;
    kept = *command;
    return 0;
}

static int step(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    int *asked = weft_actor_state(self);
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_MESSAGE && !*asked) {
            *asked = 1;
            weft_out_command(out, WEFT_COMMAND_USER, 7, NULL);
            weft_out_wait(out);
        } else if (events[i].kind == WEFT_EVENT_MESSAGE) {
            weft_out_done(out, NULL);
        }
    }
    return 0;
}

static void show_when(weft_pid pid, enum weft_actor_state state)
{
    struct weft_actor_info info;
    while (weft_actor_info(pid, &info) == 0 && info.state != state) {
        weft_yield();
    }
    printf("%s, %u in the mailbox, %d steps\n", weft_actor_state_name(info.state), info.mailbox,
           (int)info.steps);
}

int main(void)
{
    static const struct weft_actor_kind kind = {
        .name = "states", .state_bytes = sizeof(int), .step = step};
    struct weft_actor_info info;
    weft_host *host;
    weft_pid pid;
    if (weft_host_create(&host, &(struct weft_host_opts){.workers = 1}) ||
        weft_host_handle(host, WEFT_COMMAND_USER, keep, NULL) ||
        weft_actor_spawn(host, &pid, &kind, NULL, NULL)) {
        return 1;
    }
    show_when(pid, WEFT_ACTOR_IDLE);
    weft_actor_send(pid, "ask", 0, NULL, WEFT_BY_POLICY);
    show_when(pid, WEFT_ACTOR_BLOCKED);
    weft_actor_send(pid, "wait", 0, NULL, WEFT_BY_POLICY); /* kept */
    weft_actor_info(pid, &info);
    bool still = info.state == WEFT_ACTOR_BLOCKED && info.mailbox == 1;
    weft_command_complete(kept.actor, kept.tag, 0, NULL);
    weft_actor_join(pid, NULL, WEFT_FOREVER);
    printf("%s\n", weft_actor_state_name(WEFT_ACTOR_COMPLETE));
    weft_host_stop(host, NULL, WEFT_FOREVER);
    weft_host_destroy(host);
    return still ? 0 : 1;
}
