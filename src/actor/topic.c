#include <weft/actor.h>

#include <errno.h>

#include <weft/actor.h>

/* Backtracking to the last '*' is enough: if the rest of the pattern cannot match from there on, an
 * earlier '*' could only have consumed more. So the time is at most the product of both lengths. */
bool weft_topic_match(const char *pattern, const char *topic)
{
    const char *at = topic ? topic : "", *star = NULL, *tried = NULL;
    while (*at) {
        if (*pattern == '*') {
            star = ++pattern;
            tried = at;
        } else if (*pattern == '?' || *pattern == *at) {
            pattern++;
            at++;
        } else if (star) {
            pattern = star;
            at = ++tried;
        } else {
            return false;
        }
    }
    while (*pattern == '*') {
        pattern++;
    }
    return !*pattern;
}

static bool is_message(const struct weft_actor_event *event)
{
    return event->kind == WEFT_EVENT_MESSAGE || event->kind == WEFT_EVENT_CALL;
}

static const struct weft_topic_handler *find(const struct weft_topic_handler *topics,
                                             const char *topic)
{
    while (topics->pattern && !weft_topic_match(topics->pattern, topic)) {
        topics++;
    }
    return topics;
}

int weft_topic_dispatch(weft_actor *self, const struct weft_topic_handler *topics,
                        const struct weft_actor_event *events, size_t n, weft_out *out)
{
    int err = 0;
    for (size_t i = 0; i < n && !err; i++) {
        const struct weft_topic_handler *to =
            find(topics, is_message(&events[i]) ? events[i].topic : "@events");
        if (to->on) {
            err = to->on(self, &events[i], out);
        } else if (events[i].kind == WEFT_EVENT_CALL) {
            weft_actor_reply(events[i].tag, -ENOSYS, NULL);
        }
    }
    return err;
}
