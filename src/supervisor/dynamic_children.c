/* Adding and removing children of a running supervisor: calls (<weft/actor.h>) to its
 * actor. */
#include <errno.h>
#include <string.h>

#include <weft/actor.h>

#include "base/alloc.h"
#include "base/clock.h"
#include "supervisor/supervisor.h"

static const char add_topic[] = "supervisor.add", remove_topic[] = "supervisor.remove";

/* A caller of weft_supervisor_remove that waits for the exit of a child. */
struct weft__removal_waiter {
    struct weft__removal_waiter *next;
    uint64_t call;
};

void weft__removal_waiters_notify(struct weft__removal_waiter *removal_waiters, int error)
{
    while (removal_waiters) {
        struct weft__removal_waiter *next = removal_waiters->next;
        weft_actor_reply(removal_waiters->call, error, NULL);
        weft__free(removal_waiters);
        removal_waiters = next;
    }
}

/* --- in the supervisor's step ----------------------------------------------------------------- */

/* Takes `input`. */
static int add(struct weft__supervisor *s, weft_buf *input, weft_pid *child)
{
    if (s->policy.strategy != WEFT_DYNAMIC || s->policy.ending) {
        weft_buf_free(input);
        return s->policy.ending ? -ESRCH : -ENOTSUP;
    }
    weft__lock(&s->lock);
    int64_t number = weft__child_add(s, &s->opts->children[0], input, NULL);
    weft__unlock(&s->lock);
    if (number < 0) {
        return (int)number;
    }
    int err = weft__child_start(s, (uint32_t)number);
    weft__lock(&s->lock);
    if (err) {
        weft__child_drop(s, (uint32_t)number);
    } else {
        weft__policy_started(&s->policy, (uint32_t)number, weft__clock_ns());
        *child = s->children[number].pid;
    }
    weft__unlock(&s->lock);
    return err;
}

static void handle_add(struct weft__supervisor *s, const struct weft_actor_event *event)
{
    weft_pid child = {0};
    weft_buf *reply = weft_buf_copy(&child, sizeof child); /* allocated first: no child starts
                                                               whose PID cannot be returned */
    int err = reply ? add(s, weft_actor_take_buf(event), &child) : -ENOMEM;
    if (err) {
        weft_buf_free(reply);
        reply = NULL;
    } else {
        memcpy(reply->data, &child, sizeof child);
    }
    weft_actor_reply(event->tag, err, reply);
}

/* Returns 0: the call is answered when the child has exited. */
static int begin_remove(struct weft__supervisor *s, const struct weft_actor_event *event)
{
    weft_pid pid;
    if (!event->buf || event->buf->len != sizeof pid) {
        return -EINVAL;
    }
    memcpy(&pid, event->buf->data, sizeof pid);
    struct weft__removal_waiter *waiter = weft__alloc(sizeof *waiter);
    if (!waiter) {
        return -ENOMEM;
    }
    weft__lock(&s->lock);
    uint32_t child = weft__child_find(s, pid);
    if (child != UINT32_MAX) {
        *waiter = (struct weft__removal_waiter){.next = s->children[child].removal_waiters,
                                                .call = event->tag};
        s->children[child].removal_waiters = waiter;
        weft__policy_remove(&s->policy, child);
    }
    weft__unlock(&s->lock);
    if (child == UINT32_MAX) {
        weft__free(waiter);
        return -ENOENT;
    }
    return 0;
}

void weft__supervisor_handle_call(struct weft__supervisor *s, const struct weft_actor_event *event)
{
    if (event->topic && strcmp(event->topic, add_topic) == 0) {
        handle_add(s, event);
        return;
    }
    bool is_remove = event->topic && strcmp(event->topic, remove_topic) == 0;
    int err = is_remove ? begin_remove(s, event) : -ENOTSUP;
    if (err) {
        weft_actor_reply(event->tag, err, NULL);
    }
}

/* --- callers ---------------------------------------------------------------------------------- */

int weft_supervisor_add(weft_pid supervisor, weft_pid *child, weft_buf *input, int64_t deadline)
{
    weft_buf *reply = NULL;
    int err = weft_actor_call(supervisor, &reply, add_topic, input, deadline);
    if (!err && (!reply || reply->len != sizeof *child)) {
        err = -ENOTSUP; /* a supervisor does not reply like this */
    }
    if (!err && child) {
        memcpy(child, reply->data, sizeof *child);
    }
    weft_buf_free(reply);
    return err;
}

int weft_supervisor_remove(weft_pid supervisor, weft_pid child, int64_t deadline)
{
    weft_buf *request = weft_buf_copy(&child, sizeof child);
    return request ? weft_actor_call(supervisor, NULL, remove_topic, request, deadline) : -ENOMEM;
}
