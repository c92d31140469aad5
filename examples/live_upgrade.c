/* Replacing the code of a running actor: a tally that knows only its total becomes a tally that
 * also counts what it adds, without losing its PID, its messages, or a caller that waits for it.
 * The caller called the old code and gets its reply from the new code. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

/* --- version 1: a total --------------------------------------------------------------------- */

struct tally {
    long total;
    uint64_t waiting; /* the call that is answered at "close" */
    bool has_waiting;
};

static const struct weft_actor_kind version_2;
static int convert(weft_actor *self, void *old_state, void *new_state);

static int step_1(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    struct tally *tally = weft_actor_state(self);
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        } else if (events[i].kind == WEFT_EVENT_CALL) {
            tally->waiting = events[i].tag;
            tally->has_waiting = true;
        } else if (strcmp(events[i].topic, "add") == 0) {
            tally->total += (long)events[i].tag;
        } else if (strcmp(events[i].topic, "upgrade") == 0) {
            return weft_out_upgrade(out, &version_2, convert);
        }
    }
    return 0;
}

/* One event per step: the events after "upgrade" are for the new code. */
static const struct weft_actor_kind version_1 = {
    .name = "tally", .state_bytes = sizeof(struct tally), .step = step_1, .batch = 1};

/* --- version 2: a total and a count --------------------------------------------------------- */

struct counted_tally {
    struct tally tally;
    long count;
};

/* Moves the total and the open call into the new state. */
static int convert(weft_actor *self, void *old_state, void *new_state)
{
    const struct tally *old = old_state;
    struct counted_tally *new = new_state;
    new->tally = *old;
    if (old->has_waiting) { /* an error: the caller has given up */
        int err = weft_actor_call_transfer(old->waiting, weft_actor_pid(self));
        new->tally.has_waiting = err == 0;
    }
    return 0;
}

static void reply(const struct counted_tally *state)
{
    char text[64];
    int n = snprintf(text, sizeof text, "total %ld, %ld since the upgrade", state->tally.total,
                     state->count);
    weft_buf *buf = weft_buf_copy(text, (size_t)n + 1);
    weft_actor_reply(state->tally.waiting, buf ? 0 : -ENOMEM, buf);
}

static int step_2(weft_actor *self, const struct weft_actor_event *events, size_t n, weft_out *out)
{
    struct counted_tally *state = weft_actor_state(self);
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_UPGRADE) {
            printf("upgraded with a total of %ld\n", state->tally.total);
        } else if (events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, NULL);
        } else if (strcmp(events[i].topic, "add") == 0) {
            state->tally.total += (long)events[i].tag;
            state->count++;
        } else if (strcmp(events[i].topic, "close") == 0) {
            if (state->tally.has_waiting) {
                reply(state);
            }
            weft_out_done(out, NULL);
        }
    }
    return 0;
}

static const struct weft_actor_kind version_2 = {
    .name = "counted tally", .state_bytes = sizeof(struct counted_tally), .step = step_2};

/* --- the client ----------------------------------------------------------------------------- */

enum { REPLY = 1, SENT = 2 }; /* the tags of its commands */

static weft_pid tally_pid;

static int run_client(weft_actor *self, const struct weft_actor_event *events, size_t n,
                      weft_out *out)
{
    static const struct {
        const char *topic;
        uint64_t number;
    } messages[] = {{"add", 10}, {"add", 20}, {"upgrade", 0},
                    {"add", 30}, {"add", 40}, {"close", 0}};
    (void)self;
    weft_out_idle(out);
    if (n == 0) { /* the first step: the call, then the messages, in this order */
        int err = weft_out_call(out, REPLY, tally_pid, "result", NULL, WEFT_FOREVER);
        for (size_t i = 0; i < sizeof messages / sizeof messages[0] && !err; i++) {
            err = weft_out_send(out, SENT, tally_pid, messages[i].topic, messages[i].number, NULL,
                                WEFT_BY_POLICY);
        }
        return err;
    }
    for (size_t i = 0; i < n; i++) {
        if (events[i].error) {
            return events[i].error;
        }
        if (events[i].tag == REPLY || events[i].kind == WEFT_EVENT_CANCEL) {
            weft_out_done(out, weft_actor_take_buf(&events[i]));
        }
    }
    return 0;
}

static const struct weft_actor_kind client_kind = {.name = "client", .step = run_client};

int main(void)
{
    weft_host *host;
    weft_pid client;
    weft_buf *result = NULL;
    if (weft_host_create(&host, &(struct weft_host_opts){.workers = 2}) ||
        weft_actor_spawn(host, &tally_pid, &version_1, NULL, NULL) ||
        weft_actor_spawn(host, &client, &client_kind, NULL, NULL)) {
        fprintf(stderr, "live_upgrade: cannot start\n");
        return 1;
    }
    int err = weft_actor_join(client, &result, WEFT_FOREVER);
    const char *text = result ? (const char *)result->data : "no reply";
    printf("%s\n", err ? weft_strerror(err) : text);
    bool ok = strcmp(text, "total 100, 2 since the upgrade") == 0;
    weft_buf_free(result);
    int forced = weft_host_stop(host, NULL, weft_after(WEFT_MINUTES(1)));
    weft_host_destroy(host);
    return ok && !forced ? 0 : 1;
}
