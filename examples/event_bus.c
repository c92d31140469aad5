/* An event bus: subscribers are actors in a group, each with a pattern, and a publisher sends every
 * event to the group. The topics come from outside the program, so they are interned before they
 * are sent; all subscribers share the bytes of an event. Subscribers have names, for people. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <weft/weft.h>

enum { SUBSCRIBERS = 3 };

static const char bus[] = "bus";

/* --- a subscriber --------------------------------------------------------------------------- */

struct subscriber {
    char pattern[32];
    int matched;
};

static int subscribe(weft_actor *self, const char *method, const weft_buf *input)
{
    struct subscriber *state = weft_actor_state(self);
    (void)input;
    int n = snprintf(state->pattern, sizeof state->pattern, "%s", method);
    return n < (int)sizeof state->pattern ? 0 : -ENAMETOOLONG;
}

static int listen_to(weft_actor *self, const struct weft_actor_event *events, size_t n,
                     weft_out *out)
{
    struct subscriber *state = weft_actor_state(self);
    weft_out_idle(out);
    for (size_t i = 0; i < n; i++) {
        if (events[i].kind == WEFT_EVENT_CANCEL || strcmp(events[i].topic, "bus.closed") == 0) {
            weft_out_done(out, weft_buf_copy(&state->matched, sizeof state->matched));
        } else if (weft_topic_match(state->pattern, events[i].topic)) {
            state->matched++;
        }
    }
    return 0;
}

static const struct weft_actor_kind subscriber_kind = {.name = "subscriber",
                                                       .state_bytes = sizeof(struct subscriber),
                                                       .init = subscribe,
                                                       .step = listen_to};

/* --- the bus -------------------------------------------------------------------------------- */

static int add(weft_host *host, weft_pid *out, const char *name, const char *pattern)
{
    int err = weft_actor_spawn(host, out, &subscriber_kind, pattern, NULL);
    err = err ? err : weft_actor_register(host, name, *out);
    return err ? err : weft_actor_group_join(host, bus, *out);
}

/* Publishes a line "topic text". Returns the number of subscribers that it was sent to, or an
 * error. */
static int64_t publish(weft_host *host, const char *line)
{
    char topic[32];
    size_t len = strcspn(line, " ");
    snprintf(topic, sizeof topic, "%.*s", (int)len, line);
    const char *interned = weft_topic_intern(topic);
    weft_buf *text = weft_buf_copy(line + len, strlen(line + len) + 1);
    int64_t sent = interned && text
                       ? weft_actor_group_publish(host, bus, interned, 0, text, WEFT_BY_POLICY)
                       : -ENOMEM;
    weft_buf_free(text);
    printf("%s: sent to %d\n", topic, (int)sent);
    return sent;
}

static size_t print_members(weft_host *host)
{
    weft_pid members[SUBSCRIBERS];
    char name[32];
    size_t n = weft_actor_group_members(host, members, SUBSCRIBERS, bus);
    for (size_t i = 0; i < n && i < SUBSCRIBERS; i++) {
        bool named = weft_actor_name(members[i], name, sizeof name) >= 0;
        printf("member %s\n", named ? name : "without a name");
    }
    return n;
}

/* Waits for a subscriber and returns the number of events that matched its pattern. */
static int matched(weft_pid pid)
{
    weft_buf *result = NULL;
    int count = -1;
    if (weft_actor_join(pid, &result, WEFT_FOREVER) == 0 && result) {
        memcpy(&count, result->data, sizeof count);
    }
    weft_buf_free(result);
    return count;
}

static bool run(weft_host *host)
{
    weft_pid all, sport, rain;
    if (add(host, &all, "archive", "*") || add(host, &sport, "sports desk", "sport.*") ||
        add(host, &rain, "umbrella shop", "weather.rain*") || print_members(host) != SUBSCRIBERS) {
        return false;
    }
    bool ok = publish(host, "sport.tennis 6:4 6:3") == SUBSCRIBERS;
    ok &= publish(host, "weather.rain until noon") == SUBSCRIBERS;

    /* The shop leaves the bus and gives up its name, but its actor runs on. */
    ok &= weft_actor_group_leave(host, bus, rain) == 0;
    ok &= weft_actor_unregister(host, "umbrella shop") == 0;
    ok &= weft_actor_whereis(host, &rain, "umbrella shop") == -ENOENT;
    ok &= publish(host, "weather.rain again") == SUBSCRIBERS - 1;
    ok &= publish(host, "bus.closed") == SUBSCRIBERS - 1;
    ok &= weft_actor_send(rain, "bus.closed", 0, NULL, WEFT_BY_POLICY) == 0;

    int counts[SUBSCRIBERS] = {matched(all), matched(sport), matched(rain)};
    printf("archive %d, sports desk %d, umbrella shop %d\n", counts[0], counts[1], counts[2]);
    return ok && counts[0] == 3 && counts[1] == 1 && counts[2] == 1;
}

int main(void)
{
    weft_host *host;
    int err = weft_host_create(&host, &(struct weft_host_opts){.name = "bus", .workers = 2});
    if (err) {
        fprintf(stderr, "event_bus: %s\n", weft_strerror(err));
        return 1;
    }
    bool ok = run(host);
    int forced = weft_host_stop(host, NULL, weft_after(WEFT_MINUTES(1)));
    weft_host_destroy(host);
    if (!ok || forced) {
        fprintf(stderr, "event_bus: unexpected result\n");
        return 1;
    }
    return 0;
}
